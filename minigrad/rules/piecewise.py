"""Elementwise operations with kinks, and choices: what their gradient is at a kink, a tie, a bound.

Declared as those in :mod:`minigrad.rules.elementwise`, of which they are a part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.graph import Array, TensorBase
from minigrad.op import op


def masked(g: Array, mask: Any) -> Array:
    """Return g where ``mask`` is true and 0 elsewhere, also in the place of an infinite g.

    That is g · mask, which is ten times faster than ``where``; but ∞ · 0 is NaN, so that a gradient that is not
    all finite takes the slow way.  √ relu(x) has one: its root hands ∞ back where x ≤ 0.
    """
    product = g * mask
    if isinstance(product, np.ndarray) and np.isfinite(np.add.reduce(product, axis=None)):
        return product
    return np.where(mask, g, 0)


def zero_gradient(g: Array) -> Array:
    """Return 0 for every element of g, also for an infinite one: what a function that is flat hands back."""
    return masked(g, False)


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


def where(condition: Array, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` is true, else ``other``, elementwise with broadcasting.

    A trap worth knowing: ``where(x > 0, sqrt(x), 0)`` has a NaN gradient at x = 0, because 0 · inf reaches x
    through the branch not taken.  Make the branch itself safe: ``sqrt(where(x > 0, x, 1))``.

    With the condition alone: the indices of its true elements, a tuple with one tensor for each dimension.
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return _where(condition, input, other)
