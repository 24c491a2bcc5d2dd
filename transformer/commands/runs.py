"""Where runs are: runs/1, runs/2, … unless the user names a directory."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path

from transformer.checkpoint import CheckpointError

RUNS = Path("runs")


def new_run() -> Path:
    """Make the first unused directory of runs/1, runs/2, …: two commands at once get two.

    Raises:
        OSError: it can't be made.
    """
    for n in itertools.count(1):
        path = RUNS / str(n)
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError("there is always a next number")


def latest_run() -> Path:
    """Return the run in runs/ that was written last.

    Raises:
        CheckpointError: there is none.
    """
    found = sorted(RUNS.glob("*/*.safetensors"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise CheckpointError(
            "there is no run in runs/: train a model with `transformer train`, or name one with --out"
        )
    return found[-1].parent
