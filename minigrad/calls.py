"""The arguments of a call to an operation: put in order, brought to one dtype, and refused in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.dtypes import category, get_default_dtype, result_dtype
from minigrad.graph import TensorBase

if TYPE_CHECKING:
    from minigrad.op import Op

# Keywords by which PyTorch and NumPy know what is called otherwise here: translated in this one place.
ALIASES = {"axis": "dim", "keepdims": "keepdim", "a_min": "min", "a_max": "max", "unbiased": "correction"}
FIRST_ARGUMENT = ("input", "a", "x1", "tensors")
SECOND_ARGUMENT = ("other", "b", "x2", "exponent")

# What is never brought to a dtype by itself: Python's numbers, which are weak, and options.
PLAIN_TYPES = frozenset({float, int, bool, type(None), tuple, str})


def bind(operation: Op[...], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return all arguments in order: positional, by keyword (also PyTorch's and NumPy's), or by default.

    Raises:
        TypeError: an argument is missing, unknown or given twice.
    """
    names: Sequence[str] = operation.parameters
    tensors: tuple[Any, ...] = ()
    if operation.variadic:  # its options are given by keyword
        names, tensors, args = names[1:], tuple(args), ()
    elif len(args) > len(names):
        raise TypeError(f"{operation.name}() takes ({', '.join(names)}), but {len(args)} arguments were given")
    bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        target = name if name in names else translated(name, names)
        if target is None:
            raise TypeError(f"{operation.name}() has no argument '{name}'; it takes ({', '.join(names)})")
        if target in bound:
            raise TypeError(f"{operation.name}() got two values for argument '{target}'")
        bound[target] = value
    missing = [name for name in names if name not in bound and name not in operation.defaults]
    if missing:
        raise TypeError(f"{operation.name}() needs the argument '{missing[0]}'; it takes ({', '.join(names)})")
    return tensors + tuple(bound[name] if name in bound else operation.defaults[name] for name in names)


def translated(name: str, names: Sequence[str]) -> str | None:
    """Return which of an operation's ``names`` is meant by PyTorch's or NumPy's ``name``; None if none is."""
    target = ALIASES.get(name, name)
    if target == "dim" and "dim" not in names:
        target = "dims"
    if target in names:
        return target
    if name in FIRST_ARGUMENT and names:
        return names[0]
    return names[1] if name in SECOND_ARGUMENT and len(names) > 1 else None


def no_tensor(operation: Op[...], inputs: Sequence[Any]) -> TypeError:
    """Return the error of a call without any Tensor."""
    found = type(inputs[0]).__name__ if inputs else "no argument"
    return TypeError(f"{operation.name}() expects a Tensor, not {found}; make one with minigrad.tensor(...)")


def explained(operation: Op[...], error: Exception, values: Sequence[Any]) -> Exception:
    """Return NumPy's complaint as the error that PyTorch raises, with the operation's name in it."""
    if isinstance(error, np.exceptions.AxisError):
        return error  # an IndexError that names the dimension and the number of dimensions
    if isinstance(error, ValueError):
        return RuntimeError(f"{operation.name}: {error}")
    no_such_loop = "ufunc '" in str(error) or "numpy boolean" in str(error)
    if not no_such_loop or any(isinstance(value, str) for value in values):
        return error
    kinds = " and ".join(str(value.dtype) for value in values if isinstance(value, np.ndarray))
    return RuntimeError(f"{operation.name} is not defined for {kinds}")


def promote(operation: Op[...], inputs: Sequence[Any], values: list[Any]) -> None:
    """Bring the operands to their common dtype, in place in ``values``.

    NumPy scalars and 0-d arrays that are no Tensors count as Python scalars: they never widen a float32.
    """
    operands = operation.operands if not operation.variadic else range(len(inputs) - len(operation.parameters) + 1)
    for i in operands:
        if not isinstance(inputs[i], TensorBase) and type(values[i]) not in PLAIN_TYPES:
            array = np.asarray(values[i])
            values[i] = array.item() if array.ndim == 0 else array
    present = [values[i] for i in operands if values[i] is not None]
    dtype = result_dtype(present)
    if operation.promote == "float" and category(dtype) < 2:
        dtype = get_default_dtype()
    only_numbers = not any(isinstance(value, np.ndarray) for value in present)  # as in where(condition, 1.0, 0.0)
    for i in operands:
        if operation.variadic or (only_numbers and values[i] is not None):
            values[i] = np.asarray(values[i], dtype)  # also a number: einsum and stack look at its shape
        elif isinstance(values[i], np.ndarray) and values[i].dtype != dtype:
            values[i] = values[i].astype(dtype)
