"""The options of the command line: what all commands share."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from transformer.checkpoint import CheckpointError
from transformer.fields import TYPES

RUNS = Path("runs")
"""Where runs are, runs/1, runs/2, …, unless the option --out names another directory."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose every complaint is one sentence, with the nearest option if there is one."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and exit with code 2."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)

    def refuse_unknown(self, extras: Sequence[str]) -> NoReturn:
        """Complain about the first argument that means nothing here."""
        unknown = extras[0].split("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.6)
        self.error(f"unknown option {unknown}" + (f": did you mean {near[0]}?" if near else ""))


def add_fields(
    parser: argparse._ActionsContainer,
    kind: Any,
    names: Sequence[str],
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Add an option for each of these fields of a dataclass, with its type, help and default.

    ``defaults`` says what those are that are not the dataclass's.
    """
    for field in dataclasses.fields(kind):
        if field.name not in names:
            continue
        option = "--" + field.name.replace("_", "-")
        default = (defaults or {}).get(field.name, field.default)
        help = f"{field.metadata['help']} (default: {default})"
        choices = field.metadata["allowed"].choices
        if field.type == "bool":
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=None, help=help)
        else:
            parser.add_argument(
                option,
                type=TYPES[str(field.type)],
                choices=choices or None,
                metavar=None if choices else str(field.type).upper(),
                help=help,
            )


def add_text(parser: argparse._ActionsContainer, help: str) -> None:
    """Add the option that names text files."""
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE", help=help)


def chosen(arguments: argparse.Namespace, kind: Any) -> dict[str, Any]:
    """Return those fields of a dataclass that were given on the command line."""
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


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
