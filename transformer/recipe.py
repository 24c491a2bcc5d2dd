"""How a model is trained, in numbers: everything that decides a run apart from the model and the text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from minigrad import optim
from transformer.config import Config
from transformer.fields import ABOVE_0, AT_LEAST_0, AT_LEAST_1, FRACTION, check_fields, one_of, option
from transformer.model import Transformer
from transformer.presets import find_preset


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.  The defaults suit the default model and text: minutes on two processors.

    >>> Recipe.preset("paper").learning_rate  # (512 · 4000)^−½
    0.0006987712429686843

    Raises:
        ValueError: a field is of another type or out of its range, or there is no such optimizer or schedule.
    """

    steps: int = option(2500, "training steps", AT_LEAST_1)
    batch_size: int = option(8, "sequences in a step, each as long as the context", AT_LEAST_1)
    sequences_at_once: int = option(
        0, "of a batch, that go through the model together, to save memory; 0: all of a thread's share", AT_LEAST_0
    )
    optimizer: str = option(
        "muon", "of the matrices within the blocks: muon or adamw; all else has AdamW", one_of("muon", "adamw")
    )
    learning_rate: float = option(5e-3, "AdamW's rate at its highest", ABOVE_0)
    matrix_rate: float = option(0.02, "Muon's rate at its highest", ABOVE_0)
    schedule: str = option(
        "linear",
        "how the rate falls after the warm-up: in a line or along a cosine to 0 at the last step, "
        "as 1/sqrt(step) (the paper), or not at all",
        one_of("linear", "cosine", "inverse_sqrt", "constant"),
    )
    warmup_steps: int = option(50, "steps over which the rate rises", AT_LEAST_0)
    weight_decay: float = option(
        0.1, "pull of matrices and tables towards zero; without it AdamW is Adam", AT_LEAST_0
    )
    momentum: float = option(0.95, "Muon's memory of gradients", FRACTION)
    beta1: float = option(0.9, "AdamW's memory of gradients", FRACTION)
    beta2: float = option(0.99, "AdamW's memory of squared gradients", FRACTION)
    epsilon: float = option(1e-8, "what AdamW adds to the root of the mean squared gradient", ABOVE_0)
    clip_norm: float = option(1.0, "gradients longer than this are scaled down to it; 0: never", AT_LEAST_0)
    label_smoothing: float = option(0.0, "share of the target's probability spread over all tokens", FRACTION)
    evaluate_every: int = option(500, "steps between looks at the held-out text, with a sample each", AT_LEAST_1)
    snapshots: int = option(
        12, "models kept along the way, besides the untrained one, denser early; 0: none", AT_LEAST_0
    )
    seed: int = option(1, "of the weights, the batches and the samples: one seed, one result, to the bit")
    threads: int = option(2, "parts of a batch that run side by side", AT_LEAST_1)

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def preset(cls, key: str | int, d_model: int | None = None, **overrides: Any) -> Self:
        """Return the recipe of a preset, by name, or of a depth.

        Args:
            key: as of :meth:`Config.preset`.
            d_model: the width of the model, if it is not the preset's: the paper's rate follows from it, as
                (d_model · warmup_steps)^−½.
            overrides: replace single fields.

        Raises:
            ValueError: there is no such preset, or a field has no allowed value.
            TypeError: there is no such field.
        """
        fields = {**find_preset(key).training, **overrides}
        recipe = cls(**fields)
        if recipe.schedule == "inverse_sqrt" and "learning_rate" not in fields:
            width = d_model or Config.preset(key, vocab_size=1).d_model
            recipe = cls(**fields, learning_rate=(width * max(1, recipe.warmup_steps)) ** -0.5)
        return recipe

    def rate(self, step: int) -> float:
        """Return the learning rate of a step (counted from 0), as a fraction of ``learning_rate``.

        It rises in a line over ``warmup_steps`` and then falls as ``schedule`` says.  The paper's law (equation
        3, its steps counted from 1),

            lr = d_model^−½ · min(step^−½, step · warmup_steps^−1.5),

        is "inverse_sqrt" with the learning rate (d_model · warmup_steps)^−½, where the two branches meet.
        """
        if self.schedule == "inverse_sqrt":
            progress = (step + 1) / max(1, self.warmup_steps)
            return min(1 / math.sqrt(progress), progress)
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        progress = min(1.0, (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps))
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        return 1 - progress if self.schedule == "linear" else 1.0

    def looks_at(self, step: int) -> bool:
        """Return whether the held-out text is looked at after a step: now and then, and at the end."""
        return step % self.evaluate_every == 0 or step == self.steps

    def snapshot_steps(self) -> set[int]:
        """Return the steps after which the model is kept: of n snapshots the i-th after steps · (i / n)³.

        >>> sorted(Recipe(steps=1000, snapshots=5).snapshot_steps())
        [0, 8, 64, 216, 512, 1000]
        """
        n = self.snapshots
        return {round(self.steps * i**3 / n**3) for i in range(n + 1)} if n else set()


def make_optimizer(model: Transformer, recipe: Recipe) -> optim.Optimizer:
    """Return the optimizer of a model: matrices and tables decay, biases and gains do not.

    Muon is for the matrices within the blocks, which turn vectors into vectors.  In a table each row belongs to
    a token or position of its own, so it has AdamW, as have biases and gains.
    """
    matrices = [p for p in model.blocks.parameters() if p.ndim > 1]
    within = {id(p) for p in matrices}
    tables = [p for p in model.parameters() if p.ndim > 1 and id(p) not in within]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    by_muon = recipe.optimizer == "muon"
    groups = [
        {"params": tables if by_muon else tables + matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    kind = optim.AdamW if recipe.weight_decay else optim.Adam
    adam = kind(groups, lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2), eps=recipe.epsilon)
    if not by_muon:
        return adam
    muon = optim.Muon(matrices, recipe.matrix_rate, recipe.weight_decay, recipe.momentum, threads=recipe.threads)
    return optim.Several(adam, muon)
