"""Functions whose obvious formula overflows, or meets 0/0, ∞ − ∞ or ln 0, though their derivative exists."""

import math

import numpy as np
import pytest
from oracles import assert_gradient
from tensors import leaf

import minigrad as mg
from minigrad.op import registry

INF = math.inf


def test_a_row_of_minus_infinity_through_softmax_is_zeros():
    """Softmax of a row that is all −∞ is a row of zeros, whose gradient is 0; other rows are as ever."""
    rows = [[-INF, -INF, -INF], [0.0, 0.0, -INF]]
    assert mg.softmax(leaf(rows), -1).tolist() == [[0, 0, 0], [0.5, 0.5, 0]]
    # dxᵢ = pᵢ (gᵢ − Σ p g) with g = (2, −3, 5): Σ p g = −1/2.
    assert_gradient(lambda x: x.softmax(-1), rows, [[0, 0, 0], [1.25, -1.25, 0]], [2.0, -3.0, 5.0])


def test_a_row_of_minus_infinity_through_logsumexp_is_minus_infinity():
    """ln Σ e^x of a row that is all −∞ is −∞, and its gradient 0."""
    rows = [[-INF, -INF], [-INF, 3.0]]
    assert mg.logsumexp(leaf(rows), -1).tolist() == [-INF, 3]
    assert_gradient(lambda x: x.logsumexp(-1), rows, [[0, 0], [0, -2]], [5.0, -2.0])
    assert_gradient(lambda x: x.logsumexp((0, 1)), [[-INF, -INF]], [[0, 0]], 2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_that_sees_no_key_gets_zeros(dtype, rng):
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
def test_large_logits_neither_overflow_nor_lose_a_digit(size, dtype):
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


@pytest.mark.parametrize("weight", [None, mg.tensor([0.5, 2.0], dtype=mg.float64)], ids=["plain", "weighted"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_of_ignored_targets_is_zero(reduction, weight):
    """With every target ignored the loss is 0 (PyTorch's mean is NaN) and so is its gradient."""
    logits = leaf([[1.0, -2.0], [0.5, 3.0]])
    loss = mg.nn.functional.cross_entropy(logits, mg.tensor([-100, -100]), weight, reduction=reduction)
    (found,) = mg.autograd.grad(loss, logits, mg.tensor(-3.0))
    assert loss.item() == 0
    assert not found.numpy().any()


def test_ignored_rows_may_hold_anything():
    """What an ignored row contains does not matter: infinite logits give neither loss nor gradient."""
    logits = leaf([[1.0, 1.0], [-INF, 2.0]])
    for create_graph in (False, True):
        loss = registry["cross_entropy"](logits, mg.tensor([0, -100]))
        (found,) = mg.autograd.grad(loss, logits, mg.tensor(2.0), create_graph=create_graph)
        np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-15)
        np.testing.assert_allclose(found.detach().numpy(), [[-1, 1], [0, 0]], rtol=1e-15)
    spoiled = leaf([[1.0, 1.0], [INF, math.nan]])
    loss = registry["cross_entropy"](spoiled, mg.tensor([0, -100]))
    np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-15)
    (found,) = mg.autograd.grad(loss, spoiled, mg.tensor(2.0))
    np.testing.assert_allclose(found.numpy(), [[-1, 1], [0, 0]], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.1, -7.3, 1e6 / 3, 0.0])
def test_layer_norm_of_a_constant_row_is_beta(value, dtype):
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
    x = leaf([0.0])
    (found,) = mg.autograd.grad(x.sqrt() ** 2, x, mg.tensor([2.0]))
    assert math.isnan(found.item())


def test_where_does_not_stop_a_nan_and_how_to_stop_it():
    """``where(x < 1, cos x, 0)`` at ∞: the branch not taken receives 0 · −sin ∞ = NaN; a safe branch does not."""
    x = leaf([0.0, INF])
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


def test_softplus_is_exact_at_both_ends():
    x = mg.tensor([-800.0, -40.0, 0.0, 40.0, 800.0], dtype=mg.float64, requires_grad=True)
    y = mg.nn.functional.softplus(x)
    assert y.tolist() == pytest.approx([0, math.exp(-40), math.log(2), 40, 800], rel=1e-14)
    y.backward(mg.full_like(x, -3))
    assert x.grad.tolist() == pytest.approx([0, -3 * math.exp(-40), -1.5, -3, -3], rel=1e-14)
