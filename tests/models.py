"""Small models for the tests of the transformer, what is read from them, and how it is compared."""

import itertools

import numpy as np
from oracles import differences

import minigrad as mg
from transformer import CharTokenizer, Config, Transformer
from transformer.attention import attention_step_by_step, causal_mask
from transformer.capture import Capture
from transformer.reader import first_visible

VOCABULARY = 11
LETTERS = CharTokenizer("abcdefghijk")


def make_config(**fields):
    """Return the config of a small model, the paper's but for ``fields``."""
    shape = {"vocab_size": VOCABULARY, "n_layers": 2, "n_heads": 2, "d_model": 8, "context": 8}
    return Config(**{**shape, **fields})


def make_model(seed=1, stir=0.3, **fields):
    """Return an untrained model; ``stir`` adds noise to every parameter, so that none has a special value."""
    with mg.fork_rng(seed), mg.no_grad():
        model = Transformer(make_config(**fields))
        for parameter in model.parameters():
            parameter.add_(stir * mg.randn(*parameter.shape))
    return model


def untrained_model(seed=1, stir=0.0, **fields):
    """Return a model as training begins with it, of the size that the claims are shown on."""
    return make_model(seed, stir, **{"d_model": 16, "context": 12, **fields})


# Each option of the architecture: the paper's choice, and the other.
OPTIONS = {
    "norm": ["post", "pre"],
    "positions": ["sinusoidal", "learned"],
    "activation": ["relu", "gelu"],
    "tie_weights": [True, False],
    "bias": [False, True],
    "causal": [True, False],
}
VARIANTS = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]


def spell(options):
    """Return the options that are not the default, as the name of a test case."""
    return "-".join(f"{name}={value}" for name, value in options.items() if value != OPTIONS[name][0]) or "paper"


def draw_ids(rng, *shape, vocab_size=VOCABULARY):
    """Return random tokens."""
    return mg.tensor(rng.integers(0, vocab_size, shape))


def array(tensor):
    """Return the array of a tensor that may have a graph."""
    return tensor.detach().numpy()


def same(a, b):
    """Whether two tensors agree to the last bit."""
    return a.shape == b.shape and a.dtype == b.dtype and array(a).tobytes() == array(b).tobytes()


def difference(a, b):
    """Return the largest difference of two tensors or arrays of one shape."""
    a, b = (array(x) if isinstance(x, mg.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    return np.abs(a - b).max()


def close(a, b, tolerance):
    """Assert that two tensors or arrays differ by no more than ``tolerance``, anywhere."""
    assert difference(a, b) <= tolerance


def differences_of_loss(model, parameter, ids, targets):
    """Return the derivative of the loss by each number of a parameter, as differences."""
    start = array(parameter).copy()

    def loss(arrays):
        with mg.no_grad():
            parameter.copy_(mg.from_numpy(arrays[0]))
            return model.loss(ids, targets).item()

    (found,) = differences(loss, [start], step=1e-4)  # shorter than to the next relu's kink
    loss([start])
    return found


def without_positions(model):
    """Take the positions out of a model with sinusoids."""
    model.embedding.position = mg.zeros(*model.embedding.position.shape, dtype=model.embedding.position.dtype)
    return model


def input_of_blocks(model, ids):
    """Return the vectors that enter each block, and those that leave the last one."""
    seen = []
    hooks = [
        block.register_forward_hook(lambda _, args, out: seen.append((args[0], out))) for block in model.blocks
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return [x for x, _ in seen] + [seen[-1][1]]


def attend(q, k, v, causal=True):
    """Run one attention's inner part on queries, keys and values (B, H, T, d_k); return all of its steps."""
    steps = {}
    attention_step_by_step(q, k, v, causal_mask(q.shape[-2]) if causal else None, Capture(steps))
    return steps


def normalized(x, eps=1e-5):
    """Layer normalisation in NumPy, without its rescale."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps)


def uncached(model, tokens, window=None):
    """Return the logits (V,) after ``tokens``, by one pass over all that is visible of them."""
    start = first_visible(len(tokens), window or model.config.context)
    with mg.no_grad():
        return model(mg.tensor([tokens[start:]]))[0, -1]


def ends_at(text, strings):
    """Return where a text ends: before the longest string that is complete at the first character where any is."""
    for end in range(len(text) + 1):
        found = [string for string in strings if text[:end].endswith(string)]
        if found:
            return end - max(map(len, found))
    return None
