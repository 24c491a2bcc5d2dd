"""Answers for programs that ask whether there is a GPU: there is none here."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: minigrad computes on the CPU."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed no device; :func:`minigrad.manual_seed` seeds the numbers drawn here."""


manual_seed_all = manual_seed
