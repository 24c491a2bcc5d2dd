"""Where the time of a training step goes, operation by operation: ``python -m benchmarks --profile nano``."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import minigrad as mg
from benchmarks.sizes import Size
from benchmarks.with_minigrad import trainer_and_batch
from minigrad import autograd
from minigrad.op import Op
from minigrad.optim import Optimizer
from transformer import training


@dataclass
class Row:
    """What was measured of one operation, in one direction."""

    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0


@dataclass
class Profile:
    """The rows by name, of one step."""

    rows: dict[str, Row] = field(default_factory=lambda: defaultdict(Row))

    def measured(self, name_of: Callable[..., str], function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` with its calls counted under ``name_of(its first argument)``."""

        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            result = function(*args, **kwargs)
            row = self.rows[name_of(args[0])]
            row.seconds += time.thread_time() - began
            row.calls += 1
            row.bytes += size_of(result)
            return result

        return call


def size_of(result: Any) -> int:
    """Return the bytes of the arrays in what an operation or its rules returned; a view counts nothing."""
    if isinstance(result, tuple | list):
        return sum(map(size_of, result))
    array = getattr(result, "_data", result)
    return array.nbytes if isinstance(array, np.ndarray) and array.base is None else 0


@contextmanager
def profiling() -> Iterator[Profile]:
    """Count every operation, forward and backward, and the parts of a step around them."""
    profile = Profile()
    watched: list[tuple[Any, str, Callable[..., str]]] = [
        (Op, "__call__", lambda op: op.name),
        (Op, "pullback", lambda op: f"{op.name} backward"),
        (Optimizer, "step", lambda _: "optimizer"),
        (training, "clip_grad_norm_", lambda _: "clipping"),
        (autograd, "backward_pass", lambda _: "whole walk"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in watched]
    for owner, name, name_of in watched:
        setattr(owner, name, profile.measured(name_of, getattr(owner, name)))
    try:
        yield profile
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def profiled_steps(size: Size, steps: int) -> tuple[list[float], list[dict[str, Row]]]:
    """Take some steps of a model of this size on one thread; return their processor seconds and their rows."""
    trainer, batch = trainer_and_batch(size, threads=1)
    for _ in range(3):
        trainer.step(*batch)
    whole, profiles = [], []
    for _ in range(steps):
        with profiling() as profile:
            began = time.thread_time()
            trainer.step(*batch)
            whole.append(time.thread_time() - began)
        profiles.append(profile.rows)
    return whole, profiles


def print_profile(size: Size, steps: int = 20) -> None:
    """Print the median time of each operation in one step of a model of this size, on one thread."""
    mg.set_num_threads(1)
    whole, profiles = profiled_steps(size, steps)
    names = list(profiles[0])
    times = {name: statistics.median(rows[name].seconds for rows in profiles) for name in names}
    walk = times.pop("whole walk") - sum(t for name, t in times.items() if name.endswith(" backward"))
    total = statistics.median(whole)
    print("| operation | calls | ms | share | MB written |\n|---|---|---|---|---|")
    for name, seconds in sorted(times.items(), key=lambda item: -item[1]):
        row = profiles[-1][name]
        print(f"| {name} | {row.calls} | {seconds * 1e3:.3f} | {seconds / total:.0%} | {row.bytes / 1e6:.2f} |")
    rest = total - sum(times.values()) - walk
    print(f"| the walk back: adding up, casting, order | 1 | {walk * 1e3:.3f} | {walk / total:.0%} | |")
    print(f"| all else | | {rest * 1e3:.3f} | {rest / total:.0%} | |")
    print(f"| **one step** (with the cost of watching it) | | **{total * 1e3:.3f}** | | |")
