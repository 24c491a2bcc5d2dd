"""Reading texts token by token: what the model sees of them, and what it expects next."""

from __future__ import annotations

from collections.abc import Sequence

import minigrad as mg
from minigrad import Tensor
from minigrad.kernels.decoder_step import DecoderStep
from transformer.cache import KeyValueCache
from transformer.model import Transformer
from transformer.step import decoder_step


def first_visible(n_tokens: int, window: int) -> int:
    """Return the first of ``n_tokens`` that a model sees through a window: the text's beginning leaves it in hops.

    >>> [first_visible(n, window=4) for n in range(1, 11)]
    [0, 0, 0, 0, 2, 2, 4, 4, 6, 6]

    Positions count from the first visible token, so whenever that moves, all that is visible has to be read again.
    Hops of half a window make this rare, and leave at least half a window in sight: as when a model is evaluated.
    """
    hop = max(1, window // 2)
    return -(-max(0, n_tokens - window) // hop) * hop


class Reader:
    """Reads B texts side by side, of different lengths if need be, each token once.

    After n tokens of a text, the model's expectation is what a pass over the tokens from
    ``first_visible(n, window)`` on gives for the last of them.

    Args:
        model: read with; it is switched to evaluation.
        batch_size: B.
        window: how many tokens the model sees at most (default: its context).  Sinusoidal positions go on beyond
            the context, though the model has never seen them in training.

    Raises:
        ValueError: the window is below 1, or beyond the context of a model with learned positions.
    """

    def __init__(self, model: Transformer, batch_size: int = 1, window: int | None = None) -> None:
        context = model.config.context
        self.window = context if window is None else window
        if self.window < 1:
            raise ValueError(f"the window must be at least 1 token, not {window}")
        if self.window > context and model.config.positions == "learned":
            raise ValueError(
                f"this model has learned its {context} positions one by one: the window cannot be {window}, "
                f"only up to {context}"
            )
        self.model = model.eval()
        self.visible: list[list[int]] = [[] for _ in range(batch_size)]
        # In a model that is not causal all is read again for each token: later ones change the earlier.
        self.cache = model.new_cache(batch_size, min(self.window, context)) if model.config.causal else None
        self.step = decoder_step(model) if self.cache is not None else None  # the quick way for a single token
        self.slid = False  # whether a text has outgrown the window

    def read(self, new: Sequence[Sequence[int]]) -> Tensor:
        """Read some more tokens of each text, at least one; return the logits (B, V) of what comes after them.

        Raises:
            ValueError: a text has no new token.
        """
        for row, tokens in enumerate(new):
            if not tokens:
                raise ValueError("there is no token to start from")
            text = self.visible[row]
            text.extend(tokens)
            if hidden := first_visible(len(text), self.window):
                self.slid = True
                if self.cache is not None:
                    self.cache.lengths[row] = 0
                del text[:hidden]
        with mg.no_grad(), mg.limit_threads(1):  # for products this small, more threads only wait
            return self.catch_up()

    def catch_up(self) -> Tensor:
        """Pass what is not in the cache through the model; return the logits (B, V) after each text's last token.

        Texts that lack equally many tokens share a pass.
        """
        known = [0] * len(self.visible) if self.cache is None else self.cache.lengths
        unread = [text[n:] for text, n in zip(self.visible, known, strict=True)]
        if self.cache is not None and self.step is not None and len(unread) == len(unread[0]) == 1:
            return self.read_one(unread[0][0], self.cache, self.step)
        if all(len(tokens) == len(unread[0]) for tokens in unread):
            return self.model(mg.tensor(unread), cache=self.cache)[:, -1]  # type: ignore[no-any-return]
        logits: dict[int, Tensor] = {}
        for n in sorted({len(tokens) for tokens in unread}):
            rows = [row for row, tokens in enumerate(unread) if len(tokens) == n]
            part = None if self.cache is None else self.cache.take(rows)
            last = self.model(mg.tensor([unread[row] for row in rows]), cache=part)[:, -1]  # (rows, V)
            if self.cache is not None and part is not None:
                self.cache.put(rows, part)
            logits.update(zip(rows, last, strict=True))
        return mg.stack([logits[row] for row in range(len(unread))])  # (B, V)

    def read_one(self, token: int, cache: KeyValueCache, step: DecoderStep) -> Tensor:
        """Pass a single token of a single text through the model; return the logits (1, V) after it."""
        (place,) = cache.lengths
        cache.reserve(place + 1)
        logits = step(token, self.model.embedding.positions(place, place + 1), cache.kept, place)
        cache.advance(1)
        return logits

    def note(self) -> str:
        """Return a sentence if a text is longer than what the model sees, or was trained to see; else ""."""
        context, longest = self.model.config.context, max(map(len, self.visible))
        if longest > context or (self.slid and self.window > context):
            return (
                f"the text has gone on past the {context} tokens that the model was trained to see at once, "
                f"where it predicts worse; it sees up to {self.window}"
            )
        if self.slid:
            least = self.window - max(1, self.window // 2) + 1
            return (
                f"the text has become longer than the {self.window} tokens that the model sees at once: it slides "
                f"through that window, and each token is chosen from the last {least} to {self.window}"
            )
        return ""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts only."""
        self.visible = [self.visible[row] for row in rows]
        if self.cache is not None:
            self.cache = self.cache.take(rows)
