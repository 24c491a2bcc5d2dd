"""How to draw arguments of the fused kernels."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from strategies import array_of, generators, laid_out, two_sided

import minigrad as mg
from minigrad.op import registry

from .problem import Problem, along_a_dim, unary


@st.composite
def linears(draw):
    """x Wᵀ + b for x of one dimension and more, with and without b; each may be a constant."""
    rows = draw(st.sampled_from([(), (2,), (2, 2), (1, 3), (0,), (2, 1, 2)]))
    n_in, n_out = draw(st.sampled_from([(3, 2), (1, 2), (2, 1), (2, 3), (0, 2), (2, 0)]))
    arrays = [draw(array_of(shape)) for shape in [(*rows, n_in), (n_out, n_in), (n_out,)]]
    linear = registry["linear"]
    match draw(st.sampled_from(["all", "no bias", "x", "weight", "bias"])):
        case "all":
            return Problem(linear, arrays)
        case "no bias":
            return Problem(lambda x, w: linear(x, w, None), arrays[:2])
        case "x":
            return Problem(linear, arrays[:1], arrays[1:])
        case "weight":
            return Problem(lambda w, x, b: linear(x, w, b), arrays[1:2], [arrays[0], arrays[2]])
        case _:
            return Problem(lambda b, x, w: linear(x, w, b), arrays[2:], arrays[:2])


@st.composite
def layer_norms(draw):
    """Layer norm over one dimension or two, with every combination of weight and bias."""
    rng = draw(generators())
    rows = draw(st.sampled_from([(), (2,), (2, 2), (0,)]))
    shape = draw(st.sampled_from([(3,), (4,), (2, 2), (1,)]))
    eps = draw(st.sampled_from([1e-5, 0.5]))
    # The function turns within the deviation σ of a row, and the error of differences grows with (h/σ)⁴: the
    # ends of each row lie two apart at least.  A row without variance (stride 0) needs a larger ε.
    x = two_sided(rng, (*rows, *shape), low=1.0)
    flat = x.reshape(-1, math.prod(shape))
    flat[:, 0], flat[:, -1] = np.abs(flat[:, 0]), -np.abs(flat[:, -1])
    x = draw(laid_out(x, repeat=eps == 0.5))
    weight, bias = (draw(array_of(shape)) for _ in range(2))
    norm = registry["layer_norm"]
    match draw(st.sampled_from(["both", "weight", "bias", "neither", "x constant"])):
        case "both":
            return Problem(lambda x, w, b: norm(x, shape, w, b, eps), [x, weight, bias])
        case "weight":
            return Problem(lambda x, w: norm(x, shape, w, None, eps), [x, weight])
        case "bias":
            return Problem(lambda x, b: norm(x, shape, None, b, eps), [x, bias])
        case "neither":
            return Problem(lambda x: norm(x, shape, None, None, eps), [x])
        case _:
            return Problem(lambda w, b, x: norm(x, shape, w, b, eps), [weight, bias], [x])


@st.composite
def cross_entropies(draw):
    """Cross-entropy with every reduction, smoothed or not, some rows (perhaps all) ignored."""
    rng = draw(generators())
    n, v = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    target = rng.integers(0, v, n)
    ignore_index = draw(st.sampled_from([-100, 0, -1]))
    target[rng.random(n) < draw(st.sampled_from([0.0, 0.4, 1.0]))] = ignore_index
    options = {
        "ignore_index": ignore_index,
        "reduction": draw(st.sampled_from(["mean", "sum", "none"])),
        "label_smoothing": draw(st.sampled_from([0.0, 0.1])),
    }
    logits = draw(array_of((n, v)))
    indices = mg.from_numpy(target)
    return Problem(lambda logits: registry["cross_entropy"](logits, indices, **options), [logits])


@st.composite
def attentions(draw):
    """Attention with T ≠ S, batches that broadcast, every kind of mask, rows without any key, and dropout."""
    rng = draw(generators())
    t, s, d, v = (draw(st.integers(1, 3)) for _ in range(4))
    batches = draw(st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (1, 2)), ((2,), ()), ((1,), (2,))]))
    shapes_ = [(*batches[0], t, d), (*batches[1], s, d), (*batches[1], s, v)]
    arrays = [draw(array_of(shape)) for shape in shapes_]
    batch = np.broadcast_shapes(*batches)
    options: dict[str, Any] = {"is_causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, 0.3]))}
    if draw(st.booleans()):
        options["kept"] = mg.from_numpy(np.float32(2) * (rng.random((*batch, t, s)) < 0.5))  # widens no float64
    shape = draw(st.sampled_from([(t, s), (*batch, t, s), (1, s)]))
    seen = rng.random(shape) < 0.6
    if draw(st.booleans()):
        seen[..., 0, :] = False
    attention = registry["attention"]
    match draw(st.sampled_from(["none", "bool", "float"])):
        case "none":
            return Problem(lambda q, k, v: attention(q, k, v, **options), arrays)
        case "bool":
            mask = mg.from_numpy(seen)
            return Problem(lambda q, k, v: attention(q, k, v, mask, **options), arrays)
        case _:
            bias = np.where(seen, two_sided(rng, shape), -np.inf)
            return Problem(lambda q, k, v, mask: attention(q, k, v, mask, **options), arrays, [bias])


@st.composite
def lookups(draw):
    """Rows of a table: repeated, missing, none, by indices of any shape."""
    rng = draw(generators())
    weight = draw(array_of((4, draw(st.integers(1, 3)))))
    shape = draw(st.sampled_from([(), (3,), (2, 3), (0,)]))
    indices = mg.from_numpy(rng.integers(0, 4, shape))
    return Problem(lambda weight: registry["embedding_lookup"](weight, indices), [weight])


CASES = {
    "softmax": along_a_dim(lambda x, dim: x.softmax(dim), lambda x, dim: mg.softmax(x, dim=dim)),
    "log_softmax": along_a_dim(lambda x, dim: x.log_softmax(dim), lambda x, dim: mg.log_softmax(x, dim=dim)),
    "gelu": unary(lambda x: x.gelu(), lambda x: x.gelu(approximate="tanh")),
    "linear": linears(),
    "layer_norm": layer_norms(),
    "cross_entropy": cross_entropies(),
    "attention": attentions(),
    "embedding_lookup": lookups(),
}
