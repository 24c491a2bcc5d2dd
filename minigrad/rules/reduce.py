"""Reductions over one dimension, several, or all, and their rules.

``dim`` is an int, a tuple of ints, or None for all dimensions; ``keepdim`` keeps the reduced ones with size 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel, op, quietly

if TYPE_CHECKING:
    from minigrad.tensor import Tensor

add_up: Any = np.add.reduce  # np.sum without its detour through Python
multiply_up: Any = np.multiply.reduce


def normalize_dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return the dimensions that ``dim`` means, each counted from the front.

    >>> normalize_dims(-1, 3), normalize_dims(None, 2), normalize_dims([0, -1], 3)
    ((2,), (0, 1), (0, 2))
    """
    if dim is None:
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int | np.integer) else tuple(dim)
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise np.exceptions.AxisError(int(d), ndim)
    return tuple(int(d) % ndim for d in dims) if ndim else ()


def axes(dim: Any) -> Any:
    """Return ``dim`` as NumPy takes it: None, an int or a tuple."""
    return tuple(dim) if isinstance(dim, list) else dim


def count(shape: tuple[int, ...], dim: Any) -> int:
    """Return how many elements each result of a reduction over ``dim`` is made from."""
    return math.prod(shape[d] for d in normalize_dims(dim, len(shape)))


def widened(x: Array, dtype: Any) -> Array:
    """Return x in ``dtype``; without one, integers and booleans in int64, so that many of them fit."""
    if dtype is None:
        return x if x.dtype.kind == "f" else x.astype(np.int64, copy=False)
    return x.astype(dtype, copy=False)


def check_not_empty(x: Array, dim: Any, name: str) -> None:
    """Raise if some result over ``dim`` would be the extreme of no elements.

    Raises:
        IndexError: that, for a ``dim``; for all elements, RuntimeError (as in PyTorch).
    """
    if not x.size and not count(x.shape, dim):
        if dim is None and name in ("amax", "amin"):
            raise RuntimeError(f"{name}() of no elements has no value: the shape is {x.shape}")
        raise IndexError(f"{name}() over dim {dim} of shape {x.shape} is one of no elements")


def keep_dims(reduced: Array, shape: tuple[int, ...], dim: Any) -> Array:
    """Reshape a result reduced over ``dim`` so that it broadcasts against the original ``shape``."""
    dims = normalize_dims(dim, len(shape))
    return np.reshape(reduced, tuple(1 if d in dims else n for d, n in enumerate(shape)))


def spread(g: Array, shape: tuple[int, ...], dim: Any) -> Array:
    """Copy a reduced gradient to every element that was reduced."""
    return np.broadcast_to(keep_dims(g, shape, dim), shape)


@op(numpy=np.sum, x=lambda g, x_shape, dim: spread(g, x_shape, dim))
def sum(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """Sum over ``dim``; of integers and booleans in int64.  ``dtype`` casts the elements first."""
    if dtype is None and x.dtype.kind == "u":
        dtype = np.int64  # NumPy's sum would be unsigned
    return add_up(x, axis=axes(dim), keepdims=keepdim, dtype=dtype)


@op(numpy=np.mean, promote="float", x=lambda g, x_shape, dim: spread(g, x_shape, dim) / count(x_shape, dim))
@quietly
def mean(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Arithmetic mean over ``dim``; of no elements NaN."""
    return add_up(x, axis=axes(dim), keepdims=keepdim) / np.asarray(count(x.shape, dim), x.dtype)


def _centered(x: Array, dim: Any) -> Array:
    """Return x minus its mean over ``dim``."""
    return x - np.mean(x, axis=axes(dim), keepdims=True)


def _freedom(x: Array, dim: Any, correction: float) -> Any:
    """Return max(0, n − correction), the divisor of a variance, in the dtype of x (so that 0 divides quietly)."""
    return np.asarray(max(0, count(x.shape, dim) - correction), x.dtype)[()]


@op(
    promote="float",
    x=lambda g, x, dim, correction: (
        keep_dims(g, x.shape, dim) * (2 / _freedom(x, dim, correction)) * _centered(x, dim)
    ),
)
@quietly
def var(x: Array, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Array:
    """Variance over ``dim``: Σ(x − mean)² / (n − correction).

    ``correction=1`` (the default, as in PyTorch) is the unbiased estimate, ``correction=0`` NumPy's.
    """
    centered = _centered(x, dim)
    return add_up(centered * centered, axis=axes(dim), keepdims=keepdim) / _freedom(x, dim, correction)


def _std_gradient(g: Array, x: Array, out: Array, dim: Any, correction: float) -> Array:
    """d std / dx = (x − mean) / ((n − correction) · std), and 0 where the deviation is 0."""
    out, g = keep_dims(out, x.shape, dim), keep_dims(g, x.shape, dim)
    scale = np.where(out == 0, 0, g / (np.where(out == 0, 1, out) * _freedom(x, dim, correction)))
    return scale * _centered(x, dim)


@op(promote="float", x=_std_gradient)
@quietly
def std(x: Array, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Array:
    """Standard deviation over ``dim``, the root of :func:`var`; the gradient of a constant's is 0."""
    return np.sqrt(var.forward(x, dim, correction, keepdim))


def _share_among_ties(g: Array, x: Array, out: Array, dim: Any) -> Array:
    """Give the gradient to the elements that equal the extreme value, in equal parts."""
    ties = x == keep_dims(out, x.shape, dim)
    number = np.maximum(np.sum(ties, axis=axes(dim), keepdims=True), 1).astype(g.dtype)
    return np.where(ties, keep_dims(g, x.shape, dim) / number, 0)


@op(numpy=(np.max, np.amax), x=_share_among_ties)
def amax(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The largest element over ``dim``; ties share the gradient evenly."""
    check_not_empty(x, dim, "amax")
    return np.max(x, axis=axes(dim), keepdims=keepdim)


@op(numpy=(np.min, np.amin), x=_share_among_ties)
def amin(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The smallest element over ``dim``; ties share the gradient evenly."""
    check_not_empty(x, dim, "amin")
    return np.min(x, axis=axes(dim), keepdims=keepdim)


def _softmax_below(x: Array, out: Array, dim: Any) -> Array:
    """Return exp(x − logsumexp(x)): the softmax, and 0 where all of x is −∞."""
    out = keep_dims(out, x.shape, dim)
    return np.exp(x - np.where(out == -np.inf, 0, out))


@op(promote="float", x=lambda g, x, out, dim: keep_dims(g, x.shape, dim) * _softmax_below(x, out, dim))
@quietly
def logsumexp(x: Array, dim: Any, keepdim: bool = False) -> Array:
    """ln Σ eˣ over ``dim``, without overflow; −inf, with gradient 0, where every element is −inf."""
    largest = np.max(x, axis=axes(dim), keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    total = add_up(np.exp(x - shift), axis=axes(dim), keepdims=True)
    result = np.log(total) + shift
    return result if keepdim else np.squeeze(result, axis=normalize_dims(dim, x.ndim))


def _norm_gradient(g: Array, x: Array, out: Array, dim: Any) -> Array:
    """d‖x‖/dx = x / ‖x‖, and 0 at x = 0."""
    out, g = keep_dims(out, x.shape, dim), keep_dims(g, x.shape, dim)
    return x * np.where(out == 0, 0, g / np.where(out == 0, 1, out))


@op(promote="float", x=_norm_gradient)
@quietly
def _euclidean_norm(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """√Σ|x|² over ``dim``; the gradient at 0 is 0."""
    return np.sqrt(add_up(x * x, axis=axes(dim), keepdims=keepdim))


def norm(input: Tensor, p: float | str = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm (Σ|x|ᵖ)^(1/p) of the elements over ``dim``; p = inf: the largest absolute value, "fro": p = 2.

    The gradient at 0 is 0.

    Raises:
        ValueError: ``p`` is no number above 0.
    """
    if p in (2, "fro"):
        return _euclidean_norm(input, dim, keepdim)
    if isinstance(p, str) or not p > 0:
        raise ValueError(f'norm() needs p > 0 or "fro", not {p!r}')
    size = input.abs()
    if p == math.inf:
        return size.amax(dim, keepdim)
    if p == 1:
        return size.sum(dim, keepdim)
    total = size.pow(p).sum(dim, keepdim)
    zero = total == 0  # where the root is not differentiable: its gradient is 0 by convention
    return total.masked_fill(zero, 1).pow(1 / p).masked_fill(zero, 0)


def _cumulate_backward(g: Array, dim: int) -> Array:
    """Sum from the end: each element counts in every later partial sum."""
    return np.flip(np.cumsum(np.flip(g, dim), dim), dim)


@op(x=_cumulate_backward)
def cumsum(x: Array, dim: int) -> Array:
    """Partial sums along ``dim``."""
    return np.cumsum(x, axis=dim, dtype=np.int64 if x.dtype.kind == "u" else None).reshape(x.shape)


def _recurrence_backward(g: Array, x: Array, out: Array) -> tuple[Array, Array]:
    """The adjoint u of s runs the other way: uᵢ = gᵢ + xᵢ₊₁ uᵢ₊₁, the gradient of aᵢ; that of xᵢ is uᵢ sᵢ₋₁."""
    start = np.zeros((*g.shape[:-1], 1), g.dtype)
    later = np.concatenate([x[..., 1:], start], axis=-1)
    u = np.flip(recurrence(np.flip(g, -1), np.flip(later, -1)), -1)
    return u, u * np.concatenate([start, out[..., :-1]], axis=-1)


@kernel(_recurrence_backward, ["a", "x"], internal=True)
def recurrence(a: Array, x: Array) -> Array:
    """s₀ = a₀, sᵢ = aᵢ + xᵢ sᵢ₋₁ along the last dimension: what a product of many factors leads back to."""
    out = np.array(a)
    for i in range(1, out.shape[-1]):
        out[..., i] += x[..., i] * out[..., i - 1]
    return out


def _join_last(x: Array, dims: tuple[int, ...]) -> tuple[Array, list[int]]:
    """Return x with ``dims`` joined into one last dimension, and the order of dimensions that it had before."""
    order = [d for d in range(x.ndim) if d not in dims] + list(dims)
    moved = np.transpose(x, order)
    kept = x.ndim - len(dims)
    return np.reshape(moved, (*moved.shape[:kept], math.prod(moved.shape[kept:]))), order


def _unjoin(flat: Array, shape: tuple[int, ...], order: list[int]) -> Array:
    """Undo :func:`_last`."""
    moved = np.reshape(flat, tuple(shape[d] for d in order))
    return np.transpose(moved, tuple(order.index(d) for d in range(len(order))))


def _product_of_others(x: Array, dim: Any) -> Array:
    """Return for each element the product of the others over ``dim``: those before it times those after it.

    Nothing is divided, so zeros are exact, and the derivatives of this function are too.
    """
    flat, order = _join_last(x, normalize_dims(dim, x.ndim))
    if 0 in x.shape:
        return x
    one = np.ones((*flat.shape[:-1], 1), x.dtype)
    before = np.cumprod(np.concatenate([one, flat[..., :-1]], axis=-1), -1)
    reverse = np.concatenate([one, np.flip(flat, -1)[..., :-1]], axis=-1)
    return _unjoin(before * np.flip(np.cumprod(reverse, -1), -1), x.shape, order)


@op(numpy=np.prod, x=lambda g, x, dim: keep_dims(g, x.shape, dim) * _product_of_others(x, dim))
@quietly
def prod(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """Product over ``dim``; of integers and booleans in int64.  ``dtype`` casts the elements first.

    The derivative of each element is the product of the others, exact where some are 0.
    """
    return multiply_up(widened(x, dtype), axis=axes(dim), keepdims=keepdim)


def _cumprod_backward(g: Array, x: Array, out: Array, dim: int) -> Array:
    """With Sᵢ = gᵢ + xᵢ₊₁ Sᵢ₊₁ the derivative of xᵢ is Pᵢ₋₁ Sᵢ, where P are the partial products: no division."""
    if not x.ndim:
        return g
    g, x, out = (np.swapaxes(a, dim, -1) for a in (g, x, out))
    one = np.ones((*g.shape[:-1], 1), g.dtype)
    later = np.concatenate([x[..., 1:], one], axis=-1)
    s = np.flip(recurrence(np.flip(g, -1), np.flip(later, -1)), -1)
    return np.swapaxes(np.concatenate([one, out[..., :-1]], axis=-1) * s, dim, -1)


@op(x=_cumprod_backward)
@quietly
def cumprod(x: Array, dim: int, dtype: Any = None) -> Array:
    """Partial products along ``dim``; of integers and booleans in int64.  Exact derivatives where some are 0."""
    return np.cumprod(widened(x, dtype), axis=dim).reshape(x.shape)


@op(numpy=np.count_nonzero)
def count_nonzero(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """How many elements over ``dim`` differ from 0, int64."""
    return np.count_nonzero(x, axis=axes(dim), keepdims=keepdim)


def var_mean(
    input: Tensor, dim: Any = None, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean over ``dim``: (:func:`var`, :func:`mean`)."""
    return var(input, dim, correction, keepdim), mean(input, dim, keepdim)


def std_mean(
    input: Tensor, dim: Any = None, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over ``dim``: (:func:`std`, :func:`mean`)."""
    return std(input, dim, correction, keepdim), mean(input, dim, keepdim)


@op(numpy=np.all)
def all(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether every element over ``dim`` is true."""
    return np.all(x, axis=axes(dim), keepdims=keepdim)


@op(numpy=np.any)
def any(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether some element over ``dim`` is true."""
    return np.any(x, axis=axes(dim), keepdims=keepdim)


@op(numpy=np.argmax)
def argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the largest element over ``dim`` (the first, at ties); None means of the flattened tensor."""
    check_not_empty(x, dim, "argmax")
    return np.argmax(x, axis=dim, keepdims=keepdim)


@op(numpy=np.argmin)
def argmin(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the smallest element over ``dim`` (the first, at ties); None means of the flattened tensor."""
    check_not_empty(x, dim, "argmin")
    return np.argmin(x, axis=dim, keepdims=keepdim)
