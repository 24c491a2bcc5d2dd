"""The graph as SVG: leaves on the left, the output on the right; values go one way and gradients the other."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from html import escape

from minigrad.draw import numbers
from minigrad.draw.layout import Layout, place
from minigrad.draw.picture import Card, Link, Picture

# In SVG units, which are pixels unless the picture is scaled.
HEADER, ROW, PADDING = 24, 17, 9  # of a card
GAP_X, GAP_Y, MARGIN = 46, 18, 14  # between cards
LETTER, WIDE_LETTER = 6.65, 7.3  # the width of a character of 11 and of 12 pixels
LEAST_WIDTH = 96
PORT = 16  # between the links that enter a card
SIGNS = {"add": "+", "sub": "−", "mul": "×", "div": "÷", "matmul": "@", "neg": "−", "pow": "xʸ"}

# (light, dark): the hues are told apart by colour-blind eyes too (Okabe and Ito).
COLOURS = {
    ".operation .frame": ("fill", "#ffffff", "#20262e"),
    ".leaf .frame": ("fill", "#fff3d9", "#3a2f16"),
    ".constant .frame": ("fill", "#f4f5f7", "#191d23"),
    ".module .frame": ("fill", "#e6f2ee", "#17332b"),
    ".frame": ("stroke", "#8a96a3", "#66727f"),
    ".edge": ("stroke", "#dfe4ea", "#39434e"),
    ".pill": ("fill", "#dde5ee", "#3b4754"),
    ".sign": ("fill", "#33414f", "#dfe6ee"),
    ".title": ("fill", "#111820", "#f2f5f8"),
    ".shape": ("fill", "#5d6975", "#9aa7b4"),
    ".label": ("fill", "#5d6975", "#9aa7b4"),
    ".value": ("fill", "#00507f", "#7cc4f5"),
    ".gradient": ("fill", "#a83f00", "#ffa36b"),
    ".link": ("stroke", "#8a96a3", "#66727f"),
    ".head": ("fill", "#8a96a3", "#66727f"),
    ".notice": ("fill", "#5d6975", "#9aa7b4"),
}
# What says that the page around is dark: the system, JupyterLab, Visual Studio Code, Sphinx themes.
DARK_PAGES = ('[data-jp-theme-light="false"]', ".vscode-dark", '[data-theme="dark"]')
LIGHT_PAGES = ('[data-jp-theme-light="true"]', ".vscode-light", '[data-theme="light"]')


def style(scope: str) -> str:
    """Return the style sheet of one picture, whose rules begin with ``scope`` so that they reach nothing else."""

    def rules(which: int, prefix: str = "") -> str:
        return "".join(f"{prefix}{scope} {at}{{{values[0]}:{values[which]}}}" for at, values in COLOURS.items())

    dark = "".join(rules(2, page + " ") for page in DARK_PAGES)
    light = "".join(rules(1, page + " ") for page in LIGHT_PAGES)
    return (
        f"<style>{scope} text{{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}}"
        f"{scope} .title,{scope} .sign{{font-weight:bold;font-size:12px}}"
        f"{scope} .link{{fill:none;stroke-width:1.4}}{scope} .constant .frame{{stroke-dasharray:4 3}}"
        f"{scope} .card:hover .frame{{stroke-width:2.5}}{scope} .link:hover{{stroke-width:4}}"
        f"{rules(1)}@media(prefers-color-scheme:dark){{{rules(2)}}}{light}{dark}</style>"
    )


class Box:
    """A card with its texts and its measures: inputs by name on the left, then what it is, then its numbers."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.sign = "" if card.kind != "operation" else SIGNS.get(card.operation, card.operation)
        self.title = clip(card.name, 30)
        self.detail = clip(card.detail, 22)
        self.shape = clip("" if card.shape == "()" else card.shape, 24)
        self.rows: list[tuple[str, str, str]] = []
        if card.kind == "module":
            self.rows.append((card.operation, "", ""))
        if card.value is not None:
            self.rows.append(("value", "value", clip(numbers.short(card.value), 26)))
        if card.gradient is not None:
            self.rows.append(("grad", "gradient", clip(numbers.short(card.gradient), 26)))
        self.ports = ports(card)
        self.gutter = max((LETTER * len(port) + 8 for port in self.ports), default=0)
        header = sum(
            letter * len(text) + more + 8
            for text, letter, more in (
                (self.sign, WIDE_LETTER, 12),
                (self.title, WIDE_LETTER, 0),
                (self.detail, LETTER, 0),
                (self.shape, LETTER, 0),
            )
            if text
        )
        rows = max((LETTER * (max(6, len(label)) + len(text)) for label, _, text in self.rows), default=0)
        least = LEAST_WIDTH if card.kind != "constant" else 60
        self.width = max(least, header - 8, rows) + 2 * PADDING + self.gutter
        self.height = max(HEADER + ROW * len(self.rows) + (4 if self.rows else 2), PORT * len(self.ports) + 10)

    def port(self, rank: int, n: int) -> float:
        """Return how far from its middle the card is entered by the ``rank``-th of ``n`` links."""
        return (rank - (n - 1) / 2) * min(PORT, (self.height - 12) / max(n, 1))

    def draw(self, x: float, y: float, order: Sequence[int]) -> str:
        """Return the card with its upper left corner at (x, y); ``order`` is that of its inputs downwards."""
        card = self.card
        parts = [
            f'<g class="card {card.kind}"><title>{escape(description(card))}</title>'
            f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" rx="7" width="{self.width:.1f}" '
            f'height="{self.height:.1f}"/>',
        ]
        if self.ports:
            edge = x + self.gutter
            parts.append(f'<path class="edge" d="M{edge:.1f},{y:.1f}v{self.height:.1f}"/>')
            for rank, k in enumerate(order):
                line = y + self.height / 2 + self.port(rank, len(order)) + 4
                parts.append(text("label", x + 5, line, self.ports[k]))
        at = x + PADDING + self.gutter
        if self.sign:
            width = WIDE_LETTER * len(self.sign) + 12
            parts.append(
                f'<rect class="pill" x="{at:.1f}" y="{y + 4:.1f}" width="{width:.1f}" height="17" rx="8"/>'
            )
            parts.append(text("sign", at + 6, y + 16.5, self.sign))
            at += width + 8
        if self.title:
            parts.append(text("title", at, y + 16.5, self.title))
            at += WIDE_LETTER * len(self.title) + 8
        if self.detail:
            parts.append(text("shape", at, y + 16.5, self.detail))
        if self.shape:
            parts.append(text("shape", x + self.width - PADDING, y + 16.5, self.shape, "end"))
        left = x + PADDING + self.gutter
        for k, (label, kind, what) in enumerate(self.rows):
            line = y + HEADER + 12 + k * ROW
            parts.append(text("label", left, line, label))
            if what:
                parts.append(text(kind, left + 6 * LETTER, line, what))
        return "".join([*parts, "</g>"])


def ports(card: Card) -> list[str]:
    """Return what the inputs of a card are called, if there are several and their names tell something."""
    names = [link.argument for link in card.links]
    return names if len(names) > 1 and all(name and len(name) <= 10 for name in names) else []


def text(kind: str, x: float, y: float, what: str, anchor: str = "start") -> str:
    """Return a line of text."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{end}>{escape(what)}</text>'


def clip(text: str, most: int) -> str:
    """Return the text, its end replaced by … if it is too long."""
    return text if len(text) <= most else text[: most - 1] + "…"


def description(card: Card) -> str:
    """Return what pointing at a card shows: its title, its rules, its numbers."""
    lines = [f"{card.title}  {card.shape}", *card.about]
    if card.value is not None:
        lines += ["", "value", numbers.long(card.value)]
    if card.gradient is not None:
        lines += ["", "gradient", numbers.long(card.gradient)]
    return "\n".join(lines)


def flow_description(link: Link, target: Card) -> str:
    """Return what pointing at a link shows: the gradient that goes back along it."""
    source = link.source.name or link.source.title
    if link.flow is None:
        return f"{source} → {target.title}"
    flow = link.flow
    lines = [f"{source} is {flow.argument} of {target.title}; back along here goes", numbers.long(flow.delivered)]
    if flow.returned.shape != flow.delivered.shape:
        lines.append(f"summed from {flow.returned.shape}: broadcasting had copied {flow.argument}")
    return "\n".join(lines)


def as_svg(picture: Picture) -> str:
    """Return the picture as an SVG document, which is also fit to stand inside HTML."""
    boxes = {card: Box(card) for card in picture.cards}
    inputs: Mapping[Hashable, Sequence[Card]] = {
        card: [link.source for link in card.links] for card in picture.cards
    }
    layout = place(picture.cards, inputs, {card: box.height for card, box in boxes.items()}, GAP_Y)
    lefts, widths = horizontal(layout, boxes)
    width = lefts[-1] + widths[-1] + MARGIN
    notice_lines = [
        part for notice in picture.notices for part in wrapped(notice, max(int(width / LETTER) - 4, 40))
    ]
    width = max([width, *(2 * MARGIN + LETTER * len(line) for line in notice_lines)])
    height = layout.height + 2 * MARGIN + 16 * len(notice_lines)

    parts: list[str] = []
    for card in picture.cards:
        parts += links_of(card, boxes, layout, lefts, widths)
    for card, box in boxes.items():
        spot = layout.spots[card]
        x = lefts[spot.column] + (widths[spot.column] - box.width)  # flush with the side that links leave from
        parts.append(box.draw(x, MARGIN + spot.y - box.height / 2, downwards(card, layout)))
    for k, line in enumerate(notice_lines):
        y = height - MARGIN - 16 * (len(notice_lines) - 1 - k)
        parts.append(text("notice", MARGIN, y, line))
    body = "".join(parts)
    name = "graph-" + hashlib.sha256(body.encode()).hexdigest()[:8]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="computation graph of '
        f'{escape(picture.cards[0].title, quote=True)}">{style("." + name)}{body}</svg>'
    )


def horizontal(layout: Layout, boxes: dict[Card, Box]) -> tuple[list[float], list[float]]:
    """Return where each column begins and how wide it is."""
    widths = [0.0] * len(layout.columns)
    for card, box in boxes.items():
        column = layout.spots[card].column
        widths[column] = max(widths[column], box.width)
    lefts = [float(MARGIN)]
    for column, width in enumerate(widths[:-1]):
        links = sum(len(spot.right) for spot in layout.columns[column])
        lefts.append(lefts[-1] + width + GAP_X + min(4 * links, 60))
    return lefts, widths


def downwards(card: Card, layout: Layout) -> list[int]:
    """Return the inputs of a card in the order in which their links arrive, so that they don't cross there."""
    return sorted(range(len(card.links)), key=lambda k: (layout.routes[card.links[k].source, card, k][-2].y, k))


def links_of(
    card: Card, boxes: dict[Card, Box], layout: Layout, lefts: list[float], widths: list[float]
) -> list[str]:
    """Return the links that end at a card, each at a height of its own."""
    box, spot = boxes[card], layout.spots[card]
    left = lefts[spot.column] + widths[spot.column] - box.width
    parts = []
    order = downwards(card, layout)
    for rank, k in enumerate(order):
        link = card.links[k]
        route = layout.routes[link.source, card, k]
        end_y = MARGIN + spot.y + box.port(rank, len(order))
        source = route[0]
        x, y = lefts[source.column] + widths[source.column], MARGIN + source.y
        path = [f"M{x:.1f},{y:.1f}"]
        for passing in route[1:-1]:
            x, y = curve(path, x, y, lefts[passing.column], MARGIN + passing.y)
            x += widths[passing.column]
            path.append(f"H{x:.1f}")
        curve(path, x, y, lefts[spot.column] - 5, end_y)
        if left > lefts[spot.column]:
            path.append(f"H{left - 5:.1f}")  # a narrow card in a wide column
        parts.append(
            f'<path class="link" d="{"".join(path)}"><title>{escape(flow_description(link, card))}</title></path>'
            f'<path class="head" d="M{left:.1f},{end_y:.1f}l-7,-3.5v7z"/>'
        )
    return parts


def curve(path: list[str], x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Add a bend from (x, y) to another point that leaves and arrives level, and return that point."""
    middle = (x + to_x) / 2
    path.append(f"C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}")
    return to_x, to_y


def wrapped(text: str, most: int) -> list[str]:
    """Return the text in lines of at most so many characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
