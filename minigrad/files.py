"""Files that are whole or not there: how everything is written that must survive a crash."""

from __future__ import annotations

import errno
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

REPLACE_TRIES = 20 if sys.platform == "win32" else 1
"""Windows does not replace a file that another process is just reading: a second is enough for that."""


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``target`` when the block is done, all at once.

    If the block is left by an exception, or the machine stops meanwhile, the old one stays.  It is written beside
    ``target`` as ``.NAME.….tmp``, which a killed process leaves behind.

    Raises:
        OSError: it can't be written.
    """
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the contents must reach the disk before the name does
        put_in_place(beside, target)
    except OSError as error:  # under the name that the caller knows
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(target)) from None
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(target.parent)


def replace_file(target: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file of these bytes, as :func:`replacing` does.

    Raises:
        OSError: it can't be written; the old one stays.
    """
    with replacing(target) as file:
        for part in parts:
            file.write(part)


def put_in_place(beside: Path, target: Path) -> None:
    """Give a file its name at once; an old one of that name is gone.

    Raises:
        OSError: that can't be done.
    """
    for tries_left in range(REPLACE_TRIES - 1, -1, -1):
        try:
            os.replace(beside, target)  # noqa: PTH105 (the one call that is atomic on every system)
            return
        except PermissionError:
            if not tries_left:
                raise
            time.sleep(0.05)


def sync_directory(folder: Path) -> None:
    """Have a new name in a directory reach the disk, where the system lets one ask for it (Windows doesn't)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
