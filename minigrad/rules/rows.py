"""An elementwise operation in one row: a NumPy function, what it computes, and a rule for each operand.

    class Trigonometry(TensorBase):
        sin = real(np.sin, "Sine of x in radians", x=lambda g, x: g * np.cos(x))

The class body gives the operation its name (:meth:`minigrad.op.Op.__set_name__`) and makes it a method.  The
NumPy function then accepts Tensors.  An operation that needs more than that is written as a function under
:func:`minigrad.op.op`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import Op, quietly
from minigrad.plan import Rule


def unary(
    function: Callable[[Array], Array],
    meaning: str,
    *,
    x: Rule | None = None,
    promote: str | None = None,
    quiet: bool = False,
) -> Op[[Any]]:
    """Declare an operation on one operand.

    Args:
        function: NumPy's, or one made of NumPy's.
        meaning: what it computes of x.
        x: the rule; without one nothing is recorded.
        promote: "float" where integers become floats.
        quiet: whether NumPy is kept from warning of infinities and NaN.
    """

    def forward(x: Array) -> Array:
        return function(x)

    forward.__name__ = ""  # so that the row gives it its own: Op.__set_name__
    forward.__doc__ = f"{meaning}, elementwise{'' if x else '; no gradient'}."
    rules = {} if x is None else {"x": x}
    return Op(quietly(forward) if quiet else forward, rules, numpy=named_by(function), promote=promote)


real = functools.partial(unary, promote="float", quiet=True)
"""Declare a function of real numbers, which has poles, or overflows, or is not defined everywhere."""


def binary(
    function: Callable[[Array, Array], Array],
    meaning: str,
    *,
    x: Rule | None = None,
    y: Rule | None = None,
    promote: str = "common",
    quiet: bool = False,
) -> Op[[Any, Any]]:
    """Declare an operation on two operands, which broadcast; the arguments are as those of :func:`unary`.

    Raises:
        ValueError: one operand has a rule and the other none.
    """
    if (x is None) != (y is None):
        raise ValueError(f"{meaning!r} needs a rule for each of its operands, or for none; else declare it by @op")
    rules = {} if x is None or y is None else {"x": x, "y": y}

    def forward(x: Array, y: Array) -> Array:
        return function(x, y)

    forward.__name__ = ""
    forward.__doc__ = f"{meaning}, elementwise with broadcasting{'' if rules else '; no gradient'}."
    return Op(quietly(forward) if quiet else forward, rules, numpy=named_by(function), promote=promote)


def named_by(function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return the NumPy function that is to accept Tensors: the one given, if it is NumPy's own."""
    return (function,) if isinstance(function, np.ufunc) else ()
