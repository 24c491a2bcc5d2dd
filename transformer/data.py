"""Where the training text comes from, and how it is cut into batches: the user's files, or Python's own text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import minigrad as mg
from minigrad import Tensor
from transformer.corpus import Corpus, DataError

AnyText = TypeVar("AnyText", str, Corpus)


def default_corpus() -> str:
    """Return the reference texts behind Python's ``help()``: about 465,000 characters, without a download.

    >>> default_corpus()[:22]
    'The "assert" statement'

    These are the values of ``pydoc_data.topics.topics``, a dictionary that comes with CPython, in the order of
    their sorted keys and with an empty line between two of them.  The text is the same in every run of one
    Python version.

    Raises:
        DataError: this Python was installed without that module.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "this Python was installed without its help topics (pydoc_data), so give a text file to train on"
        ) from None
    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(paths: Sequence[str | Path] | str | Path) -> str:
    """Return the text of one or several UTF-8 files, several being joined with a newline between them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "poem.txt").write_bytes(b"Shall I compare thee\\r\\n")
    ...     read_text([Path(folder, "poem.txt")])
    'Shall I compare thee\\r\\n'

    It is all held in memory; :meth:`Corpus.read`, which says how line endings and byte-order marks are treated,
    does without.

    Raises:
        DataError: a file is missing, a directory, not readable, empty, only whitespace, or not UTF-8.
    """
    return str(Corpus.read(paths))


def split_text(text: AnyText, held_out: float = 0.1) -> tuple[AnyText, AnyText]:
    """Cut the end off a text, to measure on: a model is judged by what it never saw.

    >>> split_text("abcdefghij", held_out=0.2)
    ('abcdefgh', 'ij')

    Args:
        text: a str, or a :class:`Corpus`, of which nothing is read for this.
        held_out: the fraction of the characters to hold out.

    Returns:
        The text to train on and the text to measure on, which together are the text; the second has
        ``int(len(text) * held_out)`` characters.

    Raises:
        DataError: the fraction is not between 0 and 1, or the text is so short that one of the parts is empty.
    """
    if not 0 < held_out < 1:
        raise DataError(f"the held-out fraction must be between 0 and 1, not {held_out}")
    held_out_size = int(len(text) * held_out)
    if not 0 < held_out_size < len(text):
        raise DataError(f"a text of {len(text)} characters is too short to hold out {held_out:g} of it")
    cut = len(text) - held_out_size
    return text[:cut], text[cut:]


def random_batch(
    ids: Tensor, batch_size: int, context: int, generator: mg.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Cut random windows from a text: inputs (B, T), and as targets (B, T) the same one token later.

    >>> inputs, targets = random_batch(mg.arange(100), batch_size=2, context=4)
    >>> bool((targets == inputs + 1).all())
    True

    Args:
        ids: the tokens (N,) of the text, of any integer dtype; in a file that is mapped to memory, only the
            windows are read.
        batch_size: how many windows, B.
        context: how many tokens each has, T.  Every window of the text is equally likely.
        generator: where the random numbers come from (default: the global generator).

    Returns:
        Inputs and targets, both int64.

    Raises:
        ValueError: the text has no more than ``context`` tokens.
    """
    if len(ids) <= context:
        raise ValueError(
            f"a text of {len(ids)} tokens has no window of {context} tokens and the one after them: "
            f"give a longer text, or a context below {len(ids)}"
        )
    starts = mg.randint(len(ids) - context, (batch_size, 1), generator=generator)  # (B, 1)
    windows = ids[starts + mg.arange(context + 1)].long()  # (B, T + 1)
    return windows[:, :-1], windows[:, 1:]
