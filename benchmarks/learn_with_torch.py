"""PyTorch as a contender of ``benchmarks.loss_per_minute``: the same decoder, text, split and batch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.sizes import Size
from benchmarks.with_torch import Decoder
from transformer.config import Config
from transformer.data import default_corpus, read_text, split_text
from transformer.evaluation import windows_to_score
from transformer.recipe import Recipe


class Torch:
    """The decoder of the default config, in PyTorch."""

    def __init__(self, text: str | None, threads: int, seed: int, muon: bool, small_batch: bool) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(seed)
        content = read_text(Path(text)) if text else default_corpus()
        number = {character: i for i, character in enumerate(sorted(set(str(content))))}
        parts = [torch.tensor([number[c] for c in str(part)]) for part in split_text(content)]
        self.train_ids, self.held_out_ids = parts
        config, self.recipe = Config(vocab_size=len(number)), Recipe()
        self.context = 64 if small_batch else config.context
        self.batch_size = 12 if small_batch else self.recipe.batch_size
        self.model = Decoder(
            Size(config.n_layers, config.n_heads, config.d_model, self.context, self.batch_size, len(number))
        )
        self.muon = muon
        self.optimizers = self.with_muon() if muon else self.with_adamw()
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def with_adamw(self) -> list[torch.optim.Optimizer]:
        """AdamW as it is used most: matrices decay, biases and gains do not."""
        parameters = list(self.model.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return [torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.99))]

    def with_muon(self) -> list[torch.optim.Optimizer]:
        """The default's optimizer: Muon for the matrices of the blocks, AdamW for the rest."""
        recipe, decay = self.recipe, self.recipe.weight_decay
        matrices = [p for p in self.model.blocks.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [
            {"params": [self.model.embedding.weight], "weight_decay": decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        return [
            torch.optim.Muon(matrices, lr=recipe.matrix_rate, weight_decay=decay, momentum=recipe.momentum),
            torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2)),
        ]

    def rate(self, done: float) -> float:
        """The share of the highest rate: a tenth of the time rising, then falling in a line; or as the recipe."""
        if self.muon:
            return self.recipe.rate(done * self.recipe.steps)
        return min(1.0, (done + 0.001) / 0.1, (1 - done) / 0.9)

    def step(self, done: float) -> None:
        """Take a step."""
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * self.rate(done)
            optimizer.zero_grad(set_to_none=True)
        starts = torch.randint(len(self.train_ids) - self.context, (self.batch_size, 1))
        tokens = self.train_ids[starts + torch.arange(self.context + 1)]
        logits = self.model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()

    @torch.no_grad()
    def score(self) -> float:
        """Return the held-out loss, by the windows of the evaluation."""
        torch.set_num_threads(1)  # not timed, and sure to end also on a machine that is busy
        context = self.context
        ids = torch.cat([self.train_ids[-context:], self.held_out_ids])
        windows = windows_to_score(len(ids), len(self.held_out_ids), context)
        total = 0.0
        for i in range(0, len(windows), 32):
            starts, counts = torch.tensor(windows[i : i + 32]).T.unsqueeze(2)
            tokens = ids[starts + torch.arange(context + 1)]
            losses = F.cross_entropy(self.model(tokens[:, :-1]).mT, tokens[:, 1:], reduction="none")
            total += losses[torch.arange(context) >= context - counts].double().sum().item()
        return total / len(self.held_out_ids)
