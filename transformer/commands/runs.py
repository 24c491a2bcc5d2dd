"""Where runs are: in the directory that the option --out names, or else in runs/1, runs/2, …."""

from __future__ import annotations

import argparse
import itertools
from contextlib import suppress
from pathlib import Path

from transformer.checkpoint import CheckpointError

RUNS = Path("runs")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a trained model."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="RUN",
        help="the run's directory, or a checkpoint file (default: the latest run in runs/)",
    )


def chosen_run(arguments: argparse.Namespace) -> Path:
    """Return the run that was named, or else the one in runs/ that was written last.

    Raises:
        CheckpointError: none was named, and there is none.
    """
    if arguments.out is not None:
        return Path(arguments.out)
    found = sorted(RUNS.glob("*/*.safetensors"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise CheckpointError(
            "there is no run in runs/: train a model with `transformer train`, or name one with --out"
        )
    return found[-1].parent


def add_new_run(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the directory of a run that is to be."""
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the run (default: a new runs/N)")


def new_run(arguments: argparse.Namespace) -> Path:
    """Return the directory that was named, or else make the first unused of runs/1, runs/2, ….

    Two commands at once get two.

    Raises:
        OSError: it can't be made.
    """
    if arguments.out is not None:
        return Path(arguments.out)
    for n in itertools.count(1):
        path = RUNS / str(n)
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError("there is always a next number")
