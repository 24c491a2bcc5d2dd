"""Chapter 2: text becomes tokens."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

from transformer.corpus import DataError
from transformer.explain.material import Material, Subject
from transformer.merges import BYTE_TOKENS, merge
from transformer.tokenizer import BPETokenizer
from transformer.utf8 import legible, to_bytes
from transformer.words import split_words

EXAMPLES = 6  # common words, and as many rare ones


def tokens(subject: Subject) -> dict[str, Any]:
    """Return the sentence's words as bytes with the merges that apply to them, and how common and rare words fare.

    The merges are the tokenizer's own, or, where tokens are characters, those that its training text would give.
    """
    material = subject.material
    try:
        tokenizer = material.merges
    except DataError as error:
        return {"own": False, "missing": str(error)}
    words = split_words(subject.text)
    used = sorted({rank for word in set(words) for rank in merges_of(tokenizer, word)})
    return {
        "own": tokenizer is material.tokenizer,
        "learned": len(tokenizer.merges),
        "words": [list(to_bytes(word)) for word in words],
        "merges": [
            {"rank": rank + 1, "pair": list(tokenizer.merges[rank]), "id": BYTE_TOKENS + rank} for rank in used
        ],
        "texts": texts_of(tokenizer, words, used),
        "examples": word_examples(material, tokenizer),
    }


def merges_of(tokenizer: BPETokenizer, word: str) -> list[int]:
    """Return the ranks of the merges that apply when a word is encoded, in their order.

    >>> tokenizer = BPETokenizer.train("low lower lowest", vocab_size=258)
    >>> merges_of(tokenizer, "slow")
    [0, 1]
    """
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    ids = list(to_bytes(word))
    used = []
    while known := [ranks[pair] for pair in pairwise(ids) if pair in ranks]:
        rank = min(known)
        used.append(rank)
        ids = merge(ids, tokenizer.merges[rank], BYTE_TOKENS + rank)
    return used


def texts_of(tokenizer: BPETokenizer, words: list[str], used: list[int]) -> dict[str, str]:
    """Return the legible text of every token that can stand in the sentence at some stage, by its id."""
    ids = {byte for word in words for byte in to_bytes(word)}
    ids |= {BYTE_TOKENS + rank for rank in used}
    return {str(id): legible(tokenizer.token_bytes(id)) for id in sorted(ids)}


def word_examples(material: Material, tokenizer: BPETokenizer) -> list[dict[str, Any]]:
    """Return common words of the training text and words that it has only once, with the tokens of each."""
    try:
        train = material.texts[0]
    except DataError:
        return []
    counts = Counter(re.findall(r"[^\W\d_]{3,14}", train))
    common = [word for word, _ in counts.most_common(EXAMPLES)]
    once = sorted(word for word, count in counts.items() if count == 1 and word.islower() and len(word) > 7)
    rare = once[:: max(1, len(once) // EXAMPLES)][:EXAMPLES]
    return [
        {
            "word": word,
            "count": counts[word],
            "tokens": [tokenizer.token_text(id) for id in tokenizer.encode(" " + word)],
        }
        for word in [*common, *rare]
    ]
