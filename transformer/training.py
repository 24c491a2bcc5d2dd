"""Training: predict, compare, send the error back, nudge every weight, and again.

"Attention Is All You Need", section 5; the optimiser is AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import minigrad as mg
from minigrad import Tensor, nn, optim
from minigrad.nn.utils import clip_grad_norm_
from transformer.config import described
from transformer.data import random_batch
from transformer.model import Transformer


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.  The defaults suit the default model and text: minutes on two processors.

    Raises:
        ValueError: a number is out of its range.
    """

    steps: int = described(3000, "training steps")
    batch_size: int = described(12, "sequences in a step, each as long as the context")
    learning_rate: float = described(2e-3, "AdamW's rate at its highest")
    warmup_steps: int = described(300, "steps over which the rate rises; then it falls along a cosine to 0")
    weight_decay: float = described(0.1, "AdamW's pull of the matrices towards zero")
    beta1: float = described(0.9, "AdamW's memory of gradients")
    beta2: float = described(0.99, "AdamW's memory of squared gradients")
    clip_norm: float = described(1.0, "gradients longer than this are scaled down to it")
    label_smoothing: float = described(0.0, "share of the target's probability spread over all tokens")
    evaluate_every: int = described(500, "steps between looks at the held-out text, with a sample each")
    seed: int = described(1, "of the weights, the batches and the samples: one seed, one result, to the bit")
    threads: int = described(2, "parts of a batch that run side by side")

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number above 0, not {getattr(self, name)}")
        for name in ("beta1", "beta2", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        for name in ("warmup_steps", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step (counted from 0), as a fraction of ``learning_rate``.

        It rises in a line over ``warmup_steps`` and falls along half a cosine to 0 at the end.
        """
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def make_optimizer(model: nn.Module, recipe: Recipe) -> optim.AdamW:
    """Return AdamW for a model: matrices decay, biases and gains do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2))


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
    """

    tokens_per_thread = 256  # of a batch with fewer, nothing is shared out: it would not pay

    def __init__(
        self,
        model: Transformer,
        optimizer: optim.Optimizer,
        threads: int = 1,
        clip_norm: float | None = 1.0,
        label_smoothing: float = 0.0,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.threads = threads
        self.clip_norm = clip_norm
        self.label_smoothing = label_smoothing
        self.gradient_norm = math.nan  # of the last step, before clipping
        self.parameters = list(model.parameters())
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        mg.keep_freed_memory()  # every step allocates what the last one freed

    def step(self, ids: Tensor, targets: Tensor) -> float:
        """Learn from one batch: token ids (B, T) and the tokens after them (B, T).  Returns the loss before."""
        with mg.limit_threads(1):  # the parallel parts already use all processors
            self.optimizer.zero_grad()
            if self.pool is None or ids.numel() < self.tokens_per_thread * self.threads:
                result = self.model.loss(ids, targets, self.label_smoothing)
                result.backward()
                loss: float = result.item()
            else:
                loss, gradients = self.differentiate_in_parts(self.pool, ids, targets)
                for parameter, gradient in zip(self.parameters, gradients, strict=True):
                    parameter.grad = gradient
            if self.clip_norm is not None:
                self.gradient_norm = clip_grad_norm_(self.parameters, self.clip_norm).item()
            self.optimizer.step()
        return loss

    def differentiate_in_parts(
        self, pool: ThreadPoolExecutor, ids: Tensor, targets: Tensor
    ) -> tuple[float, tuple[Tensor, ...]]:
        """Return the loss and its gradients, with the sequences shared out among threads.

        They are the sums of the parts', each weighted by its share of the batch.
        """
        parts = list(zip(ids.chunk(self.threads), targets.chunk(self.threads), strict=True))
        seeds = mg.randint(2**62, (len(parts),)).tolist()  # for dropout: each thread draws by itself

        def work(part: tuple[Tensor, Tensor], seed: int) -> tuple[float, tuple[Tensor, ...]]:
            with mg.fork_rng(seed):
                share = self.model.loss(*part, self.label_smoothing) * (len(part[0]) / len(ids))
                return share.item(), mg.autograd.grad(share, self.parameters)

        losses, gradients = zip(*pool.map(work, parts, seeds), strict=True)
        for others in gradients[1:]:
            for total, gradient in zip(gradients[0], others, strict=True):
                total.add_(gradient)
        return math.fsum(losses), gradients[0]


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
    trainer = Trainer(model, optimizer, recipe.threads, recipe.clip_norm, recipe.label_smoothing)
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
