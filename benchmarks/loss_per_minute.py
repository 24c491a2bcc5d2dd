"""``python -m benchmarks.loss_per_minute``: what is learned in equal time, by the default recipe and by PyTorch.

Each contender trains in a process of its own, on the same text, for the same time, in turn: a slice of seconds
each, so that a machine that drifts is the same for all.  Rates follow the share of the time that is used up, so
each reaches its lowest rate at the end.  The loss is over the whole held-out tenth, in nats per character, by the
windows of ``transformer evaluate``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

CONTENDERS = {
    "minigrad": "the default of `transformer train`",
    "torch-adamw": "PyTorch, the same decoder and batch, AdamW 2e-3 (0.9, 0.99), decay 0.1, falling in a line",
    "torch-adamw-12x64": "the same in batches of 12 x 64",
    "torch-muon": "PyTorch, the default's recipe with torch.optim.Muon",
}


class Contender(Protocol):
    """Something that learns from a text."""

    def step(self, done: float) -> None:
        """Take a training step at the rate that belongs to a share ``done`` of the training."""

    def score(self) -> float:
        """Return the loss over the held-out text, in nats per character."""


def serve(name: str, text: str | None, threads: int, seed: int, minutes: float, connection: Connection) -> None:
    """Be one contender, in a process of its own: train when told to, for so many seconds."""
    make(name, text, threads, seed).step(0.5)  # what only the first step of a process costs is not timed
    contender = make(name, text, threads, seed)
    used, steps = 0.0, 0
    connection.send("ready")
    while (seconds := connection.recv()) is not None:
        began = time.perf_counter()
        until = began + min(seconds, minutes * 60 - used)
        while (now := time.perf_counter()) < until:
            contender.step(min(1.0, (used + now - began) / (minutes * 60)))
            steps += 1
        used += time.perf_counter() - began
        connection.send((used, steps))
    connection.send(contender.score())


def make(name: str, text: str | None, threads: int, seed: int) -> Contender:
    """Return a contender, ready to train."""
    if name == "minigrad":
        from benchmarks.learn_with_minigrad import Minigrad

        return Minigrad(text, threads, seed)
    from benchmarks.learn_with_torch import Torch

    return Torch(text, threads, seed, muon=name == "torch-muon", small_batch=name.endswith("12x64"))


class Process:
    """A contender's process, seen from outside."""

    def __init__(self, name: str, arguments: argparse.Namespace, seed: int) -> None:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # read when the libraries load
        self.name = name
        self.connection, other = multiprocessing.Pipe()
        text = str(arguments.text) if arguments.text else None
        self.process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(name, text, arguments.threads, seed, arguments.minutes, other), daemon=True
        )
        self.process.start()
        other.close()
        self.receive()

    def receive(self) -> Any:
        """Return the next answer.

        Raises:
            RuntimeError: the process died.
        """
        try:
            return self.connection.recv()
        except EOFError:
            raise RuntimeError(f"the process of {self.name} died") from None

    def train(self, seconds: float) -> tuple[float, int]:
        """Train for so long; return the seconds used so far, and the steps taken."""
        self.connection.send(seconds)
        used, steps = self.receive()
        return used, steps

    def finish(self) -> float:
        """Return the final loss, and end the process."""
        self.connection.send(None)
        loss: float = self.receive()
        self.process.join()
        return loss


def contest(names: list[str], arguments: argparse.Namespace, seed: int) -> dict[str, tuple[float, int, float]]:
    """Have all contenders train for the same time, in turn; return (loss, steps, seconds) of each."""
    processes = [Process(name, arguments, seed) for name in names]
    total = arguments.minutes * 60
    found = dict.fromkeys(names, (0.0, 0))
    with tqdm(total=round(total * len(names)), unit="s", dynamic_ncols=True, leave=False) as bar:
        while any(used < total for used, _ in found.values()):
            for process in processes:
                if found[process.name][0] < total:
                    found[process.name] = process.train(arguments.slice)
                    bar.set_postfix_str(f"{process.name}: {found[process.name][1]:,} steps", refresh=False)
                    bar.n = round(sum(used for used, _ in found.values()))
                    bar.refresh()
    return {p.name: (p.finish(), found[p.name][1], found[p.name][0]) for p in processes}


def torch_seconds(arguments: argparse.Namespace) -> float:
    """Return the time that PyTorch takes for a step of 12 x 64, the mean over one slice."""
    process = Process("torch-adamw-12x64", argparse.Namespace(**{**vars(arguments), "minutes": 1e9}), seed=0)
    seconds, steps = process.train(arguments.slice)
    process.process.terminate()
    return seconds / steps


def main() -> int:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loss_per_minute", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, for each (default: 3)")
    parser.add_argument(
        "--torch-steps",
        type=int,
        metavar="N",
        help="instead of --minutes: as long as PyTorch takes for so many steps of 12 x 64, measured first",
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often, each with its own seed (default: 1)")
    parser.add_argument("--threads", type=int, default=2, help="for each (default: 2)")
    parser.add_argument("--slice", type=float, default=10.0, help="seconds at a time (default: 10)")
    parser.add_argument("--text", type=Path, help="UTF-8 text (default: Python's own reference text)")
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=tuple(CONTENDERS),
        default=["minigrad", "torch-adamw"],
        help="; ".join(f"{name}: {what}" for name, what in CONTENDERS.items()),
    )
    arguments = parser.parse_args()
    for name in ("minutes", "torch_steps", "rounds", "threads", "slice"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0, not {value}")
    if arguments.text and not arguments.text.is_file():
        parser.error(f"there is no file '{arguments.text}'")

    if arguments.torch_steps is not None:
        arguments.minutes = arguments.torch_steps * torch_seconds(arguments) / 60
        print(
            f"PyTorch takes {60 * arguments.minutes:.1f} s for {arguments.torch_steps:,} steps of 12 x 64",
            flush=True,
        )
    losses: dict[str, list[float]] = {name: [] for name in arguments.contenders}
    for seed in range(1, arguments.rounds + 1):
        for name, (loss, steps, seconds) in contest(list(losses), arguments, seed).items():
            losses[name].append(loss)
            print(
                f"round {seed}  {name:18} {loss:.4f} nats/char after {steps:,} steps, {seconds:.1f} s", flush=True
            )
    if arguments.rounds > 1:
        for name, found in losses.items():
            print(f"median   {name:18} {statistics.median(found):.4f} ({min(found):.4f} to {max(found):.4f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
