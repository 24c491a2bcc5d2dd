"""The state of a training: all that its next step depends on, besides the weights and the text."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, TypeVar

import minigrad as mg
from minigrad import Tensor, optim
from transformer.checkpoint import Checkpoint, CheckpointError, check_finite
from transformer.phrases import counted
from transformer.recipe import Recipe, make_optimizer
from transformer.training import Progress

Kind = TypeVar("Kind", Recipe, Progress)


def gather_state(
    recipe: Recipe, progress: Progress, optimizer: optim.Optimizer, generator: mg.Generator, best_loss: float
) -> dict[str, Any]:
    """Return the state of a training for its checkpoint.

    Raises:
        NotFinite: what the optimizer remembers of some weight is infinite or NaN.
    """
    moments = optimizer.state_dict()
    for number, known in moments["state"].items():
        check_finite({f"{name} of weight {number}": t for name, t in known.items() if isinstance(t, Tensor)})
    return {
        "recipe": dataclasses.asdict(recipe),
        "progress": dataclasses.asdict(progress),
        "optimizer": moments,
        "rng": generator.get_state(),
        "best_loss": best_loss,
    }


def training_state(checkpoint: Checkpoint, path: Path) -> tuple[Recipe, Progress, optim.Optimizer, mg.Generator]:
    """Return the recipe, progress, optimizer and generator of a checkpoint's training; ``path`` is where it was.

    Raises:
        CheckpointError: it holds weights only, or a state that doesn't fit them.
    """
    state = checkpoint.training
    if "optimizer" not in state:
        raise CheckpointError(
            f"'{path}' holds a model's weights but not the state of its training, so it can't be resumed"
        )
    try:
        recipe, progress = from_dict(Recipe, state["recipe"]), from_dict(Progress, state["progress"])
        if not 0 <= progress.step <= recipe.steps:
            raise ValueError(f"it has done {progress.step} of {counted(recipe.steps, 'step')}")
        optimizer = make_optimizer(checkpoint.model, recipe)
        load_moments(optimizer, state["optimizer"]["state"], progress.step)
        generator = mg.Generator()
        generator.set_state(state["rng"])
        if not isinstance(state["best_loss"], float) or math.isnan(state["best_loss"]):
            raise ValueError(f"its best loss is {state['best_loss']!r:.40}")
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, OverflowError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise CheckpointError(f"the state of the training in '{path}' is damaged: {reason}") from None
    return recipe, progress, optimizer, generator


def from_dict(kind: type[Kind], fields: dict[str, Any]) -> Kind:
    """Return a dataclass of which every field was saved.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is unknown.
    """
    return kind(**{field.name: fields[field.name] for field in dataclasses.fields(kind)} | fields)


def load_moments(optimizer: optim.Optimizer, saved: dict[Any, Any], steps: int) -> None:
    """Give a new optimizer what it knew after so many steps; its options are those of the recipe.

    Raises:
        ValueError: that is not what an optimizer of its kind knows.
    """
    groups = optimizer.state_dict()["param_groups"]
    for group in groups:
        group["initial_lr"] = group["lr"]  # the schedule goes on from it
    optimizer.load_state_dict({"state": saved, "param_groups": groups})
    # What its kind knows of a weight is seen by letting a twin take a step with a weight of one number.
    parts = optimizer.optimizers if isinstance(optimizer, optim.Several) else [optimizer]
    for part in parts:
        kind: Any = type(part)
        for group in part.param_groups:
            probe = mg.zeros([1] * group["params"][0].ndim, requires_grad=True)
            probe.grad = mg.zeros(probe.shape)
            twin = kind([{**group, "params": [probe]}])
            if steps:
                twin.step()
            expected = {name: type(value) for name, value in twin.state.get(probe, {}).items()}
            for parameter in group["params"]:
                if {name: type(value) for name, value in part.state.get(parameter, {}).items()} != expected:
                    raise ValueError("its optimiser does not know what it should of every weight")
