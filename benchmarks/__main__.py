"""``python -m benchmarks``: minigrad and PyTorch in turn, each in its own process, and the ratio of each pair.

A shared machine drifts: what counts is the ratio of two runs right after one another, of which the median and
the range are printed.  Without PyTorch only minigrad's own times are.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.scaling import print_scaling
from benchmarks.sizes import SIZES
from benchmarks.time_spent import print_profile

KERNELS = ("softmax", "layer_norm", "gelu", "cross_entropy", "embedding")


class Engine:
    """A worker process."""

    def __init__(self, name: str, threads: int) -> None:
        # Set before NumPy loads: libraries size their thread pools once.
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def ask(self, **order: Any) -> float:
        """Send an order and return the answer.

        Raises:
            RuntimeError: the process died.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker stopped at {order}")
        return float(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(case: list[Any], threads: int, rounds: int, with_torch: bool) -> dict[str, Any]:
    """Run a case in both engines in turn and return the times, the ratios and the memory."""
    engines = {name: Engine(name, threads) for name in (["minigrad", "torch"] if with_torch else ["minigrad"])}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for engine in engines.values():
        engine.ask(prepare=case)
    for _ in range(rounds):
        for name, engine in engines.items():
            times[name].append(engine.ask(run=True))
    row: dict[str, Any] = {"case": case, "threads": threads}
    for name, engine in engines.items():
        row[name] = {"median": statistics.median(times[name]), "min": min(times[name])}
        row[name]["memory_mb"] = engine.ask(memory=True)
        engine.close()
    if with_torch:
        ratios = [a / b for a, b in zip(times["minigrad"], times["torch"], strict=True)]
        row["ratio"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return row


def import_seconds(module: str) -> float:
    """Return how long a fresh Python takes to import ``module``, the best of nine."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(9)]
    return min(float(run.stdout) for run in runs)


def cases(quick: bool) -> list[tuple[str, list[Any], int, int]]:
    """Return (name, case, threads, rounds) for everything that is measured."""
    found: list[tuple[str, list[Any], int, int]] = [("chain", ["chain", 1000], 1, 9 if quick else 25)]
    for size in ("micro", "nano") if quick else SIZES:
        for threads in (1, 2):
            rounds = {"micro": 25, "nano": 15, "mid": 9, "paper": 7}[size]
            found.append((f"step {size}", ["step", size, threads], threads, max(3, rounds // (3 if quick else 1))))
    for name in KERNELS:
        for size in ("nano",) if quick else ("nano", "paper"):
            found.append((f"{name} {size}", ["kernel", name, size], 1, 5 if quick else 15))
    rounds = 15 if quick else 31
    found.append(("generation nano", ["generation", "nano"], 1, rounds))
    found.append(("generation nano, torch without cache", ["generation_without_cache", "nano"], 1, rounds))
    return found


def main() -> int:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds: about a minute")
    parser.add_argument("--only", metavar="NAME", help="only the cases whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file as well")
    parser.add_argument(
        "--profile", choices=tuple(SIZES), metavar="SIZE", help="print where the time of one step goes instead"
    )
    parser.add_argument("--scaling", action="store_true", help="print how the cost of a step grows instead")
    arguments = parser.parse_args()
    if arguments.scaling:
        print_scaling()
        return 0
    if arguments.profile:
        print_profile(SIZES[arguments.profile])
        return 0

    with_torch = importlib.util.find_spec("torch") is not None
    chosen = [case for case in cases(arguments.quick) if not arguments.only or arguments.only in case[0]]
    if not chosen:
        print(f"python -m benchmarks: no case is called {arguments.only!r}", file=sys.stderr)
        return 2
    rows = []
    for name, case, threads, rounds in tqdm(chosen, unit="case", dynamic_ncols=True, leave=False):
        rows.append({"name": name, **compare(case, threads, rounds, with_torch)})

    from importlib.metadata import version

    versions = {name: version(name) for name in ("numpy", "torch") if name != "torch" or with_torch}
    processor = platform.processor() or platform.machine()
    print(f"Python {platform.python_version()}, {versions}, {processor}, {os.cpu_count()} processors\n")
    print("| case | threads | minigrad ms | torch ms | ratio | min–max | memory MB, minigrad | torch |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        own, peer, ratio = row["minigrad"], row.get("torch"), row.get("ratio")
        print(
            f"| {row['name']} | {row['threads']} | {own['median'] * 1e3:.3f} | "
            + (f"{peer['median'] * 1e3:.3f} | **{ratio['median']:.2f}** | " if peer and ratio else "– | – | ")
            + (f"{ratio['min']:.2f}–{ratio['max']:.2f} | " if ratio else "– | ")
            + f"{own['memory_mb']:.0f} | "
            + (f"{peer['memory_mb']:.0f} |" if peer else "– |")
        )
    if not arguments.only:
        numpy, own = import_seconds("numpy"), import_seconds("minigrad")
        print(f"\nimport numpy {numpy * 1e3:.0f} ms, import minigrad {own * 1e3:.0f} ms")
        print_rates(rows)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"versions": versions, "time": time.time(), "rows": rows}, indent=1), encoding="utf-8"
        )
        print(f"\nwrote {arguments.json}")
    return 0


def print_rates(rows: list[dict[str, Any]]) -> None:
    """Print what share of the machine's matrix-product rate a step reaches."""
    engine = Engine("minigrad", 1)
    engine.ask(prepare=["matmul", 1024])
    rate = 2 * 1024**3 / min(engine.ask(run=True) for _ in range(15))
    engine.close()
    print(f"\nmatrix products on one thread: {rate / 1e9:.0f} GFLOP/s; a step reaches")
    for row in rows:
        if row["name"].startswith("step") and row["threads"] == 1:
            reached = SIZES[row["case"][1]].flops / row["minigrad"]["median"]
            print(f"  {row['case'][1]:6} {reached / 1e9:6.1f} GFLOP/s, {100 * reached / rate:.0f} %")


if __name__ == "__main__":
    sys.exit(main())
