"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.optim.optimizer import Array, Optimizer, check_not_negative
from minigrad.tensor import Tensor


class SGD(Optimizer):
    """A step against the gradient, or against a running sum of gradients (momentum).

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0], requires_grad=True)
    >>> optimizer = mg.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5], requires_grad=True)

    With gradient g, momentum μ, dampening τ and decay λ:

        g ← g + λ x;    b ← μ b + (1 − τ) g  (the first time b ← g);    x ← x − lr · b

    Nesterov's form steps by g + μ b in place of b (Sutskever et al. 2013, in the form that PyTorch uses).

    Args:
        params: tensors, or dicts with "params" and options of their own.
        lr: the step size.
        momentum: μ.
        dampening: τ.
        weight_decay: λ.
        nesterov: look ahead by one step of the momentum.
        maximize: step with the gradient rather than against it.

    Raises:
        ValueError: ``lr``, ``momentum`` or ``weight_decay`` is negative, or ``nesterov`` without momentum or with
            dampening.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def check_options(self, group: dict[str, Any]) -> None:
        check_not_negative(group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                f"nesterov needs a momentum above 0 and dampening 0, not {group['momentum']} "
                f"and {group['dampening']}"
            )

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        g = self.gradient_with_decay(x, gradient, group["weight_decay"], group["maximize"])
        momentum = float(group["momentum"])
        scratch = self.scratch(x)
        direction = g
        if momentum:
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = Tensor(np.array(g, x.dtype))
                b = state["momentum_buffer"]._data
            else:
                b = state["momentum_buffer"]._data
                b *= momentum
                b += np.multiply(g, 1 - float(group["dampening"]), out=scratch)  # b ← μ b + (1 − τ) g
            direction = b
            if group["nesterov"]:
                direction = np.multiply(b, momentum, out=scratch)
                direction += g  # g + μ b
        x -= np.multiply(direction, float(group["lr"]), out=scratch)
