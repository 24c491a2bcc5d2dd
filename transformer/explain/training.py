"""Chapter 11: the training, as a time axis."""

from __future__ import annotations

from typing import Any

from transformer.corpus import DataError
from transformer.explain.material import Material, Subject
from transformer.generation import generate


def training(subject: Subject) -> dict[str, Any]:
    """Return the steps of the snapshots with a sample of each, the loss curve and the n-gram baselines."""
    material = subject.material
    snapshots = [
        {
            "step": snapshot.step,
            "sample": "".join(
                generate(
                    snapshot.model,
                    material.tokenizer,
                    subject.text,
                    subject.sample_tokens,
                    temperature=0.8,
                    seed=1,
                )
            ),
        }
        for snapshot in material.snapshots
    ]
    return {"snapshots": snapshots, "unusable": material.unusable, "log": material.log, **baselines(material)}


def baselines(material: Material) -> dict[str, Any]:
    """Return what counting achieves, or why it is not known."""
    try:
        return {
            "baselines": [
                {"name": baseline.name, "order": baseline.order, "nats_per_character": baseline.nats_per_character}
                for baseline in material.baselines
            ]
        }
    except DataError as error:
        return {"baselines": [], "baselines_missing": str(error)}
