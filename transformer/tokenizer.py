"""From text to token ids and back.

:class:`CharTokenizer` gives every character of the training text an id.  :class:`BPETokenizer` starts from the 256
bytes and learns which neighbours to merge into longer tokens, so it can encode any text at all.  Both are a
:class:`Tokenizer`, and both survive being saved as JSON:

    >>> tokenizer = BPETokenizer.train("the cat, the hat, the bat", vocab_size=260)
    >>> ids = tokenizer.encode("the rat")
    >>> [tokenizer.token_text(id) for id in ids]
    ['the', '␣', 'r', 'at']
    >>> tokenizer.decode(ids)
    'the rat'
    >>> tokenizer_from_dict(tokenizer.to_dict()).encode("the rat") == ids
    True

Byte-pair encoding: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units"
(2016), https://arxiv.org/abs/1508.07909; on bytes and on words that keep their leading space, as in Radford
et al., "Language Models are Unsupervised Multitask Learners" (GPT-2, 2019), section 2.2.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.dtypes import DType
from transformer.merges import BYTE_TOKENS, Pair, apply_merges, learn_merges
from transformer.utf8 import StreamDecoder, legible, to_bytes, to_text
from transformer.words import MAX_WORD_CHARACTERS, count_words, split_chunks, split_words, whole_words

MAX_VOCAB_SIZE = 1_000_000  # far beyond any in use; a damaged file that claims more is refused before it is made

MAX_TOKEN_BYTES = 4 * MAX_WORD_CHARACTERS  # no character takes more than 4 bytes in UTF-8

_MAX_REMEMBERED = 100_000
_MAX_REMEMBERED_CHARACTERS = 64


class Tokenizer(ABC):
    """What both tokenizers share: a token is some bytes, and a text is the bytes of its tokens, joined."""

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self._token_bytes = list(tokens)  # of each id

    @property
    def vocab_size(self) -> int:
        """The number of tokens; the ids are 0 to ``vocab_size`` - 1."""
        return len(self._token_bytes)

    @property
    def dtype(self) -> DType:
        """The dtype in which :meth:`encode_blocks` gives ids: the smallest that holds them all."""
        return smallest_dtype(self.vocab_size)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            ValueError: the text has characters that the tokenizer does not know.
        """
        return [id for ids in self.encode_blocks([text]) for id in ids.tolist()]

    @abstractmethod
    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        """Yield the ids of a text that comes in blocks, in vectors of :attr:`dtype`.

        Joined, the vectors are the ids of the whole text; their ends need not be those of the blocks.

        Raises:
            ValueError: the text has characters that the tokenizer does not know; the message names them, and
                where in the text the first is.
        """

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one token.

        Raises:
            ValueError: the id is outside the vocabulary.
        """
        if 0 <= id < len(self._token_bytes):
            return self._token_bytes[id]
        raise ValueError(f"the token id {id} is outside the vocabulary of {self.vocab_size} tokens")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the ids, text or not.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        return b"".join(map(self.token_bytes, ids))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of some ids.

        Bytes that are no UTF-8, as when a character is cut in two, become "\\ufffd".

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        return to_text(self.decode_bytes(ids))

    def token_text(self, id: int) -> str:
        """Return one token as legible text, for showing where a text is cut: see :func:`transformer.utf8.legible`.

        >>> CharTokenizer.train("a b\\n").token_text(0)
        '\\\\n'

        Raises:
            ValueError: the id is outside the vocabulary.
        """
        return legible(self.token_bytes(id))

    def stream_decoder(self) -> StreamDecoder:
        """Return a decoder that is fed one id at a time and keeps an unfinished character to itself."""
        return StreamDecoder(self.token_bytes)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that makes the tokenizer, as JSON values; :func:`tokenizer_from_dict` makes it again."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


class CharTokenizer(Tokenizer):
    """One token per character.

    >>> tokenizer = CharTokenizer.train("hello")
    >>> tokenizer.encode("hole")
    [1, 3, 2, 0]
    >>> tokenizer.decode([1, 3, 2, 0])
    'hole'

    Args:
        characters: those it knows; the character at index i gets the id i.

    Raises:
        ValueError: there are none, or they are not distinct characters.
    """

    def __init__(self, characters: Sequence[str]) -> None:
        if not characters:
            raise ValueError("a character tokenizer needs at least one character")
        for character in characters:
            if not isinstance(character, str) or len(character) != 1:
                raise ValueError(f"{character!r:.80} is not one character")
        if len(set(characters)) < len(characters):
            [(twice, _)] = Counter(characters).most_common(1)
            raise ValueError(f"the character {twice!r} is in the vocabulary more than once")
        super().__init__(map(to_bytes, characters))
        self.characters = list(characters)
        # The id of every code point up to the last one known, and one more; vocab_size stands for "none".
        code_points, dtype = _code_points("".join(characters)), smallest_dtype(self.vocab_size + 1)
        self._id_of = mg.full((int(code_points.max()) + 2,), self.vocab_size, dtype=dtype)
        self._id_of[code_points] = mg.arange(self.vocab_size, dtype=dtype)

    @classmethod
    def train(cls, text: str) -> CharTokenizer:
        """Return the tokenizer of the characters that occur in ``text``, in the order of their code points.

        Raises:
            ValueError: the text is empty.
        """
        return cls(sorted(set(text)))

    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        position = 0
        for block in blocks:
            code_points = _code_points(block).clamp(max=len(self._id_of) - 1)  # the last is always unknown
            ids = self._id_of[code_points]
            if (ids == self.vocab_size).any():
                raise ValueError(self._unknown_characters_message(block, position))
            yield ids.to(self.dtype)
            position += len(block)

    def _unknown_characters_message(self, text: str, position: int) -> str:
        known = set(self.characters)
        unknown = list(dict.fromkeys(character for character in text if character not in known))
        named = ", ".join(map(repr, unknown[:5]))
        if len(unknown) > 5:
            named += f" and {len(unknown) - 5} more"
        subject, pronoun = ("character", "it") if len(unknown) == 1 else ("characters", "them")
        first = position + text.index(unknown[0])
        return (
            f"the {subject} {named} (first at position {first:,}) never occurred in the training text; train on "
            f"text that contains {pronoun}, or use a BPE tokenizer, which accepts any text"
        )

    def to_dict(self) -> dict[str, Any]:
        # A list, because a string of surrogates would not come back from JSON as the same characters.
        return {"kind": "char", "characters": list(self.characters)}


class BPETokenizer(Tokenizer):
    """Byte-level byte-pair encoding: tokens are the 256 bytes, and learned merges of two earlier tokens.

    >>> tokenizer = BPETokenizer.train("low lower lowest", vocab_size=258)
    >>> tokenizer.merges  # 108, 111, 119 are the bytes of "l", "o", "w"; 256 is their first merge, "lo"
    [(108, 111), (256, 119)]
    >>> tokenizer.encode("slow")
    [115, 257]
    >>> tokenizer.decode_bytes([257])
    b'low'

    Every text can be encoded, and ``decode(encode(text)) == text`` for every str: also for one with lone
    surrogates, which are written as the three bytes UTF-8 would give them ("surrogatepass").

    Args:
        merges: pairs of token ids, in the order they were learned: merge n makes the token 256 + n.

    Raises:
        ValueError: a merge is of tokens not yet defined, occurs twice, or makes a token longer than a word can be;
            or the vocabulary has more than 1,000,000 tokens.
    """

    def __init__(self, merges: Iterable[Pair] = ()) -> None:
        super().__init__(bytes([byte]) for byte in range(BYTE_TOKENS))
        self.merges: list[Pair] = []
        self._merged_ids: dict[Pair, int] = {}  # a smaller id was learned earlier
        for left, right in merges:
            self._add_merge(left, right)
        self._array_type = self.dtype.char  # of the ids of a word, as the module array names it
        # Texts are made of the same words, and chunks of words, again and again.
        self._packed_words = _BoundedCache(self._pack_word)
        self._packed_chunks = _BoundedCache(self._pack_chunk)

    def _add_merge(self, left: int, right: int) -> None:
        id = self.vocab_size
        if not (0 <= left < id and 0 <= right < id):
            raise ValueError(
                f"merge {len(self.merges)} joins the tokens {left} and {right}, "
                f"but only those below {id} exist yet"
            )
        if (left, right) in self._merged_ids:
            raise ValueError(f"merge {len(self.merges)} joins the tokens {left} and {right} a second time")
        token = self._token_bytes[left] + self._token_bytes[right]
        if len(token) > MAX_TOKEN_BYTES:
            raise ValueError(
                f"merge {len(self.merges)} makes a token of {len(token)} bytes, more than the "
                f"{MAX_TOKEN_BYTES} of the longest word"
            )
        if id >= MAX_VOCAB_SIZE:
            raise ValueError(f"a vocabulary may have at most {MAX_VOCAB_SIZE:,} tokens")
        self.merges.append((left, right))
        self._token_bytes.append(token)
        self._merged_ids[left, right] = id

    @classmethod
    def train(
        cls, text: str | Iterable[str], vocab_size: int, on_merge: Callable[[int], Any] | None = None
    ) -> BPETokenizer:
        """Learn up to ``vocab_size`` - 256 merges: each time, of the two neighbours that occur most often.

        >>> BPETokenizer.train("abab", vocab_size=300).vocab_size  # nothing left that occurs twice
        257

        Of pairs that occur equally often, the one with the smaller ids comes first (compared as tuples), so
        the result depends on the text alone and fewer merges are always a prefix of more.  Merges do not cross
        the borders of :func:`transformer.words.split_words`.  Training ends early when no pair occurs twice, as in
        Sennrich et al.: ``vocab_size`` of the result says how many tokens there really are.

        Args:
            text: what to learn from; a long one may come in blocks.  Of more than 100,000 different words, the
                rarest are not learned from.
            vocab_size: the number of tokens wanted, bytes and merges.
            on_merge: is called with 1 after every merge.

        Raises:
            ValueError: ``vocab_size`` is below 256 or above 1,000,000.
        """
        if not BYTE_TOKENS <= vocab_size <= MAX_VOCAB_SIZE:
            raise ValueError(
                f"the vocabulary size of a BPE tokenizer must be from {BYTE_TOKENS} (its byte tokens) to "
                f"{MAX_VOCAB_SIZE:,}, not {vocab_size:,}"
            )
        words = count_words([text] if isinstance(text, str) else text)
        frequencies = {to_bytes(word): count for word, count in words.items()}
        return cls(learn_merges(frequencies, vocab_size - BYTE_TOKENS, on_merge))

    def with_merges(self, count: int) -> BPETokenizer:
        """Return the tokenizer of the first ``count`` merges: what training to 256 + ``count`` would have given.

        Raises:
            ValueError: there are fewer merges, or ``count`` is negative.
        """
        if not 0 <= count <= len(self.merges):
            raise ValueError(f"this tokenizer has {len(self.merges)} merges, so it cannot be cut to {count}")
        return BPETokenizer(self.merges[:count])

    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        for block in whole_words(blocks):
            yield mg.frombuffer(self._pack(block), dtype=self.dtype)

    def _pack(self, text: str) -> bytes:
        """Return the ids of a text as the bytes of an array: joined, those of its chunks are those of the text."""
        return b"".join(map(self._packed_chunks.__getitem__, split_chunks(text)))

    def _pack_chunk(self, chunk: str) -> bytes:
        words = split_words(chunk)
        if len(words) == 1:
            return self._packed_words[chunk]
        return b"".join([self._packed_words[word] for word in words])

    def _pack_word(self, word: str) -> bytes:
        return array(self._array_type, apply_merges(to_bytes(word), self._merged_ids)).tobytes()

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "bpe", "merges": [list(pair) for pair in self.merges]}


class _BoundedCache(dict[str, bytes]):
    """What a function gave for strings; when it is full, what was not asked for of late is forgotten.

    A subclass of dict, because a key that is there is then looked up at the speed of a dict.
    """

    def __init__(self, function: Callable[[str], bytes]) -> None:
        self._function = function
        self._before: dict[str, bytes] = {}  # as full as the cache itself may become

    def __missing__(self, text: str) -> bytes:
        result = self._before.get(text)
        if result is None:
            result = self._function(text)
        if len(text) <= _MAX_REMEMBERED_CHARACTERS:
            if len(self) >= _MAX_REMEMBERED:
                self._before = dict(self)
                self.clear()
            self[text] = result
        return result


def tokenizer_from_dict(data: Any) -> Tokenizer:
    """Return the tokenizer that ``to_dict`` described; for data from a file, which may be anything.

    >>> tokenizer_from_dict({"kind": "char", "characters": ["a", "b"]})
    CharTokenizer(vocab_size=2)

    Raises:
        ValueError: the data does not describe a tokenizer; the message says in one sentence why.
    """
    if not isinstance(data, dict):
        raise ValueError(f"a tokenizer is described by a dictionary, not by {type(data).__name__}")
    match data.get("kind"):
        case "char":
            return CharTokenizer(_list_entry(data, "characters"))
        case "bpe":
            return BPETokenizer(map(_checked_pair, _list_entry(data, "merges")))
        case kind:
            raise ValueError(f'the kind of a tokenizer is "char" or "bpe", not {kind!r:.80}')


def _list_entry(data: dict[str, Any], name: str) -> list[Any]:
    entries = data.get(name)
    if not isinstance(entries, list):
        raise ValueError(f'the "{name}" of a tokenizer must be a list, not {type(entries).__name__}')
    if len(entries) > MAX_VOCAB_SIZE:
        raise ValueError(f'the "{name}" of a tokenizer are {len(entries):,}, more than {MAX_VOCAB_SIZE:,}')
    return entries


def _checked_pair(pair: Any) -> Pair:
    # `type(...) is int` because True is an int too.
    if isinstance(pair, list | tuple) and len(pair) == 2 and all(type(id) is int for id in pair):
        return pair[0], pair[1]
    raise ValueError(f"a merge must be a pair of token ids, not {pair!r:.80}")


def smallest_dtype(n: int) -> DType:
    """Return the dtype of the fewest bytes, of uint8, uint16 and int32, that holds the integers from 0 to n - 1.

    >>> smallest_dtype(256), smallest_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    return mg.uint8 if n <= 1 << 8 else mg.uint16 if n <= 1 << 16 else mg.int32


def _code_points(text: str) -> Tensor:
    encoded = text.encode("utf-32-le" if sys.byteorder == "little" else "utf-32-be", "surrogatepass")
    return mg.frombuffer(encoded, dtype=mg.int32) if encoded else mg.zeros(0, dtype=mg.int32)
