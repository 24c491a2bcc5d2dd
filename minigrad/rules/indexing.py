"""Selecting elements, and its rule: add each gradient up where its element came from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import op

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
        flat = (index.reshape(-1, 1).astype(np.intp) % len(result)) * width + np.arange(width)
        np.add.at(result.reshape(-1), flat.reshape(-1), np.reshape(g, -1))
    else:
        np.add.at(result, index, g)
    return result


def _elsewhere(g: Array, at: Any) -> Array:
    """Return g with zeros at the flat positions ``at``: what was overwritten has no influence any more."""
    mask = np.ones(math.prod(g.shape), g.dtype)
    mask[at] = 0
    return g * mask.reshape(g.shape)


@op(x=_elsewhere, value=lambda g, at: np.reshape(g, -1)[at])
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
    """Return the full index for picking ``index`` along ``dim`` and every other dimension in place."""
    if not -max(len(shape), 1) <= dim < max(len(shape), 1):
        raise np.exceptions.AxisError(dim, len(shape))
    if index.ndim != len(shape):
        raise RuntimeError(f"an index of {index.ndim} dimensions doesn't fit a tensor of {len(shape)} dimensions")
    if not shape:
        return ()
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Pick elements along ``dim``: for dim 0 of three, result[i, j, k] = x[index[i, j, k], j, k].

    Raises:
        RuntimeError: ``index`` has another number of dimensions than x.
        IndexError: an index is out of range.
    """
    return getitem(x, along(x.shape, dim, np.asarray(index.detach())))


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of x along ``dim`` at the positions in the vector ``index``, in its order."""
    return getitem(x, (slice(None),) * (dim % x.ndim) + (np.asarray(index.detach()),))


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """x with ``src`` added along ``dim``: for dim 0 of three, result[index[i, j, k], j, k] += src[i, j, k]."""
    rows = np.asarray(index.detach())
    part = src if src.shape == rows.shape else getitem(src, tuple(slice(n) for n in rows.shape))
    return x + place(part, along(x.shape, dim, rows), x.shape)


# --- sorting --------------------------------------------------------------------------------------


@op(numpy=np.argsort)
def argsort(x: Array, dim: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort x along ``dim``; equal elements keep their order, also where ``descending``."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Sorting the reversed elements and reversing the result keeps equal elements in their order.
    reverse = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - reverse if x.ndim else reverse


def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor]:
    """The elements in order along ``dim``, and the indices at which they stood.  Stable, always."""
    indices = argsort(x, dim, descending)
    return gather(x, dim, indices), indices


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``dim`` in order, and the indices at which they stood.

    Equal elements come in the order in which they stand in x.

    Raises:
        RuntimeError: there are fewer than ``k`` elements.
    """
    n = x.shape[dim] if x.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"topk() can't take {k} of {n} elements")
    first = (slice(None),) * (dim % x.ndim) + (slice(k),) if x.ndim else (Ellipsis,)
    indices = getitem(argsort(x, dim, largest), first)
    return gather(x, dim, indices), indices
