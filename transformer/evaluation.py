"""How well a model predicts a text, in numbers that compare across models and tokenizers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.nn import functional as F
from transformer.model import Transformer


@dataclass(frozen=True)
class Score:
    """The summed cross-entropy of a text, and what it is spread over."""

    nats: float
    characters: int
    bytes: int

    @property
    def nats_per_character(self) -> float:
        """Mean surprise at a character, in natural units: ln of the number of equally good guesses."""
        return self.nats / self.characters

    @property
    def bits_per_character(self) -> float:
        """The same in bits."""
        return self.nats_per_character / math.log(2)

    @property
    def bits_per_byte(self) -> float:
        """Mean surprise at a byte of the UTF-8 text, in bits: what a compressor would need."""
        return self.nats / self.bytes / math.log(2)


def windows_to_score(n_tokens: int, n_scored: int, context: int) -> list[tuple[int, int]]:
    """Return windows (start, how many of its last predictions count) that score the last tokens once each.

    They overlap by half, so each token is scored with at least half a context before it wherever the text has
    that much.  A window that starts at s predicts the tokens s + 1 … s + context.

    >>> windows_to_score(10, 6, context=4)
    [(1, 2), (3, 2), (5, 2)]
    """
    stride = max(1, context // 2)
    windows = []
    position = n_tokens - n_scored
    while position < n_tokens:
        start = max(0, min(position + stride - 1 - context, n_tokens - 1 - context))
        windows.append((start, start + context - position + 1))
        position = start + context + 1
    return windows


def score_windows(model: Transformer, ids: Tensor, windows: Sequence[tuple[int, int]], context: int) -> float:
    """Return the summed cross-entropy, in nats, of those predictions that count in some windows."""
    starts = mg.tensor([start for start, _ in windows]).unsqueeze(1)  # (B, 1)
    counts = mg.tensor([count for _, count in windows]).unsqueeze(1)  # (B, 1)
    tokens = ids[starts + mg.arange(context + 1)]  # (B, T + 1)
    with mg.no_grad():
        logits = model(tokens[:, :-1])  # (B, T, V)
        losses = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1), reduction="none"
        ).reshape(len(windows), context)  # (B, T)
    counted = mg.arange(context) >= context - counts  # (B, T)
    total: float = losses.double().masked_fill(~counted, 0).sum().item()
    return total


def cross_entropy_of(
    model: Transformer,
    ids: Tensor,
    n_scored: int,
    batch_size: int | None = None,
    threads: int = 1,
    on_batch: Callable[[int], Any] | None = None,
) -> float:
    """Return the summed cross-entropy, in nats, of the last ``n_scored`` tokens of a text.

    Args:
        model: in evaluation mode or not, it is evaluated without dropout.
        ids: the tokens (N,), of which the first N − n_scored are only read.
        n_scored: how many tokens to score, at most N − 1: the first has nothing before it.
        batch_size: windows at a time (default: 32, or fewer where a vocabulary is so large that their logits
            would take more than 32 MB).
        threads: batches that run side by side; the result is the same.
        on_batch: called with the number of tokens scored by each batch.

    Raises:
        ValueError: there are not so many tokens.
    """
    if not 0 <= n_scored < len(ids):
        raise ValueError(f"cannot score {n_scored} tokens of {len(ids)}: at least 0, at most all but the first")
    context = min(model.config.context, len(ids) - 1)
    windows = windows_to_score(len(ids), n_scored, context)
    if batch_size is None:
        batch_size = min(32, max(1, 8_000_000 // (context * model.config.vocab_size)))
    batches = [windows[i : i + batch_size] for i in range(0, len(windows), batch_size)]
    was_training = model.training
    model.eval()
    losses = []
    try:
        with mg.limit_threads(1), ThreadPoolExecutor(threads) as pool:
            scored = pool.map(lambda batch: score_windows(model, ids, batch, context), batches)
            for batch, loss in zip(batches, scored, strict=True):
                losses.append(loss)
                if on_batch is not None:
                    on_batch(sum(count for _, count in batch))
    finally:
        model.train(was_training)
    return math.fsum(losses)
