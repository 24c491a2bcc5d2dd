"""Comparisons, logic and bits: elementwise operations that have no derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.graph import Array, TensorBase
from minigrad.op import Op, op, quietly


def _one(function: Callable[[Array], Array], name: str, meaning: str) -> Op[[Any]]:
    """Declare an operation without gradient of one operand."""

    def forward(x: Array) -> Array:
        return function(x)

    forward.__name__ = forward.__qualname__ = name
    forward.__doc__ = f"{meaning}, elementwise; no gradient."
    return Op(forward, {}, numpy=(function,))


def _two(function: Callable[[Array, Array], Array], name: str, meaning: str) -> Op[[Any, Any]]:
    """Declare an operation without gradient of two operands, which broadcast."""

    def forward(x: Array, y: Array) -> Array:
        return function(x, y)

    forward.__name__ = forward.__qualname__ = name
    forward.__doc__ = f"{meaning}, elementwise with broadcasting; no gradient."
    return Op(forward, {}, numpy=(function,), promote="common")


class Comparisons(TensorBase):
    """Functions whose results are no real numbers: they have no rule, and nothing is recorded."""

    __slots__ = ()

    eq = _two(np.equal, "eq", "x = y")
    ne = not_equal = _two(np.not_equal, "ne", "x ≠ y")
    lt = less = _two(np.less, "lt", "x < y")
    le = less_equal = _two(np.less_equal, "le", "x ≤ y")
    gt = greater = _two(np.greater, "gt", "x > y")
    ge = greater_equal = _two(np.greater_equal, "ge", "x ≥ y")
    logical_and = _two(np.logical_and, "logical_and", "x and y")
    logical_or = _two(np.logical_or, "logical_or", "x or y")
    logical_xor = _two(np.logical_xor, "logical_xor", "either x or y, not both")
    logical_not = _one(np.logical_not, "logical_not", "not x")
    bitwise_and = _two(np.bitwise_and, "bitwise_and", "x & y, of integers or booleans")
    bitwise_or = _two(np.bitwise_or, "bitwise_or", "x | y, of integers or booleans")
    bitwise_xor = _two(np.bitwise_xor, "bitwise_xor", "x ^ y, of integers or booleans")
    bitwise_not = _one(np.invert, "bitwise_not", "~x, of integers or booleans")
    bitwise_left_shift = _two(np.left_shift, "bitwise_left_shift", "x · 2ʸ, of integers")
    bitwise_right_shift = _two(np.right_shift, "bitwise_right_shift", "x / 2ʸ rounded down, of integers")
    isfinite = _one(np.isfinite, "isfinite", "Whether x is neither infinite nor NaN")
    isinf = _one(np.isinf, "isinf", "Whether x is infinite")
    isnan = _one(np.isnan, "isnan", "Whether x is NaN")

    @op(numpy=np.isclose, promote="common")
    @quietly
    def isclose(x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
        """Whether |x − y| ≤ atol + rtol · |y|, elementwise with broadcasting; no gradient."""
        return np.isclose(x, y, rtol, atol, equal_nan)
