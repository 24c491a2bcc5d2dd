"""The cases, run by minigrad: each function prepares one and returns what to time."""

from __future__ import annotations

import time

import numpy as np

import minigrad as mg
from benchmarks import shared
from benchmarks.shared import Timed, timed
from benchmarks.sizes import Size
from minigrad.nn import functional as F
from transformer.config import Config
from transformer.generation import generate_ids
from transformer.model import Transformer
from transformer.recipe import Recipe, make_optimizer
from transformer.training import Trainer


def set_threads(threads: int) -> None:
    """Have matrix products outside of a Trainer use so many threads."""
    mg.set_num_threads(threads)


def new_model(size: Size) -> Transformer:
    """The model of this size."""
    mg.manual_seed(0)
    return Transformer(
        Config(
            vocab_size=size.vocab_size,
            n_layers=size.n_layers,
            n_heads=size.n_heads,
            d_model=size.d_model,
            context=size.context,
        )
    )


def trainer_and_batch(size: Size, threads: int) -> tuple[Trainer, tuple[mg.Tensor, mg.Tensor]]:
    """Return what ``transformer train`` takes its steps with, and a batch."""
    model = new_model(size)
    trainer = Trainer(model, make_optimizer(model, Recipe(optimizer="adamw")), threads=threads)
    ids = mg.randint(size.vocab_size, (size.batch_size, size.context + 1))
    return trainer, (ids[:, :-1], ids[:, 1:])


def step(size: Size, threads: int) -> Timed:
    """One training step, as ``transformer train --optimizer adamw`` takes it."""
    trainer, batch = trainer_and_batch(size, threads)
    return timed(lambda: trainer.step(*batch), 10 if size.d_model < 64 else 1)


def chain(length: int) -> Timed:
    """A chain of multiplications of 10 numbers, forward and backward: the cost of an operation itself."""
    x = mg.tensor(np.linspace(0.5, 1.5, 10).astype(np.float32), requires_grad=True)
    y = mg.tensor(np.full(10, 1.0001, np.float32), requires_grad=True)
    g = mg.ones(10)

    def work() -> None:
        z = x
        for _ in range(length):
            z = z * y
        z.backward(g)

    return timed(work)


def kernel(name: str, size: Size) -> Timed:
    """One kernel, forward and backward; freed memory is kept, as a Trainer has it."""
    mg.keep_freed_memory()
    return shared.kernel(name, size, mg, F)


def generation(size: Size) -> Timed:
    """The seconds for one new token of those that fill the context, as ``transformer generate`` draws them."""
    model = new_model(size)

    def run() -> float:
        began = time.perf_counter()
        written = list(generate_ids(model, [0], size.context, temperature=0.8))
        return (time.perf_counter() - began) / len(written)

    return run


def generation_without_cache(size: Size) -> Timed:
    """The same: there is no generation without a cache here, only in the peer."""
    return generation(size)


def matmul(n: int) -> Timed:
    """A product of two n × n float32 matrices: the rate that this NumPy reaches on this machine."""
    x = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    return timed(lambda: x @ x)
