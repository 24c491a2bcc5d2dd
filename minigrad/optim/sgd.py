"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.optim.optimizer import Optimizer, check_not_negative
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

    def update(
        self,
        x: np.ndarray[Any, Any],
        gradient: np.ndarray[Any, Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        gradient = self.gradient_with_decay(x, gradient, group["weight_decay"], group["maximize"])
        scratch = self.scratch(x)
        momentum = float(group["momentum"])
        direction = gradient
        if momentum:
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = Tensor(np.array(gradient, x.dtype))
                buffer = state["momentum_buffer"]._data
            else:
                buffer = state["momentum_buffer"]._data
                buffer *= momentum
                buffer += np.multiply(gradient, 1 - float(group["dampening"]), out=scratch)
            direction = buffer
            if group["nesterov"]:
                direction = np.multiply(buffer, momentum, out=scratch)
                direction += gradient
        x -= np.multiply(direction, float(group["lr"]), out=scratch)
