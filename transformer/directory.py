"""A run's directory: what is in it, who may write there, and its log.

last.safetensors                   the latest state of the training, from which it can go on exactly
best.safetensors                   the weights that predicted the held-out text best so far
snapshots/00000000.safetensors …   the model along the way, after that many steps
log.jsonl                          a line of JSON now and then
loss.svg, loss.png                 the losses drawn (see curve.py)
.lock                              locked while a process trains here
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minigrad.files import replace_file
from transformer.checkpoint import CheckpointError
from transformer.lock import exclusive
from transformer.phrases import counted


class RunDirectory:
    """The paths in a run's directory, and the right to write there.

    Args:
        path: the directory, which need not be there yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.last = self.path / "last.safetensors"
        self.best = self.path / "best.safetensors"
        self.snapshots = self.path / "snapshots"
        self.log = self.path / "log.jsonl"
        self.pictures = [self.path / "loss.svg", self.path / "loss.png"]

    def snapshot(self, step: int) -> Path:
        """Return where the snapshot of a step is."""
        return self.snapshots / f"{step:08d}.safetensors"

    def describe(self) -> str:
        """Return what is there, in a line."""
        found = [path.name for path in (self.best, self.last, self.log, *self.pictures) if path.exists()]
        if n := len(list(self.snapshots.glob("*.safetensors"))):
            found.append(counted(n, "snapshot"))
        return ", ".join(found)

    @contextmanager
    def create(self) -> Iterator[None]:
        """Make the directory, if need be, and hold its lock inside the block.

        Raises:
            ValueError: it holds a run already, is a file, or another process is beginning a run in it.
            OSError: it can't be written.
        """
        self.check_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        with self.lock():
            self.check_unused()  # by another process, which was faster
            yield

    def check_unused(self) -> None:
        """Raise if a run can't begin here.

        Raises:
            ValueError: the directory holds a run already, or is a file.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"'{self.path}' is a file: give a directory for the run")
        begun = self.log.exists() and self.log.stat().st_size > 0  # an empty one is of a start that failed
        if begun or any(path.exists() for path in (self.last, self.best, self.snapshots)):
            raise ValueError(
                f"'{self.path}' already holds a run: go on with it by --resume {self.path}, "
                "give another directory, or remove it"
            )

    @contextmanager
    def reopen(self) -> Iterator[None]:
        """Hold the lock of a run that was begun before.

        Raises:
            CheckpointError: there is none.
            ValueError: another process is training it.
            OSError: the directory can't be written.
        """
        if not self.last.is_file():
            raise CheckpointError(f"there is no run to resume in '{self.path}': it has no last.safetensors")
        with self.lock():
            yield

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from writing here, and clean up what a killed one left half written.

        Raises:
            Locked: another process writes here.
            OSError: the directory can't be written.
        """
        with exclusive(self.path / ".lock"):
            for folder in (self.path, self.snapshots):
                for name in (".*.safetensors.*.tmp", ".log.jsonl.*.tmp"):
                    for leftover in folder.glob(name):
                        leftover.unlink()
            yield


class Log:
    """The lines of ``log.jsonl``, which is replaced as a whole: never is there a part of a line.

    Args:
        path: the file.
        step: of the lines that are there, those of later steps are dropped: they will come again.
    """

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        self.content = whole_lines(path.read_bytes() if path.exists() else b"", step)

    def add(self, line: dict[str, Any]) -> None:
        """Append a line, which :meth:`save` will write."""
        self.content += json.dumps(line, allow_nan=False).encode("utf-8") + b"\n"

    def save(self) -> None:
        """Replace the file.

        Raises:
            OSError: it can't be written; the old one stays.
        """
        replace_file(self.path, [self.content])


def whole_lines(content: bytes, step: int) -> bytes:
    """Return the beginning of a log: its whole lines of steps up to ``step``.

    >>> whole_lines(b'{"step": 1}\\n{"step": 2}\\n{"st', step=5)
    b'{"step": 1}\\n{"step": 2}\\n'
    >>> whole_lines(b'{"step": 1}\\n{"step": 2}\\n', step=1)
    b'{"step": 1}\\n'
    """
    length = 0
    for line in content.splitlines(keepends=True):
        try:
            if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                break
        except (ValueError, TypeError, KeyError):
            break
        length += len(line)
    return content[:length]
