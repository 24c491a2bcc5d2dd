"""What a table of counts achieves: the n-gram language models every trained transformer should beat.

An n-gram model of order n predicts the next character from the n - 1 characters before it, by counting what
followed them in the training text.  Long contexts are specific but rare, short ones are vague but well
counted; interpolated Witten-Bell smoothing mixes all of them, each weighted by how often it has been seen:

    P(w | h) = (c(h w) + T(h) · P(w | h')) / (c(h) + T(h))

c counts occurrences in the training text, T(h) is the number of distinct characters seen after the context h,
and h' is h without its oldest character.  A context never seen backs off to h' entirely; below the empty context
lies the uniform distribution 1 / vocab_size.

Source: Witten and Bell, "The zero-frequency problem: estimating the probabilities of novel events in adaptive
text compression" (1991), in the interpolated form of Chen and Goodman, "An empirical study of smoothing
techniques for language modeling" (1998), section 2.6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class NGramModel:
    """An interpolated Witten-Bell model of every order from 1 to ``order``; :meth:`train` makes one.

    >>> model = NGramModel.train("abracadabra", order=2, vocab_size=5)
    >>> round(model.probability("b", context="a"), 4)  # (2 + 3 · P(b)) / (4 + 3), with P(b) = 3 / 16
    0.3661
    >>> round(model.cross_entropy("abra"), 4)  # nats per character
    0.6338

    Args:
        order: the longest context is one character shorter than this.
        vocab_size: the number of different characters that can occur; untrained, each has the probability of one
            of so many.

    Raises:
        ValueError: ``order`` or ``vocab_size`` is below 1.
    """

    def __init__(self, order: int, vocab_size: int) -> None:
        if order < 1:
            raise ValueError(f"the order of an n-gram model must be at least 1, not {order}")
        if vocab_size < 1:
            raise ValueError(f"vocab_size must be at least 1, not {vocab_size}")
        self.order = order
        self.vocab_size = vocab_size
        # Index = length of the context h: c(h w) of every gram, and (c(h), T(h)) of every context.
        self._gram_counts: list[dict[str, int]] = [{} for _ in range(order)]
        self._context_counts: list[dict[str, tuple[int, int]]] = [{} for _ in range(order)]

    @classmethod
    def train(
        cls, text: str, order: int, vocab_size: int, on_characters: Callable[[int], Any] | None = None
    ) -> NGramModel:
        """Return a model that has counted every run of 1 to ``order`` characters.

        Args:
            text: what to count in.
            order: of the longest runs.
            vocab_size: the number of different characters that can occur at all, which may be more than the text
                shows.
            on_characters: is told how many characters were counted, each once for every order.

        Raises:
            ValueError: ``vocab_size`` is less than the text shows, or ``order`` is below 1.
        """
        model = cls(order, vocab_size)
        for length in range(order):
            grams = (text[start : start + length + 1] for start in range(len(text) - length))
            model._gram_counts[length] = gram_counts = Counter(grams)
            model._context_counts[length] = _count_contexts(gram_counts)
            if on_characters is not None:
                on_characters(len(text))
        distinct = len(model._gram_counts[0])
        if distinct > vocab_size:
            raise ValueError(
                f"vocab_size is {vocab_size}, but the training text has {distinct} different characters"
            )
        return model

    def probability(self, character: str, context: str) -> float:
        """Return P(character | context) at the full order, from the last ``order`` - 1 of the context."""
        return self._probabilities(self._recent(context) + character)[-1]

    def cross_entropy(self, text: str, context: str = "") -> float:
        """Return the mean of -ln P over a text, in nats per character, at the full order.

        Args:
            text: what is predicted, each character from those before it.
            context: what came just before it, which is looked at but not scored.

        Raises:
            ValueError: the text is empty.
        """
        return self.cross_entropies(text, context)[-1]

    def cross_entropies(
        self, text: str, context: str = "", on_characters: Callable[[int], Any] | None = None
    ) -> list[float]:
        """Return the cross-entropy, in nats per character, at every order: entry n is that of order n.

        Entry 0 is that of the uniform distribution, ln(vocab_size).  One pass serves all orders,
        because each is computed from the one below it.

        Args:
            text: what is predicted, each character from those before it.
            context: what came just before it, which is looked at but not scored.
            on_characters: is called for every character with the number of orders, ``order``.

        Raises:
            ValueError: the text is empty.
        """
        if not text:
            raise ValueError("the cross-entropy of no characters at all is undefined")
        recent = self._recent(context)
        read = recent + text
        totals = [0.0] * (self.order + 1)
        for position in range(len(recent), len(read)):
            window = read[max(0, position - self.order + 1) : position + 1]
            for order, probability in enumerate(self._probabilities(window)):
                totals[order] -= math.log(probability)
            if on_characters is not None:
                on_characters(self.order)
        return [total / len(text) for total in totals]

    def _recent(self, context: str) -> str:
        return context[max(0, len(context) - self.order + 1) :]

    def _probabilities(self, window: str) -> list[float]:
        """Return P(last character | those before it) at the orders 0 (uniform), 1, ..., ``order``."""
        probability = 1 / self.vocab_size
        by_order = [probability]
        for length in range(self.order):
            if length < len(window):  # otherwise too little text precedes it for a context this long
                gram = window[len(window) - length - 1 :]
                context_count, distinct = self._context_counts[length].get(gram[:-1], (0, 0))
                if context_count:
                    count = self._gram_counts[length].get(gram, 0)
                    probability = (count + distinct * probability) / (context_count + distinct)
            by_order.append(probability)
        return by_order


def _count_contexts(gram_counts: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return (c(h), T(h)) of every context h: how often anything followed it, and how many different ones."""
    contexts: dict[str, tuple[int, int]] = {}
    for gram, count in gram_counts.items():
        total, distinct = contexts.get(gram[:-1], (0, 0))
        contexts[gram[:-1]] = (total + count, distinct + 1)
    return contexts


@dataclass(frozen=True)
class Baseline:
    """How well one simple model predicts the held-out text, and each part of it."""

    name: str
    order: int  # 0: the uniform distribution
    nats_per_character: float  # the mean over all of the held-out text
    nats_of_parts: tuple[float, ...]  # the sum over each part


def ngram_baselines(
    train: str,
    held_out: str,
    orders: Iterable[int] = range(1, 7),
    vocab_size: int | None = None,
    context: str | None = None,
    parts: Sequence[int] | None = None,
    on_characters: Callable[[int], Any] | None = None,
) -> list[Baseline]:
    """Return the cross-entropy on ``held_out`` of the uniform distribution and of n-gram models of ``train``.

    >>> line = "the cat sat on the mat. "
    >>> for baseline in ngram_baselines(line * 9, line, orders=[1, 3]):
    ...     print(f"{baseline.name}: {baseline.nats_per_character:.3f} nats per character")
    uniform: 2.398 nats per character
    1-gram: 2.143 nats per character
    3-gram: 0.223 nats per character

    Args:
        train: the text to count in.
        held_out: the text to predict.  To compare with a model that was measured on a part of it only, pass that
            part.
        orders: of the n-gram models.
        vocab_size: the number of different characters that can occur (default: those of both texts together).
        context: what comes before ``held_out``, by which its beginning is predicted (default: ``train``).
        parts: the sizes of consecutive parts of ``held_out``, all of it together, whose losses are wanted one by
            one as well (default: one part).
        on_characters: is told of the characters counted and scored, each once for every order.

    Returns:
        One baseline for the uniform distribution and one for each order, in ascending order.

    Raises:
        ValueError: ``held_out`` is empty, an order is below 1, or ``vocab_size`` is smaller than the number of
            different characters in ``train``.
    """
    wanted = sorted(set(orders))
    if wanted and wanted[0] < 1:
        raise ValueError(f"the order of an n-gram model must be at least 1, not {wanted[0]}")
    if vocab_size is None:
        vocab_size = len({*train, *held_out})
    model = NGramModel.train(train, max(wanted, default=1), vocab_size, on_characters)
    before = train if context is None else context
    end, totals = 0, []  # of each part, the summed loss at every order
    for size in parts or [len(held_out)]:
        start, end = end, end + size
        recent = held_out[max(0, start - model.order) : start] if start else before
        means = model.cross_entropies(held_out[start:end], recent, on_characters)
        totals.append([mean * size for mean in means])
    return [
        Baseline(
            f"{order}-gram" if order else "uniform",
            order,
            math.fsum(part[order] for part in totals) / len(held_out),
            tuple(part[order] for part in totals),
        )
        for order in (0, *wanted)
    ]
