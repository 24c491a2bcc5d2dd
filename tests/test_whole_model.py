"""A whole model at once: every activation and every gradient beside PyTorch's, as one table.

The same weights, the same batch, the same loss, in float64.  PyTorch's side is written out here step by step, with
its own softmax, LayerNorm and cross-entropy, and keeps the gradient of everything that the model can show: of the
embedding, queries, keys, values, scores, patterns, residuals, hidden units, logits, and of all parameters.

``pytest -s`` prints the table: the size of each, and the largest difference relative to the largest entry.
"""

import numpy as np
import pytest

import minigrad as mg
from transformer import Config, Transformer

VOCABULARY = 11


def make_model(norm):
    """Return an untrained model in float64 with noise on every parameter, so that none has a special value."""
    mg.set_default_dtype(mg.float64)
    with mg.fork_rng(3), mg.no_grad():
        model = Transformer(Config(vocab_size=VOCABULARY, n_layers=2, n_heads=2, d_model=8, context=8, norm=norm))
        for parameter in model.parameters():
            parameter.add_(0.3 * mg.randn(*parameter.shape))
    return model


def run_in_torch(torch, model, ids):
    """Return all activations of a decoder written in PyTorch, by the names that the model gives them."""
    functional = torch.nn.functional
    config = model.config
    d, heads, (B, T) = config.d_model, config.n_heads, ids.shape
    weights = {name: torch.tensor(p.detach().numpy(), requires_grad=True) for name, p in model.named_parameters()}
    seen = {}

    def keep(name, tensor):
        if tensor.requires_grad:
            tensor.retain_grad()
        seen[name] = tensor
        return tensor

    def linear(x, name):
        return functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(x, name):
        return functional.layer_norm(
            x, (d,), weights[f"{name}.weight"], weights[f"{name}.bias"], config.layer_norm_eps
        )

    def attention(x, name):
        q, k, v = (
            keep(f"{name}.{i.lower()}", linear(x, f"{name}.W_{i}").view(B, T, heads, -1).transpose(1, 2))
            for i in "QKV"
        )
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        scores = keep(f"{name}.scores", (q @ k.mT / (d // heads) ** 0.5).masked_fill(future, -torch.inf))
        z = keep(f"{name}.z", keep(f"{name}.pattern", scores.softmax(-1)) @ v)
        return keep(f"{name}.out", linear(z.transpose(1, 2).reshape(B, T, d), f"{name}.W_O"))

    def ffn(x, name):
        hidden = keep(f"{name}.hidden", functional.relu(linear(x, f"{name}.expand")))
        return keep(f"{name}.out", linear(hidden, f"{name}.contract"))

    angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    positions = keep("positions", torch.stack([angle.sin(), angle.cos()], -1).reshape(T, d))
    table = weights["embedding.token.weight"]
    x = keep("embed", table[torch.tensor(ids.numpy())]) * d**0.5 + positions
    for i in range(config.n_layers):
        for name, layer in (("attention", attention), ("ffn", ffn)):
            block = f"blocks.{i}"
            if config.norm == "pre":
                normalized = keep(f"{block}.norm_{name}", norm(x, f"{block}.norm_{name}"))
                x = keep(f"{block}.residual_{name}", x + layer(normalized, f"{block}.{name}"))
            else:
                x = keep(f"{block}.residual_{name}", x + layer(x, f"{block}.{name}"))
                x = keep(f"{block}.norm_{name}", norm(x, f"{block}.norm_{name}"))
    if config.norm == "pre":
        x = norm(x, "norm")
    keep("logits", functional.linear(x, table))
    return weights, seen


def distance(ours, theirs):
    """Return the largest difference, relative to the largest finite entry; infinities must be the same ones."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    return float(np.max(np.abs(ours[finite] - theirs[finite])) / max(np.max(np.abs(theirs[finite])), 1e-300))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_activation_and_every_gradient_is_pytorchs(torch, norm, rng):
    """Each value and each gradient to 10⁻¹² of its largest entry: only the order of sums may differ."""
    model = make_model(norm)
    ids, targets = (mg.tensor(rng.integers(0, VOCABULARY, (3, 7))) for _ in range(2))
    logits, cache = model.run_with_cache(ids, retain_grad=True)
    mg.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1)).backward()
    weights, seen = run_in_torch(torch, model, ids)
    flat = torch.tensor(targets.numpy()).reshape(-1)
    torch.nn.functional.cross_entropy(seen["logits"].reshape(-1, VOCABULARY), flat).backward()

    pairs = {name: (tensor, seen.get(name)) for name, tensor in cache.items()}
    pairs.update({name: (parameter, weights[name]) for name, parameter in model.named_parameters()})
    missing = [name for name, (_, theirs) in pairs.items() if theirs is None]
    assert not missing, f"PyTorch's side has no {missing}"
    rows = []
    for name, (ours, theirs) in pairs.items():
        value = distance(ours.detach().numpy(), theirs.detach().numpy())
        gradient = None
        if theirs.requires_grad:
            assert ours.grad is not None, f"{name} has no gradient"
            gradient = distance(ours.grad.numpy(), theirs.grad.numpy())
        rows.append((name, tuple(ours.shape), value, gradient))
    print(f"\nnorm={norm!r}\n{'tensor':32} {'shape':16} {'value':>9} {'gradient':>9}")
    for name, shape, value, gradient in rows:
        print(f"{name:32} {shape!s:16} {value:9.1e} {'' if gradient is None else f'{gradient:9.1e}':>9}")
    for name, _, value, gradient in rows:
        assert value < 1e-12, name
        assert gradient is None or gradient < 1e-12, name
    assert len(rows) > 40
