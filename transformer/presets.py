"""Named sizes, each a model and the way to train it, and one dial that sets both from a depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """Those fields of a :class:`Config` and of a :class:`Recipe` that differ from their defaults."""

    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


PRESETS = {
    # Seconds: for lessons, where one looks at every number.
    "micro": Preset(
        model={"n_layers": 2, "n_heads": 2, "d_model": 32, "context": 16},
        training={"steps": 2000, "batch_size": 16, "learning_rate": 5e-3, "warmup_steps": 100},
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

    Raises:
        ValueError: the depth is below 1.
    """
    if depth < 1:
        raise ValueError(f"the depth must be at least 1, not {depth}")
    return Preset(
        model={"n_layers": depth, "n_heads": depth, "d_model": 32 * depth, "context": 16 * depth},
        training={"steps": 750 * depth, "learning_rate": 8e-3 / depth},
    )
