"""Comparisons, logic and bits: elementwise operations that have no derivative."""

from __future__ import annotations

import numpy as np

from minigrad.graph import Array, TensorBase
from minigrad.op import op, quietly
from minigrad.rules.rows import binary, unary


class Comparisons(TensorBase):
    """Functions whose results are no real numbers: they have no rule, and nothing is recorded."""

    __slots__ = ()

    eq = binary(np.equal, "x = y")
    ne = not_equal = binary(np.not_equal, "x ≠ y")
    lt = less = binary(np.less, "x < y")
    le = less_equal = binary(np.less_equal, "x ≤ y")
    gt = greater = binary(np.greater, "x > y")
    ge = greater_equal = binary(np.greater_equal, "x ≥ y")
    logical_and = binary(np.logical_and, "x and y")
    logical_or = binary(np.logical_or, "x or y")
    logical_xor = binary(np.logical_xor, "Either x or y, not both")
    logical_not = unary(np.logical_not, "Not x")
    bitwise_and = binary(np.bitwise_and, "x & y, of integers or booleans")
    bitwise_or = binary(np.bitwise_or, "x | y, of integers or booleans")
    bitwise_xor = binary(np.bitwise_xor, "x ^ y, of integers or booleans")
    bitwise_not = unary(np.invert, "~x, of integers or booleans")
    bitwise_left_shift = binary(np.left_shift, "x · 2ʸ, of integers")
    bitwise_right_shift = binary(np.right_shift, "x / 2ʸ rounded down, of integers")
    isfinite = unary(np.isfinite, "Whether x is neither infinite nor NaN")
    isinf = unary(np.isinf, "Whether x is infinite")
    isnan = unary(np.isnan, "Whether x is NaN")

    @op(numpy=np.isclose, promote="common")
    @quietly
    def isclose(x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
        """Whether |x − y| ≤ atol + rtol · |y|, elementwise with broadcasting; no gradient."""
        return np.isclose(x, y, rtol, atol, equal_nan)
