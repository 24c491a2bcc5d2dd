"""Softmax and its logarithm along one dimension, safe for scores of any size.

Their rules need only the output, and are themselves differentiable NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import op
from minigrad.rules.elementwise import quietly


def softmax_composed(x: Array, dim: int) -> Array:
    """softmax(x)ᵢ = e^(xᵢ − max x) / Σⱼ e^(xⱼ − max x): the shift changes nothing but prevents overflow."""
    largest = x.amax(dim, keepdim=True).detach()
    weights = (x - largest.masked_fill(~largest.isfinite(), 0)).exp()
    total = weights.sum(dim, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def softmax_in_place(scores: Array, dim: int = -1) -> None:
    """Overwrite ``scores`` by their softmax: four passes over memory that is allocated already."""
    if scores.shape[dim] == 0:
        return
    largest = np.max(scores, axis=dim, keepdims=True)
    # A row that is all −inf becomes exp(−inf) = 0 throughout, instead of exp(−inf + inf) = NaN.
    np.maximum(largest, np.finfo(scores.dtype).min, out=largest)
    scores -= largest
    np.exp(scores, out=scores)
    total = np.add.reduce(scores, axis=dim, keepdims=True)
    total[total == 0] = 1
    scores /= total


@op(
    promote="float",
    composed=softmax_composed,
    x=lambda g, out, dim: out * (g - np.sum(g * out, axis=dim, keepdims=True)),
)
@quietly
def softmax(x: Array, dim: int) -> Array:
    """e^xᵢ / Σⱼ e^xⱼ along ``dim``: positive numbers that sum to 1.  A row that is all −inf gives zeros.

    The rule: dxᵢ = outᵢ (gᵢ − Σⱼ gⱼ outⱼ), so a shift of all x changes nothing.
    """
    out = np.array(x, ndmin=1)
    softmax_in_place(out, dim)
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
    if out.shape[dim]:
        largest = np.max(out, axis=dim, keepdims=True)
        np.maximum(largest, np.finfo(out.dtype).min, out=largest)
        out -= largest
        out -= np.log(np.add.reduce(np.exp(out), axis=dim, keepdims=True))
    return out.reshape(np.shape(x))
