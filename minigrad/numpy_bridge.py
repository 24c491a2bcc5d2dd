"""NumPy's dispatch protocols: ``np.exp(t)``, ``np.sum(t, axis=0)`` and ``array * t`` keep the graph.

NumPy asks each argument whether it wants to answer in its place.  A Tensor does, with the operation declared for
that NumPy function (``@op(numpy=np.exp, ...)``).  A rule that runs on Tensors comes through here too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.arguments import as_array
from minigrad.graph import TensorBase
from minigrad.op import numpy_functions
from minigrad.rules import indexing, linalg, piecewise, reduce, shape
from minigrad.rules.elementwise import Elementwise


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer a NumPy ufunc, such as ``np.exp`` or the ``*`` of an array, that was given a Tensor.

    Raises:
        TypeError: the function has no operation here, or was called with ``out=`` and the like.
    """
    operation = numpy_functions.get(ufunc)
    if operation is None or method != "__call__":
        raise not_here(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
    given = {name: value for name, value in kwargs.items() if value is not None}
    if given:
        names = ", ".join(f"{name}=" for name in given)
        raise TypeError(f"np.{ufunc.__name__} of a Tensor doesn't take {names}: the result is a new Tensor")
    return operation(*inputs)


def call_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer a NumPy function, such as ``np.sum`` or ``np.where``, that was given a Tensor.

    Raises:
        TypeError: the function has no operation here.
    """
    operation = numpy_functions.get(function)
    if operation is None:
        module = getattr(function, "__module__", "numpy").replace("numpy", "np", 1)
        raise not_here(f"{module}.{getattr(function, '__name__', function)}")
    given = {name: value for name, value in kwargs.items() if name != "out" or value is not None}
    return operation(*args, **given)


def not_here(name: str) -> TypeError:
    """Return the error for a NumPy function that has no operation."""
    return TypeError(f"{name} has no derivative here; use it on tensor.detach().numpy(), or another operation")


def _answers(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function in place of NumPy's, where the arguments differ from the operation's."""

    def register(answer: Callable[..., Any]) -> Callable[..., Any]:
        numpy_functions.update(dict.fromkeys(functions, answer))
        return answer

    return register


# These take their arguments as NumPy's do.
numpy_functions.update({np.where: piecewise.where, np.hstack: shape.hstack, np.vstack: shape.vstack})


def _as_tensor(value: Any) -> Any:
    """Return ``value`` as a Tensor, where one of two operands may be an array."""
    return value if isinstance(value, TensorBase) else TensorBase.result_class(np.asarray(value))


# --- which element, and in which shape ------------------------------------------------------------


@_answers(np.ravel)
def _ravel(a: Any) -> Any:
    return shape.reshape(a, (-1,))


@_answers(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Any:
    return shape.permute(a, tuple(axes) if axes is not None else tuple(reversed(range(a.ndim))))


@_answers(np.matrix_transpose)
def _matrix_transpose(x: Any) -> Any:
    return shape.transpose(x, -1, -2)


@_answers(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return shape.movedim(a, source, destination)


@_answers(np.broadcast_to)
def _broadcast_to(array: Any, to: tuple[int, ...]) -> Any:
    return shape.expand(array, to)


@_answers(np.tile)
def _tile(a: Any, reps: Any) -> Any:
    repeats = (reps,) if isinstance(reps, int) else tuple(reps)
    return shape.repeat(a, (1,) * (a.ndim - len(repeats)) + repeats)


@_answers(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    return indexing.repeat_interleave(a, repeats, axis)


@_answers(np.tril)
def _tril(m: Any, k: int = 0) -> Any:
    return shape.tril(m, k)


@_answers(np.triu)
def _triu(m: Any, k: int = 0) -> Any:
    return shape.triu(m, k)


@_answers(np.diag)
def _diag(v: Any, k: int = 0) -> Any:
    return shape.diag(v, k)


@_answers(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return shape.diagonal(a, offset, axis1, axis2)


# --- several as one, and one as several -----------------------------------------------------------


@_answers(np.concatenate, np.concat)
def _concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    return shape.cat(arrays, axis)


@_answers(np.stack)
def _stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    return shape.stack(arrays, axis)


@_answers(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        return shape.split(ary, n // indices_or_sections, axis)
    cuts = [0, *indices_or_sections, n]
    return shape.split(ary, [end - start for start, end in itertools.pairwise(cuts)], axis)


@_answers(np.meshgrid)
def _meshgrid(*xi: Any, indexing: str = "xy") -> Any:
    return shape.meshgrid(*xi, indexing=indexing)


# --- products -------------------------------------------------------------------------------------


@_answers(np.dot)
def _dot(a: Any, b: Any) -> Any:
    a, b = _as_tensor(a), _as_tensor(b)
    if not (a.ndim and b.ndim):
        return a * b
    return a @ b if b.ndim <= 2 else linalg.tensordot(a, b, ((-1,), (-2,)))


@_answers(np.outer)
def _outer(a: Any, b: Any) -> Any:
    return linalg.outer(_ravel(_as_tensor(a)), _ravel(_as_tensor(b)))


@_answers(np.kron)
def _kron(a: Any, b: Any) -> Any:
    return linalg.kron(_as_tensor(a), _as_tensor(b))


@_answers(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        axes = tuple((part,) if isinstance(part, int) else tuple(part) for part in axes)
    return linalg.tensordot(_as_tensor(a), _as_tensor(b), axes)


@_answers(np.einsum)
def _einsum(equation: str, *operands: Any, optimize: Any = None) -> Any:
    return linalg.einsum(equation, *operands)


# --- reductions and running totals ----------------------------------------------------------------


@_answers(np.var)
def _var(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return reduce.var(a, axis, ddof, keepdims)


@_answers(np.std)
def _std(a: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return reduce.std(a, axis, ddof, keepdims)


@_answers(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    several = isinstance(axis, tuple | list) or (axis is None and x.ndim > 1)
    if several and ord not in (None, "fro"):
        raise TypeError(f"np.linalg.norm of matrices with ord={ord!r} has no derivative here; ord='fro' has")
    return reduce.norm(x, 2 if ord is None else ord, axis, keepdims)


@_answers(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return reduce.sum(shape.diagonal(a, offset, axis1, axis2), -1)


@_answers(np.cumsum)
def _cumsum(a: Any, axis: int | None = None) -> Any:
    return reduce.cumsum(a.reshape(-1), 0) if axis is None else reduce.cumsum(a, axis)


@_answers(np.cumprod)
def _cumprod(a: Any, axis: int | None = None) -> Any:
    return reduce.cumprod(a.reshape(-1), 0) if axis is None else reduce.cumprod(a, axis)


# --- order, and what stands where -----------------------------------------------------------------


@_answers(np.sort)
def _sort(a: Any, axis: int | None = -1, *, kind: Any = None, stable: Any = None) -> Any:
    return indexing.sort(a.reshape(-1), 0)[0] if axis is None else indexing.sort(a, axis)[0]


@_answers(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    return indexing.take_along_dim(arr, _as_tensor(indices), axis)


@_answers(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return Elementwise.nan_to_num(x, nan, posinf, neginf)


# --- answers that are no tensors ------------------------------------------------------------------


@_answers(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


@_answers(np.ndim)
def _ndim(a: Any) -> int:
    return int(a.ndim)


@_answers(np.size)
def _size(a: Any) -> int:
    return int(a._data.size)


@_answers(np.zeros_like)
def _zeros_like(a: Any) -> Any:
    return np.zeros_like(a._data)


@_answers(np.ones_like)
def _ones_like(a: Any) -> Any:
    return np.ones_like(a._data)


@_answers(np.full_like)
def _full_like(a: Any, fill_value: Any) -> Any:
    return np.full_like(a._data, fill_value)


@_answers(np.allclose)
def _allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(np.allclose(as_array(a), as_array(b), rtol, atol, equal_nan))


@_answers(np.array_equal)
def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    return bool(np.array_equal(as_array(a1), as_array(a2), equal_nan))
