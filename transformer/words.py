"""Where a text may be cut: into the words that merges stay within, and into blocks that no word crosses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

MAX_WORD_CHARACTERS = 32
"""The length of the longest word: the limits in the pattern below, with the space before."""

# Longer runs are cut, which bounds the work per word and with it that of training and encoding, on any text.
_WORD = re.compile(
    r" ?[^\W\d_]{1,31}"  # letters, with the space before them
    r"| ?\d{1,31}"  # digits
    r"| ?(?:[^\w\s]|_){1,31}"  # punctuation, symbols, control characters: all else but whitespace
    r"|\s{1,32}(?= \S)"  # whitespace, leaving its last space to the word that follows
    r"|\s{1,32}"
)
_DECISIVE_CHARACTERS = MAX_WORD_CHARACTERS + 2  # from its start, all that a word depends on: it and " \S"

_CHUNK = re.compile(r"\s*\S+|\s+")
_END_OF_VISIBLE = re.compile(r"\S(?=\s)")
_LOOKED_BACK = 4096  # characters of a block's end in which the last space is sought

MAX_WORD_TYPES = 100_000
"""Of how many different words occurrences are counted; the rarest of more are forgotten."""


def split_words(text: str) -> list[str]:
    """Cut a text into the words that merges stay within; joined, they are the text.

    >>> split_words("It's   42 times,\\n\\nor so")
    ['It', "'", 's', '  ', ' 42', ' times', ',', '\\n\\n', 'or', ' so']

    A word is a run of letters, of digits, of other visible characters or of whitespace; all but the last take
    one space before them along.  No word is longer than 32 characters.
    """
    return _WORD.findall(text)


def split_chunks(text: str) -> list[str]:
    """Cut a text more coarsely than :func:`split_words`, three times as fast: a chunk is one or more whole words.

    >>> split_chunks("It's   42 times,\\n\\nor so")
    ["It's", '   42', ' times,', '\\n\\nor', ' so']

    A chunk ends where whitespace follows what is visible, and there a word ends too, whatever stands around.
    """
    return _CHUNK.findall(text)


def whole_words(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the same text in blocks that end where words end, so that each can be split by itself.

    >>> list(whole_words(["one tw", "o, thr", "ee"]))
    ['one', ' two,', ' three']
    """
    rest = ""
    for block in blocks:
        text = rest + block
        end = _certain_end(text)
        if end:
            yield text[:end]
        rest = text[end:]
    if rest:
        yield rest


def _certain_end(text: str) -> int:
    """Return a late position at which a word ends whatever comes after the text; 0 if there is none."""
    end = 0
    for match in _END_OF_VISIBLE.finditer(text, max(0, len(text) - _LOOKED_BACK)):
        end = match.end()
    if end:
        return end
    # A text without spaces: a word is certain if all the characters it depends on are there.
    end = len(text)
    for word in reversed(split_words(text)):
        end -= len(word)
        if end <= len(text) - _DECISIVE_CHARACTERS:
            return end + len(word)
    return 0


def count_words(blocks: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs in a text that comes in blocks.

    To stay in bounded memory, the rarest are forgotten when there are more than 100,000 different ones.
    """
    counts: Counter[str] = Counter()
    for block in whole_words(blocks):
        counts.update(split_words(block))
        rarest = 0
        while len(counts) > MAX_WORD_TYPES:
            rarest += 1
            counts = Counter({word: count for word, count in counts.items() if count > rarest})
    return counts
