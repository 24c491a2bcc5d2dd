"""How freed memory is kept for the next array, instead of going back to the system; and how much there is."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# The parameters of glibc's mallopt (malloc.h).
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, ARENA_MAX = -1, -2, -3, -8
MB = 1 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Have the process keep freed memory for new arrays; return whether the system's allocator could be told.

    A training step allocates the same large arrays as the step before.  By default glibc gives freed memory back
    to the system and takes it again, and a page that is touched anew costs about as much as the arithmetic on
    it: 12 % of a step at 0.8 million parameters.  Elsewhere than on glibc nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        TRIM_THRESHOLD: 1 << 30,
        TOP_PAD: 16 * MB,
        MMAP_THRESHOLD: 32 * MB,  # the most that glibc allows: smaller arrays come from the heap
        ARENA_MAX: 1,  # one heap for all threads, so that one can use what another has freed
    }
    told = [mallopt(parameter, value) == 1 for parameter, value in settings.items()]
    return all(told)


@dataclass(frozen=True)
class Memory:
    """The machine's memory, in bytes; None where the system doesn't say."""

    total: int | None = None  # that this process could have at the most
    free: int | None = None  # that it can have now, without others being written to disk


def machine_memory() -> Memory:
    """Return how much memory there is and how much of it is free.

    A limit of the container (Linux control groups, version 2) counts as the machine's.
    """
    if sys.platform == "win32":
        return _windows_memory()
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return Memory()
    if not sys.platform.startswith("linux"):
        return Memory(total)
    free = _number_after("MemAvailable:", Path("/proc/meminfo"))
    free = None if free is None else free * 1024
    group = Path("/sys/fs/cgroup")
    limit = _number_after("", group / "memory.max")  # "max" where there is none
    used = _number_after("", group / "memory.current")
    if limit is not None and limit < total:
        left = limit - min(used or 0, limit)
        total, free = limit, left if free is None else min(free, left)
    return Memory(total, free)


def _number_after(name: str, path: Path) -> int | None:
    """Return the number that follows a name at the start of a line of a file, if there is one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(name):
            first = line.removeprefix(name).split()[:1]
            return int(first[0]) if first and first[0].isdecimal() else None
    return None


def _windows_memory() -> Memory:
    """Ask the system's library (GlobalMemoryStatusEx)."""

    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in ("total", "free", "a", "b", "c", "d", "e")),
        )

    status = Status(length=ctypes.sizeof(Status))
    windows = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return Memory()
    return Memory(status.total, status.free)
