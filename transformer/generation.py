"""Talking: from logits to a distribution, from the distribution to a token, and again with that token read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import minigrad as mg
from minigrad import Tensor
from transformer.model import Transformer
from transformer.reader import Reader
from transformer.tokenizer import Tokenizer

Prompt = TypeVar("Prompt", str, list[str])
"""A text, which grows by texts; or a list of them, which grows by lists."""

NOT_FINITE = "the model gives no finite logits: its weights are damaged, or its training has diverged"


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn from the model's logits.

    Args:
        temperature: logits are divided by it: below 1 bolder, above 1 wilder, 0 always the likeliest token.
        top_k: keep only the k likeliest tokens; 0 or at least V keeps all.
        top_p: keep only the likeliest tokens that together first reach this probability (always at least one).

    Raises:
        ValueError: names the option, its value and what is allowed.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"the temperature must be a number of at least 0, not {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0 (0: off), not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1 (1: off), not {self.top_p}")

    def distribution(self, logits: Tensor) -> Tensor:
        """Return the probabilities (V,) of the next token, float64, given its logits (V,)."""
        logits = logits.detach().double()
        if self.temperature == 0:
            return mg.arange(len(logits)).eq(logits.argmax()).double()
        # Below 1e-200 nothing would change any more, but the quotient could overflow.
        probabilities = (logits / max(self.temperature, 1e-200)).softmax(-1)  # (V,)
        if self.top_k in range(1, len(logits)) or self.top_p < 1:
            return self.likeliest(probabilities)
        return probabilities

    def likeliest(self, probabilities: Tensor) -> Tensor:
        """Return the distribution (V,) with the unlikely tokens taken out of it."""
        ordered, indices = probabilities.sort(descending=True, stable=True)
        kept = mg.arange(len(ordered)) < (self.top_k or len(ordered))  # (V,)   in order of likelihood
        if self.top_p < 1:
            before = ordered.cumsum(0) - ordered  # what the likelier tokens have together
            kept = kept & (before < self.top_p)
        ordered = ordered.masked_fill(~kept, 0.0)
        return mg.zeros_like(probabilities).scatter_add(0, indices, ordered / ordered.sum())

    def draw(self, logits: Tensor, generator: mg.Generator | None = None) -> int:
        """Return a token drawn from logits (V,).

        Raises:
            ValueError: a logit is NaN or infinite.
        """
        if self.temperature == 0:
            token = int(logits.argmax().item())  # a NaN counts as the largest
            if not math.isfinite(logits[token].item()):
                raise ValueError(NOT_FINITE)
            return token
        try:
            return int(mg.multinomial(self.distribution(logits), 1, generator=generator).item())
        except RuntimeError:  # the probabilities are no numbers
            raise ValueError(NOT_FINITE) from None


def generate_ids(
    model: Transformer,
    ids: Sequence[int],
    n_tokens: int,
    temperature: float = 1.0,
    generator: mg.Generator | None = None,
    window: int | None = None,
) -> Iterator[int]:
    """Yield ``n_tokens`` new token ids after ``ids``, each as soon as it is drawn: the loop without all else.

    Args:
        model: what continues the text; it is switched to evaluation.
        ids: the tokens of the text so far, at least one.
        n_tokens: how many to add.
        temperature: see :class:`Sampling`.
        generator: where the random numbers come from (default: the global generator).
        window: how many tokens the model sees at most (default: its context): see :class:`Reader`.

    Raises:
        ValueError: there is no token to start from, an option is out of its range, or a logit is infinite or NaN.
    """
    sampling = Sampling(temperature)
    reader = Reader(model, window=window)
    new = list(ids)
    for _ in range(n_tokens):
        logits = reader.read([new])  # (1, V)
        token = sampling.draw(logits[0], generator)
        new = [token]
        yield token


class StopFilter:
    """Passes text on until one of some strings is complete; of that string, nothing is passed on.

    >>> text = StopFilter(["END"])
    >>> text.feed("the E"), text.feed("EN"), text.feed("D."), text.stopped
    ('the ', 'E', '', True)

    What could be the beginning of such a string is held back until it is clear that it is not.  When several are
    complete at one character, the longest counts; so the result depends on the text alone, not on its pieces.

    Args:
        strings: those that end the text; without any, all text passes.

    Raises:
        ValueError: a string is empty.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        if "" in strings:
            raise ValueError("a stop string must have at least one character")
        self.strings = sorted(strings, key=len, reverse=True)
        self.held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Return what may be shown now that ``text`` has come."""
        if not self.strings:
            return text
        shown = ""
        for character in text:
            if self.stopped:
                break
            self.held += character
            for string in self.strings:
                if self.held.endswith(string):
                    self.stopped, text_before = True, self.held[: -len(string)]
                    shown, self.held = shown + text_before, ""
                    break
            else:
                n = self.held_back()
                shown, self.held = shown + self.held[: len(self.held) - n], self.held[len(self.held) - n :]
        return shown

    def held_back(self) -> int:
        """Return how many of the last characters could be the beginning of a stop string."""
        longest = min(len(self.held), len(self.strings[0]) - 1)
        endings = (self.held[-n:] for n in range(longest, 0, -1))
        return next((len(e) for e in endings if any(string.startswith(e) for string in self.strings)), 0)

    def flush(self) -> str:
        """Return what was held back: the text has ended, and it was no stop string."""
        held, self.held = self.held, ""
        return held


class Writer:
    """Writes on B texts, side by side: add to them, have them continued, add again.  Nothing is read twice.

    >>> from transformer import CharTokenizer, Config
    >>> writer = Writer(Transformer(Config(vocab_size=3, n_layers=1, d_model=8)), CharTokenizer("abc"))
    >>> writer.add(["ab"])
    >>> text = "".join(pieces[0] for pieces in writer.write(5))
    >>> writer.add(["ca"])
    >>> len(text + "".join(pieces[0] for pieces in writer.write(5)))
    10

    Args:
        model: what writes; it is switched to evaluation.
        tokenizer: the model's.
        sampling: how tokens are drawn.
        seed: text b draws its tokens from a generator of its own, seeded with ``seed`` + b; without a seed all
            draw from the global one.
        batch_size: B.
        window: how many tokens the model sees at most (default: its context).

    Raises:
        ValueError: the window is of no possible size.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        sampling: Sampling | None = None,
        seed: int | None = None,
        batch_size: int = 1,
        window: int | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.sampling = sampling or Sampling()
        self.reader = Reader(model, batch_size, window)
        self.generators = [
            None if seed is None else mg.Generator().manual_seed(seed + row) for row in range(batch_size)
        ]
        self.unread: list[list[int]] = [[] for _ in range(batch_size)]

    def add(self, texts: Sequence[str]) -> None:
        """Append to each text; to have it read, write on.

        Raises:
            ValueError: there are more or fewer texts than are written on, or one has characters that the tokenizer
                does not know; then nothing is appended.
        """
        if len(texts) != len(self.unread):
            raise ValueError(f"{len(texts)} texts can't be appended to the {len(self.unread)} that are written on")
        for unread, ids in zip(self.unread, [self.tokenizer.encode(text) for text in texts], strict=True):
            unread.extend(ids)

    def write(self, n_tokens: int, stop: Sequence[str] = ()) -> Iterator[list[str]]:
        """Continue each text by up to ``n_tokens``; yield, token by token, the piece that each text grows by.

        Pieces are whole characters, or "".  A text that is still empty starts from a line break.

        A text ends before the first of the ``stop`` strings, which, like all that the model wrote, it has read
        when it is continued.  Where there are others, a text that has stopped cannot be continued.

        Raises:
            ValueError: a stop string is empty, or a logit is infinite or NaN.
        """
        for unread, seen in zip(self.unread, self.reader.visible, strict=True):
            if not (unread or seen):
                unread.extend(start_ids(self.tokenizer))
        decoders = [self.tokenizer.stream_decoder() for _ in self.unread]
        filters = [StopFilter(stop) for _ in self.unread]
        active = list(range(len(self.unread)))
        for _ in range(n_tokens):
            logits = self.reader.read([self.unread[row] for row in active])  # (active, V)
            pieces = [""] * len(filters)
            for i, row in enumerate(active):
                token = self.sampling.draw(logits[i], self.generators[row])
                self.unread[row] = [token]
                pieces[row] = filters[row].feed(decoders[row].feed(token))
            yield pieces
            going_on = [row for row in active if not filters[row].stopped]
            if not going_on:
                return
            if len(going_on) < len(active):
                self.reader.keep([active.index(row) for row in going_on])
                active = going_on
        # A character that is not complete by now never will be: it is left out.
        rest = [text.flush() for text in filters]
        if any(rest):
            yield rest


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: Prompt = "",  # type: ignore[assignment]  # without one, Prompt is str
    n_tokens: int = 300,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    stop: str | Sequence[str] = (),
    window: int | None = None,
) -> Iterator[Prompt]:
    """Yield the continuation of ``prompt`` piece by piece, each piece whole characters.

    An empty prompt starts from a line break, or from the tokenizer's first token if it knows no line break.

    Of a list of prompts, each is continued as it would be alone, but all in the same passes; what is yielded are
    lists with one piece for each, "" where it has not grown::

        texts = ["".join(pieces) for pieces in zip(*generate(model, tokenizer, ["The ", "A "]))]

    Args:
        model: what continues it; it is switched to evaluation.
        tokenizer: the model's.
        prompt: a text, or a list of them.
        n_tokens: how many tokens to add at most.
        temperature, top_k, top_p: see :class:`Sampling`.
        seed: with a seed, the same call gives the same text; prompt i of a list is as if alone with ``seed`` + i.
        stop: a string, or several, before the first of which the text ends.
        window: how many tokens the model sees at most (default: its context): see :class:`Reader`.

    Raises:
        ValueError: the prompt has characters that the tokenizer does not know, the list is empty, or an option is
            out of its range; or, while it is being continued, a logit is infinite or NaN.
    """
    prompts = [prompt] if isinstance(prompt, str) else prompt
    if not prompts:
        raise ValueError("there is no prompt in the list")
    sampling = Sampling(temperature, top_k, top_p)
    strings = [stop] if isinstance(stop, str) else stop
    StopFilter(strings)  # complain at once
    writer = Writer(model, tokenizer, sampling, seed, len(prompts), window)
    writer.add(prompts)
    written = writer.write(n_tokens, strings)
    if isinstance(prompt, str):
        return (piece for (piece,) in written if piece)
    return written


def start_ids(tokenizer: Tokenizer) -> list[int]:
    """Return what an empty prompt starts from: a line break where there is one."""
    try:
        return tokenizer.encode("\n")
    except ValueError:
        return [0]
