"""The default recipe as a contender of ``benchmarks.loss_per_minute``."""

from __future__ import annotations

from pathlib import Path

import minigrad as mg
from minigrad.optim.lr_scheduler import LambdaLR
from transformer.config import Config
from transformer.data import default_corpus, random_batch, read_text
from transformer.model import Transformer
from transformer.recipe import Recipe, make_optimizer
from transformer.text import Text, make_tokenizer
from transformer.training import Trainer


class Minigrad:
    """`transformer train` with its defaults, stretched to the time that there is."""

    def __init__(self, text: str | None, threads: int, seed: int) -> None:
        content = read_text(Path(text)) if text else default_corpus()
        tokenizer = make_tokenizer(content)
        self.recipe = Recipe(threads=threads, seed=seed)
        config = Config(vocab_size=tokenizer.vocab_size)
        self.text = Text.encode(content, tokenizer, config.context)
        mg.manual_seed(seed)
        self.model = Transformer(config)
        optimizer = make_optimizer(self.model, self.recipe)
        self.done = 0.0
        self.schedule = LambdaLR(optimizer, lambda _: self.recipe.rate(self.done * self.recipe.steps))
        self.trainer = Trainer(
            self.model,
            optimizer,
            threads,
            self.recipe.clip_norm,
            self.recipe.label_smoothing,
            self.recipe.sequences_at_once,
        )
        self.model.train()

    def step(self, done: float) -> None:
        """Take a step."""
        self.done = done
        self.schedule.step()
        self.trainer.step(*random_batch(self.text.train_ids, self.recipe.batch_size, self.model.config.context))

    def score(self) -> float:
        """Return the held-out loss."""
        return self.text.score(self.model, threads=self.recipe.threads).nats_per_character
