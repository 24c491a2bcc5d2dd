"""Scaled dot-product attention: softmax(Q Kᵀ / √d_k) V (Vaswani et al. 2017, arXiv:1706.03762, equation 1)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.softmax import softmax_in_place
from minigrad.op import kernel
from minigrad.rules.elementwise import quietly


def causal_mask(n_queries: int, n_keys: int) -> np.ndarray[Any, Any]:
    """Return True where query t may see key s: s ≤ t.  Shape (n_queries, n_keys)."""
    return np.tri(n_queries, n_keys, dtype=np.bool_)


def attention_composed(
    query: Array,
    key: Array,
    value: Array,
    mask: Array = None,
    is_causal: bool = False,
    scale: float | None = None,
    kept: Array = None,
) -> Array:
    """softmax(Q Kᵀ / √d_k + mask) V.  A boolean mask lets True through; ``kept`` is for dropout."""
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(~causal_mask(*scores.shape[-2:]), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == np.bool_ else scores + mask
    weights = scores.softmax(-1)
    return (weights if kept is None else weights * kept) @ value


def _attention_backward(
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    mask: Array,
    is_causal: bool,
    scale: float | None,
    kept: Array,
    out: Array,
    saved: Array,
    wanted: Collection[str] = (),
) -> tuple[Array, ...]:
    """With weights P and their gradient dP = g Vᵀ: dS = P (dP − Σ P dP), and Σ P dP of a row is simply g · out."""
    dropped = saved if kept is None else saved * kept
    dquery = dkey = dvalue = None
    if "value" in wanted:
        dvalue = np.matmul(dropped.mT, g)
    if "query" in wanted or "key" in wanted:
        dscores = np.matmul(g, value.mT)
        if kept is not None:
            dscores *= kept
        dscores -= np.vecdot(g, out)[..., None]
        dscores *= saved
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        if "query" in wanted:
            dquery = np.matmul(dscores, key)
            dquery *= factor
        if "key" in wanted:
            dkey = np.matmul(dscores.mT, query)
            dkey *= factor
    return dquery, dkey, dvalue


@kernel(_attention_backward, ["query", "key", "value"], composed=attention_composed)
@quietly
def _attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array = None,
    is_causal: bool = False,
    scale: float | None = None,
    kept: Array = None,
) -> Any:
    """(…, T, d_k), (…, S, d_k), (…, S, d_v) → (…, T, d_v), and the weights (…, T, S) to save."""
    weights = np.matmul(query, key.mT)
    weights *= 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if is_causal:
        np.copyto(weights, -np.inf, where=~causal_mask(*weights.shape[-2:]))
    if mask is not None:
        if mask.dtype == np.bool_:
            weights = np.where(mask, weights, np.asarray(-np.inf, weights.dtype))
        else:
            weights = weights + mask.astype(weights.dtype)
    softmax_in_place(weights)
    return np.matmul(weights if kept is None else weights * kept, value), weights
