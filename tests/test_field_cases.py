"""The values that are a matter of convention: derivatives at kinks, edges of the number line, and dtypes.

At a kink a function has no derivative, and any number between those of the two sides is a subgradient; an engine
has to choose one, say so, and keep to it.  The first table is that choice.  The second holds the functions whose
obvious formula meets 0/0, ∞ − ∞ or ln 0, though their derivative exists.  The third says what dtype results have.

All gradients are taken twice, with cotangents 1 and −3 times a vector of both signs: the convention must scale.
"""

import math

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional  # registers the kernels
from minigrad.op import registry

INF = math.inf


def t64(values):
    """Return a float64 leaf whose gradient is wanted."""
    return mg.tensor(values, dtype=mg.float64, requires_grad=True)


def assert_gradient(function, x, expected, cotangent=1.0):
    """Hold d⟨g, function(x)⟩/dx to ``expected``, for g = cotangent and for g = −3 · cotangent."""
    for factor in (1.0, -3.0):
        leaf = t64(x)
        out = function(leaf)
        g = mg.tensor(np.broadcast_to(factor * np.asarray(cotangent), out.shape).astype(np.float64))
        (found,) = mg.autograd.grad(out, leaf, g)
        np.testing.assert_allclose(found.numpy(), factor * np.asarray(expected), rtol=1e-14, atol=0)


KINKS = {
    # relu, in each way to write it
    "relu(0)": (lambda x: x.relu(), [0.0], [0]),
    "clamp(0, min=0)": (lambda x: x.clamp(min=0), [0.0], [1]),  # a bound counts as inside
    "where(x > 0, x, 0) at 0": (lambda x: mg.where(x > 0, x, 0), [0.0], [0]),
    "maximum(0, 0)": (lambda x: mg.maximum(x, 0), [0.0], [0.5]),  # a tie
    "abs(0)": (lambda x: x.abs(), [0.0, -0.0], [0, 0]),
    "clamp at both bounds": (lambda x: x.clamp(-1, 1), [-1.0, 1.0, -2.0, 2.0, 0.0], [1, 1, 0, 0, 1]),
    "sign, floor, ceil, round": (lambda x: x.sign() + x.floor() + x.ceil() + x.round(), [0.3, -1.7], [0, 0]),
    # ties
    "maximum(x, x)": (lambda x: mg.maximum(x, x), [1.0, -2.0], [1, 1]),
    "minimum(x, x)": (lambda x: mg.minimum(x, x), [1.0, -2.0], [1, 1]),
    "maximum with a tie": (lambda x: mg.maximum(x, mg.tensor([2.0, 1.0, 0.0])), [1.0, 1.0, 1.0], [0, 0.5, 1]),
    "minimum with a tie": (lambda x: mg.minimum(x, mg.tensor([2.0, 1.0, 0.0])), [1.0, 1.0, 1.0], [1, 0.5, 0]),
    "max() over ties": (lambda x: x.max(), [1.0, 1.0, 0.0], [0.5, 0.5, 0]),
    "min() over ties": (lambda x: x.min(), [0.0, 1.0, 0.0, 0.0], [1 / 3, 0, 1 / 3, 1 / 3]),
    "amax over ties": (lambda x: x.amax(0), [1.0, 1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
    "max(dim) over ties": (lambda x: x.max(0).values, [1.0, 1.0, 0.0], [1, 0, 0]),  # to the index returned
    "min(dim) over ties": (lambda x: x.min(0)[0], [1.0, 0.0, 0.0], [0, 1, 0]),
    # roots and norms at 0
    "sqrt(0)": (lambda x: x.sqrt(), [0.0, 4.0], [INF, 0.25]),
    "norm of 0": (lambda x: x.norm(), [0.0, 0.0], [0, 0]),
    "norm of 0, squared": (lambda x: x.norm() ** 2, [0.0, 0.0], [0, 0]),
    "norm of one zero row": (lambda x: x.norm(dim=1), [[0.0, 0.0], [3.0, 4.0]], [[0, 0], [0.6, 0.8]]),
    "norm of 0, p = 1": (lambda x: x.norm(1), [0.0, 0.0], [0, 0]),
    "norm of 0, p = 3": (lambda x: x.norm(3), [0.0, 0.0], [0, 0]),
    "norm of 0, p = 1.5": (lambda x: x.norm(1.5), [0.0, 0.0], [0, 0]),
    "norm of 0, p = ∞": (lambda x: x.norm(INF), [0.0, 0.0], [0, 0]),
    "norm of 0, Frobenius": (lambda x: x.norm("fro"), [[0.0, 0.0]], [[0, 0]]),
    "std of a constant": (lambda x: x.std(), [2.0, 2.0, 2.0], [0, 0, 0]),
    "std of a constant row": (lambda x: x.std(1), [[5.0, 5.0], [0.0, 2.0]], [[0, 0], [-(2**-0.5), 2**-0.5]]),
    "std of a constant, squared": (lambda x: x.std() ** 2, [2.0, 2.0], [0, 0]),
    # powers
    "x**0 at 0": (lambda x: x**0, [0.0, 2.0], [0, 0]),
    "x**0. at 0": (lambda x: x**0.0, [0.0, -2.0], [0, 0]),
    "x**0 at 0, an array exponent": (lambda x: x ** np.zeros(2), [0.0, -2.0], [0, 0]),
    "x**1 at 0": (lambda x: x**1, [0.0], [1]),
    "x**1 at 0, an array exponent": (lambda x: x ** np.ones(1), [0.0], [1]),
    "(−2)**3, a constant exponent": (lambda x: x**3, [-2.0], [12]),
    "(−2)**3, an array exponent": (lambda x: x ** np.array([3.0]), [-2.0], [12]),
    "0**y in y": (lambda y: mg.tensor([0.0, 0.0]) ** y, [2.0, 0.0], [0, 0]),
    "0**y in y, a number": (lambda y: 0**y, [2.0, 0.5], [0, 0]),
    # sums over what was copied
    "where(mask (3,), x (), 0)": (lambda x: mg.where(mg.tensor([True] * 3), x, 0), 2.0, 3.0),
    "expand (3,) to (4, 3)": (lambda x: x.expand(4, 3), [1.0, 2.0, 3.0], [4, 4, 4]),
    "indices that repeat": (lambda x: x[[0, 0, 1]], [1.0, 2.0, 3.0], [2, 1, 0]),
    "the same index by two names": (lambda x: x[[2, -1]], [1.0, 2.0, 3.0], [0, 0, 2]),
    # products with zeros among their factors, and what only moves elements
    "prod with a zero": (lambda x: x.prod(), [0.0, 2.0, 3.0], [6, 0, 0]),
    "prod with two zeros": (lambda x: x.prod(0), [0.0, 0.0, 3.0], [0, 0, 0]),
    "prod of one zero": (lambda x: x.prod(), [0.0], [1]),
    "cumprod with a zero": (lambda x: x.cumprod(0), [2.0, 0.0, 3.0], [1, 8, 0]),
    "cumsum of rows": (lambda x: x.cumsum(1), [[1.0, 2.0], [3.0, 4.0]], [[5, -3], [4, 2]], [[8, -3], [2, 2]]),
    "sort": (lambda x: x.sort().values, [3.0, 1.0, 2.0], [5, 2, -3], [2, -3, 5]),
    "sort of columns": (lambda x: x.sort(0)[0], [[2.0, 0.0], [1.0, 3.0]], [[3, 2], [1, 4]], [[1, 2], [3, 4]]),
    "topk of ties": (lambda x: x.topk(2).values, [1.0, 5.0, 5.0], [0, 2, -3], [2, -3]),
    "repeat_interleave": (lambda x: x.repeat_interleave(mg.tensor([1, 0, 2])), [1.0, 2.0, 3.0], [1, 0, 2]),
}


@pytest.mark.parametrize("name", KINKS)
def test_kink(name):
    """The convention of each row holds, without a warning, and scales with the cotangent."""
    assert_gradient(*KINKS[name])


# Functions that are flat where the cotangent is infinite: √ and 1/ of a result that is 0 hand ∞ back.
FLAT = {
    "√ relu": (lambda x: x.relu().sqrt(), [-1.0, 0.0, 4.0], [0, 0, 0.25]),
    "√ clamp(min=0)": (lambda x: x.clamp(min=0).sqrt(), [-1.0, 4.0], [0, 0.25]),
    "1 / clamp(max=0)": (lambda x: 1 / x.clamp(max=0), [1.0, -2.0], [0, -0.25]),
    "√ clamp at a tensor": (lambda x: x.clamp(mg.zeros(2), mg.ones(2)).sqrt(), [-1.0, 0.25], [0, 1]),
    "√ maximum(x, 0)": (lambda x: mg.maximum(x, 0).sqrt(), [-1.0, 4.0], [0, 0.25]),
    "√ maximum at a tie": (lambda x: mg.maximum(x, 0).sqrt(), [0.0], [INF]),
    "√ minimum(x, 0)": (lambda x: mg.minimum(x, 0).sqrt(), [1.0], [0]),
    "√ amax": (lambda x: x.amax().sqrt(), [-1.0, 0.0, -2.0], [0, INF, 0]),
    "√ max(dim)": (lambda x: x.max(0).values.sqrt(), [-1.0, 0.0], [0, INF]),
    "√ of what was set to 0": (lambda x: set_to_0(x).sqrt(), [-1.0, 4.0], [0, 0.25]),
    "√ masked_fill": (lambda x: x.masked_fill(x < 0, 0.0).sqrt(), [-1.0, 4.0], [0, 0.25]),
    "√ scatter": (lambda x: x.scatter(0, mg.tensor([0]), 0.0).sqrt(), [-1.0, 4.0], [0, 0.25]),
    "√ of sign and floor": (lambda x: (x.sign() - 1).sqrt() + x.floor().sqrt(), [0.5], [0]),
    "√ of ceil": (lambda x: x.ceil().abs().sqrt(), [-0.5], [0]),
    "√ of trunc and round": (lambda x: x.trunc().sqrt() + x.round().sqrt(), [0.25], [0]),
    "√ (x**0 − 1)": (lambda x: (x**0 - 1).sqrt(), [3.0, 0.0], [0, 0]),
    "√ nan_to_num": (lambda x: x.nan_to_num(0.0).sqrt(), [math.nan, 4.0], [0, 0.25]),
}  # fmt: skip


def set_to_0(x):
    """x with its negative elements set to 0 by a write in place."""
    y = x * 1
    y[x < 0] = 0.0
    return y


@pytest.mark.parametrize("name", FLAT)
def test_an_infinite_gradient_ends_where_a_function_is_flat(name):
    """∂y/∂x = 0 means that x has no influence, so an infinite cotangent of y is none of its business: 0, not NaN.

    PyTorch has 0 there too (but for amax), and √ clamp(min=0) is how it computes a distance.
    """
    function, x, expected = FLAT[name]
    assert_gradient(function, x, expected)
    leaf = t64(x)
    (recorded,) = mg.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
    assert recorded.tolist() == expected


@pytest.mark.parametrize("x", [2.0, 0.5, 1e-30, 1e200, 2.0**-511])
def test_the_hessian_of_a_power_is_symmetric_where_the_exponent_is_0(x):
    """∂²xʸ/∂x∂y = xʸ⁻¹ (1 + y ln x), which is 1/x at y = 0, though y xʸ⁻¹, the derivative in x, is 0 there.

    In PyTorch the derivative in y of that 0 is 0 as well.
    """
    base, exponent = t64([x]), t64([0.0])
    first, second = mg.autograd.grad((base**exponent).sum(), [base, exponent], create_graph=True)
    assert first.item() == 0
    assert mg.autograd.grad(first, exponent, retain_graph=True)[0].item() == pytest.approx(1 / x, rel=1e-14)
    assert mg.autograd.grad(second, base, retain_graph=True)[0].item() == pytest.approx(1 / x, rel=1e-14)
    assert mg.autograd.grad(first, base, allow_unused=True)[0].item() == 0


@pytest.mark.parametrize("x", [0.0, -0.0, 5e-324, math.nan])
def test_a_power_of_exponent_0_is_flat_everywhere(x):
    """x⁰ = 1 for every x, NaN included: the derivative in x is 0, and never 0 · ∞."""
    base, exponent = t64([x]), t64([0.0])
    y = base**exponent
    (first,) = mg.autograd.grad(y, base, mg.tensor([-3.0]), create_graph=True)
    assert (y.item(), first.item()) == (1, 0)
    assert [g.item() for g in mg.autograd.grad(first, [base, exponent])] == [0, 0]


@pytest.mark.parametrize("x", [1e-160, 1e-200, -1e-200, -2.0])
def test_a_power_of_exponent_0_has_no_curvature_even_where_that_of_others_is_infinite(x):
    """d²xʸ/dx² = y (y − 1) xʸ⁻² is 0 at y = 0, and not 0 · ∞ where x⁻² is more than a float holds."""
    base = t64([x])
    (first,) = mg.autograd.grad(base ** t64([0.0]), base, create_graph=True)
    assert mg.autograd.grad(first, base)[0].item() == first.item() == 0


def test_powers_of_enormous_whole_numbers():
    """A Python int of any size is an exponent; d/dx 1ⁿ is n, and d/dx xⁿ beyond all floats is ∞."""
    assert_gradient(lambda x: x ** (10**30), [1.0, 1.5, 0.5], [1e30, INF, 0])


def test_clamp_with_tensor_bounds_in_the_wrong_order():
    """Where min > max the result is max, as in PyTorch; so the whole gradient is max's."""
    x, low, high = t64([0.0]), t64([2.0]), t64([1.0])
    y = x.clamp(low, high)
    assert y.item() == 1.0
    assert [g.item() for g in mg.autograd.grad(y, [x, low, high], mg.tensor([-3.0]))] == [0, 0, -3]


# --- functions whose obvious formula fails --------------------------------------------------------


def test_row_of_minus_infinity_through_softmax():
    """Softmax of a row that is all −∞ is a row of zeros, whose gradient is 0; other rows are as ever."""
    rows = [[-INF, -INF, -INF], [0.0, 0.0, -INF]]
    assert mg.softmax(t64(rows), -1).tolist() == [[0, 0, 0], [0.5, 0.5, 0]]
    # dxᵢ = pᵢ (gᵢ − Σ p g) with g = (2, −3, 5): Σ p g = −1/2.
    assert_gradient(lambda x: x.softmax(-1), rows, [[0, 0, 0], [1.25, -1.25, 0]], [2.0, -3.0, 5.0])


def test_row_of_minus_infinity_through_logsumexp():
    """ln Σ e^x of a row that is all −∞ is −∞, and its gradient 0."""
    rows = [[-INF, -INF], [-INF, 3.0]]
    assert mg.logsumexp(t64(rows), -1).tolist() == [-INF, 3]
    assert_gradient(lambda x: x.logsumexp(-1), rows, [[0, 0], [0, -2]], [5.0, -2.0])
    assert_gradient(lambda x: x.logsumexp((0, 1)), [[-INF, -INF]], [[0, 0]], 2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_query_that_sees_no_key(dtype, rng):
    """Attention of a row that is masked entirely is 0, by a boolean mask or by −∞; all gradients are finite."""
    attention = registry["attention"]
    seen = np.array([[False, False], [True, False]])
    for mask in (seen, np.where(seen, 0, -INF).astype(dtype)):
        q, k, v = (mg.tensor(rng.normal(size=(2, 3)).astype(dtype), requires_grad=True) for _ in range(3))
        out = attention(q, k, v, mg.tensor(mask))
        g = np.array([[2, -3, 1], [-1, 4, 2]], dtype)
        dq, dk, dv = (d.numpy() for d in mg.autograd.grad(out, [q, k, v], mg.tensor(g)))
        np.testing.assert_array_equal(out.detach().numpy(), [[0, 0, 0], v.tolist()[0]])
        # The second query puts all its weight on the first key: only that value matters.
        np.testing.assert_array_equal(dv, [g[1], [0, 0, 0]])
        assert not dq.any()
        assert not dk.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [800.0, 1000.0])
def test_large_logits(size, dtype):
    """With logits (±s, 0): ln Σ e^x = s exactly, for e^−800 is below every rounding; nothing overflows."""
    x = mg.tensor(np.array([[size, 0], [-size, 0]], dtype), requires_grad=True)
    assert x.logsumexp(-1).tolist() == [size, 0]
    assert x.softmax(-1).tolist() == [[1, 0], [0, 1]]
    assert x.log_softmax(-1).tolist() == [[0, -size], [-size, 0]]
    cross_entropy = registry["cross_entropy"]
    assert cross_entropy(x, mg.tensor([1, 0]), reduction="none").tolist() == [size, size]
    for function, expected in [
        (lambda: x.logsumexp(-1), [[2, 0], [0, -3]]),
        (lambda: x.log_softmax(-1)[:, 0], [[0, 0], [-3, 3]]),
        (lambda: cross_entropy(x, mg.tensor([1, 0]), reduction="none"), [[2, -2], [3, -3]]),
    ]:
        (found,) = mg.autograd.grad(function(), x, mg.tensor(np.array([2, -3], dtype)))
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_of_ignored_targets(reduction):
    """With every target ignored the loss is 0 (PyTorch's mean is NaN) and so is its gradient."""
    logits = t64([[1.0, -2.0], [0.5, 3.0]])
    loss = registry["cross_entropy"](logits, mg.tensor([-100, -100]), reduction=reduction)
    (found,) = mg.autograd.grad(loss, logits, mg.tensor(-3.0))
    assert loss.item() == 0
    assert not found.numpy().any()


def test_ignored_rows_may_hold_anything():
    """What an ignored row contains does not matter: infinite logits give neither loss nor gradient."""
    logits = t64([[1.0, 1.0], [-INF, 2.0]])
    for create_graph in (False, True):
        loss = registry["cross_entropy"](logits, mg.tensor([0, -100]))
        (found,) = mg.autograd.grad(loss, logits, mg.tensor(2.0), create_graph=create_graph)
        np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-15)
        np.testing.assert_allclose(found.detach().numpy(), [[-1, 1], [0, 0]], rtol=1e-15)
    spoiled = t64([[1.0, 1.0], [INF, math.nan]])
    loss = registry["cross_entropy"](spoiled, mg.tensor([0, -100]))
    np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-15)
    (found,) = mg.autograd.grad(loss, spoiled, mg.tensor(2.0))
    np.testing.assert_allclose(found.numpy(), [[-1, 1], [0, 0]], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.1, -7.3, 1e6 / 3, 0.0])
def test_layer_norm_of_a_constant_row(value, dtype):
    """A constant row has no variance: ε alone is in the root, and the result is exactly β, not noise · γ/√ε.

    The gradient is finite: with variance 0 it is (h − mean h)/√ε, where h = g γ.
    """
    d = 7
    x = mg.tensor(np.full((2, d), value, dtype), requires_grad=True)
    gamma, beta = np.linspace(-2, 3, d).astype(dtype), np.linspace(1, -1, d).astype(dtype)
    out = registry["layer_norm"](x, (d,), mg.tensor(gamma), mg.tensor(beta), 1e-5)
    np.testing.assert_array_equal(out.detach().numpy(), [beta, beta])
    g = np.array([[2, -3, 1, 0, 5, -1, 1], [1, 1, -4, 2, 0, 3, -2]], dtype)
    (found,) = mg.autograd.grad(out, x, mg.tensor(g))
    h = (g * gamma).astype(np.float64)
    expected = (h - h.mean(-1, keepdims=True)) / math.sqrt(1e-5)
    np.testing.assert_allclose(
        found.numpy(), expected, rtol=0, atol=np.finfo(dtype).eps * 4 * np.abs(expected).max()
    )


def test_cross_entropy_of_large_logits_keeps_its_digits():
    """Only differences of logits matter, so 1000 more in all of them costs no digits, in float32 either.

    They are multiples of 1/8, exact at 1000 too: value and gradient must be those of the small logits.
    """
    small = np.array([[0.125, -0.5, 1.375], [2.0, 0.25, -1.625]], np.float32)
    found = []
    for shift in (0, 1000):
        logits = mg.tensor(small + np.float32(shift), requires_grad=True)
        loss = registry["cross_entropy"](logits, mg.tensor([1, 0]), reduction="none")
        (gradient,) = mg.autograd.grad(loss, logits, mg.tensor([2.0, -3.0]))
        found.append((loss.detach().numpy(), gradient.numpy()))
    for near_0, near_1000 in zip(*found, strict=True):
        np.testing.assert_allclose(near_1000, near_0, rtol=1e-6)


def test_sqrt_of_zero_squared_is_documented_as_nan():
    """(√x)² at 0: the chain rule multiplies 2√x = 0 by 1/(2√x) = ∞.  No exception, and no warning: NaN."""
    x = t64([0.0])
    (found,) = mg.autograd.grad(x.sqrt() ** 2, x, mg.tensor([2.0]))
    assert math.isnan(found.item())


def test_where_does_not_stop_a_nan_and_how_to_stop_it():
    """``where(x < 1, cos x, 0)`` at ∞: the branch not taken receives 0 · −sin ∞ = NaN; a safe branch does not."""
    x = t64([0.0, INF])
    (trap,) = mg.autograd.grad(mg.where(x < 1, x.cos(), 0), x, mg.tensor([2.0, -3.0]))
    assert trap.numpy()[0] == 0
    assert math.isnan(trap.numpy()[1])
    safe = mg.where(x < 1, mg.where(x < 1, x, 0).cos(), 0)
    assert mg.autograd.grad(safe, x, mg.tensor([2.0, -3.0]))[0].tolist() == [0, 0]


LARGE = {
    "erf(1e200)": (lambda: mg.erf(mg.tensor(1e200, dtype=mg.float64)).item(), 1.0),
    "gelu(±1e30)": (lambda: mg.tensor([1e30, -1e30]).gelu().tolist(), [np.float32(1e30).item(), 0.0]),
    "gelu(±1e30), tanh": (
        lambda: mg.tensor([1e30, -1e30]).gelu(approximate="tanh").tolist(),
        [np.float32(1e30).item(), 0.0],
    ),
    "norm of 1e30 in float32": (lambda: mg.tensor([1e30]).norm().item(), INF),
    "square of 1e30 in float32": (lambda: mg.tensor(1e30).square().item(), INF),
    "exp(1000)": (lambda: mg.tensor(1000.0).exp().item(), INF),
    "1 / 0": (lambda: (mg.tensor(1.0) / 0).item(), INF),
    "log(0)": (lambda: mg.tensor(0.0).log().item(), -INF),
    "0 ** −1": (lambda: (mg.tensor(0.0) ** -1).item(), INF),
    "sigmoid(−1000)": (lambda: mg.tensor(-1000.0).sigmoid().item(), 0.0),
    "−(−∞)": (lambda: (-mg.tensor(-INF)).item(), INF),
}


@pytest.mark.parametrize("name", LARGE)
def test_overflow_is_a_value(name):
    """What is too large is ∞, and no warning comes with it (the test suite would turn it into an error)."""
    function, expected = LARGE[name]
    assert function() == expected


# --- dtypes ---------------------------------------------------------------------------------------

F32, F64 = np.float32, np.float64
x32 = mg.tensor([1.0, 2.0, 3.0])
x64 = mg.tensor([1.0, 2.0, 3.0], dtype=mg.float64)
i64, i32, b1 = mg.tensor([1, 2, 3]), mg.tensor([1, 2, 3], dtype=mg.int32), mg.tensor([True, False, True])

# What stands beside a tensor, and the dtype that the two give together, whichever comes first.
OPERANDS = {
    "float32 and a Python float": (x32, 2.5, F32),
    "float32 and a Python int": (x32, 2, F32),
    "float32 and a bool": (x32, True, F32),
    "float32 and np.float64(2)": (x32, np.float64(2), F32),
    "float32 and np.sqrt(64)": (x32, np.sqrt(64), F32),
    "float32 and np.int64(2)": (x32, np.int64(2), F32),
    "float32 and a 0-d array": (x32, np.array(2.5), F32),
    "float32 and a 0-d float64 tensor": (x32, mg.tensor(2.5, dtype=mg.float64), F32),
    "float32 and an int64 tensor": (x32, i64, F32),
    "float32 and a bool tensor": (x32, b1, F32),
    "float32 and an int64 array": (x32, np.array([1, 2, 3]), F32),
    "float32 and a float32 array": (x32, np.ones(3, F32), F32),
    "float32 and a float64 array": (x32, np.ones(3), F64),  # an array keeps its dtype
    "float32 and a float64 tensor": (x32, x64, F64),
    "0-d float32 and a Python float": (mg.tensor(1.0), 2.5, F32),
    "0-d float32 and np.float64(2)": (mg.tensor(1.0), np.float64(2), F32),
    "float64 and a Python float": (x64, 2.5, F64),
    "float64 and a 0-d float32 tensor": (x64, mg.tensor(1.0), F64),
    "int64 and a Python float": (i64, 2.5, F32),  # the default dtype
    "int64 and a Python int": (i64, 2, np.int64),
    "int32 and a Python int": (i32, 2, np.int32),
    "int32 and int64": (i32, i64, np.int64),
    "int64 and 0-d float64": (i64, mg.tensor(2.5, dtype=mg.float64), F64),
    "bool and a Python int": (b1, 2, np.int64),
    "bool and int32": (b1, i32, np.int32),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_dtype_of_two_operands(name):
    """Arrays with dimensions decide; what has none only lends its kind, so a float32 network stays float32."""
    x, y, dtype = OPERANDS[name]
    for operation in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b):
        left, right = operation(x, y), operation(y, x)
        assert isinstance(left, mg.Tensor)
        assert isinstance(right, mg.Tensor)
        assert left.dtype == right.dtype == dtype
    assert mg.maximum(x, y).dtype == dtype


@pytest.mark.parametrize("name", [name for name in OPERANDS if OPERANDS[name][0].dtype.kind == "f"])
def test_gradient_has_the_dtype_of_its_tensor(name):
    """Whatever a tensor meets on the way, in either order, its gradient has its own dtype, shape and graph."""
    x, y, _ = OPERANDS[name]
    for operation in (lambda a, b: a * b, lambda a, b: b * a, lambda a, b: a / b, lambda a, b: b - a):
        leaf = x.detach().clone().requires_grad_()
        out = operation(leaf, y)
        out.backward(mg.ones_like(out) * -2)
        assert leaf.grad.dtype == leaf.dtype
        assert leaf.grad.shape == leaf.shape


def test_gradients_across_dtypes_are_recorded_too():
    """With ``create_graph`` a product of float32 and float64 has the gradients that it has without."""
    x, y = mg.tensor([1.0, 2.0], requires_grad=True), t64([3.0, -4.0])
    gx, gy = mg.autograd.grad(x * y, [x, y], mg.tensor([2.0, -1.0], dtype=mg.float64), create_graph=True)
    assert (gx.tolist(), gx.dtype) == ([6, 4], F32)
    assert (gy.tolist(), gy.dtype) == ([2, -2], F64)
    assert mg.autograd.grad(gx, y, mg.tensor([1.0, 5.0]))[0].tolist() == [2, -5]


def test_float32_stays_float32_through_sums():
    """Python's ``sum`` starts from the int 0; mean and max divide and compare: all of it stays float32."""
    x = mg.tensor([1.0, 2.0, 2.0], requires_grad=True)
    total = sum([x, x], 0)
    loss = total.mean() + x.max() + x.var() + x.norm() + sum(x)
    assert loss.dtype == F32
    loss.backward(mg.tensor(-2.0))
    assert x.grad.dtype == F32
    # d/dx: 2/3, then ties at 2, then 2 (x − mean)/(n − 1) = (−2/3, 1/3, 1/3), then x/3, then 1.
    expected = -2 * np.array([2 / 3 - 2 / 3 + 1 / 3 + 1, *[2 / 3 + 1 / 2 + 1 / 3 + 2 / 3 + 1] * 2])
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("operation", [lambda a, t: a * t, lambda a, t: t * a, lambda a, t: np.add(a, t)])
def test_numpy_operands_keep_the_graph(operation):
    """``np.ones(3) * t`` is a Tensor with its graph, not an array of tensors, in both orders."""
    t = t64([1.0, 2.0, 3.0])
    y = operation(np.ones(3), t)
    assert type(y) is mg.Tensor
    assert mg.autograd.grad(y, t, mg.tensor([2.0, -3.0, 1.0]))[0].tolist() == [2, -3, 1]


RESULTS = {
    "int / int": (lambda: i64 / i64, F32),
    "int / 2": (lambda: i64 / 2, F32),
    "bool / bool": (lambda: b1 / mg.tensor([True] * 3), F32),
    "1 / int": (lambda: 1 / i64, F32),
    "exp of ints": (lambda: i64.exp(), F32),
    "sqrt of int32": (lambda: i32.sqrt(), F32),
    "mean of ints": (lambda: i64.mean(), F32),
    "softmax of ints": (lambda: i64.softmax(0), F32),
    "sum of bools": (lambda: b1.sum(), np.int64),
    "sum of int32": (lambda: i32.sum(), np.int64),
    "sum of float32": (lambda: x32.sum(), F32),
    "sum with a dtype": (lambda: x32.sum(dtype=mg.float64), F64),
    "int // int": (lambda: i64 // i64, np.int64),
    "int ** 2": (lambda: i64**2, np.int64),
    "comparison": (lambda: x32 > x64, np.bool_),
    "argmax": (lambda: x32.argmax(), np.int64),
    "where with numbers": (lambda: mg.where(b1, x32, 0), F32),
    "where of two numbers": (lambda: mg.where(b1, 1.0, 0.0), F32),
    "where of two whole numbers": (lambda: mg.where(b1, 1, 0), np.int64),
    "where of two numbers, as a mask": (lambda: x32 * mg.where(b1, 1, 0.5), F32),
    "where with np.float64": (lambda: mg.where(b1, np.float64(1), x32), F32),
    "masked_fill": (lambda: x32.masked_fill(b1, -math.inf), F32),
    "clamp": (lambda: x32.clamp(0, np.float64(2)), F32),
    "cat of float32 and int": (lambda: mg.cat([x32, i64]), F32),
    "matmul of float32 and float64": (lambda: x32 @ x64, F64),
    "x.double()": (lambda: x32.double(), F64),
    "x.to(int)": (lambda: x32.to(mg.int64), np.int64),
    "float32 ** 0.5": (lambda: x32**0.5, F32),
    "2.0 ** float32": (lambda: 2.0**x32, F32),
    "float32 % 2.0": (lambda: x32 % 2.0, F32),
}


@pytest.mark.parametrize("name", RESULTS)
def test_dtype_of_a_result(name):
    """Integers become floats of the default dtype where the result is one; sums of integers are int64."""
    function, dtype = RESULTS[name]
    assert function().dtype == dtype


def test_sum_of_bools_counts():
    """A sum of booleans is how many are true, not whether some are."""
    assert mg.tensor([True, True, False]).sum().item() == 2


def test_default_dtype():
    """Python floats, ``zeros`` and divided integers follow ``set_default_dtype``; arrays keep theirs."""
    mg.set_default_dtype(mg.float64)
    assert mg.tensor(1.5).dtype == mg.zeros(2).dtype == (i64 / 2).dtype == mg.randn(2).dtype == F64
    assert mg.tensor(np.ones(2, F32)).dtype == F32
    with pytest.raises(TypeError, match="must be a floating dtype, not int64"):
        mg.set_default_dtype(mg.int64)


def test_cast_returns_the_gradient_to_its_dtype():
    """A gradient passes through a change of dtype and comes back in the tensor's own."""
    x = mg.tensor([1.5, -2.0], requires_grad=True)
    y = x.double() * 3
    assert y.dtype == F64
    y.backward(mg.tensor([1.0, -1.0], dtype=mg.float64))
    assert x.grad.dtype == F32
    assert x.grad.tolist() == [3, -3]


def test_integers_have_no_gradient():
    """Only a floating tensor can require a gradient: the error says what to do; a cast to int ends the graph."""
    for make in (
        lambda: mg.tensor([1, 2], requires_grad=True),
        lambda: mg.tensor([1, 2]).requires_grad_(),
        lambda: mg.zeros(2, dtype=mg.int64, requires_grad=True),
        lambda: mg.tensor(True, requires_grad=True),
    ):
        with pytest.raises(RuntimeError, match=r"only floating tensors can require a gradient.*use x\.float\(\)"):
            make()
    x = mg.tensor([1.5, 2.5], requires_grad=True)
    assert not x.long().requires_grad
    assert not x.bool().requires_grad
    assert not (x > 2).requires_grad
    assert not x.argmax().requires_grad


@pytest.mark.parametrize("function", [lambda x: x.std(), lambda x: x.norm()], ids=["std", "norm"])
def test_where_std_and_norm_are_0_their_gradient_can_itself_be_differentiated(function):
    """The gradient there is 0 whatever the cotangent c, so its derivative in c is 0 too: not 0/0."""
    x, c = t64([0.0, 0.0, 0.0]), t64(2.0)
    (gradient,) = mg.autograd.grad(function(x), x, c, create_graph=True)
    weights = mg.tensor([1.0, -3.0, 2.0], dtype=mg.float64)
    in_x, in_c = mg.autograd.grad(gradient, [x, c], weights, allow_unused=True)
    for found in (in_x, in_c):
        assert found is None or np.isfinite(found.numpy()).all()
        assert found is None or not found.numpy().any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mg.ones(()).unbind(), IndexError, "0-d tensor"),
        (lambda: mg.ones(2, 3).unbind(5), IndexError, "5"),
        (lambda: mg.ones(2, 3).log_softmax(5), IndexError, "axis 5"),
        (lambda: mg.ones(0, 3).log_softmax(5), IndexError, "axis 5"),
        (lambda: mg.randperm(-1), RuntimeError, "at least 0, not -1"),
        (lambda: mg.nn.BatchNorm1d(4)(mg.ones(2, 3)), RuntimeError, "3 channels got a vector of 4"),
    ],
)
def test_what_there_is_not_is_named(call, error, message):
    """A dimension, a number or a channel that doesn't exist stands in the message."""
    with pytest.raises(error, match=message):
        call()
