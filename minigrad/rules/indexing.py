"""Selecting elements, and its rule: add each gradient up where its element came from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array, TensorBase
from minigrad.op import op, registry
from minigrad.rules.piecewise import masked
from minigrad.rules.reduce import normalize_dims

# Of rules/shape.py, which imports this file, operations are looked up in the registry.

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


def is_basic(index: Any) -> bool:
    """Return whether ``index`` holds only ints, slices, ``...`` and None, so that it names each element once."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None
        or part is Ellipsis
        or (isinstance(part, int | slice | np.integer) and not isinstance(part, bool))
        for part in parts
    )


@op(internal=True, g=lambda gg, index: gg[index])
def place(g: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Zeros of ``shape`` with ``g`` added at ``index``; where an index repeats, its values add up."""
    result = np.zeros(shape, g.dtype)
    if is_basic(index):
        result[index] = g
    elif isinstance(index, np.ndarray) and index.dtype.kind in "iu" and result.size:
        # Rows of a table: adding element by element at flat positions is several times faster than by rows.
        width = result[0].size
        flat = index.reshape(-1, 1).astype(np.intp) * width + np.arange(width)  # negative ones from the end
        np.add.at(result.reshape(-1), flat.reshape(-1), np.reshape(g, -1))
    else:
        np.add.at(result, index, g)
    return result


def _elsewhere(g: Array, at: Any) -> Array:
    """Return g with zeros at the flat positions ``at``: what was overwritten has no influence any more."""
    mask = np.full(math.prod(g.shape), True)
    mask[at] = False
    return masked(g, mask.reshape(g.shape))


def _still_there(g: Array, at: Any) -> Array:
    """Return g at the flat positions ``at``, and 0 for a value that a later one at its position overwrote."""
    last = np.empty(math.prod(g.shape), np.intp)  # at each position, which value was the last to be written there
    order = np.arange(at.size).reshape(at.shape)
    last[at] = order
    return masked(np.reshape(g, -1)[at], last[at] == order)


@op(x=_elsewhere, value=_still_there)
def overwrite(x: Array, value: Array, at: Array) -> Array:
    """x, into whose memory ``value`` has been written at the flat positions ``at``: only the recording is new."""
    return x


@op(view=True, x=lambda g, index, x_shape: place(g, index, x_shape))
def getitem(x: Array, index: Any) -> Array:
    """x[index], with NumPy's indexing: ints, slices, ``...``, None, boolean masks and arrays of indices.

    Ints and slices give a view, masks and arrays of indices a copy.  Indices may repeat: their gradients add up.
    """
    out = x[index]
    if not isinstance(out, np.ndarray):  # a single element: NumPy copies it, the trailing ... makes a view
        out = x[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return out


def along(shape: tuple[int, ...], dim: int, index: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return the full index for picking ``index`` along ``dim`` and every other dimension in place.

    Raises:
        RuntimeError: ``index`` holds no integers, has another number of dimensions, or one that is out of range.
        IndexError: there is no such dimension.
    """
    if not -max(len(shape), 1) <= dim < max(len(shape), 1):
        raise np.exceptions.AxisError(dim, len(shape))
    if index.dtype.kind not in "iu":
        raise RuntimeError(f"an index holds integers, not {index.dtype}: use index.long()")
    if index.ndim != len(shape) and not (index.size == 1 and max(index.ndim, len(shape)) == 1):
        raise RuntimeError(f"an index of {index.ndim} dimensions doesn't fit a tensor of {len(shape)} dimensions")
    n = shape[dim] if shape else 1
    if index.size and not (index.min() >= 0 and index.max() < n):
        raise RuntimeError(f"index {index.min() if index.min() < 0 else index.max()} is out of range for size {n}")
    if not shape:
        return () if not index.ndim else (None,)
    if not index.ndim:
        return (index,)
    if any(k > m for d, (k, m) in enumerate(zip(index.shape, shape, strict=True)) if d != dim % len(shape)):
        raise RuntimeError(
            f"an index of shape {index.shape} is too large for shape {shape} beside dimension {dim}"
        )
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


def one_dim(dim: int, ndim: int) -> int:
    """Return one dimension counted from the front (0 for a 0-d tensor).

    Raises:
        IndexError: there is no such dimension.
    """
    return (*normalize_dims(dim, ndim), 0)[0]


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Pick elements along ``dim``: for dim 0 of three, result[i, j, k] = input[index[i, j, k], j, k].

    Raises:
        RuntimeError: ``index`` has another number of dimensions than ``input``, or one that is out of range.
    """
    return getitem(input, along(input.shape, dim, np.array(index.detach())))


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of ``input`` along ``dim`` at the positions in the vector ``index``, in its order.

    Raises:
        RuntimeError: the indices are no integers.
        IndexError: one is out of range, or ``index`` is no vector.
    """
    rows = np.array(index.detach())
    if rows.dtype.kind not in "iu":
        raise RuntimeError(f"index_select() takes integers, not {rows.dtype}: use index.long()")
    if rows.ndim > 1:
        raise IndexError(f"index_select() takes a vector of indices, not shape {rows.shape}")
    if not input.ndim:
        return getitem(registry["reshape"](input, (1,)), rows.reshape(())[()])
    return getitem(input, (slice(None),) * one_dim(dim, input.ndim) + (rows.reshape(-1),))


def elements_for(src: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Return the part of ``src`` that has one element for each index in ``rows``.

    Raises:
        RuntimeError: there are not so many.
    """
    if src.shape == rows.shape:
        return src
    if len(src.shape) != rows.ndim or any(n > m for n, m in zip(rows.shape, src.shape, strict=True)):
        raise RuntimeError(f"an index of shape {rows.shape} needs a source at least as large, not {src.shape}")
    return getitem(src, tuple(slice(n) for n in rows.shape))


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``input`` with ``src`` added along ``dim``: for dim 0 of two, result[index[i, j], j] += src[i, j].

    Raises:
        RuntimeError: an index is out of range, or ``src`` has no element for it, or another number of dimensions.
    """
    rows = np.array(index.detach())
    part = elements_for(src, rows)
    return input + place(part, along(input.shape, dim, rows), input.shape)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """:func:`gather` with other dimensions broadcast; without ``dim``, from the flattened tensor.

    Raises:
        IndexError: there is no such dimension.
        RuntimeError: the indices have another number of dimensions.
    """
    if dim is None:
        return getitem(registry["reshape"](input, (-1,)), np.array(indices.detach()).reshape(-1))
    rows = np.array(indices.detach())
    if rows.ndim != input.ndim:
        raise RuntimeError(f"indices of {rows.ndim} dimensions don't fit a tensor of {input.ndim} dimensions")
    dim = one_dim(dim, input.ndim)
    shape = list(
        np.broadcast_shapes(
            (*input.shape[:dim], 1, *input.shape[dim + 1 :]), (*rows.shape[:dim], 1, *rows.shape[dim + 1 :])
        )
    )
    ours, theirs = list(shape), list(shape)
    ours[dim], theirs[dim] = input.shape[dim], rows.shape[dim]
    wide = registry["expand"](input, tuple(ours))
    return getitem(wide, along(wide.shape, dim, np.broadcast_to(rows, theirs)))


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1) -> Tensor:
    """``input`` with slices of ``alpha · source`` added along ``dim`` at the positions in the vector ``index``.

    Raises:
        RuntimeError: ``source`` hasn't a slice of the right shape for each index.
        IndexError: an index is out of range.
    """
    rows = np.array(index.detach()).reshape(-1)
    dim = one_dim(dim, input.ndim)
    expected = (*input.shape[:dim], len(rows), *input.shape[dim + 1 :])
    if source.shape != expected:
        raise RuntimeError(f"index_add() of {len(rows)} indices needs a source of {expected}, not {source.shape}")
    part = source if alpha == 1 else source * alpha
    return input + place(part, (slice(None),) * dim + (rows,), input.shape)


@op(promote="common", x=_elsewhere, src=_still_there)
def _scatter(x: Array, src: Array, at: Array) -> Array:
    """A copy of x with ``src`` at the flat positions ``at``; where one repeats, the last counts."""
    result = np.array(x, order="C")
    result.reshape(-1)[at] = src
    return result


def scatter(input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """``input`` overwritten along ``dim`` by ``src``, a tensor or a number.

    For dim 0 of two: result[index[i, j], j] = src[i, j].

    Where an index repeats, the last one in row-major order stays, and only it has a gradient.

    Raises:
        RuntimeError: the numbers of dimensions differ, or the dtypes, or an index is out of range.
    """
    rows = np.array(index.detach())
    at = np.arange(input.numel()).reshape(input.shape)[along(input.shape, dim, rows)]
    if isinstance(src, TensorBase) and src.shape:
        if src.dtype != input.dtype:
            raise RuntimeError(f"scatter() of {src.dtype} into {input.dtype}: bring both to one dtype")
        part: Any = elements_for(src, rows)
    else:
        value = src._data if isinstance(src, TensorBase) else src
        part = np.full(rows.shape, value, input.dtype)
    return _scatter(input, part, at)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` (a number or 0-d tensor) in the slices of ``dim`` at the positions in ``index``."""
    dim = one_dim(dim, input.ndim)
    mask = np.zeros(input.shape[dim], bool)
    mask[np.array(index.detach())] = True
    column = mask.reshape(-1, *(1,) * (input.ndim - dim - 1))
    return registry["masked_fill"](input, type(input).result_class(column), value)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the boolean ``mask`` is true, as a vector; both broadcast.

    Raises:
        RuntimeError: ``mask`` is not boolean.
    """
    if mask.dtype != np.bool_:
        raise RuntimeError(
            f"masked_select() needs a boolean mask, not {mask.dtype}; write mask == 1, or mask.bool()"
        )
    shape = np.broadcast_shapes(input.shape, mask.shape)
    return getitem(registry["expand"](input, shape), np.broadcast_to(mask._data, shape).copy())


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The ``length`` slices of ``dim`` from ``start`` on.  A view.

    Raises:
        RuntimeError: there are not so many.
        IndexError: ``start`` or ``dim`` is out of range.
    """
    dim = one_dim(dim, input.ndim)
    n = input.shape[dim]
    start = int(start)
    if not -n <= start <= n:
        raise IndexError(f"narrow() can't start at {start} in a dimension of size {n}")
    start = start + n if start < 0 else start
    if length < 0 or start + length > n:
        raise RuntimeError(f"narrow() can't take {length} of size {n} from {start} on")
    return getitem(input, (slice(None),) * dim + (slice(start, start + length),))


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice of ``dim`` at one index, without that dimension.  A view.

    Raises:
        IndexError: an index or dimension is out of range.
    """
    if not input.ndim:
        raise IndexError("select() needs a dimension to select from, which a 0-d tensor hasn't")
    dim = one_dim(dim, input.ndim)
    return getitem(input, (slice(None),) * dim + (int(index),))


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Tensor:
    """Each slice along ``dim`` several times in a row: all as often, or each as ``repeats`` says for it.

    Without ``dim``, of the flattened tensor.

    Raises:
        RuntimeError: a number is negative, or there is not one for each slice.
    """
    if dim is None:
        input, dim = registry["reshape"](input, (-1,)), 0
    dim = one_dim(dim, input.ndim)
    times = np.array(repeats._data if isinstance(repeats, TensorBase) else repeats)
    if times.dtype.kind not in "iu":
        raise RuntimeError(f"repeat_interleave() counts by integers, not {times.dtype}")
    if (times < 0).any():
        raise RuntimeError(f"repeat_interleave() can't repeat {times.min()} times")
    if times.size != 1 and times.shape != (input.shape[dim],):
        raise RuntimeError(
            f"repeat_interleave() needs {input.shape[dim]} numbers, one for each slice, not {times.size}"
        )
    rows = np.repeat(np.arange(input.shape[dim]), times.reshape(-1) if times.size != 1 else times.item())
    return getitem(input, (slice(None),) * dim + (rows,))


# --- sorting --------------------------------------------------------------------------------------


@op(numpy=np.argsort)
def argsort(x: Array, dim: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort x along ``dim``; equal elements keep their order, also where ``descending``."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Sorting the reversed elements and reversing the result keeps equal elements in their order.
    reverse = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - reverse if x.ndim else reverse


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor]:
    """The elements in order along ``dim``, and the indices at which they stood.  Stable, always."""
    indices = argsort(input, dim, descending)
    return gather(input, dim, indices), indices


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``dim`` in order, and the indices at which they stood.

    Equal elements come in the order in which they stand in input.

    Raises:
        RuntimeError: there are fewer than ``k`` elements.
    """
    n = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk() can't take {k} of {n} elements")
    first = (slice(None),) * (dim % input.ndim) + (slice(k),) if input.ndim else (Ellipsis,)
    indices = getitem(argsort(input, dim, largest), first)
    return gather(input, dim, indices), indices


# --- sets and counts ------------------------------------------------------------------------------


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: None = None
) -> Any:
    """The different elements in ascending order; then, if asked for, where each element of ``input`` is among
    them, and how often each occurs.

    Raises:
        NotImplementedError: a ``dim`` is given.
    """
    if dim is not None:
        raise NotImplementedError("unique() compares elements, not slices along a dim")
    made = type(input).result_class
    values, inverse, counts = np.unique(input._data, return_inverse=True, return_counts=True)
    results = [made(values)]
    if return_inverse:
        results.append(made(inverse.reshape(input.shape).astype(np.int64, copy=False)))
    if return_counts:
        results.append(made(counts.astype(np.int64, copy=False)))
    return results[0] if len(results) == 1 else tuple(results)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, … occurs in a vector of integers, or the sum of ``weights`` there; no gradient.

    Raises:
        RuntimeError: ``input`` is no vector of integers of at least 0, or the weights are not as many.
    """
    counted = input._data
    if counted.ndim != 1 or counted.dtype.kind not in "iu" or (counted < 0).any() or minlength < 0:
        raise RuntimeError(
            f"bincount() takes a vector of integers of at least 0, not {input.dtype} of shape {input.shape}"
        )
    if weights is None:
        return type(input).result_class(np.bincount(counted, minlength=minlength))  # type: ignore[return-value]
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount() needs a weight for each of {len(input)} elements, not shape {weights.shape}"
        )
    totals = np.bincount(counted, weights._data, minlength)
    dtype = np.float32 if weights.dtype == np.float32 else np.float64
    return type(input).result_class(totals.astype(dtype, copy=False))  # type: ignore[return-value]


def searchsorted(sorted_sequence: Tensor, values: Any, *, right: bool = False) -> Tensor:
    """Where ``values`` would go in a sorted vector so that it stays sorted; with ``right`` after equal ones.

    Raises:
        RuntimeError: the sequence is no vector.
    """
    if sorted_sequence.ndim != 1:
        raise RuntimeError(f"searchsorted() takes a sorted vector, not shape {sorted_sequence.shape}")
    wanted = values._data if isinstance(values, TensorBase) else values
    found = np.searchsorted(sorted_sequence._data, wanted, "right" if right else "left")
    return type(sorted_sequence).result_class(np.asarray(found, np.int64))  # type: ignore[return-value]
