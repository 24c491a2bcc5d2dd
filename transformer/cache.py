"""What attention remembers of the tokens it has read, so that each is read once.

A token's keys and values depend on it and on what came before it, never on what comes after.  So when a text is
continued they stay as they are, and one more token costs one more row instead of a whole pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import minigrad as mg
from minigrad import Tensor


class BlockCache(NamedTuple):
    """The keys and values of one block, and where the tokens of this pass stand in it."""

    kept: Tensor  # (2, B, H, capacity, d_k) keys and values
    start: int  # the place of the first token, where all texts are equally long
    end: int  # the place after the last token of the longest text
    places: Tensor | None  # (B, T) the place of each token, where texts differ in length

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the new keys and values (B, H, T, d_k); return all up to the end, (B, H, S, d_k)."""
        new = mg.stack([k, v])  # (2, B, H, T, d_k)
        if self.places is None:
            self.kept[:, :, :, self.start : self.end] = new
        else:
            texts = mg.arange(len(k)).unsqueeze(1)  # (B, 1)
            self.kept[:, texts, :, self.places] = new.permute(1, 3, 0, 2, 4)  # (B, T, 2, H, d_k)
        keys, values = self.kept[:, :, :, : self.end]  # (B, H, S, d_k) each
        return keys, values


class KeyValueCache:
    """The keys and values of the tokens that a model has read, for each of B texts, block by block.

    The texts may be of different lengths.  Token t of a text is in place t, whatever the others hold.

    >>> from transformer import Config, Transformer
    >>> model = Transformer(Config(vocab_size=65, n_layers=2, d_model=32))
    >>> cache = model.new_cache()
    >>> with mg.no_grad():
    ...     first = model(mg.tensor([[1, 2, 3]]), cache=cache)
    ...     second = model(mg.tensor([[4]]), cache=cache)  # at position 3, with the others before it
    >>> first.shape, second.shape, cache.lengths
    ((1, 3, 65), (1, 1, 65), [4])
    """

    def __init__(self, kept: Sequence[Tensor], lengths: Sequence[int]) -> None:
        self.kept = list(kept)  # of each block (2, B, H, capacity, d_k)
        self.lengths = list(lengths)  # tokens that each text holds

    def take(self, rows: Sequence[int]) -> KeyValueCache:
        """Return a cache of these texts alone, a copy."""
        index = list(rows)
        return KeyValueCache([kept[:, index] for kept in self.kept], [self.lengths[row] for row in rows])

    def put(self, rows: Sequence[int], part: KeyValueCache) -> None:
        """Replace these texts by those of another cache."""
        index, end = list(rows), max(part.lengths)
        self.reserve(end)
        for kept, other in zip(self.kept, part.kept, strict=True):
            kept[:, index, :, :end] = other[:, :, :, :end]  # (2, rows, H, end, d_k)
        for row, length in zip(rows, part.lengths, strict=True):
            self.lengths[row] = length

    def prepare(self, n_texts: int, n_tokens: int) -> tuple[list[int], list[BlockCache], Tensor | None]:
        """Return where the next ``n_tokens`` of each text start, and what each block remembers of those before.

        The third is the mask, (T, S) or (B, 1, T, S), True where a token may see a place.  It is None where that
        is plain: a single token sees all those before it, and the first tokens see each other causally.

        Raises:
            ValueError: the cache is for another number of texts.
            RuntimeError: operations are being recorded.
        """
        if n_texts != len(self.lengths):
            raise ValueError(f"the cache holds {len(self.lengths)} texts, but the ids are of {n_texts}")
        if mg.is_grad_enabled():
            raise RuntimeError("a cache keeps numbers, not their derivatives: call the model inside mg.no_grad()")
        start, end = min(self.lengths), max(self.lengths) + n_tokens
        self.reserve(end)
        places = mask = None
        device = self.kept[0].device
        if end - start > n_tokens:  # the texts differ in length
            new = mg.arange(n_tokens, device=device)  # (T,)
            places = mg.tensor(self.lengths, device=device).unsqueeze(1) + new  # (B, T)
            mask = (mg.arange(end, device=device) <= places.unsqueeze(2)).unsqueeze(1)  # (B, 1, T, S)
        elif n_tokens > 1 and start > 0:
            seen = mg.arange(end, device=device)  # (S,)
            mask = seen <= seen[start:].unsqueeze(1)  # (T, S)
        return self.lengths, [BlockCache(kept, start, end, places) for kept in self.kept], mask

    def reserve(self, n_tokens: int) -> None:
        """Make room for so many tokens of each text: if there is too little, twice as much as there was."""
        *shape, capacity, d_k = self.kept[0].shape
        if n_tokens > capacity:
            more = self.kept[0].new_zeros(*shape, max(n_tokens, 2 * capacity) - capacity, d_k)
            self.kept = [mg.cat([kept, more], 3) for kept in self.kept]

    def advance(self, n_tokens: int) -> None:
        """Count the tokens of a pass as read, now that every block has."""
        self.lengths = [length + n_tokens for length in self.lengths]
