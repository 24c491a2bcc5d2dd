"""Arguments as users give them, brought to one form: one or several, sizes, indices, tensors for arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.graph import TensorBase


def as_array(value: Any) -> Any:
    """Return the array of a Tensor; anything else unchanged."""
    return value._data if isinstance(value, TensorBase) else value


def as_list(value: Any) -> list[Any]:
    """Return a tuple or list as a list; anything else as the list of it alone."""
    return list(value) if isinstance(value, list | tuple) else [value]


def as_index(index: Any, copy: bool = False) -> Any:
    """Return an index with the Tensors in it, and lists with Tensors in them, as arrays.

    A rule needs the index as it was: with ``copy`` no later write to its arrays can change it.
    """
    if isinstance(index, TensorBase | np.ndarray):
        array = as_array(index)
        return array.copy() if copy else array
    if isinstance(index, tuple):
        return tuple(as_index(part, copy) for part in index)
    if isinstance(index, list):
        return np.asarray([as_array(part) for part in index]) if index else np.asarray(index, dtype=np.int64)
    return index


def sizes(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return (2, 3) for the arguments ``2, 3`` as for ``(2, 3)``.

    >>> sizes((2, 3)), sizes(((2, 3),)), sizes(([],))
    ((2, 3), (2, 3), ())

    Raises:
        TypeError: one of them is no integer.
    """
    if len(arguments) == 1 and isinstance(arguments[0], tuple | list):
        arguments = arguments[0]
    return tuple(map(operator.index, arguments))


def extent(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return :func:`sizes` of a tensor to be made.

    Raises:
        RuntimeError: a size is negative.
        TypeError: a size is no integer.
    """
    shape = sizes(arguments)
    if shape and min(shape) < 0:
        raise RuntimeError(f"a tensor can't have a negative size: {shape}")
    return shape
