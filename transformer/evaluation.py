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

MIN_PART_TOKENS = 250  # a shorter text is not cut
N_PARTS = 32
"""Into so many consecutive parts a text is cut to see how far its loss can be trusted."""


@dataclass(frozen=True)
class Score:
    """The summed cross-entropy of a text, what it is spread over, and how far the mean can be trusted."""

    nats: float  # Σ −ln p of the tokens
    characters: int
    bytes: int  # in UTF-8
    nats_of_parts: Sequence[float] = ()
    """The summed cross-entropy of each of the consecutive parts of :func:`parts_of`."""
    characters_of_parts: Sequence[int] = ()

    @property
    def standard_error(self) -> float:
        """That of ``nats_per_character``, by :func:`standard_error`; NaN for a text too short to tell."""
        return standard_error(self.nats_of_parts, self.characters_of_parts)

    def difference_to(self, nats_of_parts: Sequence[float]) -> tuple[float, float]:
        """Return how many nats per character another model needs more, and the standard error of that.

        Both find the same passages hard, so that their difference is known much better than either loss.
        """
        differences = [other - own for own, other in zip(self.nats_of_parts, nats_of_parts, strict=True)]
        return math.fsum(differences) / self.characters, standard_error(differences, self.characters_of_parts)

    @property
    def nats_per_character(self) -> float:
        """Mean surprise at a character, in nats: ln of the number of equally good guesses."""
        return self.nats / self.characters

    @property
    def bits_per_character(self) -> float:
        """The same in bits."""
        return self.nats_per_character / math.log(2)

    @property
    def bits_per_byte(self) -> float:
        """Mean surprise at a byte of the UTF-8 text, in bits: what a compressor would need."""
        return self.nats / self.bytes / math.log(2)


def standard_error(totals: Sequence[float], weights: Sequence[float]) -> float:
    """Return how far Σ totals / Σ weights would typically be off if another text of the kind had been measured.

    The losses of neighbouring tokens are no independent measurements: a passage is hard or easy as a whole, and
    to take each token as one would claim several times too much precision.  So the text is cut into consecutive
    parts so long that one tells little of the next, and their spread around the common mean R counts:

        SE = √( n / (n − 1) · Σ (totalᵢ − R · weightᵢ)² ) / Σ weightᵢ

    (Cochran, "Sampling Techniques", 1977, chapter 6, for ratios).  With :data:`N_PARTS` parts the
    error is itself known to about one eighth.  What another seed of the training would change is no part of it.

    >>> round(standard_error([2.0, 4.0, 3.0, 3.0], [1, 1, 1, 1]), 3)  # of the mean, which is 3
    0.408

    Args:
        totals: the summed loss of each part.
        weights: what each is spread over, such as its number of characters.

    Returns:
        The standard error; NaN for fewer than two parts.
    """
    n = len(totals)
    if n < 2:
        return math.nan
    mean = math.fsum(totals) / math.fsum(weights)
    deviations = math.fsum((total - mean * weight) ** 2 for total, weight in zip(totals, weights, strict=True))
    return math.sqrt(n / (n - 1) * deviations) / math.fsum(weights)


def parts_of(n: int, least: int = MIN_PART_TOKENS) -> list[slice]:
    """Return where to cut n tokens into up to :data:`N_PARTS` consecutive parts, none smaller than ``least``.

    >>> parts_of(10, least=4)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    n_parts = max(1, min(N_PARTS, n // least))
    return [slice(i * n // n_parts, (i + 1) * n // n_parts) for i in range(n_parts)]


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


def window_losses(model: Transformer, tokens: Tensor) -> Tensor:
    """Return the cross-entropy (B, T), in nats, of each token of some windows (B, T + 1) but the first."""
    with mg.no_grad():
        logits = model(tokens[:, :-1])  # (B, T, V)
        losses = F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1), reduction="none"
        )  # (B · T,)
    return losses.reshape(len(tokens), -1).double()


def token_losses(
    model: Transformer,
    ids: Tensor,
    n_scored: int,
    batch_size: int | None = None,
    threads: int = 1,
    on_batch: Callable[[int], Any] | None = None,
) -> Tensor:
    """Return the cross-entropies (n_scored,), in nats, of the last ``n_scored`` tokens of a text.

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

    def losses_that_count(batch: Sequence[tuple[int, int]]) -> Tensor:
        starts, counts = (mg.tensor(column).unsqueeze(1) for column in zip(*batch, strict=True))  # (B, 1) each
        losses = window_losses(model, ids[starts + mg.arange(context + 1)].long())  # (B, T)
        return losses[mg.arange(context) >= context - counts]

    batches = [windows[i : i + batch_size] for i in range(0, len(windows), batch_size)]
    scored = in_batches(model, losses_that_count, batches, threads, on_batch)
    return mg.cat([mg.zeros(0, dtype=mg.float64), *scored])


def position_losses(
    model: Transformer,
    ids: Tensor,
    length: int,
    max_tokens: int,
    threads: int = 1,
    on_batch: Callable[[int], Any] | None = None,
) -> Tensor:
    """Return the cross-entropies (W, length), in nats, of tokens by how many tokens the model saw before.

    Column t holds those of the tokens that were predicted from t + 1 tokens.  The windows lie side by side.

    Args:
        model: it is evaluated without dropout.
        ids: the tokens (N,).
        length: how many predictions a window has; more than the context shows how the model fares past it.
        max_tokens: of a longer text, windows are taken at equal distances so that there are about so many.
        threads: batches that run side by side.
        on_batch: called with the number of tokens scored by each batch.

    Raises:
        ValueError: the text is shorter than one window, or ``length`` longer than learned positions go.
    """
    n_windows = (len(ids) - 1) // length
    if n_windows < 1:
        raise ValueError(f"{len(ids)} tokens are too few for one window of {length} predictions")
    step = max(1, n_windows // max(1, max_tokens // length))
    starts = mg.arange(0, n_windows, step).unsqueeze(1) * length  # (W, 1)
    batches = starts.split(max(1, 2048 // length))
    offsets = mg.arange(length + 1)
    scored = in_batches(
        model,
        lambda batch: window_losses(model, ids[batch + offsets].long()),
        batches,
        threads,
        on_batch,
    )
    return mg.cat(scored)


def in_batches(
    model: Transformer,
    losses_of: Callable[[Any], Tensor],
    batches: Sequence[Any],
    threads: int,
    on_batch: Callable[[int], Any] | None,
) -> list[Tensor]:
    """Return the losses of each batch, computed side by side without dropout, and report as they come."""
    was_training = model.training
    model.eval()
    losses = []
    try:
        with mg.limit_threads(1), ThreadPoolExecutor(threads) as pool:
            for batch in pool.map(losses_of, batches):
                losses.append(batch)
                if on_batch is not None:
                    on_batch(batch.numel())
    finally:
        model.train(was_training)
    return losses
