"""A program as users write them, for type checkers: ``mypy --strict`` and ``pyright`` accept it as it stands.

Every ``assert_type`` says what the checker must infer.  At run time it does nothing: the program runs.
``.ci/run`` checks it against the installed wheel, so that it is ``py.typed`` that is tested, not the source tree.
"""

# pyright: strict

from collections.abc import Iterator
from typing import assert_type

import numpy as np

import minigrad as mg
import transformer
from minigrad import nn, optim
from minigrad.nn import functional as F


class Network(nn.Module):
    """Two layers and a scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 1)
        self.scale = nn.Parameter(mg.ones(1))

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        hidden: mg.Tensor = self.first(x)
        out: mg.Tensor = self.second(F.relu(hidden))
        return out * self.scale


@mg.no_grad()
def mean_square(network: Network, x: mg.Tensor) -> float:
    """Return the mean square of what a network makes of x."""
    value: float = (network(x) ** 2).mean().item()
    return value


@mg.enable_grad()
def slope_at(x: mg.Tensor) -> mg.Tensor:
    """Return the derivative of the sum of x³."""
    x = x.detach().requires_grad_()
    y: mg.Tensor = Cube.apply(x)
    (gradient,) = mg.autograd.grad(y.sum(), x)
    assert isinstance(gradient, mg.Tensor)
    return gradient


class Cube(mg.autograd.Function):
    """x³, with a rule of its own."""

    @staticmethod
    def forward(ctx: mg.autograd.FunctionCtx, x: mg.Tensor) -> mg.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: mg.autograd.FunctionCtx, g: mg.Tensor) -> mg.Tensor:
        (x,) = ctx.saved_tensors
        slope: mg.Tensor = 3 * x**2
        return g * slope


def tensors() -> None:
    """Operations return tensors, in every spelling."""
    x: mg.Tensor = mg.randn(2, 3)
    y = x.exp()
    assert_type(y, mg.Tensor)
    assert_type(mg.exp(x), mg.Tensor)
    assert_type(x.maximum(y).pow(2), mg.Tensor)
    assert_type(1 - x, mg.Tensor)
    assert_type(x @ x.T, mg.Tensor)
    assert_type(x[0, 1:], mg.Tensor)
    assert_type(x.sum(dim=0, keepdim=True), mg.Tensor)
    assert_type(x.reshape(3, 2).softmax(-1), mg.Tensor)
    assert_type(x.add_(1), mg.Tensor)
    assert_type(mg.cat([x, y]), mg.Tensor)
    assert_type(mg.einsum("ij,kj->ik", x, y), mg.Tensor)
    assert_type(F.cross_entropy(x, mg.tensor([0, 1])), mg.Tensor)
    assert_type(x.requires_grad_().sum().backward(), None)
    assert_type(x.requires_grad, bool)
    assert_type(x.shape, tuple[int, ...])
    array = x.detach().numpy()
    assert isinstance(array, np.ndarray)


def training() -> None:
    """Modules, parameters, optimisers and schedules."""
    network = Network(4)
    assert_type(network.first, nn.Linear)
    assert_type(network.first.weight, nn.Parameter)
    assert_type(network.parameters(), Iterator[nn.Parameter])
    optimizer = optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    x = mg.randn(5, 3)
    before = mean_square(network, x)
    for _ in range(10):
        optimizer.zero_grad()
        loss: mg.Tensor = (network(x) ** 2).mean()
        loss.backward()
        assert_type(network.scale.grad, mg.Tensor | None)
        optimizer.step()
        schedule.step()
    assert_type(before, float)
    assert mean_square(network, x) < before
    assert_type(slope_at(x), mg.Tensor)


def language_model() -> None:
    """The transformer's public names."""
    config = transformer.Config.preset("micro", vocab_size=65)
    assert_type(config, transformer.Config)
    model = transformer.Transformer(config)
    logits, cache = model.run_with_cache(mg.zeros(1, 4, dtype=mg.int64))
    assert_type(logits, mg.Tensor)
    assert_type(cache, dict[str, mg.Tensor])
    tokenizer = transformer.CharTokenizer([chr(32 + i) for i in range(65)])
    assert_type(transformer.generate(model, tokenizer, n_tokens=1), Iterator[str])
    assert_type(transformer.generate(model, tokenizer, ["A", "B"], n_tokens=1), Iterator[list[str]])


if __name__ == "__main__":
    tensors()
    training()
    language_model()
