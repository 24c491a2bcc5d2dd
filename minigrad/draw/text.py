"""The graph as text: a tree from the output down to the leaves, with a column for each thing to know."""

from __future__ import annotations

from minigrad.draw.numbers import short
from minigrad.draw.picture import Card, Picture


def as_text(picture: Picture) -> str:
    """Return the picture as lines; what is used twice is numbered, and drawn once."""
    uses: dict[Card, int] = {}
    for card in picture.cards:
        for link in card.links:
            uses[link.source] = uses.get(link.source, 0) + 1
    shared = [card for card in picture.cards if uses.get(card, 0) > 1]
    numbers = {card: f" #{k}" for k, card in enumerate(shared, start=1)}
    rows: list[tuple[str, ...]] = [("", "shape", "value", "gradient")]
    drawn: set[Card] = set()
    pending: list[tuple[Card, str, str]] = [(picture.cards[0], "", "")]
    while pending:
        card, branch, indent = pending.pop()
        label = f"{branch}{card.title}{numbers.get(card, '')}"
        if card in drawn:
            rows.append((f"{label} (above)", "", "", ""))
            continue
        drawn.add(card)
        gradient = "constant" if card.kind == "constant" else known(card.gradient)
        rows.append((label, card.shape, known(card.value), gradient))
        for k, link in reversed(list(enumerate(card.links))):
            last = k == len(card.links) - 1
            pending.append((link.source, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*lines, *picture.notices])


def known(array: object) -> str:
    """Return an array in a few words; "·" where there is none to show."""
    return "·" if array is None else short(array)
