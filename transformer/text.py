"""A text that a model learns from: split in two, encoded, and ready to be scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.baselines import Baseline, ngram_baselines
from transformer.corpus import Corpus, DataError
from transformer.data import default_corpus, random_batch, split_text
from transformer.evaluation import Score, parts_of, token_losses
from transformer.generation import generate, start_ids
from transformer.model import Transformer
from transformer.tokenizer import BPETokenizer, CharTokenizer, Tokenizer
from transformer.tokens import encode

DEFAULT_VOCAB_SIZE = 512  # of a tokenizer by byte-pair encoding
MERGES_LEARN_FROM = 10_000_000  # characters of a long text …
MERGES_SLICES = 10  # … in so many slices, at equal distances
BASELINES_LEARN_FROM = 2_000_000  # characters of a long text, its last
SAMPLE_TOKENS = 200
REPORTED_TOKENS = 200_000  # of a long held-out text, what a report is limited to unless more is asked for


@dataclass(frozen=True)
class Text:
    """A text split and encoded for training."""

    train: Corpus
    held_out: Corpus
    train_ids: Tensor  # (N,) in the smallest integers that hold every id
    held_out_ids: Tensor  # (M,)
    tokenizer: Tokenizer
    kept_in: Path | None = None  # where the tokens of a long text are
    is_other: bool = False  # whether the held-out text is one of its own, not what follows the training part

    @property
    def characters_per_token(self) -> float:
        """How long a token of the training part is on average."""
        return len(self.train) / len(self.train_ids)

    @classmethod
    def encode(
        cls,
        text: str | Corpus,
        tokenizer: Tokenizer,
        context: int,
        on_characters: Callable[[int], Any] | None = None,
    ) -> Text:
        """Split a text in two and encode both parts.

        Args:
            text: a str or a corpus, of which the last tenth is held out.
            tokenizer: with what.
            context: of the model: the training part must be longer.
            on_characters: is told how many characters are done.

        Raises:
            DataError: the text is too short for the context.
            ValueError: it has characters that the tokenizer does not know.
        """
        train, held_out = split_text(Corpus(text) if isinstance(text, str) else text)
        train_ids, kept_in = encode(train, tokenizer, on_characters)
        if len(train_ids) <= context:
            raise DataError(
                f"the text is too short: {len(train_ids)} tokens to train on, but the context is {context}; "
                f"give a longer text, or a context below {len(train_ids)}"
            )
        held_out_ids, _ = encode(held_out, tokenizer, on_characters)
        return cls(train, held_out, train_ids, held_out_ids, tokenizer, kept_in)

    @classmethod
    def of_its_own(
        cls,
        text: Corpus,
        tokenizer: Tokenizer,
        train: Corpus,
        on_characters: Callable[[int], Any] | None = None,
    ) -> Text:
        """Return a text to measure on that does not continue the text that was learned from.

        Args:
            text: what to measure on, all of it.
            tokenizer: the model's.
            train: what was learned from, for the n-gram models.
            on_characters: is told how many characters are done.

        Raises:
            ValueError: it has characters that the tokenizer does not know.
        """
        ids, kept_in = encode(text, tokenizer, on_characters)
        return cls(train, text, ids[:0], ids, tokenizer, kept_in, is_other=True)

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint has to say of the text for :func:`text_of_run`, besides its files."""
        return {"text_sha256": self.train.sha256}

    def batch(self, batch_size: int, context: int) -> tuple[Tensor, Tensor]:
        """Return random windows of the training part, drawn by the current random generator."""
        return random_batch(self.train_ids, batch_size, context)

    def sample(self, model: Transformer, seed: int) -> str:
        """Return what a model writes after an empty prompt."""
        return "".join(generate(model, self.tokenizer, "", SAMPLE_TOKENS, seed=seed))

    def measured(self, limit: int | None = None) -> Corpus:
        """Return the held-out text, or that of its first ``limit`` tokens."""
        if limit is None or limit >= len(self.held_out_ids):
            return self.held_out
        return self.held_out[: len(self.tokenizer.decode(self.held_out_ids[:limit].tolist()))]

    def characters_of_parts(self, limit: int | None = None) -> list[int]:
        """Return the numbers of characters of the parts by which the loss's standard error is found.

        They are of the first ``limit`` held-out tokens, or of all.
        """
        ids = self.held_out_ids[:limit]
        ends = [0]
        for part in parts_of(len(ids))[:-1]:
            ends.append(ends[-1] + len(self.tokenizer.decode(ids[part].tolist())))
        ends.append(len(self.measured(limit)))
        return [end - start for start, end in pairwise(ends)]

    def score(
        self,
        model: Transformer,
        limit: int | None = None,
        threads: int = 1,
        on_batch: Callable[[int], Any] | None = None,
    ) -> Score:
        """Return the model's score on the held-out part, or on its first ``limit`` tokens.

        The first held-out tokens are read after the end of the training part, as they stand in the text; those
        of another text after what an empty prompt starts from.

        Args:
            model: what is measured.
            limit: None for all held-out tokens.
            threads: batches that run side by side; the result is the same.
            on_batch: is told how many tokens each batch has scored.
        """
        ids = self.held_out_ids[:limit]
        lead = self.train_ids[-model.config.context :]
        if self.is_other:
            lead = mg.tensor(start_ids(self.tokenizer), dtype=ids.dtype)
        losses = token_losses(model, mg.cat([lead, ids]), len(ids), threads=threads, on_batch=on_batch)
        text = self.measured(limit)
        return Score(
            losses.sum().item(),
            len(text),
            text.n_bytes(),
            [losses[part].sum().item() for part in parts_of(len(ids))],
            self.characters_of_parts(limit),
        )

    def baselines(
        self, limit: int | None = None, on_characters: Callable[[int], Any] | None = None
    ) -> list[Baseline]:
        """Return the n-gram models' losses on the same characters, learned from the training part's end.

        That is all of it but for a text of more than two million characters: counting has its price in memory.

        Args:
            limit: so many held-out tokens, from the first on; None for all.
            on_characters: is told of the characters counted and scored, each once for every order.
        """
        return ngram_baselines(
            str(self.train[-BASELINES_LEARN_FROM:]),
            str(self.measured(limit)),
            context="" if self.is_other else None,
            parts=self.characters_of_parts(limit),
            vocab_size=len({*self.train.alphabet, *self.held_out.alphabet}),
            on_characters=on_characters,
        )


def make_tokenizer(
    text: str | Corpus,
    kind: str = "char",
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    on_merge: Callable[[int], Any] | None = None,
) -> Tokenizer:
    """Return a tokenizer for a text: of its characters, or learned from its training part by byte-pair encoding.

    Of a training part of more than ten million characters, merges are learned from ten million, taken in slices
    at equal distances.  ``on_merge`` is told of every merge.

    Raises:
        ValueError: ``kind`` is neither "char" nor "bpe", ``vocab_size`` is too small or too large, or the text is
            too short.
    """
    corpus = Corpus(text) if isinstance(text, str) else text
    if kind == "char":
        return CharTokenizer(corpus.alphabet)
    if kind == "bpe":
        train, _ = split_text(corpus)
        return BPETokenizer.train(excerpt(train, MERGES_LEARN_FROM), vocab_size, on_merge)
    raise ValueError(f"the tokenizer must be char or bpe, not {kind!r}")


def excerpt(text: Corpus, n_characters: int) -> Iterator[str]:
    """Yield a text in blocks, or of a longer one so many characters, in slices at equal distances."""
    if len(text) <= n_characters:
        yield from text.blocks()
        return
    for i in range(MERGES_SLICES):
        start = i * len(text) // MERGES_SLICES
        yield from text[start : start + n_characters // MERGES_SLICES].blocks()


def text_of_run(
    training: Mapping[str, Any], text: str | Corpus | None = None, on_bytes: Callable[[int], Any] | None = None
) -> Corpus:
    """Return the text that a run learned from.

    Args:
        training: what its checkpoint says of the training.
        text: the same, if it is at hand; else it is read from where it was.
        on_bytes: is told how many bytes were read.

    Raises:
        DataError: it can't be read any more, or is another one now; or the run learned no text.
    """
    if "task" in training:
        raise DataError(f"the run learned no text, but the task {training['task']!r:.40}")
    source = training.get("source")
    if text is not None:
        name = "the text that was given"
    elif source is None:
        text, name = default_corpus(), "Python's own reference text"
    else:
        if not isinstance(source, list | tuple) or not all(isinstance(file, str) for file in source):
            raise DataError("the checkpoint does not say which files the run learned from")
        for file in source:
            if not Path(file).is_file():  # nor anything else than a file, such as a device without end
                raise DataError(f"cannot read {file!r}, which the run learned from: no such file")
        text, name = Corpus.read(source, on_bytes), ", ".join(map(repr, source))
    corpus = Corpus(text) if isinstance(text, str) else text
    if corpus.sha256 != training.get("text_sha256"):
        raise DataError(f"{name} is not (or no longer) what the run learned from")
    return corpus
