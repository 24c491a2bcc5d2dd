"""Byte-pair merges: learning which two neighbouring tokens become one, again and again, and applying them.

Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016),
https://arxiv.org/abs/1508.07909, algorithm 1.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Pair = tuple[int, int]

BYTE_TOKENS = 256
"""The ids 0 to 255 of a ``BPETokenizer`` are the bytes; the id 256 + n is what merge n makes."""


def learn_merges(
    frequencies: Mapping[bytes, int], max_merges: int, on_merge: Callable[[int], Any] | None = None
) -> list[Pair]:
    """Return the merges of byte-pair encoding: each time, of the two neighbours that occur most often.

    >>> learn_merges({b"low": 3, b"lot": 2}, max_merges=2)  # "lo", then "low"
    [(108, 111), (256, 119)]

    Merges stay within words, and end when no pair occurs twice.  Of pairs that occur equally often, the smaller
    one (as tuples) comes first.

    Args:
        frequencies: how often each word occurs.
        max_merges: how many merges to learn at most.
        on_merge: is called with 1 after each merge.

    Returns:
        Pairs of token ids.  The ids below 256 are bytes; merge n makes the token 256 + n.
    """
    # The counts are kept per distinct word and updated only where a merge changes something.  The heap yields the
    # most frequent pair; an entry is outdated, and skipped, if the count of its pair has changed since.
    words: list[Sequence[int]] = list(frequencies)
    word_counts = list(frequencies.values())

    # How often each pair occurs, and where.
    pair_counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)  # may name words that no longer have the pair
    for index, (word, word_count) in enumerate(zip(words, word_counts, strict=True)):
        for pair in pairwise(word):
            pair_counts[pair] += word_count
            words_with[pair].add(index)
    heap = [(-count, pair) for pair, count in pair_counts.items()]
    heapq.heapify(heap)

    merges: list[Pair] = []
    while heap and len(merges) < max_merges:
        negative_count, best = heapq.heappop(heap)
        count = -negative_count
        if count != pair_counts[best]:
            continue
        if count < 2:
            break

        # The most frequent pair becomes a token.
        merged_id = BYTE_TOKENS + len(merges)
        merges.append(best)
        if on_merge is not None:
            on_merge(1)

        # In the words that had it, some pairs are gone and others are new.
        changes: Counter[Pair] = Counter()
        for index in words_with.pop(best):
            before, word_count = words[index], word_counts[index]
            words[index] = after = merge(before, best, merged_id)
            for pair in pairwise(before):
                changes[pair] -= word_count
            for pair in pairwise(after):
                changes[pair] += word_count
                words_with[pair].add(index)
        for pair, change in changes.items():
            if change:
                pair_counts[pair] += change
                heapq.heappush(heap, (-pair_counts[pair], pair))
    return merges


def merge(ids: Sequence[int], pair: Pair, merged_id: int) -> list[int]:
    """Return ``ids`` with every ``pair`` in them replaced by ``merged_id``, from left to right.

    >>> merge([97, 97, 97, 98], (97, 97), 256)
    [256, 97, 98]
    """
    left, right = pair
    merged = []
    position, last = 0, len(ids) - 1
    while position <= last:
        if ids[position] == left and position < last and ids[position + 1] == right:
            merged.append(merged_id)
            position += 2
        else:
            merged.append(ids[position])
            position += 1
    return merged


def apply_merges(word: bytes, merged_ids: Mapping[Pair, int]) -> list[int]:
    """Return the token ids of a word: its bytes, with neighbours merged as long as there is a merge for them.

    >>> apply_merges(b"slow", {(108, 111): 256, (256, 119): 257})
    [115, 257]

    Args:
        word: the bytes that merges stay within.
        merged_ids: the token that each pair becomes.  Of several that apply, the smallest is made first, because
            it was learned first.
    """
    ids = list(word)
    never = BYTE_TOKENS + len(merged_ids)  # larger than every merged id: "there is no merge for this pair"
    merged_id = merged_ids.get
    merged = [merged_id(pair, never) for pair in pairwise(ids)]  # what each token and the one to its right make
    while merged and (first := min(merged)) < never:
        place = merged.index(first)
        ids[place : place + 2] = [first]
        del merged[place]
        if place > 0:
            merged[place - 1] = merged_id((ids[place - 1], first), never)
        if place < len(merged):
            merged[place] = merged_id((first, ids[place + 1]), never)
    return ids
