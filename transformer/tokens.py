"""The tokens of a text, in compact integers; those of a long text in a file that is kept and mapped to memory.

Encoding 100 MB takes a while, and the result has its size.  So the tokens of a long text go, block by block, to a
file in the user's cache directory, from which the system reads what is asked for; the next run on the same text
with the same tokenizer finds them there.  The file is named after a digest of both, is put in place only when it
is whole, and can be deleted at any time.  It is a safetensors file with one tensor.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.dtypes import DType
from minigrad.files import replacing
from transformer.corpus import BLOCK_BYTES, Corpus
from transformer.tokenizer import Tokenizer

KEPT_FROM = 4_000_000
"""The number of characters from which on the tokens of a text are kept in a file."""

MAX_CACHE_BYTES = 4_000_000_000
"""When the kept files are larger than this together, those not used for longest are deleted."""

VERSION = 2  # of how tokens are made of text and kept: a change of either is another version

HEADER_BYTES = 512  # of JSON and spaces after it: fixed, because it is written last
STORED_AS = {"uint8": "U8", "uint16": "U16", "int32": "I32"}  # the names of dtypes in safetensors
ABANDONED_SECONDS = 24 * 60 * 60  # so old, a file half written is of a run that was killed


def encode(
    text: Corpus, tokenizer: Tokenizer, on_characters: Callable[[int], Any] | None = None
) -> tuple[Tensor, Path | None]:
    """Return the ids (N,) of a text, and the file in which they are kept if it is a long one.

    The ids are of the smallest integers that hold them all.  If no file can be written, they are in memory.

    Args:
        text: what to encode.
        tokenizer: with what.
        on_characters: is told of the characters encoded, or found to be encoded already.

    Raises:
        DataError: the text's file is gone or changed.
        ValueError: the text has characters that the tokenizer does not know.
    """
    if len(text) < KEPT_FROM:
        return in_memory(text, tokenizer, on_characters), None
    path = cache_directory() / f"{digest(text, tokenizer)}.safetensors"
    ids = read_ids(path)
    if ids is not None:
        path.touch()  # used now
        if on_characters is not None:
            on_characters(len(text))
        return ids, path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_ids(path, blocks_of_ids(text, tokenizer, on_characters), tokenizer.dtype)
        forget_oldest(path)
    except OSError:
        pass  # a full disk, or no rights; or, on Windows, another run is using the same file, which will do
    ids = read_ids(path)
    if ids is None:
        return in_memory(text, tokenizer, on_characters), None
    return ids, path


def in_memory(text: Corpus, tokenizer: Tokenizer, on_characters: Callable[[int], Any] | None = None) -> Tensor:
    """Return the ids (N,) of a text, which are never in memory twice."""
    ids = mg.empty(text.n_bytes(), dtype=tokenizer.dtype)  # enough; what is not written takes no memory
    n = 0
    for block in blocks_of_ids(text, tokenizer, on_characters):
        ids[n : n + len(block)] = block
        n += len(block)
    return ids[:n]


def blocks_of_ids(
    text: Corpus, tokenizer: Tokenizer, on_characters: Callable[[int], Any] | None
) -> Iterator[Tensor]:
    """Yield the ids of a text, a vector at a time."""

    def blocks() -> Iterator[str]:
        for block in text.blocks():
            yield block
            if on_characters is not None:
                on_characters(len(block))

    return tokenizer.encode_blocks(blocks())


# --- the files ------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Return where tokens are kept: ``$MINIGRAD_CACHE``, or minigrad's place in the user's cache directory."""
    if chosen := os.environ.get("MINIGRAD_CACHE"):
        return Path(chosen)
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "minigrad" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "minigrad"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "minigrad"


def digest(text: Corpus, tokenizer: Tokenizer) -> str:
    """Return a name that only the same characters encoded by the same tokenizer have."""
    described = json.dumps([VERSION, text.digest, tokenizer.to_dict()])
    return hashlib.sha256(described.encode("ascii")).hexdigest()[:40]


def write_ids(path: Path, blocks: Iterable[Tensor], dtype: DType) -> None:
    """Write ids to a file, which appears under its name when it is whole.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as file:
        file.write(bytes(8 + HEADER_BYTES))
        n = checksum = 0
        for block in blocks:
            content = block.numpy().tobytes()
            file.write(content)
            checksum = zlib.crc32(content, checksum)
            n += len(block)
        file.seek(0)
        file.write(header(n, dtype, checksum))


def header(n: int, dtype: DType, checksum: int) -> bytes:
    """Return the first bytes of a safetensors file of one vector."""
    described = {
        "__metadata__": {"crc32": str(checksum)},
        "tokens": {"dtype": STORED_AS[dtype.name], "shape": [n], "data_offsets": [0, n * dtype.itemsize]},
    }
    return struct.pack("<Q", HEADER_BYTES) + json.dumps(described).encode("ascii").ljust(HEADER_BYTES)


def read_ids(path: Path) -> Tensor | None:
    """Return the ids in a file, mapped to memory; None if there is none, or not as it was written."""
    try:
        with path.open("rb") as file:
            start = file.read(8 + HEADER_BYTES)
            described = json.loads(start[8:])
            stored = described["tokens"]
            dtype = {name: getattr(mg, own) for own, name in STORED_AS.items()}[stored["dtype"]]
            n, checksum = stored["shape"][0], 0
            while content := file.read(BLOCK_BYTES):
                checksum = zlib.crc32(content, checksum)
            if start != header(n, dtype, checksum):
                return None
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return mg.frombuffer(memory, dtype=dtype, count=n, offset=len(start))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def forget_oldest(newest: Path) -> None:
    """Delete the files used longest ago while all together are too large, and those that a killed run left."""
    now, total = time.time(), 0
    for path in sorted(newest.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime, reverse=True):
        total += path.stat().st_size
        if total > MAX_CACHE_BYTES and path != newest:
            path.unlink(missing_ok=True)
    for path in newest.parent.glob(".*.tmp"):
        if now - path.stat().st_mtime > ABANDONED_SECONDS:
            path.unlink(missing_ok=True)
