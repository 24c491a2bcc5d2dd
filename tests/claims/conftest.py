"""What several claims are shown on: a model that has learned, trained once."""

import numpy as np
import pytest

import minigrad as mg
from transformer import Config, Recipe, Transformer
from transformer.text import Text, make_tokenizer
from transformer.training import training_steps


def copied_words():
    """Return lines of one random word, twice: no two lines are alike, but their shape and second half repeat."""
    letters = np.random.default_rng(3).choice(list("abcdefghijkl"), (3000, 4))
    return "".join(f"{word} {word}\n" for word in map("".join, letters))


@pytest.fixture(scope="session")
def trained():
    """Return a small model that has learned `copied_words`, the text, and its loss at each step."""
    text = copied_words()
    parts = Text.encode(text, make_tokenizer(text), context=16)
    recipe = Recipe(steps=500, batch_size=16, learning_rate=3e-3, warmup_steps=50, threads=1)
    with mg.fork_rng(1):
        model = Transformer(Config.preset("micro", vocab_size=parts.tokenizer.vocab_size))
        losses = [progress.loss for progress in training_steps(model, parts.train_ids, recipe)]
    return model.eval(), parts, losses
