"""Elementwise operations and their rules: each declaration is a row of the rule table, and a method of Tensor.

``g`` is the gradient of the final result with respect to the output, ``out`` the output, ``x`` and ``y`` the
operands.  Operands broadcast as in NumPy; the engine sums each gradient back to its operand's shape.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad import special
from minigrad.graph import Array, TensorBase
from minigrad.op import op, quietly
from minigrad.rules.comparison import Comparisons
from minigrad.rules.piecewise import Piecewise, masked, zero_gradient
from minigrad.rules.rows import binary, real, unary

# --- arithmetic -------------------------------------------------------------------------------------


def pow_gradient_of_x(g: Array, x: Array, y: Array) -> Array:
    """d/dx xʸ = y xʸ⁻¹, and 0 where y = 0, also at x = 0."""
    if isinstance(y, int | float):
        return g * (y * x ** (y - 1)) if y != 0 else zero_gradient(g)
    # At y = 0 the formula gives 0 by itself, and the right derivatives, unless x⁻² is infinite or NaN.
    flat = np.logical_and(y == 0, np.logical_not(x * x >= np.finfo(x.dtype).tiny))
    return g * np.where(flat, 0, y * np.where(flat, 1, x) ** (y - 1))


def pow_gradient_of_y(g: Array, x: Array, y: Array, out: Array) -> Array:
    """d/dy xʸ = xʸ ln x; at x = 0 it is 0 where y ≥ 0, and −∞ where y < 0."""
    log_x: Array
    if isinstance(x, int | float):  # in the dtype of the other factors, as any number
        log_x = math.log(x) if x > 0 else 0.0 if x == 0 else math.nan
    else:
        log_x = np.log(np.where(x == 0, 1, x))
    return g * np.where(np.logical_and(x == 0, y < 0), -math.inf, out * log_x)


def _check_divisor(y: Array) -> None:
    """Raise for a division of integers by 0, which has no value to stand for it.

    Raises:
        RuntimeError: that (the engine makes it one).
    """
    y = np.asarray(y)
    if y.dtype.kind in "biu" and not y.all():
        raise ValueError("integers can't be divided by 0")


class Arithmetic(TensorBase):
    """Sums, products, powers."""

    __slots__ = ()

    add = binary(np.add, "x + y", x=lambda g: g, y=lambda g: g)
    sub = subtract = binary(np.subtract, "x − y", x=lambda g: g, y=lambda g: -g)
    mul = multiply = binary(np.multiply, "x · y", x=lambda g, y: g * y, y=lambda g, x: g * x)
    div = binary(
        np.divide,
        "x / y (integers become floats of the default dtype)",
        promote="float",
        quiet=True,
        x=lambda g, y: g / y,
        y=lambda g, y, out: -g * out / y,
    )
    neg = negative = unary(np.negative, "−x", x=lambda g: -g)
    reciprocal = real(np.reciprocal, "1 / x", x=lambda g, out: -g * out * out)

    @op(numpy=np.square, x=lambda g, x: g * (2 * x))
    @quietly
    def square(x: Array) -> Array:
        """x², elementwise; of booleans in int64."""
        return np.square(x) if x.dtype != np.bool_ else x.astype(np.int64)

    @op(numpy=(np.power, np.float_power), promote="common", x=pow_gradient_of_x, y=pow_gradient_of_y)
    @quietly
    def pow(x: Array, y: Array) -> Array:
        """xʸ, elementwise with broadcasting.

        The derivative in x is 0 where y = 0; a constant y never needs ln x, so negative bases are fine.
        """
        if np.asarray(x).dtype == np.asarray(y).dtype == np.bool_:
            return np.greater_equal(x, y)  # only False to the power of True is False
        return x**y

    @op(numpy=np.floor_divide, promote="common")
    @quietly
    def floor_divide(x: Array, y: Array) -> Array:
        """x / y rounded down, elementwise with broadcasting; no gradient.

        Raises:
            RuntimeError: integers are divided by 0.
        """
        if np.asarray(x).dtype.kind != "f":
            _check_divisor(y)
        return np.floor_divide(x, y)

    @op(numpy=np.remainder, promote="common", x=lambda g: g, y=lambda g, x, y: -g * np.floor(x / y))
    @quietly
    def remainder(x: Array, y: Array) -> Array:
        """x − y ⌊x / y⌋, elementwise: the remainder with the sign of y, as Python's ``%``.

        Raises:
            RuntimeError: integers are divided by 0.
        """
        if np.asarray(x).dtype.kind != "f":
            _check_divisor(y)
        return np.remainder(x, y)


# --- exponentials, logarithms, roots ----------------------------------------------------------------


class Exponentials(TensorBase):
    """Exponentials, logarithms and roots."""

    __slots__ = ()

    exp = real(np.exp, "eˣ", x=lambda g, out: g * out)
    exp2 = real(np.exp2, "2ˣ", x=lambda g, out: g * out * math.log(2))
    expm1 = real(np.expm1, "eˣ − 1 (exact for small x)", x=lambda g, out: g * (out + 1))
    log = real(np.log, "Natural logarithm (−inf at 0, NaN below)", x=lambda g, x: g / x)
    log2 = real(np.log2, "Logarithm to base 2", x=lambda g, x: g / (x * math.log(2)))
    log10 = real(np.log10, "Logarithm to base 10", x=lambda g, x: g / (x * math.log(10)))
    log1p = real(np.log1p, "ln(1 + x) (exact for small x)", x=lambda g, x: g / (1 + x))
    logaddexp = binary(
        np.logaddexp,
        "ln(eˣ + eʸ) without overflow",
        promote="float",
        quiet=True,
        x=lambda g, x, out: g * np.exp(x - out),
        y=lambda g, y, out: g * np.exp(y - out),
    )
    sqrt = real(np.sqrt, "√x (the derivative at 0 is inf)", x=lambda g, out: g / (2 * out))
    rsqrt = real(lambda x: 1 / np.sqrt(x), "1 / √x", x=lambda g, x, out: -0.5 * g * out / x)


# --- trigonometric and hyperbolic -------------------------------------------------------------------


def _over_squared_distance(x: Array, y: Array) -> Array:
    """Return 1 / (x² + y²), and 0 at the origin."""
    squared = x * x + y * y
    return np.where(squared == 0, 0, 1 / np.where(squared == 0, 1, squared))


class Trigonometry(TensorBase):
    """Trigonometric and hyperbolic functions, of angles in radians."""

    __slots__ = ()

    sin = real(np.sin, "Sine of x in radians", x=lambda g, x: g * np.cos(x))
    cos = real(np.cos, "Cosine of x in radians", x=lambda g, x: -g * np.sin(x))
    tan = real(np.tan, "Tangent of x in radians", x=lambda g, out: g * (1 + out * out))
    asin = arcsin = real(
        np.arcsin,
        "The angle in [−π/2, π/2] whose sine is x (NaN outside [−1, 1])",
        x=lambda g, x: g / np.sqrt(1 - x * x),
    )
    acos = arccos = real(
        np.arccos,
        "The angle in [0, π] whose cosine is x (NaN outside [−1, 1])",
        x=lambda g, x: -g / np.sqrt(1 - x * x),
    )
    atan = arctan = real(np.arctan, "The angle in (−π/2, π/2) whose tangent is x", x=lambda g, x: g / (1 + x * x))
    atan2 = arctan2 = binary(
        np.arctan2,
        "The angle in [−π, π] of the point (y, x) from the first axis (its gradient at (0, 0) is 0)",
        promote="float",
        quiet=True,
        x=lambda g, x, y: g * (y * _over_squared_distance(x, y)),
        y=lambda g, x, y: g * (-x * _over_squared_distance(x, y)),
    )
    sinh = real(np.sinh, "Hyperbolic sine", x=lambda g, x: g * np.cosh(x))
    cosh = real(np.cosh, "Hyperbolic cosine", x=lambda g, x: g * np.sinh(x))
    tanh = unary(np.tanh, "Hyperbolic tangent", promote="float", x=lambda g, out: g * (1 - out * out))


# --- activations ------------------------------------------------------------------------------------


class Activations(TensorBase):
    """What layers put between matrix products."""

    __slots__ = ()

    sigmoid = real(lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + e⁻ˣ)", x=lambda g, out: g * (out * (1 - out)))
    softplus = real(
        lambda x: np.logaddexp(x, 0),
        "ln(1 + eˣ), exact for x of any size",
        x=lambda g, x: g / (1 + np.exp(-x)),
    )
    erf = real(
        special.erf,
        "The error function 2/√π ∫₀ˣ e^(−t²) dt",
        x=lambda g, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x)),
    )

    @op(x=lambda g, out: masked(g, out > 0))
    def relu(x: Array) -> Array:
        """max(x, 0), elementwise; the derivative at 0 is 0."""
        # With two bounds NumPy clips with vector instructions, with one, or maximum(x, 0), it does not.
        return np.clip(x, 0, np.inf) if x.dtype.kind == "f" else np.maximum(x, 0)


# --- rounding ---------------------------------------------------------------------------------------


class Rounding(TensorBase):
    """Functions that are flat almost everywhere: their gradient is 0, rather than none (as in PyTorch)."""

    __slots__ = ()

    floor = unary(np.floor, "The largest integer not above x (the gradient is 0)", x=zero_gradient)
    ceil = unary(np.ceil, "The smallest integer not below x (the gradient is 0)", x=zero_gradient)

    @op(numpy=np.sign, x=zero_gradient)
    def sign(x: Array) -> Array:
        """−1, 0 or 1, elementwise; the gradient is 0."""
        return np.sign(x) if x.dtype != np.bool_ else x.copy()

    @op(numpy=(np.trunc, np.fix), x=zero_gradient)
    def trunc(x: Array) -> Array:
        """The integer next to x on the side of 0, elementwise; the gradient is 0."""
        return np.trunc(x)

    fix = trunc

    @op(numpy=(np.rint, np.round, np.around), x=zero_gradient)
    def round(x: Array, decimals: int = 0) -> Array:
        """The nearest integer (or multiple of 10^−decimals), elementwise, halves to even; the gradient is 0."""
        return np.round(x, decimals)


# --- the same numbers -------------------------------------------------------------------------------


@op(x=lambda g: g)
def contiguous(x: Array) -> Array:
    """A copy of x with its elements in row-major order in memory."""
    return np.array(x, order="C")


@op(view=True, x=lambda g: g)
def identity(x: Array) -> Array:
    """x itself under a node of its own: a place in the graph at which a walk can stop."""
    return x


@op(x=lambda g: g)  # the engine brings g to the dtype of x
def cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in another dtype."""
    return x.astype(dtype)


class Elementwise(Arithmetic, Exponentials, Trigonometry, Activations, Piecewise, Rounding, Comparisons):
    """All elementwise operations: what is declared above is a method of Tensor by that alone."""

    __slots__ = ()

    @op(numpy=np.copy, x=lambda g: g)
    def clone(x: Array) -> Array:
        """A copy of x, through which gradients flow."""
        return np.copy(x)


# --- composed ---------------------------------------------------------------------------------------


def frac(input: Any) -> Any:
    """``input`` without its integer part, elementwise, with its sign."""
    return input - Rounding.trunc(input)


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight · (end − input), elementwise with broadcasting: from ``input`` at 0 to ``end`` at 1."""
    return input + weight * (end - input)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value · tensor1 · tensor2, elementwise with broadcasting."""
    return input + value * tensor1 * tensor2


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value · tensor1 / tensor2, elementwise with broadcasting."""
    return input + value * tensor1 / tensor2
