"""A whole model at once: its gradients beside differences, all it computes beside PyTorch's, and its memory.

Beside PyTorch: the same weights, the same batch, the same loss, in float64.  Its side is written out here step
by step, with its own softmax, LayerNorm and cross-entropy, and keeps the gradient of everything that the model can
show: of the embedding, queries, keys, values, scores, patterns, residuals, hidden units, logits, and of all
parameters.  ``pytest -s`` prints the table: the size of each, and the largest difference relative to the largest
entry.
"""

import gc
import os
import tracemalloc

import numpy as np
import pytest
from models import OPTIONS, VOCABULARY, differences_of_loss, draw_ids, make_model, spell

import minigrad as mg
from minigrad.graph import Node, TensorBase

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


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
        scores = q @ k.mT / (d // heads) ** 0.5
        if config.causal:
            scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
        keep(f"{name}.scores", scores)
        z = keep(f"{name}.z", keep(f"{name}.pattern", scores.softmax(-1)) @ v)
        return keep(f"{name}.out", linear(z.transpose(1, 2).reshape(B, T, d), f"{name}.W_O"))

    def ffn(x, name):
        activation = functional.relu if config.activation == "relu" else functional.gelu
        hidden = keep(f"{name}.hidden", activation(linear(x, f"{name}.expand")))
        return keep(f"{name}.out", linear(hidden, f"{name}.contract"))

    if config.positions == "learned":
        positions = weights["embedding.position"][:T]
    else:
        angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
        positions = torch.stack([angle.sin(), angle.cos()], -1).reshape(T, d)
    keep("positions", positions)
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
    keep("logits", functional.linear(x, table if config.tie_weights else weights["output.weight"]))
    return weights, seen


def distance(ours, theirs):
    """Return the largest difference, relative to the largest finite entry; infinities must be the same ones."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    return float(np.max(np.abs(ours[finite] - theirs[finite])) / max(np.max(np.abs(theirs[finite])), 1e-300))


GPT_2 = {"norm": "pre", "positions": "learned", "activation": "gelu", "bias": True, "tie_weights": False}


def test_every_gradient_of_a_model_as_gpt_2_is_a_difference(double, rng):
    """∂loss/∂w of every weight w of a model of two layers, by four-point differences, to 10⁻⁷ of the largest.

    A bias of the keys adds the same number to all scores of a query, which softmax ignores: its gradient is 0.
    (The paper's model has this test among its claims: 30.)
    """
    model = make_model(vocab_size=5, d_model=4, d_ff=6, context=4, **GPT_2)
    ids, targets = (draw_ids(rng, 1, 4, vocab_size=5) for _ in range(2))
    parameters = dict(model.named_parameters())
    gradients = mg.autograd.grad(model.loss(ids, targets), list(parameters.values()))
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        by_difference = differences_of_loss(model, parameter, ids, targets)
        error, largest = np.abs(gradient.numpy() - by_difference).max(), np.abs(by_difference).max()
        if name.endswith("W_K.bias"):
            assert largest < 1e-11
            assert error < 1e-11
        else:
            assert largest > 1e-4, name
            assert error < 1e-7 * largest, f"{name}: {error:.1e} of {largest:.1e}"


def test_training_leaves_nothing_behind(double, rng):
    """After more steps there are as many bytes of arrays, tensors and nodes as before (thorough: a thousand)."""
    model = make_model(dropout=0.1)
    optimizer = mg.optim.AdamW(model.parameters(), lr=1e-3)
    ids, targets = (mg.tensor(rng.integers(0, VOCABULARY, (2, 5))) for _ in range(2))

    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)

    def in_use_after(steps):
        for _ in range(steps):
            loss = mg.nn.functional.cross_entropy(model(ids).reshape(-1, VOCABULARY), targets.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            mg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        del loss
        assert gc.collect() == 0  # no cycles
        statistics = tracemalloc.take_snapshot().filter_traces([arrays]).statistics("filename")
        alive = sum(issubclass(type(thing), TensorBase | Node) for thing in gc.get_objects())
        return sum(statistic.size for statistic in statistics), alive

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = in_use_after(10)
        after = in_use_after(1000 if THOROUGH else 20)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after == before
    assert before[0] > 0


@pytest.mark.parametrize(
    "options",
    [{}, {name: values[1] for name, values in OPTIONS.items()}, *({n: v[1]} for n, v in OPTIONS.items())],
    ids=spell,
)
def test_every_activation_and_every_gradient_is_pytorchs(torch, double, options, rng):
    """Each value and each gradient to 10⁻¹² of its largest entry: only the order of sums may differ."""
    model = make_model(n_layers=3, n_heads=4, d_model=16, **options)
    ids, targets = draw_ids(rng, 3, 7), draw_ids(rng, 3, 7)
    logits, cache = model.run_with_cache(ids, retain_grad=True)
    flat = targets.reshape(-1)
    loss = mg.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), flat, label_smoothing=0.1)
    loss.backward()
    weights, seen = run_in_torch(torch, model, ids)
    flat = torch.tensor(flat.numpy())
    peer = torch.nn.functional.cross_entropy(seen["logits"].reshape(-1, VOCABULARY), flat, label_smoothing=0.1)
    peer.backward()
    assert model.loss(ids, targets, label_smoothing=0.1).item() == pytest.approx(peer.item(), rel=1e-13)

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
            if name.endswith("W_K.bias"):  # mathematically 0: softmax ignores what all scores have in common
                gradient = max(np.abs(ours.grad.numpy()).max(), theirs.grad.abs().max().item())
        rows.append((name, tuple(ours.shape), value, gradient))
    print(f"\n{spell(options)}\n{'tensor':32} {'shape':16} {'value':>9} {'gradient':>9}")
    for name, shape, value, gradient in rows:
        print(f"{name:32} {shape!s:16} {value:9.1e} {'' if gradient is None else f'{gradient:9.1e}':>9}")
    for name, _, value, gradient in rows:
        assert value < 1e-12, name
        assert gradient is None or gradient < 1e-12, name
    assert len(rows) > 40
