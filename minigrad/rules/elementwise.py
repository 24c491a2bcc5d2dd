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


def masked(g: Array, mask: Any) -> Array:
    """Return g where ``mask`` is true and 0 elsewhere, also in the place of an infinite g.

    That is g · mask, which is ten times faster than ``where``; but ∞ · 0 is NaN, so that a gradient that is not
    all finite takes the slow way.  √ relu(x) has one: its root hands ∞ back where x ≤ 0.
    """
    product = g * mask
    if isinstance(product, np.ndarray) and np.isfinite(np.add.reduce(product, axis=None)):
        return product
    return np.where(mask, g, 0)


def no_gradient(g: Array) -> Array:
    """Return 0 for every element of g, also for an infinite one: what a function that is flat hands back."""
    return masked(g, False)


# --- arithmetic -------------------------------------------------------------------------------------


def pow_gradient_of_x(g: Array, x: Array, y: Array) -> Array:
    """d/dx xʸ = y xʸ⁻¹, and 0 where y = 0, also at x = 0."""
    if isinstance(y, int | float):
        return g * (y * x ** (y - 1)) if y != 0 else no_gradient(g)
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

    @op(numpy=np.add, promote="common", x=lambda g: g, y=lambda g: g)
    def add(x: Array, y: Array) -> Array:
        """x + y, elementwise with broadcasting."""
        return np.add(x, y)

    @op(numpy=np.subtract, promote="common", x=lambda g: g, y=lambda g: -g)
    def sub(x: Array, y: Array) -> Array:
        """x − y, elementwise with broadcasting."""
        return np.subtract(x, y)

    subtract = sub

    @op(numpy=np.multiply, promote="common", x=lambda g, y: g * y, y=lambda g, x: g * x)
    def mul(x: Array, y: Array) -> Array:
        """x · y, elementwise with broadcasting."""
        return np.multiply(x, y)

    multiply = mul

    @op(numpy=np.divide, promote="float", x=lambda g, y: g / y, y=lambda g, y, out: -g * out / y)
    @quietly
    def div(x: Array, y: Array) -> Array:
        """x / y, elementwise with broadcasting; integers become floats of the default dtype."""
        return np.divide(x, y)

    @op(numpy=np.negative, x=lambda g: -g)
    def neg(x: Array) -> Array:
        """−x, elementwise."""
        return np.negative(x)

    negative = neg

    @op(numpy=(np.power, np.float_power), promote="common", x=pow_gradient_of_x, y=pow_gradient_of_y)
    @quietly
    def pow(x: Array, y: Array) -> Array:
        """xʸ, elementwise with broadcasting.

        The derivative in x is 0 where y = 0; a constant y never needs ln x, so negative bases are fine.
        """
        return (
            x**y if np.asarray(x).dtype != np.bool_ or np.asarray(y).dtype != np.bool_ else np.greater_equal(x, y)
        )

    @op(numpy=np.square, x=lambda g, x: g * (2 * x))
    @quietly
    def square(x: Array) -> Array:
        """x², elementwise; of booleans in int64."""
        return np.square(x) if x.dtype != np.bool_ else x.astype(np.int64)

    @op(numpy=np.reciprocal, promote="float", x=lambda g, out: -g * out * out)
    @quietly
    def reciprocal(x: Array) -> Array:
        """1 / x, elementwise."""
        return np.reciprocal(x)

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

    @op(numpy=np.exp, promote="float", x=lambda g, out: g * out)
    @quietly
    def exp(x: Array) -> Array:
        """eˣ, elementwise."""
        return np.exp(x)

    @op(numpy=np.expm1, promote="float", x=lambda g, out: g * (out + 1))
    @quietly
    def expm1(x: Array) -> Array:
        """eˣ − 1, elementwise; exact for small x."""
        return np.expm1(x)

    @op(numpy=np.log, promote="float", x=lambda g, x: g / x)
    @quietly
    def log(x: Array) -> Array:
        """Natural logarithm, elementwise: −inf at 0, NaN below."""
        return np.log(x)

    @op(
        numpy=np.logaddexp,
        promote="float",
        x=lambda g, x, out: g * np.exp(x - out),
        y=lambda g, y, out: g * np.exp(y - out),
    )
    @quietly
    def logaddexp(x: Array, y: Array) -> Array:
        """ln(eˣ + eʸ), elementwise with broadcasting, without overflow."""
        return np.logaddexp(x, y)

    @op(numpy=np.log2, promote="float", x=lambda g, x: g / (x * math.log(2)))
    @quietly
    def log2(x: Array) -> Array:
        """Logarithm to base 2, elementwise."""
        return np.log2(x)

    @op(numpy=np.log1p, promote="float", x=lambda g, x: g / (1 + x))
    @quietly
    def log1p(x: Array) -> Array:
        """ln(1 + x), elementwise; exact for small x."""
        return np.log1p(x)

    @op(numpy=np.log10, promote="float", x=lambda g, x: g / (x * math.log(10)))
    @quietly
    def log10(x: Array) -> Array:
        """Logarithm to base 10, elementwise."""
        return np.log10(x)

    @op(numpy=np.exp2, promote="float", x=lambda g, out: g * out * math.log(2))
    @quietly
    def exp2(x: Array) -> Array:
        """2ˣ, elementwise."""
        return np.exp2(x)

    @op(numpy=np.sqrt, promote="float", x=lambda g, out: g / (2 * out))
    @quietly
    def sqrt(x: Array) -> Array:
        """√x, elementwise; the derivative at 0 is inf."""
        return np.sqrt(x)

    @op(promote="float", x=lambda g, x, out: -0.5 * g * out / x)
    @quietly
    def rsqrt(x: Array) -> Array:
        """1 / √x, elementwise."""
        return 1 / np.sqrt(x)


# --- trigonometric and hyperbolic -------------------------------------------------------------------


def _over_squared_distance(x: Array, y: Array) -> Array:
    """Return 1 / (x² + y²), and 0 at the origin."""
    squared = x * x + y * y
    return np.where(squared == 0, 0, 1 / np.where(squared == 0, 1, squared))


class Trigonometry(TensorBase):
    """Trigonometric and hyperbolic functions, of angles in radians."""

    __slots__ = ()

    @op(numpy=np.sin, promote="float", x=lambda g, x: g * np.cos(x))
    @quietly
    def sin(x: Array) -> Array:
        """Sine of x in radians, elementwise."""
        return np.sin(x)

    @op(numpy=np.cos, promote="float", x=lambda g, x: -g * np.sin(x))
    @quietly
    def cos(x: Array) -> Array:
        """Cosine of x in radians, elementwise."""
        return np.cos(x)

    @op(numpy=np.tan, promote="float", x=lambda g, out: g * (1 + out * out))
    @quietly
    def tan(x: Array) -> Array:
        """Tangent of x in radians, elementwise."""
        return np.tan(x)

    @op(numpy=(np.arcsin, np.asin), promote="float", x=lambda g, x: g / np.sqrt(1 - x * x))
    @quietly
    def asin(x: Array) -> Array:
        """The angle in [−π/2, π/2] whose sine is x, elementwise; NaN outside [−1, 1]."""
        return np.arcsin(x)

    arcsin = asin

    @op(numpy=(np.arccos, np.acos), promote="float", x=lambda g, x: -g / np.sqrt(1 - x * x))
    @quietly
    def acos(x: Array) -> Array:
        """The angle in [0, π] whose cosine is x, elementwise; NaN outside [−1, 1]."""
        return np.arccos(x)

    arccos = acos

    @op(numpy=(np.arctan, np.atan), promote="float", x=lambda g, x: g / (1 + x * x))
    @quietly
    def atan(x: Array) -> Array:
        """The angle in (−π/2, π/2) whose tangent is x, elementwise."""
        return np.arctan(x)

    arctan = atan

    @op(
        numpy=(np.arctan2, np.atan2),
        promote="float",
        x=lambda g, x, y: g * (y * _over_squared_distance(x, y)),
        y=lambda g, x, y: g * (-x * _over_squared_distance(x, y)),
    )
    @quietly
    def atan2(x: Array, y: Array) -> Array:
        """The angle of the point (y, x) from the first axis, in [−π, π]: of x / y, with the signs of both.

        The gradient at (0, 0) is 0, and so are its derivatives.
        """
        return np.arctan2(x, y)

    arctan2 = atan2

    @op(numpy=np.sinh, promote="float", x=lambda g, x: g * np.cosh(x))
    @quietly
    def sinh(x: Array) -> Array:
        """Hyperbolic sine, elementwise."""
        return np.sinh(x)

    @op(numpy=np.cosh, promote="float", x=lambda g, x: g * np.sinh(x))
    @quietly
    def cosh(x: Array) -> Array:
        """Hyperbolic cosine, elementwise."""
        return np.cosh(x)

    @op(numpy=np.tanh, promote="float", x=lambda g, out: g * (1 - out * out))
    def tanh(x: Array) -> Array:
        """Hyperbolic tangent, elementwise."""
        return np.tanh(x)


# --- activations ------------------------------------------------------------------------------------


class Activations(TensorBase):
    """What layers put between matrix products."""

    __slots__ = ()

    @op(promote="float", x=lambda g, out: g * (out * (1 - out)))
    @quietly
    def sigmoid(x: Array) -> Array:
        """1 / (1 + e⁻ˣ), elementwise."""
        return 1 / (1 + np.exp(-x))

    @op(x=lambda g, out: masked(g, out > 0))
    def relu(x: Array) -> Array:
        """max(x, 0), elementwise; the derivative at 0 is 0."""
        # With two bounds NumPy clips with vector instructions, with one, or maximum(x, 0), it does not.
        return np.clip(x, 0, np.inf) if x.dtype.kind == "f" else np.maximum(x, 0)

    @op(promote="float", x=lambda g, x: g / (1 + np.exp(-x)))
    @quietly
    def softplus(x: Array) -> Array:
        """ln(1 + eˣ), elementwise, exact for x of any size; its derivative is the sigmoid."""
        return np.logaddexp(x, 0)

    @op(promote="float", x=lambda g, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x)))
    @quietly
    def erf(x: Array) -> Array:
        """The error function 2/√π ∫₀ˣ e^(−t²) dt, elementwise."""
        return special.erf(x)


# --- piecewise --------------------------------------------------------------------------------------


def _share(g: Array, wins: Array, ties: Array) -> Array:
    """Return g where the operand wins, half of it at a tie, 0 where it loses."""
    return np.where(ties, 0.5 * g, np.where(wins, g, 0))


def _inside(x: Array, min: Array, max: Array) -> Array:
    """Return where x lies within the bounds, both included."""
    above = True if min is None else x >= min
    below = True if max is None else x <= max
    return np.logical_and(above, below)


class Piecewise(TensorBase):
    """Functions with kinks, and choices: each says what its gradient is there."""

    __slots__ = ()

    @op(numpy=(np.absolute, np.fabs), x=lambda g, x: g * np.sign(x))
    def abs(x: Array) -> Array:
        """|x|, elementwise; the derivative at 0 is 0."""
        return np.absolute(x)

    @op(
        numpy=np.maximum,
        promote="common",
        x=lambda g, x, y: _share(g, x > y, x == y),
        y=lambda g, x, y: _share(g, y > x, x == y),
    )
    def maximum(x: Array, y: Array) -> Array:
        """The larger of x and y, elementwise with broadcasting; at a tie each receives half the gradient."""
        return np.maximum(x, y)

    @op(
        numpy=np.minimum,
        promote="common",
        x=lambda g, x, y: _share(g, x < y, x == y),
        y=lambda g, x, y: _share(g, y < x, x == y),
    )
    def minimum(x: Array, y: Array) -> Array:
        """The smaller of x and y, elementwise with broadcasting; at a tie each receives half the gradient."""
        return np.minimum(x, y)

    @op(
        numpy=np.clip,
        promote="common",
        x=lambda g, x, min, max: masked(g, _inside(x, min, max)),
        min=lambda g, x, min, max: masked(g, np.logical_and(x < min, True if max is None else min <= max)),
        max=lambda g, x, min, max: masked(g, x > max if min is None else np.logical_or(x > max, min > max)),
    )
    def clamp(x: Array, min: Array = None, max: Array = None) -> Array:
        """x limited to [min, max], elementwise; a bound may be a number, a tensor, or None.

        The derivative in x is 1 inside and at a bound, 0 outside.

        Raises:
            RuntimeError: neither bound is given.
        """
        if min is None and max is None:
            raise ValueError("at least one of min and max must be given")
        if min is not None:
            x = np.maximum(x, min)
        return x if max is None else np.minimum(x, max)

    clip = clamp

    @op(
        x=lambda g, mask: np.where(mask, 0, g),
        value=lambda g, mask: np.where(mask, g, 0),
    )
    def masked_fill(x: Array, mask: Array, value: Array) -> Array:
        """x with ``value`` (a number or 0-d tensor) where the boolean ``mask`` is true, in the dtype of x; the two
        broadcast.

        Raises:
            RuntimeError: ``mask`` is not boolean, or ``value`` has a dimension or is too large for the dtype.
        """
        if mask.dtype != np.bool_:
            raise ValueError(f"the mask must be boolean, not {mask.dtype}; write mask == 0, or mask.bool()")
        if np.ndim(value):
            raise ValueError(f"the value must be a number or a 0-d tensor, not of shape {np.shape(value)}")
        try:
            return np.where(mask, np.asarray(value, x.dtype), x)
        except OverflowError:
            raise ValueError(f"{value} can't be stored as {x.dtype}") from None

    @op(x=lambda g, x: masked(g, np.isfinite(x)))
    def nan_to_num(x: Array, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
        """x with NaN replaced by ``nan``, ±∞ by ``posinf`` and ``neginf``, or by the largest numbers of its dtype.

        The gradient is 0 where something was replaced.
        """
        return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@op(
    promote="common",
    x=lambda g, condition: np.where(condition, g, 0),
    y=lambda g, condition: np.where(condition, 0, g),
)
def _where(condition: Array, x: Array, y: Array) -> Array:
    """x where ``condition`` is true, else y, elementwise with broadcasting."""
    return np.where(condition, x, y)


def where(condition: Array, x: Any = None, y: Any = None) -> Any:
    """x where ``condition`` is true, else y, elementwise with broadcasting.

    A trap worth knowing: ``where(x > 0, sqrt(x), 0)`` has a NaN gradient at x = 0, because 0 · inf reaches x
    through the branch not taken.  Make the branch itself safe: ``sqrt(where(x > 0, x, 1))``.

    With the condition alone: the indices of its true elements, a tuple with one tensor for each dimension.
    """
    if x is None and y is None:
        return condition.nonzero(as_tuple=True)
    return _where(condition, x, y)


# --- rounding ---------------------------------------------------------------------------------------


class Rounding(TensorBase):
    """Functions that are flat almost everywhere: their gradient is 0, rather than none (as in PyTorch)."""

    __slots__ = ()

    @op(numpy=np.sign, x=no_gradient)
    def sign(x: Array) -> Array:
        """−1, 0 or 1, elementwise; the gradient is 0."""
        return np.sign(x) if x.dtype != np.bool_ else x.copy()

    @op(numpy=np.floor, x=no_gradient)
    def floor(x: Array) -> Array:
        """The largest integer not above x, elementwise; the gradient is 0."""
        return np.floor(x)

    @op(numpy=np.ceil, x=no_gradient)
    def ceil(x: Array) -> Array:
        """The smallest integer not below x, elementwise; the gradient is 0."""
        return np.ceil(x)

    @op(numpy=(np.trunc, np.fix), x=no_gradient)
    def trunc(x: Array) -> Array:
        """The integer next to x on the side of 0, elementwise; the gradient is 0."""
        return np.trunc(x)

    fix = trunc

    @op(numpy=(np.rint, np.round, np.around), x=no_gradient)
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


def _cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in another dtype."""
    return x.astype(dtype)


cast = op(x=lambda g: g)(_cast)  # the engine brings g to the dtype of x


class Elementwise(Arithmetic, Exponentials, Trigonometry, Activations, Piecewise, Rounding, Comparisons):
    """All elementwise operations: what is declared above is a method of Tensor by that alone."""

    __slots__ = ()

    @op(numpy=np.copy, x=lambda g: g)
    def clone(x: Array) -> Array:
        """A copy of x, through which gradients flow."""
        return np.copy(x)


# --- composed ---------------------------------------------------------------------------------------


def frac(x: Any) -> Any:
    """x without its integer part, elementwise, with the sign of x."""
    return x - Rounding.trunc(x)


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight · (end − input), elementwise with broadcasting: from ``input`` at 0 to ``end`` at 1."""
    return input + weight * (end - input)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value · tensor1 · tensor2, elementwise with broadcasting."""
    return input + value * tensor1 * tensor2


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
    """input + value · tensor1 / tensor2, elementwise with broadcasting."""
    return input + value * tensor1 / tensor2
