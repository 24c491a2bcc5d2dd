"""Chapter 6: from scores to weights."""

from __future__ import annotations

import math
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.capture import Capture
from transformer.explain.material import Subject

BINS = 10  # of the histogram of largest weights


def scores(subject: Subject) -> dict[str, Any]:
    """Return what the division by √d_k does, and that one pass over all tokens equals passes one by one."""
    return {
        "random": random_scores(subject.config.d_k),
        "saturation": saturation(subject),
        "one_by_one": one_by_one(subject),
    }


def random_scores(d_k: int) -> dict[str, float]:
    """Return the standard deviation of q · k for random unit-normal q and k, before and after dividing by √d_k."""
    generator = mg.Generator().manual_seed(1)
    products = (mg.randn(4000, d_k, generator=generator) * mg.randn(4000, d_k, generator=generator)).sum(1)
    return {"raw": float(products.std().item()), "scaled": float((products / math.sqrt(d_k)).std().item())}


def saturation(subject: Subject) -> dict[str, Any]:
    """Return how peaked the model's attention is with and without the division, and the gradient that is left.

    Over all blocks, heads and rows of at least 4 allowed keys: how the rows' largest weights are spread over ten
    equal bins, and the mean of Σ p (1 − p), which is the size of softmax's own derivative.
    """
    result: dict[str, Any] = {"rows": 0}
    for name, factor in (("scaled", 1.0), ("unscaled", math.sqrt(subject.config.d_k))):
        peaks: list[float] = []
        flows: list[float] = []
        for layer in range(subject.config.n_layers):
            scores = subject.cache[f"blocks.{layer}.attention.scores"].double()  # (H, T, T)
            pattern = (scores * factor).softmax(-1)  # (H, T, T)
            rows = pattern[:, 3:] if subject.config.causal else pattern
            peaks += rows.amax(-1).flatten().tolist()
            flows += (rows * (1 - rows)).sum(-1).flatten().tolist()
        counts = [0] * BINS
        for peak in peaks:
            counts[min(BINS - 1, int(peak * BINS))] += 1
        result["rows"] = len(peaks)
        result[name] = {"counts": counts, "gradient": sum(flows) / len(flows) if flows else None}
    return result


def one_by_one(subject: Subject) -> dict[str, Any]:
    """Return the largest difference in a weight between one pass over all tokens and one token after the other.

    The second way each token is read once, with the keys and values of those before it kept in a cache.
    """
    if not subject.config.causal:
        return {"passes": 0, "difference": None}
    largest, kept = 0.0, subject.model.new_cache()
    for t, id in enumerate(subject.ids):
        seen: dict[str, Tensor] = {}
        with mg.no_grad():
            subject.model(mg.tensor([[id]]), Capture(seen), kept)
        for layer in range(subject.config.n_layers):
            name = f"blocks.{layer}.attention.pattern"
            difference = seen[name][0, :, 0] - subject.cache[name][:, t, : t + 1]  # (H, t + 1)
            largest = max(largest, float(difference.abs().max().item()))
    return {"passes": len(subject.ids), "difference": largest}
