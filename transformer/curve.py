"""The course of a training as a picture: the losses of a run's log, beside what counting achieves.

As SVG, written here; as characters, for a terminal; and as PNG where matplotlib is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from transformer.baselines import Baseline
from transformer.phrases import counted

Point = tuple[float, float]

Y_LABEL = "nats per character"
TRAINING, HELD_OUT = "training (running mean)", "held out"  # texts, or questions


@dataclass(frozen=True)
class Curve:
    """What is drawn: losses in nats per character at numbers of steps, and losses to compare with."""

    training: Sequence[Point]
    held_out: Sequence[Point]
    levels: Sequence[tuple[str, float]]

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The last step, the lowest loss and the highest, with some room for both."""
        losses = [loss for _, loss in (*self.training, *self.held_out)]
        lowest = min([*losses, *(loss for _, loss in self.levels[:1])])
        highest = max(losses)
        room = 0.04 * (highest - lowest) or 0.1
        steps = max(step for step, _ in (*self.training, *self.held_out))
        return max(1, steps), lowest - room, highest + room

    @property
    def visible_levels(self) -> list[tuple[str, float]]:
        """The levels within the bounds; of several that are hard to tell apart, one line bears all the names."""
        _, lowest, highest = self.bounds
        merged: list[tuple[str, float]] = []
        for name, loss in self.levels:
            if not lowest <= loss <= highest:
                continue
            if merged and loss - merged[-1][1] < 0.035 * (highest - lowest):
                merged[-1] = f"{merged[-1][0]}, {name}", merged[-1][1]
            else:
                merged.append((name, loss))
        return merged


def curve_of(
    log: Sequence[dict[str, Any]], characters_per_token: float, baselines: Sequence[Baseline] = ()
) -> Curve | None:
    """Return the curve of a run from the lines of its ``log.jsonl``; None if they hold no loss.

    Args:
        log: the lines, as :func:`read_log` gives them.
        characters_per_token: of the training text: by token is how the log tells its loss.
        baselines: what to compare with.
    """
    training = [(line["step"], line["loss"] / characters_per_token) for line in log if is_loss(line.get("loss"))]
    key = "held_out_nats_per_character"
    held_out = [(line["step"], line[key]) for line in log if is_loss(line.get(key))]
    levels = sorted(((b.name, b.nats_per_character) for b in baselines), key=lambda level: level[1])
    return Curve(training, held_out, levels) if training or held_out else None


def is_loss(value: Any) -> bool:
    """Return whether a value from a log is a loss that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a ``log.jsonl`` that can be read: each a dict with a number of steps.

    A run that was killed may have left its last line unfinished; where there is no log, there are no lines.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    lines = []
    for text in content.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and type(line.get("step")) is int:
            lines.append(line)
    return lines


def round_numbers(low: float, high: float, at_most: int) -> list[float]:
    """Return evenly spaced round numbers between two numbers.

    >>> round_numbers(0, 3000, at_most=7)
    [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0]
    """
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / at_most))
    for factor in (1, 2, 5, 10):
        first, last = math.ceil(low / (step * factor) - 1e-9), math.floor(high / (step * factor) + 1e-9)
        if last - first + 1 <= at_most:
            return [round(i * step * factor, 10) for i in range(first, last + 1)]
    raise AssertionError("ten steps are one of the next size")


def save_pictures(curve: Curve, directory: Path, title: str) -> list[str]:
    """Write ``loss.svg`` and, where matplotlib is installed, ``loss.png`` to a directory; return their names.

    Raises:
        OSError: they can't be written.
    """
    (directory / "loss.svg").write_text(svg(curve, title), encoding="utf-8")
    return ["loss.svg"] + ["loss.png"] * save_png(curve, directory / "loss.png", title)


# --- SVG ------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 20, 50
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #333; }
  .frame { fill: none; stroke: #999; }
  .grid { stroke: #e4e4e4; }
  .level { stroke: #888; stroke-dasharray: 4 3; }
  .training { fill: none; stroke: #0072b2; stroke-width: 1.5; }
  .held-out { fill: none; stroke: #d55e00; stroke-width: 2; }
  .held-out-point { fill: #d55e00; }
"""


def svg(curve: Curve, title: str) -> str:
    """Return a curve as an SVG document, which needs nothing else to be shown."""
    steps, lowest, highest = curve.bounds

    def x(step: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * step / steps, 1)

    def y(loss: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (highest - loss) / (highest - lowest), 1)

    def polyline(points: Sequence[Point], kind: str) -> str:
        return f'<polyline class="{kind}" points="{" ".join(f"{x(s)},{y(loss)}" for s, loss in points)}"/>'

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in round_numbers(0, steps, 7):
        parts.append(f'<line class="grid" x1="{x(tick)}" y1="{TOP}" x2="{x(tick)}" y2="{bottom}"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 18}" text-anchor="middle">{tick:,.0f}</text>')
    for tick in round_numbers(lowest, highest, 8):
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y(tick)}" x2="{right}" y2="{y(tick)}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
    for name, loss in curve.visible_levels:
        parts.append(f'<line class="level" x1="{LEFT}" y1="{y(loss)}" x2="{right}" y2="{y(loss)}"/>')
        parts.append(f'<text x="{right + 6}" y="{y(loss) + 4}">{escape(name)}</text>')
    parts.append(f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/>')
    parts += [polyline(curve.training, "training"), polyline(curve.held_out, "held-out")]
    for step, loss in curve.held_out:
        parts.append(
            f'<circle class="held-out-point" cx="{x(step)}" cy="{y(loss)}" r="3">'
            f"<title>step {step:,}: {loss:.3f}</title></circle>"
        )
    parts.append(f'<rect x="{right - 228}" y="{TOP + 6}" width="222" height="42" fill="#fff" fill-opacity="0.9"/>')
    for row, (name, kind) in enumerate(((TRAINING, "training"), (HELD_OUT, "held-out"))):
        height = TOP + 18 + 18 * row
        parts.append(f'<line class="{kind}" x1="{right - 220}" y1="{height}" x2="{right - 196}" y2="{height}"/>')
        parts.append(f'<text x="{right - 190}" y="{height + 4}">{name}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">steps</text>')
    parts.append(f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{Y_LABEL}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
    )


# --- characters -----------------------------------------------------------------------------------


def text_plot(curve: Curve, width: int = 60, height: int = 14) -> str:
    """Return a curve as lines of plain characters, which every terminal can show."""
    steps, lowest, highest = curve.bounds
    rows = [[" "] * width for _ in range(height)]

    def row_of(loss: float) -> int:
        return min(height - 1, int(height * (highest - loss) / (highest - lowest)))

    def draw(points: Sequence[Point], mark: str) -> None:
        for step, loss in points:
            rows[row_of(loss)][min(width - 1, int(width * step / steps))] = mark

    names = {}
    for name, loss in reversed(curve.visible_levels):  # the best last, so that its name stays
        names[row_of(loss)] = f"{name} {loss:.3f}"
        rows[row_of(loss)] = ["-"] * width
    draw(curve.training, ".")
    draw(curve.held_out, "o")
    labels = {row_of(loss): f"{loss:g}" for loss in round_numbers(lowest, highest, max(2, height // 3))}
    lines = [f"{labels.get(i, ''):>6} |{''.join(row)}| {names.get(i, '')}".rstrip() for i, row in enumerate(rows)]
    axis = f"{'':6} +{'-' * width}+"
    scale = f"{'':8}0{counted(int(steps), 'step'):>{width - 1}}"
    legend = f"{'':8}{Y_LABEL}:  . {TRAINING}   o {HELD_OUT}"
    return "\n".join([*lines, axis, scale, legend])


# --- PNG ------------------------------------------------------------------------------------------


def save_png(curve: Curve, path: Path, title: str) -> bool:
    """Write a curve as PNG; return False if matplotlib, which draws it, is not installed.

    Raises:
        OSError: the file can't be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=200, layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*curve.training, strict=True), color="#0072b2", linewidth=1, label=TRAINING)
    axes.plot(*zip(*curve.held_out, strict=True), color="#d55e00", marker="o", markersize=3, label=HELD_OUT)
    for name, loss in curve.visible_levels:
        axes.axhline(loss, color="#888", linewidth=0.8, linestyle="--")
        axes.annotate(name, (1.01, loss), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    steps, lowest, highest = curve.bounds
    axes.set(xlabel="steps", ylabel=Y_LABEL, title=title, xlim=(0, steps), ylim=(lowest, highest))
    axes.legend()
    figure.savefig(path, format="png")
    return True
