"""Where to put the cards of a graph: in columns, inputs left of what is made from them, with few crossings.

The steps are those of Sugiyama, Tagawa and Toda (1981): columns first, then the order within each column, then the
exact heights.  A link that spans several columns bends at an invisible place in each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

SWEEPS = 24  # of each of the two improvements: both settle much earlier
LONG_LINK_WEIGHT = 4.0  # how much more a long link wants to be straight than a short one


@dataclass(eq=False)
class Spot:
    """A place in a column: of a card, or of a link that passes through.

    Attributes:
        column: counted from the left.
        height: how much room it needs.
        passing: whether a link passes here; else a card stands here.
        y: of its middle.
        left: the neighbours in the column before it, in the order of the card's inputs.
        right: the neighbours in the column after it.
    """

    column: int
    height: float
    passing: bool = False
    y: float = 0.0
    left: list[Spot] = field(default_factory=list)
    right: list[Spot] = field(default_factory=list)


@dataclass(eq=False)
class Layout:
    """The spot of each item, and for each link (source, target, which input) the spots that it visits."""

    spots: dict[Hashable, Spot]
    routes: dict[tuple[Hashable, Hashable, int], list[Spot]]
    columns: list[list[Spot]]
    height: float


def place(
    order: Sequence[Hashable],
    inputs: Mapping[Hashable, Sequence[Hashable]],
    heights: Mapping[Hashable, float],
    gap: float,
) -> Layout:
    """Find a place for each item.

    Args:
        order: the items, each before its inputs.
        inputs: of each item.
        heights: of each item.
        gap: the least distance between two in a column.
    """
    columns_of = columns(order, inputs)
    spots: dict[Hashable, Spot] = {item: Spot(columns_of[item], heights[item]) for item in order}
    routes: dict[tuple[Hashable, Hashable, int], list[Spot]] = {}
    rows: list[list[Spot]] = [[] for _ in range(max(columns_of.values()) + 1)]
    visit(order[0], inputs, spots, rows, routes)
    best = [list(row) for row in rows]
    fewest = crossings(best)
    for sweep in range(SWEEPS):
        reorder(rows, from_the_left=sweep % 2 == 1)
        found = crossings(rows)
        if found < fewest:
            best, fewest = [list(row) for row in rows], found
        if not fewest:
            break
    settle(best, gap)
    top = min(spot.y - spot.height / 2 for row in best for spot in row)
    for row in best:
        for spot in row:
            spot.y -= top
    bottom = max(spot.y + spot.height / 2 for row in best for spot in row)
    return Layout(spots, routes, best, bottom)


def columns(order: Sequence[Hashable], inputs: Mapping[Hashable, Sequence[Hashable]]) -> dict[Hashable, int]:
    """Return the column of each item: as far right as what is made from it allows, so that leaves stand near."""
    from_right: dict[Hashable, int] = {}
    for item in order:  # an item comes after all that is made from it
        here = from_right.setdefault(item, 0)
        for source in inputs[item]:
            from_right[source] = max(from_right.get(source, 0), here + 1)
    last = max(from_right.values())
    return {item: last - distance for item, distance in from_right.items()}


def visit(
    start: Hashable,
    inputs: Mapping[Hashable, Sequence[Hashable]],
    spots: Mapping[Hashable, Spot],
    rows: list[list[Spot]],
    routes: dict[tuple[Hashable, Hashable, int], list[Spot]],
) -> None:
    """Fill the columns in the order in which a walk along the inputs meets the items, and route the links."""
    rows[spots[start].column].append(spots[start])
    seen = {start}
    pending: list[tuple[Hashable, int]] = [(start, 0)]
    while pending:
        item, k = pending.pop()
        if k + 1 < len(inputs[item]):
            pending.append((item, k + 1))
        if k >= len(inputs[item]):
            continue
        source = inputs[item][k]
        route = [spots[item]]
        for column in range(spots[item].column - 1, spots[source].column, -1):
            passing = Spot(column, 0.0, passing=True)
            rows[column].append(passing)
            route.append(passing)
        route.append(spots[source])
        for right, left in itertools.pairwise(route):
            right.left.append(left)
            left.right.append(right)
        routes[source, item, k] = route[::-1]
        if source not in seen:
            seen.add(source)
            rows[spots[source].column].append(spots[source])
            pending.append((source, 0))


# --- the order within columns ---------------------------------------------------------------------


def reorder(rows: list[list[Spot]], from_the_left: bool) -> None:
    """Sort each column by the mean position of the neighbours on one side; those without any stay."""
    for row in rows if from_the_left else reversed(rows):
        position: dict[Spot, float] = {}
        for k, spot in enumerate(row):
            neighbours = spot.left if from_the_left else spot.right
            places = [rows[neighbour.column].index(neighbour) for neighbour in neighbours]
            position[spot] = sum(places) / len(places) if places else float(k)
        row.sort(key=position.__getitem__)


def crossings(rows: list[list[Spot]]) -> int:
    """Return the number of crossings of all links."""
    positions = {spot: k for row in rows for k, spot in enumerate(row)}
    total = 0
    for row in rows:
        ends = [(positions[left], k) for k, spot in enumerate(row) for left in spot.left]
        ends.sort()
        total += sum(b[1] < a[1] and b[0] > a[0] for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


# --- the heights ----------------------------------------------------------------------------------


def settle(rows: list[list[Spot]], gap: float) -> None:
    """Give each spot the height that keeps its links short and long links straight, in the order found."""
    for row in rows:
        y = 0.0
        for spot in row:
            spot.y = y + spot.height / 2
            y += spot.height + (gap if not spot.passing else gap / 2)
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            wishes, weights = [], []
            for spot in row:
                pull, weight = 1e-6 * spot.y, 1e-6
                for neighbour in (*spot.left, *spot.right):
                    strength = LONG_LINK_WEIGHT if spot.passing and neighbour.passing else 1.0
                    pull += strength * neighbour.y
                    weight += strength
                wishes.append(pull / weight)
                weights.append(weight)
            fit(row, wishes, weights, gap)


def fit(row: list[Spot], wishes: Sequence[float], weights: Sequence[float], gap: float) -> None:
    """Place a column as near to its wishes as order and distances allow: least squares, exactly.

    With the distances taken off, what is sought is the nearest increasing sequence: neighbours that want to pass
    each other are merged into one block at their weighted mean (the pool-adjacent-violators algorithm).
    """
    offsets: list[float] = []
    for k, spot in enumerate(row):
        if k:
            above = row[k - 1]
            room = gap / 2 if spot.passing or above.passing else gap
            offsets.append(offsets[-1] + (above.height + spot.height) / 2 + room)
        else:
            offsets.append(0.0)
    blocks: list[tuple[float, float, int]] = []  # (mean, weight, how many)
    for wish, offset, weight in zip(wishes, offsets, weights, strict=True):
        mean, n = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, other, count = blocks.pop()
            mean = (mean * weight + before * other) / (weight + other)
            weight, n = weight + other, n + count
        blocks.append((mean, weight, n))
    k = 0
    for mean, _, n in blocks:
        for _ in range(n):
            row[k].y = mean + offsets[k]
            k += 1
