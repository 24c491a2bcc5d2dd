"""Scaled dot-product attention: softmax(Q Kᵀ / √d_k) V (Vaswani et al. 2017, arXiv:1706.03762, equation 1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.softmax import exponentiate, row_sums
from minigrad.op import kernel, quietly

QUERIES_AT_ONCE = 32  # of a causal attention: fewer keys are then beyond what any of them may see


@functools.lru_cache(maxsize=16)
def causal_mask(n_queries: int, n_keys: int) -> np.ndarray[Any, Any]:
    """Return True where query t may see key s: s ≤ t.  Shape (n_queries, n_keys), read-only."""
    mask = np.tri(n_queries, n_keys, dtype=np.bool_)
    mask.flags.writeable = False
    return mask


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


def scale_of(query: Array, scale: float | None) -> float:
    """Return what the products q · k are multiplied by: ``scale``, or 1 / √d_k."""
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def heads_inside(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return an empty array (…, H, T, d) that lies in memory as (…, T, H, d): joining the heads is then free."""
    if len(shape) < 3:
        return np.empty(shape, dtype)
    *batch, heads, length, width = shape
    return np.empty((*batch, length, heads, width), dtype).swapaxes(-3, -2)


class Piece(NamedTuple):
    """A piece of the attention matrix: some queries, and the keys that they may see."""

    queries: slice
    keys: slice
    exponentials: np.ndarray[Any, Any]  # (…, queries, keys): the weights, each times the total of its row
    total: np.ndarray[Any, Any]  # (…, queries, 1): the row sums of these


def pieces(n_queries: int, n_keys: int, is_causal: bool) -> list[tuple[slice, slice]]:
    """Return the ranges of queries and keys to work through: with a causal mask, what is not all masked."""
    if not is_causal:
        return [(slice(0, n_queries), slice(0, n_keys))]
    starts = range(0, max(n_queries, 1), QUERIES_AT_ONCE)
    ends = [min(start + QUERIES_AT_ONCE, n_queries) for start in starts]
    return [(slice(a, b), slice(0, min(b, n_keys))) for a, b in zip(starts, ends, strict=True)]


def part_of(mask: Array, queries: slice, keys: slice) -> Array:
    """Return a piece of what broadcasts to (…, T, S), or None."""
    if mask is None or mask.ndim == 0:
        return mask
    if mask.shape[-1] > 1:
        mask = mask[..., keys]
    return mask[..., queries, :] if mask.ndim > 1 and mask.shape[-2] > 1 else mask


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
    saved: list[Piece],
    wanted: Collection[str] = (),
) -> tuple[Array, ...]:
    """With weights P and their gradient dP = g Vᵀ: dS = P (dP − Σ P dP), and Σ P dP of a row is simply g · out.

    P is what was saved divided by a total for each row, and that division is done on the narrower g instead.
    """
    batch = out.shape[:-2]
    dquery, dkey, dvalue = (
        heads_inside((*batch, *x.shape[-2:]), out.dtype) if name in wanted else None
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    for gradient in (dkey, dvalue):
        if gradient is not None:
            gradient[..., saved[-1].keys.stop :, :] = 0  # keys that no query may see
    # The last queries first, which see the most keys: their products fill the memory that all others are added to.
    for number, (queries, keys, weights, total) in enumerate(reversed(saved)):
        share = g[..., queries, :] / total
        drop = part_of(kept, queries, keys)
        if dvalue is not None:
            add_product(dvalue[..., keys, :], (weights if drop is None else weights * drop).mT, share, number == 0)
        if dquery is None and dkey is None:
            continue
        dscores = np.matmul(share, value[..., keys, :].mT)
        if drop is not None:
            dscores *= drop
        dscores -= np.vecdot(share, out[..., queries, :])[..., None]
        dscores *= weights
        if dquery is not None:
            np.matmul(dscores, key[..., keys, :], out=dquery[..., queries, :])
        if dkey is not None:
            add_product(dkey[..., keys, :], dscores.mT, query[..., queries, :], number == 0)
    for gradient in (dquery, dkey):
        if gradient is not None:
            gradient *= scale_of(query, scale)
    return dquery, dkey, dvalue


def add_product(total: Array, x: Array, y: Array, first: bool) -> None:
    """Add x @ y to ``total``, which is empty memory at first."""
    if first:
        np.matmul(x, y, out=total)
    else:
        total += np.matmul(x, y)


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
    """(…, T, d_k), (…, S, d_k), (…, S, d_v) → (…, T, d_v), and the pieces of the attention matrix to save."""
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        batch = np.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
    if mask is not None:
        batch = np.broadcast_shapes(batch, mask.shape[:-2])
    out = heads_inside((*batch, query.shape[-2], value.shape[-1]), np.result_type(query, key, value))
    scaled = query * np.asarray(scale_of(query, scale), query.dtype)
    saved = []
    for queries, keys in pieces(query.shape[-2], key.shape[-2], is_causal):
        weights = np.matmul(scaled[..., queries, :], key[..., keys, :].mT)
        allowed = part_of(mask, queries, keys)
        if allowed is not None and allowed.dtype != np.bool_:
            weights, allowed = weights + allowed.astype(weights.dtype), None
        if is_causal:
            seen = causal_mask(queries.stop, keys.stop)[queries]
            allowed = seen if allowed is None else seen & allowed
        if allowed is not None and allowed.ndim > 2:  # a mask of its own for each sequence, or head
            weights = np.array(np.broadcast_to(weights, np.broadcast_shapes(weights.shape, allowed.shape)))
        exponentiate(weights, allowed=allowed)
        total = row_sums(weights)
        total[total == 0] = 1
        saved.append(Piece(queries, keys, weights, total))
        drop = part_of(kept, queries, keys)
        mixed = np.matmul(weights if drop is None else weights * drop, value[..., keys, :])
        np.divide(mixed, total, out=out[..., queries, :])
    return out, saved
