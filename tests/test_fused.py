"""Each fused kernel against its composed form: the same function written with basic operations.

The composed form is the definition: a few lines that read as the formula.  A kernel is the same function, computed
faster by hand; so for equal inputs it must give equal values and equal gradients, up to rounding: 10⁻¹² of the
largest entry in float64, 10⁻⁵ in float32.  Also where a naive formula overflows, divides by zero or subtracts
infinities: logits of ±800, rows that are all −∞, rows that are constant, inputs that are tiny or huge.
"""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import assert_close, differences
from strategies import dims, generators, laid_out, shapes, two_sided
from tensors import leaf

import minigrad as mg
import minigrad.kernels.attention
import minigrad.kernels.cross_entropy
import minigrad.kernels.linear
import minigrad.special
from minigrad.nn import functional as F
from minigrad.op import registry

SCALES = [1.0, 1e-4, 800.0]


@st.composite
def scores(draw, shape, hidden=True):
    """Draw logits of any scale; with ``hidden``, some of them −∞."""
    rng = draw(generators())
    x = two_sided(rng, shape) * draw(st.sampled_from(SCALES))
    if hidden and draw(st.booleans()):
        x = np.where(rng.random(shape) < 0.4, -np.inf, x)
    return draw(laid_out(x))


@st.composite
def softmax(draw):
    """Scores of any scale, some −∞, some rows entirely; none empty, for the largest of no scores is undefined."""
    shape = draw(shapes(min_dims=1))
    dim = draw(dims(len(shape), none=False, several=False))
    assume(shape[dim])
    return {"x": draw(scores(shape)), "dim": dim}


@st.composite
def log_softmax(draw):
    """Scores of any scale; none −∞, whose logarithm of probability is −∞ minus −∞ in a row that is all so."""
    shape = draw(shapes(min_dims=1))
    dim = draw(dims(len(shape), none=False, several=False))
    assume(shape[dim])
    return {"x": draw(scores(shape, hidden=False)), "dim": dim}


@st.composite
def gelu(draw):
    """Numbers from far below 0, where Φ(x) is 0, to far above, where it is 1."""
    x = two_sided(draw(generators()), draw(shapes())) * draw(st.sampled_from([1.0, 1e-4, 5.0, 800.0]))
    return {"x": draw(laid_out(x)), "approximate": draw(st.sampled_from(["none", "tanh"]))}


@st.composite
def linear(draw):
    """Rows in any number of dimensions, with and without bias."""
    rng = draw(generators())
    rows = draw(st.sampled_from([(), (2,), (2, 3), (1, 2), (0,), (2, 1, 2)]))
    n_in, n_out = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    scale = draw(st.sampled_from(SCALES))
    return {
        "x": draw(laid_out(scale * two_sided(rng, (*rows, n_in)))),
        "weight": draw(laid_out(two_sided(rng, (n_out, n_in)))),
        "bias": draw(laid_out(two_sided(rng, (n_out,)))) if draw(st.booleans()) else None,
    }


@st.composite
def layer_norm(draw):
    """Rows of any scale, some constant, with every combination of weight and bias.

    The constants are whole numbers: their mean is exact, and the composed form finds a variance of exactly 0.
    (Of 0.1 it finds rounding errors, and magnifies them by 1/√ε; the kernel does better than its definition.)
    """
    rng = draw(generators())
    shape = draw(st.sampled_from([(3,), (4,), (2, 2), (1,)]))
    x = two_sided(rng, (*draw(st.sampled_from([(), (3,), (2, 2), (0,)])), *shape))
    x = x * draw(st.sampled_from([1.0, 1e-6, 1e6, 1e12]))
    if x.ndim > len(shape) and draw(st.booleans()):
        x[:1] = rng.integers(-3, 4)
    return {
        "x": draw(laid_out(x)),
        "normalized_shape": shape,
        "weight": draw(laid_out(two_sided(rng, shape))) if draw(st.booleans()) else None,
        "bias": draw(laid_out(two_sided(rng, shape))) if draw(st.booleans()) else None,
        "eps": draw(st.sampled_from([1e-5, 0.1])),
    }


@st.composite
def cross_entropy(draw):
    """Logits of any scale; rows ignored; classes other than the target at −∞."""
    rng = draw(generators())
    n, v = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    target = rng.integers(0, v, n)
    smoothing = draw(st.sampled_from([0.0, 0.1]))
    logits = two_sided(rng, (n, v)) * draw(st.sampled_from(SCALES))
    if not smoothing and draw(st.booleans()):
        hidden = rng.random((n, v)) < 0.3
        hidden[np.arange(n), target] = False
        logits = np.where(hidden, -np.inf, logits)
    ignore_index = draw(st.sampled_from([-100, -1]))
    target[rng.random(n) < draw(st.sampled_from([0.0, 0.4, 1.0]))] = ignore_index
    return {
        "logits": draw(laid_out(logits)),
        "target": target,
        "ignore_index": ignore_index,
        "reduction": draw(st.sampled_from(["mean", "sum", "none"])),
        "label_smoothing": smoothing,
    }


@st.composite
def attention(draw):
    """T ≠ S, batches that broadcast, every mask, queries that see no key, dropout, scores up to ±800."""
    rng = draw(generators())
    t, s, d, d_v = (draw(st.integers(1, 4)) for _ in range(4))
    if draw(st.integers(0, 3)) == 0:  # more queries than a causal attention works on at once
        t, s = draw(st.sampled_from([(33, 33), (70, 70), (70, 40), (40, 70), (64, 1)]))
    left, right = draw(st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (1, 3)), ((2, 3), ()), ((1,), (2,))]))
    batch = np.broadcast_shapes(left, right)
    seen = rng.random(draw(st.sampled_from([(t, s), (*batch, t, s), (1, s)]))) < 0.6
    if draw(st.booleans()):
        seen[..., 0, :] = False
    masks = [None, seen, np.where(seen, two_sided(rng, seen.shape), -np.inf)]
    return {
        "query": draw(laid_out(two_sided(rng, (*left, t, d)) * draw(st.sampled_from([1.0, 1e-4, 300.0])))),
        "key": draw(laid_out(two_sided(rng, (*right, s, d)))),
        "value": draw(laid_out(two_sided(rng, (*right, s, d_v)))),
        "mask": draw(st.sampled_from(masks)),
        "is_causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.25])),
        "kept": 2.0 * (rng.random((*batch, t, s)) < 0.5) if draw(st.booleans()) else None,
    }


@st.composite
def embedding_lookup(draw):
    """Rows repeated, missing, none."""
    rng = draw(generators())
    weight = two_sided(rng, (5, draw(st.integers(1, 4))))
    shape = draw(st.sampled_from([(), (3,), (2, 4), (0,)]))
    return {"weight": draw(laid_out(weight)), "indices": np.asarray(rng.integers(0, 5, shape))}


ARGUMENTS = {
    "softmax": softmax(),
    "log_softmax": log_softmax(),
    "gelu": gelu(),
    "linear": linear(),
    "layer_norm": layer_norm(),
    "cross_entropy": cross_entropy(),
    "attention": attention(),
    "embedding_lookup": embedding_lookup(),
}


def test_every_kernel_has_arguments():
    """A kernel that nothing compares with its composed form could be any function."""
    kernels = {
        name
        for name, operation in registry.items()
        if operation.composed and operation.forward.__module__.startswith("minigrad")
    }
    assert kernels == ARGUMENTS.keys()


def value_and_gradients(function, operation, arguments, dtype, cotangent):
    """Return the array that ``function`` computes, and its gradient in every differentiable argument."""
    given_ = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            array = value if value.dtype.kind != "f" or value.dtype == dtype else value.astype(dtype)
            value = mg.from_numpy(array)
            if name in operation.differentiable:
                value.requires_grad_()
        given_[name] = value
    out = function(**given_)
    inputs = [given_[name] for name in operation.differentiable if given_.get(name) is not None]
    found = mg.autograd.grad(out, inputs, mg.from_numpy(cotangent(out.shape).astype(dtype)))
    assert out.dtype == dtype
    assert all(g.dtype == dtype for g in found)
    return [out.detach().numpy(), *(g.numpy() for g in found)]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)], ids=["float64", "float32"])
@pytest.mark.parametrize("name", ARGUMENTS)
@given(data=st.data())
def test_kernel_equals_composed_form(name, dtype, rtol, data):
    """Value and gradients of the kernel are those of the composed form; a value of −∞ is one in both."""
    operation = registry[name]
    arguments = data.draw(ARGUMENTS[name])
    seed = data.draw(st.integers(0, 2**32 - 1))

    def cotangent(shape):
        return two_sided(np.random.default_rng(seed), shape)

    fused = value_and_gradients(operation, operation, arguments, dtype, cotangent)
    composed = value_and_gradients(operation.composed, operation, arguments, dtype, cotangent)
    for actual, expected in zip(fused, composed, strict=True):
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(np.isinf(actual), infinite)
        # A floor for entries that are 0 but for rounding: the same share of the terms that cancel, which are
        # cotangents, near 1, and in attention their products with queries and keys.
        factors = [np.max(np.abs(arguments[k])) for k in ("query", "key") if k in arguments]
        floor = rtol * max([1.0, *factors])
        assert_close(np.where(infinite, 0, actual), np.where(infinite, 0, expected), rtol=rtol, floor=floor)
    assert all(np.isfinite(gradient).all() for gradient in fused[1:])


def rows_with(loud):
    """Return scores (3, 4, 70): moderate, but for row (1, 2), where one is ``loud``."""
    x = np.random.default_rng(3).standard_normal((3, 4, 70)).astype(np.float32)
    x[1, 2, 5] = loud
    return x


@pytest.mark.parametrize("loud", [40.0, 3e4, -5e8, np.inf, -np.inf, np.nan])
def test_how_a_row_is_kept_from_overflowing_touches_no_other_row(loud):
    """Whether a row is shifted depends on its own numbers: all others give the same bits, whatever it holds."""
    others = np.ones((3, 4), bool)
    others[1, 2] = False

    def results(x):
        t = mg.from_numpy(x)
        flat = t.reshape(12, 70)
        target = mg.arange(12)
        return {
            "softmax": t.softmax(-1).numpy()[others],
            "cross_entropy": F.cross_entropy(flat, target, reduction="none").numpy()[others.ravel()],
            "attention": F.scaled_dot_product_attention(t, t[:1, :3], t[:1, :3]).numpy()[others],
        }

    calm = results(rows_with(0.5))
    for name, found in results(rows_with(loud)).items():
        np.testing.assert_array_equal(found, calm[name], err_msg=name)


def test_a_loud_future_changes_nothing_before_it():
    """A causal attention never reads what comes later, not even to see whether it would overflow."""
    rng = np.random.default_rng(4)
    q, k, v = rng.standard_normal((3, 2, 50, 8)).astype(np.float32)
    loud = k.copy()
    loud[:, 40:] *= 1e4

    def attend(keys):
        query, key = mg.tensor(q, requires_grad=True), mg.tensor(keys, requires_grad=True)
        out = F.scaled_dot_product_attention(query, key, mg.tensor(v), is_causal=True)
        g = mg.tensor(np.where(np.arange(50)[:, None] < 40, 1.5 * q, 0).astype(np.float32))
        gradients = mg.autograd.grad(out, [query, key], g)
        return [out.detach().numpy()[:, :40], *(x.numpy()[:, :40] for x in gradients)]

    for calm, other in zip(attend(k), attend(loud), strict=True):
        np.testing.assert_array_equal(calm, other)


def test_cross_entropy_of_more_than_fits_into_one_block():
    """The rows are worked through in blocks; each row, calm or loud, is as if it were alone."""
    rng = np.random.default_rng(5)
    logits = 3 * rng.standard_normal((7, 30_000))
    logits[4] *= 400
    target = rng.integers(0, 30_000, 7)
    x = mg.tensor(logits, requires_grad=True)
    g = rng.standard_normal(7)
    (found,) = mg.autograd.grad(F.cross_entropy(x, mg.tensor(target), reduction="none"), x, mg.tensor(g))
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(7), target] -= 1
    assert_close(found.numpy(), g[:, None] * p, rtol=1e-12)


def test_layer_norm_of_nearly_constant_rows_keeps_its_digits():
    """Around a mean a million times its deviation a row is normalised as well as its digits allow."""
    rng = np.random.default_rng(6)
    noise = rng.integers(-8, 9, (4, 64)).astype(np.float32)
    x = mg.tensor(noise + np.array([[0], [1e3], [-1e5], [1e6]], np.float32))
    expected = (noise - noise.mean(1, keepdims=True)) / noise.std(1, keepdims=True)
    assert_close(F.layer_norm(x, (64,), eps=1e-12).numpy(), expected, rtol=2e-6)


# --- what is wanted, in pieces, and at sizes of 0 and 1 ---------------------------------------------


CALLS = {
    "attention": (["query", "key", "value"], [(2, 3), (4, 3), (4, 2)]),
    "layer_norm": (["x", "weight", "bias"], [(3, 4), (4,), (4,)]),
    "linear": (["x", "weight", "bias"], [(3, 4), (2, 4), (2,)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_computes_what_is_wanted_and_no_more(name, rng):
    """Of every choice of inputs that want a gradient: theirs is that of all at once, the others' is None."""
    arguments, shapes = CALLS[name]
    arrays = {a: two_sided(rng, shape) for a, shape in zip(arguments, shapes, strict=True)}
    options = {"normalized_shape": (4,)} if name == "layer_norm" else {}

    def pulled(wanted):
        inputs = {a: mg.tensor(v, requires_grad=a in wanted) for a, v in arrays.items()}
        out = registry[name](**inputs, **options)
        node = out.grad_fn
        ((rule, where),) = node.plan.rules
        g = two_sided(np.random.default_rng(5), out.shape)
        return dict(zip(arguments, rule(g, *[node.saved[i] for i in where]), strict=True))

    everything = pulled(arguments)
    for n in (1, 2):
        for wanted in itertools.combinations(arguments, n):
            for argument, gradient in pulled(wanted).items():
                if argument in wanted:
                    np.testing.assert_array_equal(gradient, everything[argument])
                else:
                    assert gradient is None


MASKS = [
    None, (), (5,), (1,), (5, 5), (1, 5), (5, 1), (2, 5, 5), (2, 1, 5), (2, 5, 1), (2, 1, 1), (3, 1, 5, 5),
    (3, 2, 5, 1),
]  # fmt: skip


@pytest.mark.parametrize("mask_shape", MASKS, ids=str)
@pytest.mark.parametrize("kind", ["boolean", "added", "kept"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_in_pieces_with_masks_of_every_shape(mask_shape, kind, is_causal, rng, monkeypatch):
    """A causal attention works on a few queries at a time, each with its part of what broadcasts to (…, T, S)."""
    monkeypatch.setattr(minigrad.kernels.attention, "QUERIES_AT_ONCE", 2)
    options = {"is_causal": is_causal}
    if mask_shape is not None:
        seen = np.asarray(rng.random(mask_shape) < 0.7)
        if kind == "kept":  # drawn for the scores, so of no more dimensions
            options["kept"] = mg.from_numpy(np.asarray(2.0 * seen)) if seen.ndim < 4 else None
        else:
            options["mask"] = mg.from_numpy(seen if kind == "boolean" else two_sided(rng, mask_shape))
    arrays = [two_sided(rng, shape) for shape in ((2, 5, 3), (2, 5, 3), (2, 5, 4))]
    results = []
    for function in (registry["attention"], registry["attention"].composed):
        inputs = [leaf(a) for a in arrays]
        out = function(*inputs, **options)
        g = mg.from_numpy(two_sided(np.random.default_rng(3), out.shape))
        results.append([out.detach(), *mg.autograd.grad(out, inputs, g)])
    for ours, expected in zip(*results, strict=True):
        assert_close(ours.numpy(), expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_in_blocks(approximate, rng, monkeypatch):
    """Value and derivative of every block, the last of which may be smaller."""
    x = two_sided(rng, (3, 5))
    whole, parts = leaf(x), leaf(x)
    expected = F.gelu(whole, approximate)
    monkeypatch.setattr(minigrad.special, "BLOCK", 4)
    found = F.gelu(parts, approximate)
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    g = mg.from_numpy(two_sided(rng, x.shape))
    (ours,), (theirs,) = mg.autograd.grad(found, parts, g), mg.autograd.grad(expected, whole, g)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    with pytest.raises(RuntimeError, match="approximate must be"):
        F.gelu(parts, "erf")


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5), (1, 9), (4, 1), (0, 3), (0, 0)], ids=str)
def test_cross_entropy_in_blocks_of_rows(shape, rng, monkeypatch):
    """Also where a block holds less than one row, or there are more rows than columns, or none."""
    monkeypatch.setattr(minigrad.kernels.cross_entropy, "BLOCK", 4)
    logits = two_sided(rng, shape)
    target = mg.from_numpy(rng.integers(0, max(shape[1], 1), shape[0]))
    results = []
    for function in (registry["cross_entropy"], registry["cross_entropy"].composed):
        if function is not registry["cross_entropy"] and not shape[1]:
            continue
        x = leaf(logits)
        loss = function(x, target)
        loss.backward()
        results.append([loss.detach().numpy(), x.grad.numpy()])
    for ours, expected in zip(results[0], results[-1], strict=True):
        assert_close(ours, expected, rtol=1e-14, floor=1e-15)
    assert results[0][1].shape == shape


@pytest.mark.parametrize(
    ("shape", "normalized"), [((4,), 1), ((1, 3, 4), 1), ((3, 1), 2), ((2, 1, 3), 2), ((1, 1, 2), 1)]
)
def test_layer_norm_over_sizes_of_one(shape, normalized, rng):
    """The kernel works on rows; what it returns has the shape of its input, also where sizes are 1."""
    x, g = two_sided(rng, shape), two_sided(rng, shape)

    def value(arrays):
        return float((g * F.layer_norm(mg.from_numpy(arrays[0]), shape[-normalized:], eps=0.1).numpy()).sum())

    input_ = leaf(x)
    out = F.layer_norm(input_, shape[-normalized:], eps=0.1)
    (found,) = mg.autograd.grad(out, input_, mg.from_numpy(g), retain_graph=True)
    (expected,) = differences(value, [x])
    assert_close(found.numpy(), expected, rtol=1e-7, floor=1e-9)
    node = out.grad_fn
    ((rule, where),) = node.plan.rules
    assert rule(g, *[node.saved[i] for i in where])[0].shape == shape


def test_vectors_that_kernels_share_cannot_be_written():
    """They are made once for each size and kept, so that a write would change every later sum."""
    ones = minigrad.kernels.linear.constant(3, 1.0, np.dtype(np.float64))
    with pytest.raises(ValueError, match="read-only"):
        ones[0] = 2.0


def test_layer_norm_of_rows_without_elements():
    x, weight = leaf(np.zeros((3, 0))), leaf(np.zeros(0))
    out = F.layer_norm(x, (0,), weight)
    found = mg.autograd.grad(out, [x, weight], mg.zeros(3, 0).double())
    assert [g.shape for g in found] == [(3, 0), (0,)]
