"""How the cost of a training step grows: ``python -m benchmarks --scaling``.

A step of a small model (2 layers, d_model 64) is timed with one thing at a time doubled and doubled again.  What
is linear doubles too; attention, whose work grows with the square of the context, is shown apart.
"""

from __future__ import annotations

import dataclasses
import statistics

import minigrad as mg
from benchmarks.sizes import Size
from benchmarks.time_spent import profiled_steps

BASE = Size(n_layers=2, n_heads=4, d_model=64, context=64, batch_size=16, vocab_size=65)


def step_and_attention(size: Size, steps: int) -> tuple[float, float]:
    """Return the median seconds of a step and, of these, of attention, forward and backward."""
    whole, profiles = profiled_steps(size, steps)
    attention = [rows["attention"].seconds + rows["attention backward"].seconds for rows in profiles]
    return statistics.median(whole), statistics.median(attention)


def print_scaling(steps: int = 30) -> None:
    """Print the table."""
    mg.set_num_threads(1)
    print("| what | size | ms | attention ms | all else ms | all else, beside half the size |")
    print("|---|---|---|---|---|---|")
    for field in ("batch_size", "context", "n_layers"):
        before = 0.0
        for factor in (1, 2, 4):
            size = dataclasses.replace(BASE, **{field: factor * getattr(BASE, field)})
            whole, attention = step_and_attention(size, steps)
            rest = whole - attention
            growth = f"{rest / before:.2f}" if before else ""
            before = rest
            print(
                f"| {field.replace('_', ' ')} | {getattr(size, field)} | {whole * 1e3:.2f} | "
                f"{attention * 1e3:.2f} | {rest * 1e3:.2f} | {growth} |",
                flush=True,
            )
