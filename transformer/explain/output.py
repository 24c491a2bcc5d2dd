"""Chapter 10: from the last vector to probabilities, and how wrong they were."""

from __future__ import annotations

from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.nn import functional as F
from transformer.explain.material import Subject, stages
from transformer.explain.packing import packed


def output(subject: Subject) -> dict[str, Any]:
    """Return the vectors that are scored, how the table scores them, and each token's loss at each snapshot."""
    final = final_vectors(subject)
    with mg.no_grad():
        difference = (final @ subject.model.output.weight.T - subject.logits).abs().max()
    return {
        "tied": subject.model.output.weight is subject.model.embedding.token.weight,
        "final": packed(final),  # (T, d)
        "difference": float(difference.item()),
        "losses": [packed(losses(logits, subject.ids)) for logits, _ in subject.snapshot_runs],  # (T − 1,) each
    }


def final_vectors(subject: Subject) -> Tensor:
    """Return what the output matrix is multiplied with (T, d)."""
    last = stages(subject.cache, subject.config)[-1]
    with mg.no_grad():
        return subject.model.norm(last) if subject.model.norm is not None else last


def losses(logits: Tensor, ids: list[int]) -> Tensor:
    """Return −ln p of each token from the second on, given those before it (T − 1,), in nats."""
    if len(ids) < 2:
        return mg.zeros(0)
    return F.cross_entropy(logits[:-1], mg.tensor(ids[1:]), reduction="none")
