"""Operations that only move elements, and their rules: each gradient moves back where its element came from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel, op
from minigrad.rules.reduce import normalize

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


@op(numpy=np.reshape, view=True, x=lambda g, x_shape: np.reshape(g, x_shape))
def reshape(x: Array, shape: Any) -> Array:
    """The same elements in row-major order under another shape; one size may be −1.  A view where possible."""
    return np.reshape(x, shape)


@op(view=True, x=lambda g, dims: np.transpose(g, tuple(int(i) for i in np.argsort([d % len(dims) for d in dims]))))
def permute(x: Array, dims: tuple[int, ...]) -> Array:
    """The dimensions in another order: result dimension i is dimension ``dims[i]`` of x.  A view."""
    return np.transpose(x, dims)


@op(numpy=np.swapaxes, view=True, x=lambda g, dim0, dim1: np.swapaxes(g, dim0, dim1))
def transpose(x: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged.  A view."""
    return np.swapaxes(x, dim0, dim1)


def _expanded(x_shape: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``shape`` with −1 replaced by the size that x has there."""
    extra = len(shape) - len(x_shape)
    return tuple(x_shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(shape))


@op(view=True, x=lambda g: g)  # the engine sums it back, as after any broadcasting
def expand(x: Array, shape: tuple[int, ...]) -> Array:
    """x broadcast to ``shape`` (−1 keeps a size) without copying.  A view."""
    return np.broadcast_to(x, _expanded(x.shape, shape))


@op(numpy=np.expand_dims, view=True, x=lambda g, x_shape: np.reshape(g, x_shape))
def unsqueeze(x: Array, dim: int) -> Array:
    """A dimension of size 1 inserted at ``dim``.  A view."""
    return np.expand_dims(x, dim)


@op(numpy=np.squeeze, view=True, x=lambda g, x_shape: np.reshape(g, x_shape))
def squeeze(x: Array, dim: Any = None) -> Array:
    """Without the dimensions of size 1: all, or those in ``dim`` that have it.  A view."""
    dims = normalize(dim, x.ndim)
    return np.squeeze(x, axis=tuple(d for d in dims if x.shape[d] == 1))


@op(numpy=np.flip, x=lambda g, dims: np.flip(g, dims))
def flip(x: Array, dims: Any = None) -> Array:
    """The order of elements reversed along ``dims``.  A copy."""
    return np.flip(x, tuple(dims) if isinstance(dims, list) else dims).copy()


@op(numpy=np.roll, x=lambda g, shifts, dims: np.roll(g, _negative(shifts), dims))
def roll(x: Array, shifts: Any, dims: Any = None) -> Array:
    """Elements moved by ``shifts`` along ``dims``, those that fall off coming back at the other end."""
    return np.roll(x, shifts, dims)


def _negative(shifts: Any) -> Any:
    return -shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts)


@op(numpy=np.tril, x=lambda g, diagonal: np.tril(g, diagonal))
def tril(x: Array, diagonal: int = 0) -> Array:
    """The lower triangle of the last two dimensions, up to ``diagonal``; zeros above it."""
    return np.tril(x, diagonal)


@op(numpy=np.triu, x=lambda g, diagonal: np.triu(g, diagonal))
def triu(x: Array, diagonal: int = 0) -> Array:
    """The upper triangle of the last two dimensions, from ``diagonal`` on; zeros below it."""
    return np.triu(x, diagonal)


def _repeat_gradient(g: Array, x_shape: tuple[int, ...], repeats: tuple[int, ...]) -> Array:
    """Sum over the copies: each dimension of g is (copies, size)."""
    sizes = (1,) * (len(repeats) - len(x_shape)) + tuple(x_shape)
    apart = np.reshape(g, tuple(itertools.chain.from_iterable(zip(repeats, sizes, strict=True))))
    return np.sum(apart, axis=tuple(range(0, 2 * len(repeats), 2)))


@op(x=_repeat_gradient)
def repeat(x: Array, repeats: tuple[int, ...]) -> Array:
    """x laid side by side ``repeats[i]`` times along dimension i (NumPy calls it ``tile``).

    Raises:
        ValueError: fewer numbers than dimensions.
    """
    if len(repeats) < x.ndim:
        raise ValueError(f"{len(repeats)} repeats for {x.ndim} dimensions; give at least one for each dimension")
    return np.tile(x, repeats)


# --- several tensors in, or out -------------------------------------------------------------------


def _cat_backward(g: Array, tensors_shape: Sequence[tuple[int, ...]], dim: int) -> list[Array]:
    """Cut the gradient where the tensors were joined."""
    cuts = itertools.accumulate(shape[dim] for shape in tensors_shape)
    return np.split(g, list(cuts)[:-1], axis=dim)


@kernel(_cat_backward, ["tensors"], promote="common")
def _cat(*tensors: Array, dim: int = 0) -> Array:
    return np.concatenate(tensors, axis=dim)


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join tensors of equal shape, but for dimension ``dim``, along it.

    Raises:
        ValueError: no tensors.
    """
    if not tensors:
        raise ValueError("cat() needs at least one tensor")
    return _cat(*tensors, dim=dim)


def _stack_backward(g: Array, dim: int) -> list[Array]:
    """Take the gradient apart along the new dimension."""
    return list(np.moveaxis(g, dim, 0))


@kernel(_stack_backward, ["tensors"], promote="common")
def _stack(*tensors: Array, dim: int = 0) -> Array:
    return np.stack(tensors, axis=dim)


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension ``dim``.

    Raises:
        ValueError: no tensors.
    """
    if not tensors:
        raise ValueError("stack() needs at least one tensor")
    return _stack(*tensors, dim=dim)


@op(view=True, x=lambda g, dim: np.concatenate(g, axis=dim))
def _split(x: Array, sizes: tuple[int, ...], dim: int) -> Any:
    return tuple(np.split(x, list(itertools.accumulate(sizes))[:-1], axis=dim))


def split(x: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut x along ``dim`` into pieces of one size (the last may be smaller) or of the sizes listed.  Views.

    Raises:
        ValueError: the sizes don't add up to the size of ``dim``, or are not positive.
    """
    n = x.shape[dim]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size <= 0:
            raise ValueError(f"split() needs a size above 0, not {size}")
        sizes = tuple(min(size, n - start) for start in range(0, n, size)) or (0,)
    else:
        sizes = tuple(split_size_or_sections)
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise ValueError(f"split() sizes {list(sizes)} must add up to {n}, the size of dimension {dim}")
    return _split(x, sizes, dim)  # type: ignore[return-value]  # an operation with several results


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut x along ``dim`` into ``chunks`` pieces of equal size, the last smaller or missing.  Views.

    Raises:
        ValueError: ``chunks`` is below 1.
    """
    if chunks < 1:
        raise ValueError(f"chunk() needs at least 1 chunk, not {chunks}")
    n = x.shape[dim]
    return split(x, -(-n // chunks), dim) if n else split(x, [0] * chunks, dim)


@op(view=True, x=lambda g, dim: np.stack(g, axis=dim))
def _unbind(x: Array, dim: int) -> Any:
    moved = np.moveaxis(x, dim, 0)
    return tuple(moved[i, ...] for i in range(len(moved)))  # the ... has NumPy make 0-d views, not scalars


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along ``dim``, as a tuple.  Views.

    Raises:
        ValueError: x has no elements along ``dim`` (or no dimensions), so that there is nothing to return.
    """
    normalize(dim, x.ndim)
    return _unbind(x, dim) if x.shape[dim] else ()  # type: ignore[return-value]
