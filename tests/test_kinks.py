"""Derivatives where there is none, or more than one: at kinks, ties, 0/0 and 0⁰.

At a kink a function has no derivative, and any number between those of the two sides is a subgradient; an engine
has to choose one, say so, and keep to it.  ``test_conventions.py`` runs the choices that the documentation lists.
Here is what follows from them: in other spellings, beside ordinary rows, where the cotangent is infinite, and at
second order.  All gradients are taken with cotangents other than 1: a convention must scale.
"""

import math

import numpy as np
import pytest
from oracles import assert_gradient
from tensors import leaf

import minigrad as mg

INF = math.inf


KINKS = {
    # relu, in other ways to write it
    "clamp(0, min=0)": (lambda x: x.clamp(min=0), [0.0], [1]),  # a bound counts as inside
    "where(x > 0, x, 0) at 0": (lambda x: mg.where(x > 0, x, 0), [0.0], [0]),
    "maximum(0, 0)": (lambda x: mg.maximum(x, 0), [0.0], [0.5]),  # a tie
    # ties
    "maximum(x, x)": (lambda x: mg.maximum(x, x), [1.0, -2.0], [1, 1]),
    "minimum(x, x)": (lambda x: mg.minimum(x, x), [1.0, -2.0], [1, 1]),
    "maximum with a tie": (lambda x: mg.maximum(x, mg.tensor([2.0, 1.0, 0.0])), [1.0, 1.0, 1.0], [0, 0.5, 1]),
    "minimum with a tie": (lambda x: mg.minimum(x, mg.tensor([2.0, 1.0, 0.0])), [1.0, 1.0, 1.0], [1, 0.5, 0]),
    "min() over ties": (lambda x: x.min(), [0.0, 1.0, 0.0, 0.0], [1 / 3, 0, 1 / 3, 1 / 3]),
    "min(dim) over ties": (lambda x: x.min(0)[0], [1.0, 0.0, 0.0], [0, 1, 0]),
    # roots and norms at 0
    "norm of 0, squared": (lambda x: x.norm() ** 2, [0.0, 0.0], [0, 0]),
    "norm of one zero row": (lambda x: x.norm(dim=1), [[0.0, 0.0], [3.0, 4.0]], [[0, 0], [0.6, 0.8]]),
    "norm of 0, p = 1": (lambda x: x.norm(1), [0.0, 0.0], [0, 0]),
    "norm of 0, p = 3": (lambda x: x.norm(3), [0.0, 0.0], [0, 0]),
    "norm of 0, p = 1.5": (lambda x: x.norm(1.5), [0.0, 0.0], [0, 0]),
    "norm of 0, p = ∞": (lambda x: x.norm(INF), [0.0, 0.0], [0, 0]),
    "norm of 0, Frobenius": (lambda x: x.norm("fro"), [[0.0, 0.0]], [[0, 0]]),
    "std of a constant row": (lambda x: x.std(1), [[5.0, 5.0], [0.0, 2.0]], [[0, 0], [-(2**-0.5), 2**-0.5]]),
    "std of a constant, squared": (lambda x: x.std() ** 2, [2.0, 2.0], [0, 0]),
    # powers
    "x**0. at 0": (lambda x: x**0.0, [0.0, -2.0], [0, 0]),
    "x**0 at 0, an array exponent": (lambda x: x ** np.zeros(2), [0.0, -2.0], [0, 0]),
    "x**1 at 0": (lambda x: x**1, [0.0], [1]),
    "x**1 at 0, an array exponent": (lambda x: x ** np.ones(1), [0.0], [1]),
    # a factor without others, and what only moves elements
    "prod of one zero": (lambda x: x.prod(), [0.0], [1]),
    "sort": (lambda x: x.sort().values, [3.0, 1.0, 2.0], [5, 2, -3], [2, -3, 5]),
    "sort of columns": (lambda x: x.sort(0)[0], [[2.0, 0.0], [1.0, 3.0]], [[3, 2], [1, 4]], [[1, 2], [3, 4]]),
    "topk of ties": (lambda x: x.topk(2).values, [1.0, 5.0, 5.0], [0, 2, -3], [2, -3]),
}


@pytest.mark.parametrize("name", KINKS)
def test_each_kink_has_the_gradient_of_its_row(name):
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
    start = leaf(x)
    (recorded,) = mg.autograd.grad(function(start).sum(), start, create_graph=True)
    assert recorded.tolist() == expected


@pytest.mark.parametrize("x", [2.0, 0.5, 1e-30, 1e200, 2.0**-511])
def test_the_hessian_of_a_power_is_symmetric_where_the_exponent_is_0(x):
    """∂²xʸ/∂x∂y = xʸ⁻¹ (1 + y ln x), which is 1/x at y = 0, though y xʸ⁻¹, the derivative in x, is 0 there.

    In PyTorch the derivative in y of that 0 is 0 as well.
    """
    base, exponent = leaf([x]), leaf([0.0])
    first, second = mg.autograd.grad((base**exponent).sum(), [base, exponent], create_graph=True)
    assert first.item() == 0
    assert mg.autograd.grad(first, exponent, retain_graph=True)[0].item() == pytest.approx(1 / x, rel=1e-14)
    assert mg.autograd.grad(second, base, retain_graph=True)[0].item() == pytest.approx(1 / x, rel=1e-14)
    assert mg.autograd.grad(first, base, allow_unused=True)[0].item() == 0


@pytest.mark.parametrize("x", [0.0, -0.0, 5e-324, math.nan])
def test_a_power_of_exponent_0_is_flat_everywhere(x):
    """x⁰ = 1 for every x, NaN included: the derivative in x is 0, and never 0 · ∞."""
    base, exponent = leaf([x]), leaf([0.0])
    y = base**exponent
    (first,) = mg.autograd.grad(y, base, mg.tensor([-3.0]), create_graph=True)
    assert (y.item(), first.item()) == (1, 0)
    assert [g.item() for g in mg.autograd.grad(first, [base, exponent])] == [0, 0]


def test_the_power_0_of_a_number_is_flat_and_stays_in_the_graph():
    """x ** 0, the exponent a number: the gradient is 0, and so is its derivative in the cotangent."""
    base, cotangent = leaf([0.0, 2.0]), leaf([1.0, -3.0])
    (first,) = mg.autograd.grad(base**0, base, cotangent, create_graph=True)
    assert first.tolist() == [0, 0]
    assert mg.autograd.grad(first, cotangent, mg.tensor([5.0, -7.0]))[0].tolist() == [0, 0]


@pytest.mark.parametrize("x", [1e-160, 1e-200, -1e-200, -2.0])
def test_a_power_of_exponent_0_has_no_curvature_even_where_that_of_others_is_infinite(x):
    """d²xʸ/dx² = y (y − 1) xʸ⁻² is 0 at y = 0, and not 0 · ∞ where x⁻² is more than a float holds."""
    base = leaf([x])
    (first,) = mg.autograd.grad(base ** leaf([0.0]), base, create_graph=True)
    assert mg.autograd.grad(first, base)[0].item() == first.item() == 0


def test_powers_of_enormous_whole_numbers():
    """A Python int of any size is an exponent; d/dx 1ⁿ is n, and d/dx xⁿ beyond all floats is ∞."""
    assert_gradient(lambda x: x ** (10**30), [1.0, 1.5, 0.5], [1e30, INF, 0])


# --- clamp and powers, in all their arguments -------------------------------------------------------


def gradient_of(function, *arrays):
    """Return the gradients of function(*arrays) as lists: with cotangent −2, over −2, which rounds nothing."""
    inputs = [leaf(a) for a in arrays]
    out = function(*inputs)
    return [(g / -2).tolist() for g in mg.autograd.grad(out, inputs, mg.full_like(out, -2))]


def second_derivatives(function, *arrays):
    """Return ∂²/∂xᵢ∂xⱼ of ``function`` for all pairs of scalar inputs; None where there is no path."""
    inputs = [leaf(a) for a in arrays]
    first = mg.autograd.grad(function(*inputs), inputs, create_graph=True)
    rows = [mg.autograd.grad(f, inputs, retain_graph=True, allow_unused=True) for f in first if f.requires_grad]
    return [[None if g is None else g.item() for g in row] for row in rows]


@pytest.mark.parametrize(
    ("x", "low", "high", "expected"),
    [
        (1.0, 1.0, 2.0, [1, 0, 0]),  # at a bound: x's, as inside
        (2.0, 1.0, 2.0, [1, 0, 0]),
        (0.0, 1.0, 1.0, [0, 1, 0]),  # outside equal bounds: that of the side
        (3.0, 1.0, 1.0, [0, 0, 1]),
        (0.0, 2.0, 1.0, [0, 0, 1]),  # bounds in the wrong order: the result is the upper one, as in PyTorch
        (1.5, 2.0, 1.0, [0, 0, 1]),
    ],
)
def test_clamp_shares_its_gradient_with_its_bounds(x, low, high, expected):
    assert mg.tensor(x).clamp(mg.tensor(low), mg.tensor(high)).item() == np.dot(expected, [x, low, high])
    assert gradient_of(lambda x, low, high: x.clamp(low, high), x, low, high) == expected


def test_clamp_with_one_bound():
    x = [0.0, 1.0, 2.0]
    assert gradient_of(lambda x, high: x.clamp(max=high), x, 1.0) == [[1, 1, 0], 1]
    assert gradient_of(lambda x, low: x.clamp(min=low), x, 1.0) == [[0, 1, 1], 1]


def test_what_was_replaced_has_no_gradient():
    x = [np.nan, np.inf, -np.inf, 2.0]
    assert gradient_of(lambda x: x.nan_to_num(0.0, 1.0, -1.0), x) == [[0, 0, 0, 1]]


def test_powers_with_arrays_of_exponents():
    """Also −1, next to the 0 that the rule treats apart; and ∞⁰, whose derivative is 0 and not 0 · ∞."""
    exponents = np.array([-1.0, 0.0, 1.0, 2.0])
    assert gradient_of(lambda x: x**exponents, [2.0] * 4) == [[-0.25, 0, 1, 4]]
    assert gradient_of(lambda x: x ** np.zeros(1), [np.inf]) == [[0]]


def test_second_derivatives_of_powers_of_zero():
    """x⁰ is 1 everywhere, and 0ʸ is 0 for all y > 0: flat in that direction at every order."""
    (row,) = second_derivatives(lambda x: x ** np.zeros(1), [0.0])
    assert row == [0]
    (row,) = second_derivatives(lambda y: mg.tensor([0.0]).double() ** y, [2.0])
    assert row == [0]


@pytest.mark.parametrize(
    "base", [0.9, np.float64(0.9), mg.tensor(0.9, dtype=mg.float64), np.array([0.9])], ids=type
)
def test_a_constant_base_has_all_its_digits(base):
    """Also on the way to a second derivative, and whatever the default dtype is: d²/dy² xʸ = xʸ ln² x."""
    y = leaf([0.5])
    (first,) = mg.autograd.grad(base**y, y, create_graph=True)
    (second,) = mg.autograd.grad(first, y)
    np.testing.assert_allclose(first.detach().numpy(), 0.9**0.5 * np.log(0.9), rtol=1e-15)
    np.testing.assert_allclose(second.numpy(), 0.9**0.5 * np.log(0.9) ** 2, rtol=1e-15)


def test_a_negative_power_of_zero_falls_without_bound():
    """0ʸ is ∞ for y < 0 and 0 for y > 0, and its derivative in y below 0 is −∞."""
    assert gradient_of(lambda y: mg.tensor([0.0]).double() ** y, [-0.5]) == [[-np.inf]]
    assert gradient_of(lambda y: mg.tensor([0.0]).double() ** y, [0.0, 2.0]) == [[0, 0]]
    assert gradient_of(lambda y: 0.0**y, [-0.5, 0.0, 2.0]) == [[-np.inf, 0, 0]]
    np.testing.assert_array_equal(gradient_of(lambda y: (-2.0) ** y, [2.0]), [[np.nan]])


def test_the_angle_at_the_origin_and_on_the_axes():
    """atan2 has gradient 0 at (0, 0), and so have its derivatives; (0, 1) and (1, 0) lie at distance 1 from it.

    No infinity is met on the way there, which anomaly mode would report.
    """
    assert gradient_of(mg.atan2, [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]) == [[0, 1, 0], [0, 0, -1]]
    with mg.autograd.detect_anomaly():
        for row in second_derivatives(mg.atan2, 0.0, 0.0):
            assert row == [0, 0]


# --- reductions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", [1, 2])
def test_the_variance_of_too_few_elements_is_undefined(correction):
    """0 / max(0, n − correction): NaN, and so is the gradient."""
    x = leaf([3.0])
    variance = x.var(correction=correction)
    assert np.isnan(variance.item())
    variance.backward()
    assert np.isnan(x.grad.item())


def second_derivative_along(function, x, direction):
    """Return ∂/∂x ⟨∇ Σ function, direction⟩."""
    x, direction = leaf(x), mg.tensor(direction).double()
    (first,) = mg.autograd.grad(function(x).sum(), x, create_graph=True)
    return mg.autograd.grad(first, x, direction)[0].tolist()


@pytest.mark.parametrize(
    "function",
    [lambda x: x.norm(dim=-1), lambda x: x.std(-1), lambda x: x.logsumexp(-1)],
    ids=["norm of 0", "std of a constant", "logsumexp of −∞"],
)
def test_where_the_gradient_is_0_by_convention_so_is_its_derivative(function, request):
    """Beside an ordinary row, whose second derivative is no different for it."""
    row = [-np.inf, -np.inf] if "logsumexp" in request.node.name else [0.0, 0.0]
    alone = second_derivative_along(function, [[1.0, 3.0]], [[1.0, -2.0]])
    assert np.any(alone)
    both = second_derivative_along(function, [[1.0, 3.0], row], [[1.0, -2.0], [1.0, -2.0]])
    assert both == [alone[0], [0, 0]]


@pytest.mark.parametrize("function", [lambda x: x.std(), lambda x: x.norm()], ids=["std", "norm"])
def test_where_std_and_norm_are_0_their_gradient_can_itself_be_differentiated(function):
    """The gradient there is 0 whatever the cotangent c, so its derivative in c is 0 too: not 0/0."""
    x, c = leaf([0.0, 0.0, 0.0]), leaf(2.0)
    (gradient,) = mg.autograd.grad(function(x), x, c, create_graph=True)
    weights = mg.tensor([1.0, -3.0, 2.0], dtype=mg.float64)
    in_x, in_c = mg.autograd.grad(gradient, [x, c], weights, allow_unused=True)
    for found in (in_x, in_c):
        assert found is None or np.isfinite(found.numpy()).all()
        assert found is None or not found.numpy().any()


def test_a_norm_and_a_deviation_of_exactly_1():
    assert gradient_of(lambda x: x.norm(), [1.0, 0.0]) == [[1, 0]]
    np.testing.assert_allclose(gradient_of(lambda x: x.std(), [1.0, 2.0, 3.0]), [[-0.5, 0, 0.5]], rtol=1e-15)


def test_no_element_is_the_largest_where_one_is_nan():
    """Nor has the gradient of that row a derivative: nothing is divided by the number of largest elements, 0."""
    assert gradient_of(lambda x: x.amax(), [np.nan, 1.0]) == [[0, 0]]
    x, g = leaf([[np.nan, 1.0], [2.0, 1.0]]), leaf([3.0, 5.0])
    (first,) = mg.autograd.grad(x.amax(1), x, g, create_graph=True)
    assert first.tolist() == [[0, 0], [5, 0]]
    assert mg.autograd.grad(first, g, mg.tensor([[2.0, 3.0], [-4.0, 5.0]]).double())[0].tolist() == [0, -4]


def test_the_product_over_no_dimension():
    assert gradient_of(lambda x: x.prod(()), [[2.0, 3.0], [4.0, 5.0]]) == [[[1, 1], [1, 1]]]
