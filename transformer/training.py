"""Training: predict, compare, send the error back, nudge every weight, and again.

"Attention Is All You Need", section 5; the numbers are in a :class:`transformer.Recipe`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import minigrad as mg
from minigrad import Tensor, optim
from minigrad.nn.utils import clip_grad_norm_
from transformer.data import random_batch
from transformer.fields import check_fields
from transformer.model import Transformer
from transformer.recipe import Recipe, make_optimizer

IGNORED = -100
"""A target with this id counts for nothing: PyTorch's ``ignore_index``."""

Batch = tuple[Tensor, Tensor]
"""Token ids (B, T), and for each what comes after it (B, T)."""


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
        self.clip_norm = math.inf if clip_norm is None else clip_norm
        self.label_smoothing = label_smoothing
        self.sequences_at_once = sequences_at_once
        self.gradient_norm = math.nan  # of the last step, before clipping
        self.parameters = list(model.parameters())
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        mg.keep_freed_memory()  # every step allocates what the last one freed

    def step(self, ids: Tensor, targets: Tensor) -> float:
        """Learn from one batch: token ids (B, T) and the tokens after them (B, T).  Returns the loss before.

        The loss is the mean over those targets that are not :data:`IGNORED`, however the batch is shared out.
        If the loss or a gradient is infinite or NaN, the weights stay as they were.
        """
        with mg.limit_threads(1):  # the parallel parts already use all processors
            self.optimizer.zero_grad()
            loss, gradients = self.differentiate(ids, targets)
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
            self.gradient_norm = clip_grad_norm_(self.parameters, self.clip_norm).item()
            if math.isfinite(loss) and math.isfinite(self.gradient_norm):
                self.optimizer.step()
        return loss

    def differentiate(self, ids: Tensor, targets: Tensor) -> tuple[float, list[Tensor]]:
        """Return the loss of a batch and its gradients, with the sequences shared out among threads."""
        n_total = n_counted(targets)
        if self.pool is None or ids.numel() < self.tokens_per_thread * self.threads:
            return self.differentiate_share(ids, targets, n_total)
        shares = list(zip(ids.chunk(self.threads), targets.chunk(self.threads), strict=True))
        seeds = mg.randint(2**62, (len(shares),)).tolist()  # for dropout: each thread draws by itself

        def work(share: Batch, seed: int) -> tuple[float, list[Tensor]]:
            with mg.fork_rng(seed):
                return self.differentiate_share(*share, n_total)

        losses, gradients = zip(*self.pool.map(work, shares, seeds), strict=True)
        for others in gradients[1:]:
            add_all(gradients[0], others)
        return math.fsum(losses), gradients[0]

    def differentiate_share(self, ids: Tensor, targets: Tensor, n_total: int) -> tuple[float, list[Tensor]]:
        """Return what a share of a batch adds to the batch's loss and gradients.

        It is cut into parts of ``sequences_at_once``.  Their losses and gradients are summed, each weighted by the
        part's share of the batch's ``n_total`` counted targets.
        """
        parts: Iterable[Batch] = [(ids, targets)]
        if self.sequences_at_once:
            parts = zip(ids.split(self.sequences_at_once), targets.split(self.sequences_at_once), strict=True)
        losses: list[float] = []
        gradients: list[Tensor] = []
        for part_ids, part_targets in parts:
            loss = self.model.loss(part_ids, part_targets, self.label_smoothing)
            n_part = n_counted(part_targets)
            if n_part < n_total:
                loss = loss * (n_part / n_total)
            losses.append(loss.item())
            if gradients:  # those of a part are gone before the next one begins
                add_all(gradients, mg.autograd.grad(loss, self.parameters))
            else:
                gradients = list(mg.autograd.grad(loss, self.parameters))
        return math.fsum(losses), gradients


def n_counted(targets: Tensor) -> int:
    """Return how many targets count for the loss."""
    return int((targets != IGNORED).sum().item())


def add_all(totals: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Add to each of some tensors, in its own memory, the one that belongs to it."""
    for total, other in zip(totals, others, strict=True):
        total.add_(other)


class NonFiniteLoss(ArithmeticError):
    """The loss or its gradient became infinite or NaN: training cannot go on from here."""


@dataclass(frozen=True)
class Progress:
    """How far a training has come: what is reported after each step.

    Raises:
        ValueError: a field is of another type.
    """

    step: int = 0  # steps done
    loss: float = math.nan  # of this step's batch, in nats per token
    smooth_loss: float = math.nan  # a running mean of it
    learning_rate: float = math.nan
    gradient_norm: float = math.nan
    tokens: int = 0  # seen so far
    seconds: float = 0.0  # of training so far

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def tokens_per_second(self) -> float:
        """The speed so far."""
        return self.tokens / max(self.seconds, 1e-9)


def training_steps(
    model: Transformer,
    data: Tensor | Callable[[], Batch],
    recipe: Recipe,
    optimizer: optim.Optimizer | None = None,
    done: Progress | None = None,
    generator: mg.Generator | None = None,
) -> Iterator[Progress]:
    """Train and yield after every step.

    The ``data`` are the ids (N,) of a text, from which random windows are cut, or a function that draws a batch.
    With the model, the optimizer and the ``generator`` (by default the global one) as they were after some step,
    and that step's report as ``done``, training goes on exactly as it would have done.

    Raises:
        NonFiniteLoss: with the step, the rate and the gradient norm; the weights are as before that step.
    """
    optimizer = optimizer or make_optimizer(model, recipe)
    done = done or Progress()
    schedule = optim.lr_scheduler.LambdaLR(optimizer, recipe.rate, last_epoch=done.step - 1)
    trainer = Trainer(
        model,
        optimizer,
        recipe.threads,
        recipe.clip_norm or None,
        recipe.label_smoothing,
        recipe.sequences_at_once,
    )
    model.train()
    context = model.config.context
    started, smooth, tokens = time.perf_counter() - done.seconds, done.smooth_loss, done.tokens
    for step in range(done.step + 1, recipe.steps + 1):
        rate = schedule.get_last_lr()[0]
        with mg.use_generator(generator) if generator else nullcontext():
            ids, targets = data() if callable(data) else random_batch(data, recipe.batch_size, context)
            loss = trainer.step(ids, targets)
        norm = trainer.gradient_norm
        if not (math.isfinite(loss) and math.isfinite(norm)):
            what = "gradient" if math.isfinite(loss) else "loss"
            raise NonFiniteLoss(
                f"the {what} became infinite or NaN at step {step} (loss {loss:.3g}, learning rate {rate:.3g}, "
                f"gradient norm {norm:.3g}): try a lower learning rate"
            )
        schedule.step()
        smooth = loss if step == 1 else smooth + 0.05 * (loss - smooth)  # over some 20 steps
        tokens += ids.numel()
        yield Progress(step, loss, smooth, rate, norm, tokens, time.perf_counter() - started)
