"""A text that a model learns from: split in two, encoded, and ready to be scored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.data import DataError, default_corpus, read_text, split_text
from transformer.evaluation import Score, cross_entropy_of
from transformer.model import Transformer
from transformer.tokenizer import BPETokenizer, CharTokenizer, Tokenizer

DEFAULT_VOCAB_SIZE = 512  # of a tokenizer by byte-pair encoding


@dataclass
class Text:
    """A text split and encoded for training."""

    train: str
    held_out: str
    train_ids: Tensor
    held_out_ids: Tensor
    tokenizer: Tokenizer

    @property
    def sha256(self) -> str:
        """The hash by which a text is known again."""
        return hash_of(self.train, self.held_out)

    @classmethod
    def encode(cls, text: str, tokenizer: Tokenizer, context: int) -> Text:
        """Split ``text`` and encode both parts.

        Raises:
            DataError: the text is too short for the context.
        """
        train, held_out = split_text(text)
        ids = [mg.tensor(tokenizer.encode(part), dtype=mg.int32) for part in (train, held_out)]
        if len(ids[0]) <= context:
            raise DataError(
                f"the text is too short: {len(ids[0])} tokens to train on, but the context is {context}; "
                f"give a longer text, or a context below {len(ids[0])}"
            )
        return cls(train, held_out, ids[0], ids[1], tokenizer)

    def score(self, model: Transformer, limit: int | None = None, threads: int = 1, on_batch: Any = None) -> Score:
        """Return the model's score on the held-out part, or on its first ``limit`` tokens.

        The first held-out tokens are read after the end of the training part, as they stand in the text.
        """
        ids = self.held_out_ids if limit is None else self.held_out_ids[:limit]
        text = self.held_out
        if len(ids) < len(self.held_out_ids):
            text = self.tokenizer.decode(ids.tolist())
        lead = self.train_ids[-model.config.context :]
        nats = cross_entropy_of(model, mg.cat([lead, ids]), len(ids), threads=threads, on_batch=on_batch)
        return Score(nats, len(text), len(text.encode("utf-8", "surrogatepass")))


def make_tokenizer(text: str, kind: str = "char", vocab_size: int = DEFAULT_VOCAB_SIZE) -> Tokenizer:
    """Return a tokenizer for a text: of its characters, or learned from its training part by byte-pair encoding.

    Raises:
        ValueError: ``kind`` is neither "char" nor "bpe", or ``vocab_size`` is too small.
    """
    if kind == "char":
        return CharTokenizer.train(text)
    if kind == "bpe":
        return BPETokenizer.train(split_text(text)[0], vocab_size)
    raise ValueError(f"the tokenizer must be char or bpe, not {kind!r}")


def hash_of(*parts: str) -> str:
    """Return the SHA-256 of a text that may be in parts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def text_of_run(training: Mapping[str, Any], text: str | None = None) -> str:
    """Return the text that a run learned from.

    Args:
        training: what its checkpoint says of the training.
        text: the same, if it is at hand; else it is read from where it was.

    Raises:
        DataError: it can't be read any more, or is another one now.
    """
    source = training.get("source")
    if text is None:
        text = read_text([Path(str(name)) for name in source]) if source else default_corpus()
        name = ", ".join(map(repr, source)) if source else "Python's own reference text"
    else:
        name = "the text that was given"
    if hash_of(text) != training.get("text_sha256"):
        raise DataError(f"{name} is not (or no longer) what the run learned from: give that very text")
    return text
