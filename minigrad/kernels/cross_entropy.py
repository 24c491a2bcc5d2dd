"""Cross-entropy of logits against class indices, without ever holding the probabilities in the forward pass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad.graph import Array
from minigrad.op import kernel
from minigrad.rules.elementwise import quietly


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
    largest, log_sum = saved
    dlogits = logits - largest[:, None]  # apart: their sum would lose the digits of log_sum where logits are large
    dlogits -= log_sum[:, None]
    np.exp(dlogits, out=dlogits)
    if label_smoothing:
        dlogits -= label_smoothing / logits.shape[1]
    dlogits[np.arange(len(target)), np.where(kept, target, 0)] -= 1 - label_smoothing
    dlogits *= scale[:, None]
    if not kept.all():
        dlogits[~kept] = 0  # also where an ignored row holds infinities
    return (dlogits,)


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
    largest = np.max(logits, axis=1)
    np.maximum(largest, np.finfo(logits.dtype).min, out=largest)
    log_sum = np.log(np.add.reduce(np.exp(logits - largest[:, None]), axis=1))
    kept = target != ignore_index
    chosen = logits[np.arange(len(target)), np.where(kept, target, 0)]
    loss = log_sum - (chosen - largest)
    if label_smoothing:
        loss += label_smoothing * (chosen - np.mean(logits, axis=1))
    loss[~kept] = 0
    if reduction == "none":
        return loss, (largest, log_sum)
    total = np.add.reduce(loss)
    if reduction == "mean":
        total = total / np.asarray(max(np.count_nonzero(kept), 1), logits.dtype)
    return total, (largest, log_sum)
