"""Chapter 1: the guess at what comes next, now and over the training."""

from __future__ import annotations

import math
from typing import Any

from transformer.explain.material import Subject
from transformer.explain.packing import packed


def prediction(subject: Subject) -> dict[str, Any]:
    """Return the logits of the last position (V,) at each snapshot; the page turns them into probabilities."""
    steps = []
    for snapshot, (logits, _) in zip(subject.material.snapshots, subject.snapshot_runs, strict=True):
        steps.append({"step": snapshot.step, "logits": packed(logits[-1])})
    return {"snapshots": steps, "uniform_nats": math.log(subject.config.vocab_size)}
