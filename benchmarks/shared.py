"""What the cases of both engines share: how work is timed, and what the kernels are given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.sizes import Size

Timed = Callable[[], float]
"""Do the work once and return the seconds it took."""


def timed(work: Callable[[], object], times: int = 1) -> Timed:
    """Return a function that times ``work``, the mean of so many times."""

    def run() -> float:
        began = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - began) / times

    return run


def kernel(name: str, size: Size, engine: Any, F: Any) -> Timed:
    """One kernel, forward and backward, at the shapes that it has in a model of this size."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return engine.tensor(rng.standard_normal(shape, dtype=np.float32), requires_grad=True)

    n, d = size.batch_size * size.context, size.d_model
    function: Callable[..., Any]
    if name == "softmax":
        inputs = [normal(size.batch_size, size.n_heads, size.context, size.context)]
        function = lambda x: F.softmax(x, -1)
    elif name == "layer_norm":
        inputs = [normal(n, d), normal(d), normal(d)]
        function = lambda x, w, b: F.layer_norm(x, (d,), w, b)
    elif name == "gelu":
        inputs = [normal(n, 4 * d)]
        function = F.gelu
    elif name == "cross_entropy":
        inputs = [normal(n, size.vocab_size)]
        target = engine.tensor(rng.integers(0, size.vocab_size, n))
        function = lambda x: F.cross_entropy(x, target)
    else:
        inputs = [normal(size.vocab_size, d)]
        ids = engine.tensor(rng.integers(0, size.vocab_size, n))
        function = lambda w: F.embedding(ids, w)
    g = engine.tensor(rng.standard_normal(tuple(function(*inputs).shape), dtype=np.float32))

    def work() -> None:
        engine.autograd.grad(function(*inputs), inputs, g)

    return timed(work, 10 if n * d < 500_000 else 3)
