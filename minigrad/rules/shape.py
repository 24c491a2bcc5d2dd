"""Operations that only move elements, and their rules: each gradient moves back where its element came from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel, op, registry
from minigrad.rules.indexing import getitem, place
from minigrad.rules.reduce import normalize_dims

if TYPE_CHECKING:
    from minigrad.tensor import Tensor


@op(numpy=np.reshape, view=True, x=lambda g, x_shape: g.reshape(x_shape))
def reshape(x: Array, shape: Any) -> Array:
    """The same elements in row-major order under another shape; one size may be −1.  A view where possible."""
    return x.reshape(shape)


@op(view=True, x=lambda g, dims: np.transpose(g, tuple(int(i) for i in np.argsort([d % len(dims) for d in dims]))))
def permute(x: Array, dims: tuple[int, ...]) -> Array:
    """The dimensions in another order: result dimension i is dimension ``dims[i]`` of x.  A view."""
    return np.transpose(x, dims)


@op(numpy=np.swapaxes, view=True, x=lambda g, dim0, dim1: np.swapaxes(g, dim0, dim1))
def transpose(x: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged.  A view."""
    return x.swapaxes(dim0, dim1)


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
    dims = normalize_dims(dim, x.ndim)
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
    """Return the shifts, one or several, the other way."""
    return -shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts)


@op(x=lambda g, diagonal: np.tril(g, diagonal))
def tril(x: Array, diagonal: int = 0) -> Array:
    """The lower triangle of the last two dimensions, up to ``diagonal``; zeros above it.

    Raises:
        RuntimeError: there are less than two dimensions.
    """
    if x.ndim < 2:
        raise ValueError(f"there must be two dimensions, not shape {x.shape}")
    return np.tril(x, diagonal)


@op(x=lambda g, diagonal: np.triu(g, diagonal))
def triu(x: Array, diagonal: int = 0) -> Array:
    """The upper triangle of the last two dimensions, from ``diagonal`` on; zeros below it.

    Raises:
        RuntimeError: there are less than two dimensions.
    """
    if x.ndim < 2:
        raise ValueError(f"there must be two dimensions, not shape {x.shape}")
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
        RuntimeError: there are fewer numbers than dimensions.
    """
    if len(repeats) < x.ndim:
        raise ValueError(f"{len(repeats)} repeats for {x.ndim} dimensions; give at least one for each dimension")
    return np.tile(x, repeats)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The dimensions ``source`` (an int or several) at the places ``destination``, the others in order.  A view.

    Raises:
        RuntimeError: not as many places as dimensions, or one named twice.
        IndexError: there is no such dimension.
    """
    moved, places = normalize_dims(source, input.ndim), normalize_dims(destination, input.ndim)
    if len(moved) != len(places) or len(set(moved)) < len(moved) or len(set(places)) < len(places):
        raise RuntimeError(
            f"movedim() can't move dimensions {source} to {destination}: one place for each, and none twice"
        )
    order = [d for d in range(input.ndim) if d not in moved]
    for place_, d in sorted(zip(places, moved, strict=True)):
        order.insert(place_, d)
    return permute(input, tuple(order))


def _diagonal_gradient(g: Array, x_shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Array:
    """Zeros with g on the diagonal, which is the last dimension of g."""
    ndim = len(x_shape)
    order = [d for d in range(ndim) if d not in (dim1 % ndim, dim2 % ndim)] + [dim1 % ndim, dim2 % ndim]
    k = np.arange(g.shape[-1])
    moved = place(g, (..., k - min(offset, 0), k + max(offset, 0)), tuple(x_shape[d] for d in order))
    return np.transpose(moved, tuple(order.index(d) for d in range(ndim)))


@op(view=True, x=_diagonal_gradient)
def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The elements x[…, i, i + offset] of two dimensions, as the last dimension.  A view.

    Raises:
        RuntimeError: dim1 and dim2 are the same.
    """
    out = np.diagonal(x, offset, dim1, dim2)
    out.flags.writeable = x.flags.writeable  # NumPy hands it out read-only, PyTorch doesn't
    return out


_diagonal_of = diagonal  # under a name that arguments don't hide


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Of a vector, the matrix with it on a diagonal and zeros elsewhere; of a matrix, its diagonal (a copy).

    Raises:
        RuntimeError: ``input`` has neither one dimension nor two.
    """
    if input.ndim == 2:
        return _diagonal_of(input, diagonal).clone()
    if input.ndim != 1:
        raise RuntimeError(f"diag() takes a vector or a matrix, not shape {input.shape}")
    k = np.arange(len(input))
    n = len(input) + abs(diagonal)
    return place(input, (k - min(diagonal, 0), k + max(diagonal, 0)), (n, n))


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Raises:
        RuntimeError: ``input`` is no matrix.
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace() takes a matrix, not shape {input.shape}")
    return registry["sum"](diagonal(input))


def tile(input: Tensor, dims: Any) -> Tensor:
    """``input`` laid side by side ``dims[i]`` times along dimension i, counted from the last."""
    times = (dims,) if isinstance(dims, int) else tuple(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors of n₁, n₂, … elements each spread over the grid (n₁, n₂, …); "xy" exchanges the first two dims.

    Raises:
        RuntimeError: a tensor has two dimensions or more, or ``indexing`` is neither "ij" nor "xy".
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid() takes indexing="ij" or "xy", not {indexing!r}')
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(f"meshgrid() takes vectors, not shape {x.shape}")
    sizes = tuple(x._data.size for x in tensors)
    grids = []
    for k, x in enumerate(tensors):
        row = reshape(x, tuple(n if i == k else 1 for i, n in enumerate(sizes)))
        grid = expand(row, sizes)
        grids.append(transpose(grid, 0, 1) if indexing == "xy" and len(sizes) > 1 else grid)
    return tuple(grids)


def _pad_gradient(g: Array, x_shape: tuple[int, ...], widths: tuple[tuple[int, int], ...]) -> Array:
    """Cut off what was put around."""
    return g[tuple(slice(before, before + n) for (before, _), n in zip(widths, x_shape, strict=True))]


@op(x=_pad_gradient)
def _pad(x: Array, widths: tuple[tuple[int, int], ...], value: float) -> Array:
    """x with ``value`` put around it: before and after each dimension."""
    return np.pad(x, widths, constant_values=value)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``input`` with ``value`` (0) around it: (before, after) of the last dimension, then of the one before it, ….

    A negative number takes elements away.

    Raises:
        NotImplementedError: a ``mode`` other than "constant".
        RuntimeError: an odd number of widths, more than fit the dimensions, or more taken away than there is.
    """
    if mode != "constant":
        raise NotImplementedError(f'pad() fills with a constant: mode="constant", not {mode!r}')
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"pad() needs two numbers for each of at most {input.ndim} dimensions, not {len(pad)} numbers"
        )
    widths = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    widths = [(0, 0)] * (input.ndim - len(widths)) + widths
    if any(n + before + after < 0 for n, (before, after) in zip(input.shape, widths, strict=True)):
        raise RuntimeError(f"pad() by {list(pad)} takes more away than shape {input.shape} has")
    if any(width < 0 for pair in widths for width in pair):
        kept = [
            slice(max(-before, 0), n - max(-after, 0))
            for n, (before, after) in zip(input.shape, widths, strict=True)
        ]
        input = getitem(input, tuple(kept))
    return _pad(input, tuple((max(before, 0), max(after, 0)) for before, after in widths), value or 0)


# --- several tensors in, or out -------------------------------------------------------------------


def _cat_backward(g: Array, tensors_shape: Sequence[tuple[int, ...]], dim: int) -> list[Array]:
    """Cut the gradient where the tensors were joined."""
    cuts = itertools.accumulate(shape[dim] for shape in tensors_shape)
    return np.split(g, list(cuts)[:-1], axis=dim)


@kernel(_cat_backward, ["tensors"], promote="common")
def _cat(*tensors: Array, dim: int = 0) -> Array:
    """Tensors joined along ``dim``."""
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
    """Tensors of one shape joined along a new dimension ``dim``."""
    return np.stack(tensors, axis=dim)


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension ``dim``.

    Raises:
        RuntimeError: no tensors, or of different shapes.
    """
    if not tensors:
        raise RuntimeError("stack() needs at least one tensor")
    return _stack(*tensors, dim=dim)


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Join tensors side by side: along the second dimension, vectors along their only one.

    Raises:
        ValueError: no tensors.
    """
    rows = [unsqueeze(x, 0) if x.ndim == 0 else x for x in tensors]
    return cat(rows, 0 if not rows or rows[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """Join tensors one above the other: along the first dimension, vectors as rows.

    Raises:
        ValueError: no tensors.
    """
    return cat([reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors], 0)


@op(view=True, x=lambda g, dim: np.concatenate(g, axis=dim))
def _split(x: Array, sizes: tuple[int, ...], dim: int) -> Any:
    """x cut along ``dim`` into pieces of these sizes."""
    return tuple(np.split(x, list(itertools.accumulate(sizes))[:-1], axis=dim))


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut ``tensor`` along ``dim`` into pieces of one size (the last may be smaller) or of those listed.  Views.

    Raises:
        RuntimeError: the sizes don't add up to the size of ``dim``, or are not positive.
    """
    n = tensor.shape[dim]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size <= 0:
            raise RuntimeError(f"split() needs a size above 0, not {size}")
        sizes = tuple(min(size, n - start) for start in range(0, n, size)) or (0,)
    else:
        sizes = tuple(split_size_or_sections)
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise RuntimeError(f"split() sizes {list(sizes)} must add up to {n}, the size of dimension {dim}")
    return _split(tensor, sizes, dim)  # type: ignore[return-value]  # an operation with several results


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut ``input`` along ``dim`` into ``chunks`` pieces of equal size, the last smaller or missing.  Views.

    Raises:
        RuntimeError: ``chunks`` is below 1.
    """
    if chunks < 1:
        raise RuntimeError(f"chunk() needs at least 1 chunk, not {chunks}")
    n = input.shape[dim]
    return split(input, -(-n // chunks), dim) if n else split(input, [0] * chunks, dim)


@op(view=True, x=lambda g, dim: np.stack(g, axis=dim))
def _unbind(x: Array, dim: int) -> Any:
    """The slices of x along ``dim``."""
    moved = np.moveaxis(x, dim, 0)
    return tuple(moved[i, ...] for i in range(len(moved)))  # the ... has NumPy make 0-d views, not scalars


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``input`` along ``dim``, as a tuple.  Views.

    Raises:
        IndexError: there is no such dimension.
    """
    if not input.ndim:
        raise IndexError("unbind() needs a dimension, and a 0-d tensor has none")
    normalize_dims(dim, input.ndim)
    return _unbind(input, dim) if input.shape[dim] else ()  # type: ignore[return-value]
