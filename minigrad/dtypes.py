"""Dtypes under PyTorch's names, the default floating dtype, and what dtype mixed operands give."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "double",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "half",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "nan",
    "newaxis",
    "pi",
    "set_default_dtype",
    "short",
    "uint8",
    "uint16",
]

DType: TypeAlias = "np.dtype[Any]"

float16 = half = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = double = np.dtype(np.float64)
int8 = np.dtype(np.int8)
int16 = short = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = long = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
bool_ = np.dtype(np.bool_)

_default: DType = float32

inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
finfo, iinfo = np.finfo, np.iinfo
newaxis = None


def as_dtype(dtype: Any) -> DType:
    """Return ``dtype`` as NumPy's.

    Raises:
        TypeError: it is none, or one that has no place here (complex numbers, strings, objects).
    """
    chosen: DType = np.dtype(dtype)
    category(chosen)
    return chosen


def get_default_dtype() -> DType:
    """Return the dtype that Python floats become: float32 unless :func:`set_default_dtype` changed it."""
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of tensors made from Python floats, and of ``zeros``, ``randn`` and the like.

    Raises:
        TypeError: ``dtype`` is not a floating dtype.
    """
    global _default
    chosen = np.dtype(dtype)
    if chosen.kind != "f":
        raise TypeError(f"the default dtype must be a floating dtype, not {chosen}")
    _default = chosen


# The order in which kinds win over one another: booleans, then integers, then floats.
CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2}


def category(dtype: DType) -> int:
    """Return 0 for booleans, 1 for integers, 2 for floats.

    Raises:
        TypeError: the dtype has no place here (complex numbers, strings, objects).
    """
    try:
        return CATEGORY[dtype.kind]
    except KeyError:
        raise TypeError(f"dtype {dtype} is not supported: use a floating, an integer or the bool dtype") from None


def promote_dtypes(dtypes: Iterable[DType]) -> DType | None:
    """Return the common dtype, in which the width of integers never widens a float (None for no dtypes)."""
    known = list(dtypes)
    if not known:
        return None
    highest = max(category(dtype) for dtype in known)
    return np.result_type(*[dtype for dtype in known if category(dtype) == highest])


def result_dtype(operands: Iterable[Any]) -> DType:
    """Return the dtype of an elementwise operation on arrays and Python scalars, as PyTorch defines it.

    Arrays with dimensions decide; 0-d arrays and then Python scalars only count where they are of a higher
    category (float above int above bool).  So a float32 network times ``2.0`` or an int64 array is float32.
    """
    return strongest(frozenset(map(rank_and_dtype, operands)))


def rank_and_dtype(operand: Any) -> tuple[int, DType]:
    """Return an operand's dtype, and 0 for an array with dimensions, 1 for one without, 2 for a Python scalar."""
    if isinstance(operand, np.ndarray):
        return (0 if operand.ndim else 1), operand.dtype
    return 2, bool_ if isinstance(operand, bool) else int64 if isinstance(operand, int) else _default


@functools.cache
def strongest(operands: frozenset[tuple[int, DType]]) -> DType:
    """Return the dtype that wins: of the lowest rank, unless one of a higher rank is of a higher category.

    A set, so that what is kept doesn't grow with the number of operands, as of ``cat``.
    """
    result: DType | None = None
    for rank in range(3):
        candidate = promote_dtypes(dtype for its_rank, dtype in operands if its_rank == rank)
        if result is None or (candidate is not None and category(candidate) > category(result)):
            result = candidate
    assert result is not None, "at least one operand"
    return result
