"""A text of any length in little memory."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from transformer.utf8 import to_bytes

BLOCK_BYTES = 1 << 20
"""How much of a file is read at a time."""


class DataError(ValueError):
    """The text cannot be used; the message says in one sentence which text and why."""


@dataclass(frozen=True)
class _Part:
    """One of the pieces that make up a text: a file, or bytes in memory."""

    path: Path | None  # None: the text was in memory from the start
    content: bytes | None = None  # None: it is to be read from the file

    @property
    def name(self) -> str:
        return repr(str(self.path))

    def opened(self) -> BinaryIO:
        """Open it for reading.

        Raises:
            DataError: it cannot be opened.
        """
        if self.content is not None:
            return io.BytesIO(self.content)
        assert self.path is not None
        with self.explained():
            return self.path.open("rb")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of opening and reading a file into a ``DataError``."""
        try:
            yield
        except FileNotFoundError:
            raise DataError(f"cannot read {self.name}: no such file") from None
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have, such as one with NUL
            reason = getattr(error, "strerror", None) or error
            if isinstance(error, PermissionError):
                reason = "permission denied"
            if isinstance(error, IsADirectoryError) or (self.path is not None and _is_directory(self.path)):
                reason = "it is a directory, not a text file"  # Windows calls this permission denied
            raise DataError(f"cannot read {self.name}: {reason}") from None


@dataclass(frozen=True)
class _Block:
    """Where a block of the text is: bytes of one part, which are whole characters."""

    start: int  # the number of characters of the text before it
    part: int  # the index of the part
    offset: int  # the number of bytes of the part before it
    length: int  # in bytes


class Corpus:
    """A text that is read block by block, each time it is needed, and never held as a whole.

    >>> corpus = Corpus("To be, or not to be")
    >>> len(corpus), corpus.alphabet
    (19, ' ,Tbenort')
    >>> str(corpus[-5:])
    'to be'

    A slice is a corpus too.  Made by :meth:`read` from files, it takes a few megabytes of memory at a time,
    however long they are.

    Args:
        text: one that is in memory already.
    """

    def __init__(self, text: str) -> None:
        self._scan([_Part(None, to_bytes(text))], None)

    @classmethod
    def read(cls, paths: Sequence[str | Path] | str | Path, on_bytes: Callable[[int], Any] | None = None) -> Self:
        """Return the text of one or several UTF-8 files, several being joined with a newline between them.

        The files are read once now, to see that they are whole and count what is in them, and again whenever
        their text is needed; they must not change.  What can be read only once, such as a pipe, is kept in
        memory.  Line endings are kept as they are.  A byte-order mark at the beginning of a file is dropped: it
        says how the file is encoded and is not part of its text.

        Args:
            paths: one path, or several.
            on_bytes: is told how many bytes were read, block by block.

        Raises:
            DataError: a file is missing, a directory, not readable, empty, only whitespace, or not UTF-8 (the
                message names it and the reason); or no path was given.
        """
        if isinstance(paths, str | Path):
            paths = [paths]
        if not paths:
            raise DataError("no text file was given")
        parts: list[_Part] = []
        for path in map(Path, paths):
            if parts:
                parts.append(_Part(None, b"\n"))
            parts.append(_Part(path, _content_of_a_pipe(path)))
        corpus = cls.__new__(cls)
        corpus._scan(parts, on_bytes)
        return corpus

    def _scan(self, parts: Sequence[_Part], on_bytes: Callable[[int], Any] | None) -> None:
        """Read everything once: note where the blocks are, what characters occur, and a digest of it all."""
        self._parts = parts
        self._blocks: list[_Block] = []
        self._states: list[tuple[int, int]] = []  # of each part: its size, and when it was last changed
        digest = hashlib.sha256()
        alphabet: set[str] = set()
        characters = 0
        for number, part in enumerate(parts):
            empty = only_whitespace = True
            with part.opened() as file:
                self._states.append(_state(file))
                for offset, encoded, text in _whole_characters(file, part):
                    self._blocks.append(_Block(characters, number, offset, len(encoded)))
                    characters += len(text)
                    empty, only_whitespace = False, only_whitespace and text.isspace()
                    digest.update(encoded)
                    # Without the ASCII characters that are known already, there is little left to look at.
                    known = bytes(ord(character) for character in alphabet if character.isascii())
                    alphabet.update(encoded.translate(None, known).decode("utf-8", "surrogatepass"))
                    if on_bytes is not None:
                        on_bytes(len(encoded))
            if part.path is not None and only_whitespace:
                raise DataError(f"{part.name} {'is empty' if empty else 'contains only whitespace'}")
        self.alphabet = "".join(sorted(alphabet))
        """The different characters of the whole text, in order; of a slice, still those of the whole."""
        self.sha256 = digest.hexdigest()
        """The hash of the whole text in UTF-8, by which it is known again; of a slice, still that of the whole."""
        self._start, self._stop = 0, characters

    def __len__(self) -> int:
        """Return the number of characters."""
        return self._stop - self._start

    def __getitem__(self, part: slice) -> Corpus:
        """Return the characters from ``part.start`` to ``part.stop`` as a corpus; nothing is read yet.

        Raises:
            TypeError: ``part`` is no slice.
            ValueError: the slice has a step other than 1.
        """
        if not isinstance(part, slice):
            raise TypeError(f"a corpus is cut by a slice, as in text[:1000], not by {type(part).__name__}")
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError(f"a corpus can be cut, but not in steps of {step}")
        cut = object.__new__(type(self))
        cut.__dict__.update(self.__dict__)
        cut._start, cut._stop = self._start + start, self._start + max(start, stop)
        return cut

    def __str__(self) -> str:
        """Return the text, all of it in memory."""
        return "".join(self.blocks())

    def __repr__(self) -> str:
        return f"Corpus of {len(self):,} characters"

    @property
    def digest(self) -> str:
        """A string that is the same for the same text, and for the same slice of it, wherever it comes from."""
        return f"{self.sha256}-{self._start}-{self._stop}"

    def n_bytes(self) -> int:
        """Return the number of bytes of the text in UTF-8; the text is read for it."""
        return sum(len(to_bytes(block)) for block in self.blocks())

    def blocks(self) -> Iterator[str]:
        """Yield the text in pieces of up to a million characters: joined, they are the text.

        Raises:
            DataError: a file is gone or changed.
        """
        first = bisect_right(self._blocks, self._start, key=lambda block: block.start) - 1
        for block in self._blocks[max(0, first) :]:
            if block.start >= self._stop:
                break
            text = self._load(block)[max(0, self._start - block.start) : self._stop - block.start]
            if text:
                yield text

    def _load(self, block: _Block) -> str:
        part = self._parts[block.part]
        with part.opened() as file, part.explained():
            unchanged = _state(file) == self._states[block.part]
            file.seek(block.offset)
            encoded = file.read(block.length)
        if not unchanged or len(encoded) < block.length:
            raise DataError(f"{part.name} was changed while it was being used: start again")
        return encoded.decode("utf-8", "surrogatepass")


def _whole_characters(file: BinaryIO, part: _Part) -> Iterator[tuple[int, bytes, str]]:
    """Yield a file in blocks of whole characters, each with its offset in bytes, as bytes and as text.

    Raises:
        DataError: the file cannot be read, or is not UTF-8.
    """
    strictness = "surrogatepass" if part.path is None else "strict"
    offset, rest = 0, b""
    while True:
        with part.explained():
            read = file.read(BLOCK_BYTES)
        data = rest + read
        if part.path is not None and offset == 0 and data.startswith(codecs.BOM_UTF8):
            offset, data = len(codecs.BOM_UTF8), data.removeprefix(codecs.BOM_UTF8)
        try:
            text, length = codecs.utf_8_decode(data, strictness, not read)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{part.name} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset "
                f"{offset + error.start} is invalid; convert the file to UTF-8 first"
            ) from None
        if text:
            yield offset, data[:length], text
        if not read:
            return
        offset, rest = offset + length, data[length:]


def _content_of_a_pipe(path: Path) -> bytes | None:
    """Return the content of what can be read only once, as a shell's <(command); None for a file or nothing."""
    try:
        if path.is_file() or path.is_dir() or not path.exists():
            return None
    except (OSError, ValueError):
        return None  # opening it will fail too, and say why
    with _Part(path).opened() as file:
        return file.read()


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _state(file: BinaryIO) -> tuple[int, int]:
    """Return a file's size in bytes and the time of its last change, by which a change is noticed."""
    if isinstance(file, io.BytesIO):
        return 0, 0  # memory does not change
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
