"""How many threads NumPy's matrix products use: OpenBLAS, which comes inside NumPy's wheels, asked directly."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = [
    "get_num_threads",
    "limit_threads",
    "set_num_threads",
]

SUFFIXES = ("64_", "")  # builds with 64-bit and with 32-bit integers
PREFIXES = ("scipy_openblas", "openblas")


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return OpenBLAS's functions that get and set the number of threads; None if NumPy uses another library."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        for path in sorted(folder.glob("*openblas*")) if folder.is_dir() else ():
            try:
                library = ctypes.CDLL(str(path))  # loaded already: this only gives access to it
            except OSError:
                continue
            for prefix in PREFIXES:
                for suffix in SUFFIXES:
                    getter = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                    setter = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                    if getter is not None and setter is not None:
                        setter.argtypes, setter.restype = [ctypes.c_int], None
                        return getter, setter
    return None


def get_num_threads() -> int:
    """Return the number of threads of a matrix product (the number of processors where it can't be asked)."""
    functions = _openblas()
    return int(functions[0]()) if functions else os.cpu_count() or 1


def set_num_threads(n: int) -> bool:
    """Have matrix products use ``n`` threads; return whether NumPy's library could be told.

    Whoever runs Python threads side by side, each with products of its own, wants 1.

    Raises:
        ValueError: ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"the number of threads must be at least 1, not {n}")
    functions = _openblas()
    if functions:
        functions[1](n)
    return functions is not None


@contextmanager
def limit_threads(n: int) -> Iterator[None]:
    """Have matrix products use at most ``n`` threads inside the block; the setting is the whole process's.

    Raises:
        ValueError: ``n`` is below 1.
    """
    before = get_num_threads()
    if n < before or n < 1:
        set_num_threads(n)
    try:
        yield
    finally:
        if n < before:
            set_num_threads(before)
