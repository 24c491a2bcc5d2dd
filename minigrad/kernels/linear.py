"""The affine map of a layer, y = x Wᵀ + b, as one large matrix product over all rows of the batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel


@functools.lru_cache(maxsize=64)
def constant(n: int, value: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a vector (n,) of one value, read-only: for sums as products, at which BLAS is quick."""
    vector = np.full(n, value, dtype)
    vector.flags.writeable = False
    return vector


def column_sums(x: Array) -> Array:
    """Return the sum over the rows of a matrix, as a product with ones: BLAS adds faster than NumPy's reduce."""
    return constant(len(x), 1.0, x.dtype) @ x


def linear_composed(x: Array, weight: Array, bias: Array = None) -> Array:
    """x Wᵀ + b."""
    out = x @ weight.T
    return out if bias is None else out + bias


def _linear_backward(
    g: Array, x: Array, weight: Array, bias: Array, wanted: Collection[str] = ()
) -> tuple[Array, ...]:
    """dx = g W, dW = gᵀ x, db = Σ g, with all leading dimensions as rows."""
    n = math.prod(g.shape[:-1])  # not −1, which is undefined where another size is 0
    rows = g.reshape(n, g.shape[-1])
    dx = dweight = dbias = None
    if "x" in wanted:
        dx = np.empty(x.shape, np.result_type(g, weight))
        np.matmul(rows, weight, out=dx.reshape(n, x.shape[-1]))
    if "weight" in wanted:
        dweight = rows.T @ x.reshape(n, x.shape[-1])
    if "bias" in wanted:
        dbias = column_sums(rows)
    return dx, dweight, dbias


@kernel(_linear_backward, ["x", "weight", "bias"], composed=linear_composed)
def linear(x: Array, weight: Array, bias: Array = None) -> Array:
    """x Wᵀ + b over the last dimension: (…, in) with W (out, in) and b (out,) or None gives (…, out).

    Raises:
        RuntimeError: the last dimension of x is not that of W.
    """
    if x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        raise ValueError(f"an input of shape {x.shape} doesn't fit a weight of shape {weight.shape} (out, in)")
    out = np.empty((*x.shape[:-1], weight.shape[0]), np.result_type(x, weight))
    n = math.prod(x.shape[:-1])
    np.matmul(x.reshape(n, x.shape[-1]), weight.T, out=out.reshape(n, weight.shape[0]))
    if bias is not None:
        out += bias
    return out
