"""Reading and encoding the user's text with a progress bar, which a long text needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer.baselines import Baseline
from transformer.commands.display import bar
from transformer.corpus import Corpus
from transformer.data import default_corpus
from transformer.text import BASELINES_LEARN_FROM, REPORTED_TOKENS, Text, make_tokenizer, text_of_run
from transformer.tokenizer import Tokenizer


def read(files: Sequence[Path] | None) -> Corpus:
    """Return the text of some files, or Python's own reference text.

    Raises:
        DataError: a file can't be used.
    """
    if not files:
        return Corpus(default_corpus())
    size = sum(path.stat().st_size for path in files if path.is_file())
    with bar(size, "B", "reading") as update:
        return Corpus.read(files, update)


def of_run(training: Mapping[str, Any]) -> Corpus:
    """Return the text that a run learned from, as :func:`text_of_run`.

    Raises:
        DataError: it is gone, or another one now.
    """
    with bar(None, "B", "reading") as update:
        return text_of_run(training, on_bytes=update)


def tokenizer_for(text: Corpus, kind: str, vocab_size: int) -> Tokenizer:
    """Return :func:`make_tokenizer`'s tokenizer."""
    with bar(max(1, vocab_size - 256), "merge", "learning merges") as update:
        return make_tokenizer(text, kind, vocab_size, update)


def encode(text: Corpus, tokenizer: Tokenizer, context: int) -> Text:
    """Return a text split and encoded.

    Raises:
        ValueError: it is too short, or has characters that the tokenizer does not know.
    """
    with bar(len(text), "character", "encoding") as update:
        return Text.encode(text, tokenizer, context, update)


def baselines(text: Text, limit: int | None = REPORTED_TOKENS) -> list[Baseline]:
    """Return the n-gram models' losses on the first ``limit`` held-out tokens."""
    n = 6 * (min(len(text.train), BASELINES_LEARN_FROM) + len(text.measured(limit)))
    with bar(n, "n-gram", "counting") as update:
        return text.baselines(limit, update)
