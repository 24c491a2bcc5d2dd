"""Training: predict, compare, send the error back, nudge every weight, and again.

"Attention Is All You Need", section 5; the optimiser is AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import minigrad as mg
from minigrad import Tensor, optim
from minigrad.nn.utils import clip_grad_norm_
from transformer.data import random_batch
from transformer.model import Transformer
from transformer.recipe import Recipe, make_optimizer


class Trainer:
    """One training step as one call: forward, backward, clipping, optimiser.

    With several ``threads`` each takes an equal share of the batch's sequences through its own graph, and the
    gradients are added in a fixed order: the same number of threads gives the same bits every time.

    Args:
        model: what to train.
        optimizer: over the model's parameters.
        threads: how many parts of the batch run side by side, each with matrix products of one thread.
        clip_norm: gradients longer than this, all taken together, are scaled down to it; None leaves them.
        label_smoothing: the share of the target's probability that is spread over all tokens.
        sequences_at_once: how many sequences go through one graph, to save memory; 0: a thread's whole share.
    """

    tokens_per_thread = 256  # of a batch with fewer, nothing is shared out: it would not pay

    def __init__(
        self,
        model: Transformer,
        optimizer: optim.Optimizer,
        threads: int = 1,
        clip_norm: float | None = 1.0,
        label_smoothing: float = 0.0,
        sequences_at_once: int = 0,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.threads = threads
        self.clip_norm = clip_norm
        self.label_smoothing = label_smoothing
        self.sequences_at_once = sequences_at_once
        self.gradient_norm = math.nan  # of the last step, before clipping
        self.parameters = list(model.parameters())
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        mg.keep_freed_memory()  # every step allocates what the last one freed

    def step(self, ids: Tensor, targets: Tensor) -> float:
        """Learn from one batch: token ids (B, T) and the tokens after them (B, T).  Returns the loss before."""
        with mg.limit_threads(1):  # the parallel parts already use all processors
            self.optimizer.zero_grad()
            loss, gradients = self.differentiate(ids, targets)
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
            if self.clip_norm is not None:
                self.gradient_norm = clip_grad_norm_(self.parameters, self.clip_norm).item()
            self.optimizer.step()
        return loss

    def differentiate(self, ids: Tensor, targets: Tensor) -> tuple[float, list[Tensor]]:
        """Return the loss of a batch and its gradients, with the sequences shared out among threads."""
        if self.pool is None or ids.numel() < self.tokens_per_thread * self.threads:
            return self.differentiate_share(ids, targets, len(ids))
        shares = list(zip(ids.chunk(self.threads), targets.chunk(self.threads), strict=True))
        seeds = mg.randint(2**62, (len(shares),)).tolist()  # for dropout: each thread draws by itself

        def work(share: tuple[Tensor, Tensor], seed: int) -> tuple[float, list[Tensor]]:
            with mg.fork_rng(seed):
                return self.differentiate_share(*share, len(ids))

        losses, gradients = zip(*self.pool.map(work, shares, seeds), strict=True)
        for others in gradients[1:]:
            add_all(gradients[0], others)
        return math.fsum(losses), gradients[0]

    def differentiate_share(self, ids: Tensor, targets: Tensor, batch_size: int) -> tuple[float, list[Tensor]]:
        """Return what a share of a batch adds to the batch's loss and gradients, so many sequences at once.

        They are the sums of the parts', each weighted by its part of the batch.
        """
        at_once = self.sequences_at_once or len(ids)
        losses: list[float] = []
        gradients: list[Tensor] = []
        for part in zip(ids.split(at_once), targets.split(at_once), strict=True):
            loss = self.model.loss(*part, self.label_smoothing) * (len(part[0]) / batch_size)
            losses.append(loss.item())
            if gradients:
                add_all(gradients, mg.autograd.grad(loss, self.parameters))
            else:
                gradients = list(mg.autograd.grad(loss, self.parameters))
        return math.fsum(losses), gradients


def add_all(totals: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Add to each of some tensors, in its own memory, the one that belongs to it."""
    for total, other in zip(totals, others, strict=True):
        total.add_(other)


class NonFiniteLoss(ArithmeticError):
    """The loss became infinite or NaN: training cannot go on from here."""


@dataclass
class Progress:
    """What a training loop reports after each step."""

    step: int  # steps done
    loss: float  # of this step's batch, in nats per token
    smooth_loss: float  # a running mean of it
    learning_rate: float
    gradient_norm: float
    tokens: int  # seen so far
    seconds: float  # since the start

    @property
    def tokens_per_second(self) -> float:
        """The speed so far."""
        return self.tokens / max(self.seconds, 1e-9)


def training_steps(
    model: Transformer, ids: Tensor, recipe: Recipe, optimizer: optim.Optimizer | None = None
) -> Iterator[Progress]:
    """Train on random windows of ``ids`` and yield after every step.

    Raises:
        NonFiniteLoss: with the step, the rate and the gradient norm.
    """
    optimizer = optimizer or make_optimizer(model, recipe)
    schedule = optim.lr_scheduler.LambdaLR(optimizer, recipe.rate)
    trainer = Trainer(
        model,
        optimizer,
        recipe.threads,
        recipe.clip_norm or math.inf,
        recipe.label_smoothing,
        recipe.sequences_at_once,
    )
    model.train()
    context = model.config.context
    started, smooth = time.perf_counter(), math.nan
    for step in range(recipe.steps):
        rate = schedule.get_last_lr()[0]
        loss = trainer.step(*random_batch(ids, recipe.batch_size, context))
        if not math.isfinite(loss):
            raise NonFiniteLoss(
                f"the loss became {loss} at step {step + 1} (learning rate {rate:.3g}, gradient norm "
                f"{trainer.gradient_norm:.3g}): try a lower learning rate"
            )
        schedule.step()
        smooth = loss if step == 0 else smooth + 0.05 * (loss - smooth)
        tokens = (step + 1) * recipe.batch_size * context
        yield Progress(step + 1, loss, smooth, rate, trainer.gradient_norm, tokens, time.perf_counter() - started)
