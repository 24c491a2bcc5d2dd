"""From text to token ids and back.

`CharTokenizer` gives every character of the training text an id. `BPETokenizer` starts from the 256 bytes and
learns which neighbours to merge into longer tokens, so it can encode any text at all. Both have the methods
of `Tokenizer`, and both survive being saved as JSON:

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

import codecs
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import minigrad as mg
from minigrad import Tensor
from minigrad.dtypes import DType
from transformer.merges import BYTE_TOKENS, Pair, learn_merges
from transformer.words import MAX_WORD_CHARACTERS, count_words, split_chunks, split_words, whole_words

MAX_VOCAB_SIZE = 1_000_000

MAX_TOKEN_BYTES = 4 * MAX_WORD_CHARACTERS  # no character takes more than 4 bytes in UTF-8

_MAX_REMEMBERED = 100_000
_MAX_REMEMBERED_CHARACTERS = 64


class Tokenizer(Protocol):
    """What a model needs to know about its text: both tokenizers of this module have these methods."""

    @property
    def vocab_size(self) -> int:
        """The number of tokens; the ids are 0 to `vocab_size` - 1."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        """The ids of a text that comes in blocks, in vectors of the smallest integers that hold every id."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids. Raises ValueError for an id outside the vocabulary."""

    def token_text(self, id: int) -> str:
        """One token as legible text (see `legible`), for showing where a text is cut."""

    def stream_decoder(self) -> StreamDecoder:
        """A decoder that is fed one id at a time."""

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to make the tokenizer again, as JSON values; `tokenizer_from_dict` reads it."""


class CharTokenizer:
    """One token per character.

    >>> tokenizer = CharTokenizer.train("hello")
    >>> tokenizer.encode("hole")
    [1, 3, 2, 0]
    >>> tokenizer.decode([1, 3, 2, 0])
    'hole'
    """

    def __init__(self, characters: Sequence[str]) -> None:
        """The character at index i gets the id i. Raises ValueError if they are not distinct characters."""
        if not characters:
            raise ValueError("a character tokenizer needs at least one character")
        for character in characters:
            if not isinstance(character, str) or len(character) != 1:
                raise ValueError(f"{character!r:.80} is not one character")
        if len(set(characters)) < len(characters):
            [(twice, _)] = Counter(characters).most_common(1)
            raise ValueError(f"the character {twice!r} is in the vocabulary more than once")
        self.characters = list(characters)
        code_points = _code_points("".join(self.characters))
        # The id of every code point up to the last one known; vocab_size stands for "none".
        self._id_of = mg.full((int(code_points.max()) + 2,), self.vocab_size, dtype=self._dtype)
        self._id_of[code_points] = mg.arange(self.vocab_size, dtype=self._dtype)

    @classmethod
    def train(cls, text: str) -> CharTokenizer:
        """The tokenizer of the characters in `text`, sorted. Raises ValueError if the text is empty."""
        return cls(sorted(set(text)))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> list[int]:
        """One id per character. Raises ValueError, naming them, if `text` has characters never trained on."""
        ids: list[int] = self._look_up(text).tolist()
        return ids

    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        position = 0
        for block in blocks:
            yield self._look_up(block, position)
            position += len(block)

    def _look_up(self, text: str, position: int = 0) -> Tensor:
        code_points = _code_points(text).clamp(max=len(self._id_of) - 1)  # the last is always unknown
        ids = self._id_of[code_points]
        if (ids == self.vocab_size).any():
            raise ValueError(self._unknown_characters_message(text, position))
        return ids

    @property
    def _dtype(self) -> DType:
        return smallest_dtype(self.vocab_size + 1)

    def decode(self, ids: Iterable[int]) -> str:
        """The characters of the ids. Raises ValueError for an id outside the vocabulary."""
        return "".join([self.characters[_checked_id(id, self.vocab_size)] for id in ids])

    def token_text(self, id: int) -> str:
        """The character, written as by `legible`.

        >>> CharTokenizer.train("a b\\n").token_text(0)
        '\\\\n'
        """
        return legible(_to_bytes(self.characters[_checked_id(id, self.vocab_size)]))

    def stream_decoder(self) -> StreamDecoder:
        """A decoder that is fed one id at a time; here, each gives its character at once."""
        return StreamDecoder([_to_bytes(character) for character in self.characters])

    def to_dict(self) -> dict[str, Any]:
        # A list, because a string of surrogates would not come back from JSON as the same characters.
        return {"kind": "char", "characters": list(self.characters)}

    def __repr__(self) -> str:
        return f"CharTokenizer(vocab_size={self.vocab_size})"

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


class BPETokenizer:
    """Byte-level byte-pair encoding: tokens are the 256 bytes, and learned merges of two earlier tokens.

    >>> tokenizer = BPETokenizer.train("low lower lowest", vocab_size=258)
    >>> tokenizer.merges  # 108, 111, 119 are the bytes of "l", "o", "w"; 256 is their first merge, "lo"
    [(108, 111), (256, 119)]
    >>> tokenizer.encode("slow")
    [115, 257]
    >>> tokenizer.decode_bytes([257])
    b'low'

    Every text can be encoded, and `decode(encode(text)) == text` for every str: also for one with lone
    surrogates, which are written as the three bytes UTF-8 would give them ("surrogatepass").
    """

    def __init__(self, merges: Iterable[Pair] = ()) -> None:
        """A tokenizer with these merges, in the order they were learned: merge n makes the token 256 + n.

        Raises ValueError for a merge of tokens not yet defined, one that occurs twice, or one that makes a
        token longer than a word can be.
        """
        self.merges: list[Pair] = []
        self._token_bytes = [bytes([byte]) for byte in range(BYTE_TOKENS)]
        self._merged_ids: dict[Pair, int] = {}  # a smaller id was learned earlier
        for left, right in merges:
            self._add_merge(left, right)
        self._dtype = smallest_dtype(self.vocab_size)
        # Texts are made of the same words, and chunks of words, again and again.
        self._packed_words = _Memory(self._pack_word)
        self._packed_chunks = _Memory(self._pack_chunk)

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
        """Learn up to `vocab_size` - 256 merges: each time, of the two neighbours that occur most often.

        >>> BPETokenizer.train("abab", vocab_size=300).vocab_size  # nothing left that occurs twice
        257

        Of pairs that occur equally often, the one with the smaller ids comes first (compared as tuples), so
        the result depends on the text alone and fewer merges are always a prefix of more. Merges do not cross
        the borders of `split_words`. Training ends early when no pair occurs twice, as in Sennrich et al.:
        `vocab_size` of the result says how many tokens there really are. A long text may come in blocks; of more
        than 100,000 different words, the rarest are not learned from. `on_merge` is called with 1 after every
        merge. Raises ValueError if `vocab_size` is below 256 or above 1,000,000.
        """
        if not BYTE_TOKENS <= vocab_size <= MAX_VOCAB_SIZE:
            raise ValueError(
                f"the vocabulary size of a BPE tokenizer must be from {BYTE_TOKENS} (its byte tokens) to "
                f"{MAX_VOCAB_SIZE:,}, not {vocab_size:,}"
            )
        words = count_words([text] if isinstance(text, str) else text)
        frequencies = {_to_bytes(word): count for word, count in words.items()}
        return cls(learn_merges(frequencies, vocab_size - BYTE_TOKENS, on_merge))

    def with_merges(self, count: int) -> BPETokenizer:
        """The tokenizer of the first `count` merges: the one that training to 256 + `count` would have given.

        Raises ValueError if there are fewer merges, or `count` is negative.
        """
        if not 0 <= count <= len(self.merges):
            raise ValueError(f"this tokenizer has {len(self.merges)} merges, so it cannot be cut to {count}")
        return BPETokenizer(self.merges[:count])

    @property
    def vocab_size(self) -> int:
        return len(self._token_bytes)

    def encode(self, text: str) -> list[int]:
        """The ids of any text at all. In each word, the merges are applied in the order they were learned."""
        ids: list[int] = mg.frombuffer(self._pack(text), dtype=self._dtype).tolist() if text else []
        return ids

    def encode_blocks(self, blocks: Iterable[str]) -> Iterator[Tensor]:
        for block in whole_words(blocks):
            yield mg.frombuffer(self._pack(block), dtype=self._dtype)

    def _pack(self, text: str) -> bytes:
        """The ids of a text as the bytes of an array: joined, the ids of its chunks are those of the text."""
        return b"".join(map(self._packed_chunks.__getitem__, split_chunks(text)))

    def _pack_chunk(self, chunk: str) -> bytes:
        words = split_words(chunk)
        return (
            self._packed_words[chunk]
            if len(words) == 1
            else b"".join([self._packed_words[word] for word in words])
        )

    def _pack_word(self, word: str) -> bytes:
        return array(self._dtype.char, self._encode_word(word)).tobytes()

    def _encode_word(self, word: str) -> list[int]:
        """Merge neighbours as long as there is a merge for them, of several always the one learned first."""
        ids = list(_to_bytes(word))
        never = self.vocab_size
        merged_id = self._merged_ids.get
        merged = [merged_id(pair, never) for pair in pairwise(ids)]  # what each token and its right one make
        while merged and (first := min(merged)) < never:
            place = merged.index(first)
            ids[place : place + 2] = [first]
            del merged[place]
            if place > 0:
                merged[place - 1] = merged_id((ids[place - 1], first), never)
            if place < len(merged):
                merged[place] = merged_id((first, ids[place + 1]), never)
        return ids

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token. Raises ValueError for an id outside the vocabulary."""
        return self._token_bytes[_checked_id(id, self.vocab_size)]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids, text or not. Raises ValueError for an id outside the vocabulary."""
        return b"".join([self._token_bytes[_checked_id(id, self.vocab_size)] for id in ids])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids. Raises ValueError for an id outside the vocabulary.

        Bytes that are no UTF-8, as when a character is cut in two, become "\\ufffd".
        """
        return self.decode_bytes(ids).decode("utf-8", _SURROGATES_OR_REPLACEMENT)

    def token_text(self, id: int) -> str:
        """The token, written as by `legible`."""
        return legible(self.token_bytes(id))

    def stream_decoder(self) -> StreamDecoder:
        """A decoder that is fed one id at a time and keeps the bytes of an unfinished character to itself."""
        return StreamDecoder(self._token_bytes)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "bpe", "merges": [list(pair) for pair in self.merges]}

    def __repr__(self) -> str:
        return f"BPETokenizer(vocab_size={self.vocab_size})"


class _Memory(dict[str, bytes]):
    """What a function gave for strings; when it is full, what was not asked for of late is forgotten."""

    def __init__(self, function: Callable[[str], bytes]) -> None:
        self._function = function
        self._before: dict[str, bytes] = {}  # as full as the memory itself may become

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


class StreamDecoder:
    """Text from ids that arrive one by one: all that is complete, and never a part of a character.

    >>> stream = BPETokenizer().stream_decoder()
    >>> [stream.feed(byte) for byte in "né".encode()]
    ['n', '', 'é']
    >>> stream.feed(0xE2), stream.flush()  # the first byte of three, and the end
    ('', '\\ufffd')

    What `feed` and `flush` return, joined, is what `decode` of all the ids returns.
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(_SURROGATES_OR_REPLACEMENT)

    def feed(self, id: int) -> str:
        """The text that one more id completes, or "". Raises ValueError for an id outside the vocabulary."""
        return self._decoder.decode(self._token_bytes[_checked_id(id, len(self._token_bytes))])

    def flush(self) -> str:
        """The end of the text: "\\ufffd" for an unfinished character, else "". A new text can follow."""
        return self._decoder.decode(b"", final=True)


def legible(token: bytes) -> str:
    """The bytes of a token as text that can be read, and that is different for different bytes.

    >>> print(*map(legible, [b" the", b"\\n\\t", "é".encode(), b"\\xc3", b"a\\\\b"]))
    ␣the \\n\\t é \\xc3 a\\\\b

    A space is shown as "␣". Characters that cannot be seen are escaped as in a Python string: newline,
    carriage return and tab as \\n, \\r and \\t, others by their code point as \\u00a0 or \\U000e0001. A byte
    that is only a part of a character is \\x and two digits. A backslash is doubled, a real "␣" is \\u2423.
    """
    return "".join(map(_legible_character, token.decode("utf-8", "surrogateescape")))


_NAMED_CHARACTERS = {" ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "␣": "\\u2423"}


def _legible_character(character: str) -> str:
    code_point = ord(character)
    if character in _NAMED_CHARACTERS:
        return _NAMED_CHARACTERS[character]
    if 0xDC80 <= code_point <= 0xDCFF:  # where "surrogateescape" puts the byte code_point - 0xDC00
        return f"\\x{code_point - 0xDC00:02x}"
    if character.isprintable():
        return character
    return f"\\u{code_point:04x}" if code_point <= 0xFFFF else f"\\U{code_point:08x}"


def tokenizer_from_dict(data: Any) -> Tokenizer:
    """The tokenizer that `to_dict` described; for data from a file, which may be anything.

    >>> tokenizer_from_dict({"kind": "char", "characters": ["a", "b"]})
    CharTokenizer(vocab_size=2)

    Raises ValueError, in one sentence, for everything that does not describe a tokenizer.
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


def _checked_id(id: int, vocab_size: int) -> int:
    if 0 <= id < vocab_size:
        return id
    raise ValueError(f"the token id {id} is outside the vocabulary of {vocab_size} tokens")


def smallest_dtype(n: int) -> DType:
    """The dtype of the fewest bytes that holds the integers from 0 to n - 1.

    >>> smallest_dtype(256), smallest_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    return mg.uint8 if n <= 1 << 8 else mg.uint16 if n <= 1 << 16 else mg.int32


def _code_points(text: str) -> Tensor:
    encoded = text.encode("utf-32-le" if sys.byteorder == "little" else "utf-32-be", "surrogatepass")
    return mg.frombuffer(encoded, dtype=mg.int32) if encoded else mg.zeros(0, dtype=mg.int32)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _surrogates_or_replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode the bytes of a lone surrogate as "surrogatepass" does, and all other errors as "replace"."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return codecs.replace_errors(error)


_SURROGATES_OR_REPLACEMENT = "transformer.surrogates_or_replacement"
codecs.register_error(_SURROGATES_OR_REPLACEMENT, _surrogates_or_replacement)
