"""Chapter 5: queries, keys and values."""

from __future__ import annotations

from typing import Any

from transformer.explain.material import Subject
from transformer.explain.packing import packed


def projections(subject: Subject) -> dict[str, Any]:
    """Return how many numbers the projections have, and those of one head.

    The vectors themselves are among the captured tensors.  The page opens with that head.
    """
    config = subject.config
    bias = config.d_k if config.bias else 0
    return {
        "numbers_each": config.d_model * config.d_k + bias,
        "weights": [head_weights(subject, 0, most_decided_head(subject))],
    }


def most_decided_head(subject: Subject) -> int:
    """Return the head of the first block whose queries give most weight to a single key, on average."""
    pattern = subject.cache["blocks.0.attention.pattern"]  # (H, T, T)
    return int(pattern.amax(-1).mean(-1).argmax().item())


def head_weights(subject: Subject, layer: int, head: int) -> dict[str, Any]:
    """Return the three matrices of one head, (d_k, d) each, and their biases (d_k,) if there are any."""
    attention, d_k = subject.model.blocks[layer].attention, subject.config.d_k
    rows = slice(head * d_k, (head + 1) * d_k)
    matrices = {"q": attention.W_Q, "k": attention.W_K, "v": attention.W_V}
    return {
        "layer": layer,
        "head": head,
        **{name: packed(projection.weight.detach()[rows]) for name, projection in matrices.items()},
        **{
            f"{name}_bias": packed(projection.bias.detach()[rows])
            for name, projection in matrices.items()
            if projection.bias is not None
        },
    }
