"""Cross-entropy of logits against class indices, without ever holding the probabilities in the forward pass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.kernels.softmax import exponentiate, row_sums
from minigrad.op import kernel, quietly

BLOCK = 65536  # elements: 256 KB of float32


def cross_entropy_composed(
    logits: Array,
    target: Array,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """−Σ q ln softmax(logits), with q = 1 − ε on the target and ε / V spread over all V classes."""
    log_p = logits.log_softmax(-1)
    kept = target != ignore_index
    chosen = log_p[np.arange(len(target)), target.masked_fill(~kept, 0)]
    loss = -(1 - label_smoothing) * chosen
    if label_smoothing:
        loss = loss - label_smoothing * log_p.mean(-1)
    loss = loss.masked_fill(~kept, 0)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / max(kept.sum().item(), 1)


def _cross_entropy_backward(
    g: Array,
    logits: Array,
    target: Array,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    saved: tuple[Array, Array],
    wanted: Collection[str] = (),
) -> tuple[Array]:
    """d loss / d logits = softmax(logits) − q, for each row that counts."""
    kept = target != ignore_index
    scale = np.where(kept, g / max(np.count_nonzero(kept), 1) if reduction == "mean" else g, 0)
    scale = scale.astype(logits.dtype)
    shift, total = saved
    share = scale[:, None] / total
    shifted = shift.any()
    dlogits = np.empty_like(logits)
    for rows in blocks(logits.shape):
        p = dlogits[rows]
        np.exp(np.subtract(logits[rows], shift[rows], out=p) if shifted else logits[rows], out=p)
        p *= share[rows]
        if label_smoothing:
            p -= scale[rows, None] * (label_smoothing / logits.shape[1])
    dlogits[np.arange(len(target)), np.where(kept, target, 0)] -= (1 - label_smoothing) * scale
    if not kept.all():
        dlogits[~kept] = 0  # also where an ignored row holds infinities
    return (dlogits,)


def blocks(shape: tuple[int, ...]) -> list[slice]:
    """Return ranges of rows that fit into a near cache, where several passes over them cost little."""
    at_once = max(1, BLOCK // max(shape[1], 1))
    return [slice(start, start + at_once) for start in range(0, shape[0], at_once)]


@kernel(_cross_entropy_backward, ["logits"], composed=cross_entropy_composed)
@quietly
def _cross_entropy(
    logits: Array,
    target: Array,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Logits (n, V) and class indices (n,) → the loss, and what makes up each row's normaliser to save."""
    shift, total = np.zeros((2, len(logits), 1), logits.dtype)
    for rows in blocks(logits.shape):
        exponentials = np.array(logits[rows])
        shift[rows] = exponentiate(exponentials)
        total[rows] = row_sums(exponentials)
    kept = target != ignore_index
    chosen = logits[np.arange(len(target)), np.where(kept, target, 0)]
    loss = np.log(total[:, 0]) - (chosen - shift[:, 0])
    if label_smoothing:
        loss += label_smoothing * (chosen - np.mean(logits, axis=1))
    loss[~kept] = 0
    if reduction == "none":
        return loss, (shift, total)
    result = np.add.reduce(loss)
    if reduction == "mean":
        result = result / np.asarray(max(np.count_nonzero(kept), 1), logits.dtype)
    return result, (shift, total)
