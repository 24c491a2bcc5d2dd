"""A run: from a text to a directory with a trained model, its log and an honest score."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad import Tensor
from transformer.checkpoint import save_checkpoint
from transformer.config import Config
from transformer.evaluation import Score
from transformer.generation import generate
from transformer.model import Transformer
from transformer.recipe import Recipe, make_optimizer
from transformer.text import Text, make_tokenizer
from transformer.training import Progress, training_steps

EVALUATED_TOKENS = 50_000  # of a long held-out text, what the looks during training are limited to


class Listener:
    """What a run tells whoever watches it; every method may be overridden, none needs to be."""

    def stepped(self, progress: Progress) -> None:
        """Be told of a step."""

    def evaluated(self, step: int, score: Score) -> None:
        """Be told of the score on held-out text."""

    def sampled(self, step: int, text: str) -> None:
        """Be told of a sample."""


def train(
    text: str | Text,
    out: str | Path,
    config: Config | None = None,
    recipe: Recipe | None = None,
    listener: Listener | None = None,
    source: Sequence[str] | None = None,
) -> tuple[Transformer, Score]:
    """Train a model on a text and write the run to the directory ``out``.

    ``last.safetensors`` holds the latest state with the optimiser's, ``best.safetensors`` the weights that
    predicted the held-out text best so far, ``log.jsonl`` a line for every evaluation.

    Args:
        text: what to learn: a str, which is taken by characters, or a text encoded by :meth:`Text.encode`.
        out: the directory, made if need be.
        config: the model's shape (default: the default one, for the text's tokenizer).
        recipe: how it is trained (default: the default one).
        listener: is told of every step.
        source: the names of the files that the text comes from, kept in the checkpoint.

    Returns:
        The best model and its score on the whole held-out part.

    Raises:
        DataError: the text is too short.
        OSError: the directory can't be written.
        NonFiniteLoss: the loss became infinite or NaN; the last good checkpoint stays.
    """
    if isinstance(text, str):
        tokenizer = make_tokenizer(text)
        config = config or Config(vocab_size=tokenizer.vocab_size)
        text = Text.encode(text, tokenizer, config.context)
    config = config or Config(vocab_size=text.tokenizer.vocab_size)
    recipe, listener, out = recipe or Recipe(), listener or Listener(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    mg.manual_seed(recipe.seed)
    model = Transformer(config)
    optimizer = make_optimizer(model, recipe)
    best: dict[str, Tensor] = {}
    best_loss = math.inf
    with (out / "log.jsonl").open("w", encoding="utf-8") as log:
        for progress in training_steps(model, text.train_ids, recipe, optimizer):
            listener.stepped(progress)
            if progress.step % recipe.evaluate_every and progress.step != recipe.steps:
                continue
            score = text.score(model, EVALUATED_TOKENS, recipe.threads)
            listener.evaluated(progress.step, score)
            if score.nats_per_character < best_loss:
                best_loss = score.nats_per_character
                best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
                save_checkpoint(out / "best.safetensors", model, text.tokenizer, {"source": source})
            state = {
                "source": source,
                "recipe": dataclasses.asdict(recipe),
                "step": progress.step,
                "optimizer": optimizer.state_dict(),
                "rng": mg.get_rng_state(),
            }
            save_checkpoint(out / "last.safetensors", model, text.tokenizer, state)
            log.write(json.dumps(log_line(progress, score)) + "\n")
            log.flush()
            if progress.step != recipe.steps:
                with mg.fork_rng():  # a sample must not change what is trained
                    sample = "".join(generate(model, text.tokenizer, "", 200, seed=recipe.seed))
                listener.sampled(progress.step, sample)
                model.train()
    if best:
        model.load_state_dict(best)
    model.eval()
    return model, text.score(model, threads=recipe.threads)


def log_line(progress: Progress, score: Score) -> dict[str, Any]:
    """Return what ``log.jsonl`` says of an evaluation: losses in nats, the seconds since the start."""
    return {
        "step": progress.step,
        "loss": round(progress.smooth_loss, 6),
        "held_out_nats_per_character": round(score.nats_per_character, 6),
        "learning_rate": progress.learning_rate,
        "gradient_norm": round(progress.gradient_norm, 6),
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 3),
    }
