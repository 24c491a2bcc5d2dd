"""Softmax and its logarithm, and the exponentials without overflow that attention and cross-entropy share."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.linear import constant
from minigrad.op import op, quietly
from minigrad.rules.reduce import normalize_dims


@functools.cache
def largest_unshifted(dtype: np.dtype[Any]) -> float:
    """Return how large |x| may be for e^x, and any sum of such, to be far from both ends of ``dtype``."""
    return math.log(float(np.finfo(dtype).max)) / 3 if dtype.itemsize >= 4 else 0.0


def exponentiate(x: Array, dim: int = -1, allowed: Array = None) -> Array:
    """Overwrite x by e^(x − shift), where a row (along ``dim``) has one shift, and return the shifts, or 0.

    The shift cancels in a softmax; it only keeps e^x from overflowing.  So a row of moderate numbers needs none,
    and for all rows at once two quick passes tell: finding each row's largest number would cost more than the
    exponentials themselves.  Where ``allowed`` is False, the result is 0.
    """
    shift: Array = 0
    if x.size:
        bound = largest_unshifted(x.dtype)
        if not (x.max() <= bound and x.min() >= -bound):  # also if one is NaN
            shift = row_shifts(x, dim, bound, allowed)
            x -= shift
        np.exp(x, out=x)
        if allowed is not None:
            x *= allowed
    return shift


def row_shifts(x: Array, dim: int, bound: float, allowed: Array) -> Array:
    """Return the shift of each row: its largest number, or 0 if all its numbers are within ``bound``.

    So a row's result depends on no other row.  What is not allowed is overwritten by −inf first.
    """
    smallest = x if allowed is None else np.where(allowed, x, np.inf)
    if allowed is not None:
        np.copyto(x, -np.inf, where=~allowed)
    largest = np.max(x, axis=dim, keepdims=True)
    moderate = (np.min(smallest, axis=dim, keepdims=True) >= -bound) & (largest <= bound)
    # A row that is all −inf becomes exp(−inf) = 0 throughout, instead of exp(−inf + inf) = NaN.
    np.maximum(largest, np.finfo(x.dtype).min, out=largest)
    largest[moderate] = 0
    return largest


def row_sums(x: Array, dim: int = -1) -> Array:
    """Return the sums along ``dim``, kept as a dimension of size 1."""
    if dim in (-1, x.ndim - 1):
        return np.matmul(x, constant(x.shape[-1], 1.0, x.dtype)[:, None])  # BLAS is quicker than NumPy's reduce
    return np.add.reduce(x, axis=dim, keepdims=True)


def softmax_composed(x: Array, dim: int) -> Array:
    """softmax(x)ᵢ = e^(xᵢ − max x) / Σⱼ e^(xⱼ − max x): the shift changes nothing but prevents overflow."""
    largest = x.amax(dim, keepdim=True).detach()
    weights = (x - largest.masked_fill(~largest.isfinite(), 0)).exp()
    total = weights.sum(dim, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def softmax_gradient(g: Array, out: Array, dim: int) -> Array:
    """dxᵢ = outᵢ (gᵢ − Σⱼ gⱼ outⱼ), so a shift of all x changes nothing."""
    if dim in (-1, out.ndim - 1) and out.ndim:
        return out * (g - np.expand_dims(np.vecdot(g, out), -1))
    return out * (g - np.sum(g * out, axis=dim, keepdims=True))


@op(promote="float", composed=softmax_composed, x=softmax_gradient)
@quietly
def softmax(x: Array, dim: int) -> Array:
    """e^xᵢ / Σⱼ e^xⱼ along ``dim``: positive numbers that sum to 1.  A row that is all −inf gives zeros."""
    out = np.array(x, ndmin=1)
    exponentiate(out, dim)
    total = row_sums(out, dim)
    total[total == 0] = 1
    out /= total
    return out.reshape(np.shape(x))


def log_softmax_composed(x: Array, dim: int) -> Array:
    """ln softmax(x) = x − ln Σⱼ e^xⱼ."""
    shifted = x - x.amax(dim, keepdim=True).detach()
    return shifted - shifted.logsumexp(dim, keepdim=True)


@op(
    promote="float",
    composed=log_softmax_composed,
    x=lambda g, out, dim: g - np.exp(out) * np.sum(g, axis=dim, keepdims=True),
)
@quietly
def log_softmax(x: Array, dim: int) -> Array:
    """xᵢ − ln Σⱼ e^xⱼ along ``dim``: the logarithm of :func:`softmax`, without overflow or ln 0."""
    out: Any = np.array(x, ndmin=1)
    (axis,) = normalize_dims(dim, out.ndim)
    if out.shape[axis]:
        largest = np.max(out, axis=dim, keepdims=True)
        np.maximum(largest, np.finfo(out.dtype).min, out=largest)
        out -= largest
        out -= np.log(np.add.reduce(np.exp(out), axis=dim, keepdims=True))
    return out.reshape(np.shape(x))
