"""Chapter 3: each token looks up its row of a learned table."""

from __future__ import annotations

from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.explain.material import Subject
from transformer.explain.packing import packed

NEIGHBOURS = 6
LARGEST_TABLE = 80_000  # numbers of a table that goes into the page whole
LARGEST_MAP = 600  # tokens on the map
ROUNDS = 200  # of the iteration that finds its axes


def embedding(subject: Subject) -> dict[str, Any]:
    """Return, at each snapshot, the rows of the sentence's tokens, their nearest rows, and a map of the table."""
    ids = sorted(set(subject.ids))
    tables = [snapshot.model.embedding.token.weight.detach() for snapshot in subject.material.snapshots]  # (V, d)
    final = tables[-1]
    shown = list(range(len(final))) if len(final) <= LARGEST_MAP else ids
    axes, share = principal_axes(final)  # (d, 2)
    return {
        "ids": ids,
        "table": packed(final) if final.numel() <= LARGEST_TABLE else None,
        "map_ids": shown,
        "map_share": share,
        "snapshots": [
            {
                "rows": packed(table[mg.tensor(ids)], "float16"),  # (distinct tokens, d)
                "map": packed((table[mg.tensor(shown)] - final.mean(0)) @ axes, "float16"),  # (tokens, 2)
                "neighbours": nearest_rows(table, ids),
            }
            for table in tables
        ],
    }


def nearest_rows(table: Tensor, ids: list[int]) -> list[list[list[float]]]:
    """Return for each id the few rows at the smallest angle to its own, as [[id, cosine], …], itself left out."""
    unit = table / table.norm(dim=1, keepdim=True).clamp(min=1e-30)  # (V, d)
    cosines = unit[mg.tensor(ids)] @ unit.T  # (ids, V)
    found = []
    for id, row in zip(ids, cosines.unbind(), strict=True):
        values, order = row.sort(descending=True, stable=True)
        pairs = [
            [int(o), float(v)]
            for o, v in zip(order[: NEIGHBOURS + 1].tolist(), values[: NEIGHBOURS + 1].tolist(), strict=True)
        ]
        found.append([pair for pair in pairs if pair[0] != id][:NEIGHBOURS])
    return found


def principal_axes(table: Tensor) -> tuple[Tensor, float]:
    """Return the two directions (d, 2) along which the rows differ most, and the share of the variance on them.

    Orthogonal iteration: multiply two vectors by the covariance again and again, and keep them orthonormal.
    """
    centered = (table - table.mean(0)).double()  # (V, d)
    covariance = centered.T @ centered  # (d, d)
    d = table.shape[1]
    first = mg.rand(d, generator=mg.Generator().manual_seed(1), dtype=mg.float64)
    second = mg.rand(d, generator=mg.Generator().manual_seed(2), dtype=mg.float64)
    for _ in range(ROUNDS):
        first = covariance @ first
        first = first / first.norm().clamp(min=1e-300)
        second = covariance @ second
        second = second - first * (first @ second)
        second = second / second.norm().clamp(min=1e-300)
    axes = mg.stack([first, second], dim=1)  # (d, 2)
    total = float(covariance.trace().item())
    on_axes = float(((centered @ axes) ** 2).sum().item())
    return axes.to(table.dtype), on_axes / total if total else 0.0
