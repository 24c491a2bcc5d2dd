"""What several commands print: scores, and a text, tokenizer or model in a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from transformer.baselines import Baseline
from transformer.evaluation import Score
from transformer.model import Transformer
from transformer.phrases import counted
from transformer.recipe import Recipe
from transformer.text import BASELINES_LEARN_FROM, REPORTED_TOKENS, Text
from transformer.tokenizer import BPETokenizer


def print_scores(score: Score, baselines: Sequence[Baseline]) -> None:
    """Print a table of the model's loss and the baselines', best first."""
    per_character = score.bits_per_character / score.nats_per_character
    per_byte = score.bits_per_byte / score.nats_per_character
    own = "" if math.isnan(score.standard_error) else f"± {score.standard_error:.3f} (standard error)"
    rows = [("this model", score.nats_per_character, own)]
    for baseline in baselines:
        more, error = score.difference_to(baseline.nats_of_parts)
        compared = "" if math.isnan(error) else f"{more:+.3f} ± {error:.3f} from this model"
        rows.append((baseline.name, baseline.nats_per_character, compared))
    print(f"{'':12} {'nats/char':>9} {'bits/char':>9} {'bits/byte':>9}")
    for name, nats, note in sorted(rows, key=lambda row: row[1]):
        print(f"{name:12} {nats:9.3f} {nats * per_character:9.3f} {nats * per_byte:9.3f}  {note}".rstrip())


def describe_baselines(baselines: Sequence[Baseline], text: Text) -> str:
    """Return the losses of the n-gram models, and what they learned from if that is not all."""
    losses = " · ".join(f"{baseline.name} {baseline.nats_per_character:.3f}" for baseline in baselines)
    learned = min(len(text.train), BASELINES_LEARN_FROM)
    note = f" (from the last {learned:,} characters to learn from)" if learned < len(text.train) else ""
    return f"{losses} nats per character{note}"


def describe_measured(text: Text, limit: int | None = REPORTED_TOKENS) -> str:
    """Return the name of what is scored: the held-out text, or its beginning."""
    name = "the text" if text.is_other else "the held-out text"
    return name if limit is None or limit >= len(text.held_out_ids) else f"the first {limit:,} tokens of {name}"


def describe_source(files: Sequence[Any] | None) -> str:
    """Return the name of a text."""
    return ", ".join(str(path) for path in files) if files else "Python's own reference text"


def describe_tokenizer(text: Text, asked: int = 0) -> str:
    """Return what a tokenizer is and does to a text; ``asked``: how many tokens were asked for."""
    tokenizer, n = text.tokenizer, text.tokenizer.vocab_size
    kept = f", kept in '{text.kept_in.parent}' for the next run" if text.kept_in else ""
    if not isinstance(tokenizer, BPETokenizer):
        return f"{n} different characters, one token each: {len(text.train_ids):,} to learn from{kept}"
    note = f", not the {asked:,} asked for: the text has no more pairs to merge" if n < asked else ""
    size = f"{len(text.train_ids):,} to learn from, {text.characters_per_token:.2f} characters each{kept}"
    return f"{n:,} by byte-pair encoding{note}: {size}"


def describe_model(model: Transformer) -> str:
    """Return a model's dimensions and size."""
    config, n = model.config, model.n_parameters()
    return (
        f"{counted(config.n_layers, 'layer')}, {counted(config.n_heads, 'head')}, d_model {config.d_model}, "
        f"d_ff {config.d_ff}, context {config.context}: {n:,} parameters"
    )


def describe_recipe(recipe: Recipe, batch: str) -> str:
    """Return how long a model is trained, with what batches and by which optimizers, at their highest rates."""
    rates = f"{'AdamW' if recipe.weight_decay else 'Adam'} at {recipe.learning_rate:g}"
    if recipe.optimizer == "muon":
        rates = f"Muon at {recipe.matrix_rate:g} and {rates}"
    return f"{counted(recipe.steps, 'step')} of {batch}, {rates}, threads: {recipe.threads}, seed: {recipe.seed}"


def printable(text: str) -> str:
    """Return text without control characters, which could move a terminal's cursor or change its state."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" if ord(c) < 160 else c for c in text)
