"""Where runs are: runs/1, runs/2, … unless the user names a directory."""

from __future__ import annotations

from pathlib import Path

from transformer.checkpoint import CheckpointError

RUNS = Path("runs")


def new_run() -> Path:
    """Return the first unused directory of runs/1, runs/2, …"""
    n = 1
    while (RUNS / str(n)).exists():
        n += 1
    return RUNS / str(n)


def unused(out: Path) -> Path:
    """Return ``out`` if no run is in it.

    Raises:
        ValueError: there is one, or ``out`` is a file.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"'{out}' is a file: give a directory for the run")
    if any((out / name).exists() for name in ("last.safetensors", "best.safetensors", "log.jsonl")):
        raise ValueError(f"'{out}' already holds a run: give another directory, or remove it")
    return out


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
