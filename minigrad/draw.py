"""The graph of a tensor as a picture: text in a terminal, SVG in a notebook or a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.graph import Node, Parent, TensorBase
from minigrad.tensor import Tensor

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 148, 42, 44, 16, 12  # of a box and between boxes, in SVG units


class Drawing:
    """The picture that :func:`draw` makes: ``print`` it, show it in a notebook, or :meth:`save` it as SVG."""

    def __init__(self, output: Tensor, names: Mapping[int, str], most: int) -> None:
        self.output = output
        self.names = names
        self.most = most
        self.places, self.hidden = reachable(output._node or output, most)

    def label(self, place: Parent) -> tuple[str, str]:
        """Return what a place is, and a line about it: its shape, or a leaf's small values."""
        if isinstance(place, Node):
            shape = place.shape[0] if isinstance(place.shape, list) else place.shape
            return place.op.name, f"{tuple(shape)}"
        name = self.names.get(id(place), "leaf")
        values = str(np.round(place._data, 3).tolist()) if place._data.size <= 3 else ""
        return name, f"{place.shape} {values}".strip()

    def __str__(self) -> str:
        """The graph from the output down to the leaves; what is used twice is numbered and drawn once."""
        uses: dict[Parent, int] = {}
        for place in self.places:
            for parent in inputs_of(place):
                uses[parent] = uses.get(parent, 0) + 1
        numbers = {place: k for k, place in enumerate((p for p in self.places if uses.get(p, 0) > 1), start=1)}
        lines: list[str] = []
        drawn: set[Parent] = set()
        shown = set(self.places)
        pending: list[tuple[Parent, str, str]] = [(self.output._node or self.output, "", "")]
        while pending:
            place, branch, indent = pending.pop()
            what, about = self.label(place)
            number = f" #{numbers[place]}" if place in numbers else ""
            if place in drawn:
                lines.append(f"{branch}{what}{number} (above)")
                continue
            drawn.add(place)
            lines.append(f"{branch}{what}{number}  {about}")
            below = [parent for parent in inputs_of(place) if parent in shown]
            for k, parent in reversed(list(enumerate(below))):
                last = k == len(below) - 1
                pending.append((parent, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
        if self.hidden:
            lines.append(f"… and what lies below: only {self.most} places are drawn")
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def svg(self) -> str:
        """The picture as SVG: leaves on the left, the output on the right; gradients go the other way."""
        column: dict[Parent, int] = {}
        for place in reversed(self.places):  # inputs come before what was made from them
            column[place] = max((column[p] + 1 for p in inputs_of(place) if p in column), default=0)
        row: dict[Parent, int] = {}
        filled: dict[int, int] = {}
        for place in reversed(self.places):
            row[place] = filled.get(column[place], 0)
            filled[column[place]] = row[place] + 1
        left = {place: MARGIN + column[place] * (WIDTH + GAP_X) for place in self.places}
        top = {place: MARGIN + row[place] * (HEIGHT + GAP_Y) for place in self.places}
        width = 2 * MARGIN + (max(column.values()) + 1) * (WIDTH + GAP_X) - GAP_X
        height = 2 * MARGIN + max(filled.values()) * (HEIGHT + GAP_Y) - GAP_Y + 18 * bool(self.hidden)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" role="img" '
            f'aria-label="computation graph">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
        ]
        for place in self.places:
            for parent in inputs_of(place):
                if parent in column:
                    x1, y1 = left[parent] + WIDTH, top[parent] + HEIGHT / 2
                    x2, y2 = left[place], top[place] + HEIGHT / 2
                    bend = (x2 - x1) / 2
                    curve = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
                    parts.append(f'<path d="{curve}" fill="none" stroke="#607080"/>')
        for place in self.places:
            what, about = (escape(text) for text in self.label(place))
            x, y = left[place], top[place]
            fill = "#e8f1fb" if isinstance(place, Node) else "#fdf1dc"
            short = about if len(about) <= 22 else about[:21] + "…"
            parts.append(
                f'<g><title>{what} {about}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
                f'fill="{fill}" stroke="#607080"/><text x="{x + 8}" y="{y + 17}" font-weight="bold">{what}</text>'
                f'<text x="{x + 8}" y="{y + 33}" fill="#405060">{short}</text></g>'
            )
        if self.hidden:
            parts.append(f'<text x="{MARGIN}" y="{height - 6}">only {self.most} places are drawn</text>')
        return "".join([*parts, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def draw(
    tensor: Tensor, names: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] = (), most: int = 200
) -> Drawing:
    """Return a picture of how ``tensor`` was computed.

    >>> import minigrad as mg
    >>> w = mg.tensor([1.0, -2.0], requires_grad=True)
    >>> print(mg.draw((w * w).sum(), {"w": w}))
    sum  ()
    └─ mul  (2,)
       ├─ w #1  (2,) [1.0, -2.0]
       └─ w #1 (above)

    In a notebook the value of the cell is the picture itself; ``draw(loss).save("graph.svg")`` writes it.

    Args:
        tensor: the output; only what requires a gradient is recorded, and so drawn.
        names: for leaves: a dict, or ``model.named_parameters()``.
        most: how many places are drawn at most; a line says if there are more.
    """
    by_identity = {id(leaf): name for name, leaf in dict(names).items()}
    return Drawing(tensor, by_identity, most)


def inputs_of(place: Parent) -> Sequence[Any]:
    """Return the places that feed a place, looking through nodes that stand for one of several results."""
    if isinstance(place, TensorBase):
        return []
    if place.output is not None:
        (operation,) = place.parents
        return operation.parents if isinstance(operation, Node) else []
    return place.parents


def reachable(start: Parent, most: int) -> tuple[list[Parent], bool]:
    """Return up to ``most`` places below ``start``, each before its inputs, and whether there are more."""
    found: dict[Parent, None] = {}
    pending = [start]
    while pending and len(found) < most:
        place = pending.pop(0)
        if place not in found:
            found[place] = None
            pending.extend(inputs_of(place))
    order = sorted(found, key=lambda place: -place.number if isinstance(place, Node) else 1)
    return order, any(place not in found for place in pending)
