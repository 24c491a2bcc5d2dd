"""Layer normalisation (Ba, Kiros and Hinton 2016, arXiv:1607.06450)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.linear import column_sums, constant
from minigrad.op import kernel, quietly


def layer_norm_composed(
    x: Array, normalized_shape: Sequence[int], weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Array:
    """(x − mean) / √(variance + ε) · γ + β, with the biased variance, over the last dimensions."""
    dims = tuple(range(-len(normalized_shape), 0))
    centered = x - x.mean(dims, keepdim=True)
    variance = (centered * centered).mean(dims, keepdim=True)
    out = centered / (variance + eps).sqrt()
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def _row_means(rows: Array) -> Array:
    """Return the mean of each row as a column, as a product with 1/d: BLAS adds faster than NumPy's reduce."""
    d = rows.shape[1]
    return (rows @ constant(d, 1 / max(d, 1), rows.dtype))[:, None]


def _layer_norm_backward(
    g: Array,
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array,
    bias: Array,
    eps: float,
    saved: tuple[Array, Array],
    wanted: Collection[str] = (),
) -> tuple[Array, ...]:
    """dx = (h − mean(h) − x̂ · mean(h x̂)) / σ with h = g γ: what is left of h once the mean and x̂ are taken out."""
    normalized, inverse_deviation = saved
    d = math.prod(normalized_shape)
    g_rows = g.reshape(normalized.shape)
    dx = dweight = dbias = None
    if "bias" in wanted:
        dbias = column_sums(g_rows).reshape(normalized_shape)
    if "weight" in wanted:
        dweight = column_sums(g_rows * normalized).reshape(normalized_shape)
    if "x" in wanted:
        dx = g_rows * inverse_deviation
        if weight is not None:
            dx *= weight.reshape(-1)
        along = (np.vecdot(dx, normalized) / max(d, 1)).astype(dx.dtype)[:, None]
        dx -= _row_means(dx)
        dx -= normalized * along
        dx = dx if x.ndim == 2 and len(normalized_shape) == 1 else dx.reshape(x.shape)
    return dx, dweight, dbias


@kernel(_layer_norm_backward, ["x", "weight", "bias"], composed=layer_norm_composed)
@quietly
def layer_norm(
    x: Array, normalized_shape: Sequence[int], weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Any:
    """(x − mean) / √(variance + ε) · γ + β over the last ``len(normalized_shape)`` dimensions.

    The variance is the biased one and ε stands inside the root, so a constant row gives β.

    Raises:
        RuntimeError: the last dimensions of x are not ``normalized_shape``.
    """
    shape = tuple(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ValueError(f"an input of shape {x.shape} doesn't end in the normalized shape {shape}")
    d = math.prod(shape)
    rows = x.reshape(-1, d) if d else x.reshape(math.prod(x.shape[: -len(shape)]), 0)
    mean = _row_means(rows)
    normalized = rows - mean
    squares = np.vecdot(normalized, normalized)[:, None]
    # The mean is rounded.  That shows where a row is nearly constant: there it is taken out once more.
    nearly_constant = squares < mean * mean * (d / 256)
    if nearly_constant.any():
        rough = np.flatnonzero(nearly_constant)
        again = normalized[rough]
        again -= _row_means(again)
        normalized[rough] = again
        squares[rough] = np.vecdot(again, again)[:, None]
    inverse_deviation = 1 / np.sqrt(squares / max(d, 1) + eps)
    normalized *= inverse_deviation.astype(x.dtype, copy=False)
    out = normalized
    if weight is not None:
        out = normalized * weight.reshape(-1)
    if bias is not None:
        out = np.add(out, bias.reshape(-1), out=None if weight is None else out)
    return out.reshape(x.shape), (normalized, inverse_deviation)
