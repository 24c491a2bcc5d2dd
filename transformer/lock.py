"""A lock on a file, which the system itself takes back when the process that holds it ends, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCKED_BYTE = 1 << 30
"""Windows locks a range of bytes, and keeps others from reading it: this one is far behind the text."""


class Locked(ValueError):
    """Another process holds the lock; the message says which, if that is known."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock ``path`` inside the block.  The file stays; whether it is locked is what counts.

    On a file system that cannot lock (some network drives) nothing is locked.

    Raises:
        Locked: another process, or another place in this one, holds it.
        OSError: the file can't be written.
    """
    with path.open("a+", encoding="utf-8") as file:
        if not acquire(file.fileno()):
            file.seek(0)
            holder = file.read().strip()
            raise Locked(f"'{path.parent}' is in use by {f'process {holder}' if holder else 'another process'}")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):
                file.truncate(0)  # and closing the file gives the lock back


if sys.platform == "win32":
    import msvcrt

    def acquire(descriptor: int) -> bool:
        """Lock an open file; return whether nobody else holds it."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def acquire(descriptor: int) -> bool:
        """Lock an open file; return whether nobody else holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # this file system has no locks
        return True
