"""Named sizes, each a model and the way to train it, and one dial that sets both from a depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """What of :class:`transformer.Config` and :class:`transformer.Recipe` differs from the defaults."""

    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


PRESETS = {
    # Seconds: for lessons, where one looks at every number.
    "micro": Preset(
        model={"n_layers": 2, "n_heads": 2, "d_model": 32, "context": 16},
        training={"steps": 2000, "batch_size": 16},
    ),
    # Minutes on a laptop: the defaults.
    "small": Preset(),
    # "Attention Is All You Need": the base model, and section 5.  Its batches are 25,000 tokens.
    "paper": Preset(
        model={"n_layers": 6, "n_heads": 8, "d_model": 512, "d_ff": 2048, "context": 128, "dropout": 0.1},
        training={
            "steps": 100_000,
            "batch_size": 195,
            "sequences_at_once": 4,
            "optimizer": "adamw",
            "schedule": "inverse_sqrt",
            "warmup_steps": 4000,
            "weight_decay": 0.0,
            "beta1": 0.9,
            "beta2": 0.98,
            "epsilon": 1e-9,
            "clip_norm": 0.0,
            "label_smoothing": 0.1,
        },
    ),
}


def find_preset(key: str | int) -> Preset:
    """Return the preset of a name, or that of a depth.

    Raises:
        ValueError: there is no such preset, or the depth is below 1.
    """
    if isinstance(key, int):
        return of_depth(key)
    if key not in PRESETS:
        raise ValueError(f"there is no preset {key!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[key]


def of_depth(depth: int) -> Preset:
    """Return a model of so many blocks, and everything else in proportion; depth 4 is ``small``.

    The shape keeps the proportions of ``small``: heads of 32 dimensions, as many as blocks; so the width grows
    with the depth, and the context with it.  A step has about 1,000 tokens at any depth, as larger batches
    learned less for their time, and the number of steps grows with the depth: a larger model has more to gain.
    Muon's rate falls as 1 / depth, since the best found was 0.08 at depth 1, 0.03 to 0.04 at depth 2 and 0.02
    at depth 4; the best of AdamW's was about the same.  docs/recipe.md has the experiments.

    Raises:
        ValueError: the depth is below 1.
    """
    if depth < 1:
        raise ValueError(f"the depth must be at least 1, not {depth}")
    return Preset(
        model={"n_layers": depth, "n_heads": depth, "d_model": 32 * depth, "context": 32 * depth},
        training={"steps": 625 * depth, "batch_size": max(1, 32 // depth), "matrix_rate": 0.08 / depth},
    )
