"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.optim.optimizer import Optimizer, check_not_negative
from minigrad.tensor import Tensor


class Adam(Optimizer):
    """Steps of about ``lr`` in each coordinate, whatever the scale of its gradient.

    >>> import minigrad as mg
    >>> x = mg.tensor([1.0, 1.0], requires_grad=True)
    >>> optimizer = mg.optim.Adam([x], lr=0.25)
    >>> (x * mg.tensor([1.0, 1000.0])).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([0.75, 0.75])

    Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1, at step t with gradient g:

        m ← β₁ m + (1 − β₁) g;    v ← β₂ v + (1 − β₂) g²
        x ← x − lr · m̂ / (√v̂ + ε)    with m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ)

    computed in the order that the end of their section 2 gives: the corrections become factors of lr and ε.

    Args:
        params: tensors, or dicts with "params" and options of their own.
        lr: the step size.
        betas: β₁ and β₂.
        eps: ε.
        weight_decay: λ in g ← g + λ x, before everything else.
        amsgrad: divide by the largest v so far, corrected as v̂ is (Reddi et al. 2018, arXiv:1904.09237).
        maximize: step with the gradient rather than against it.

    Raises:
        ValueError: ``lr``, ``eps`` or ``weight_decay`` is negative, or a beta outside [0, 1).
    """

    elementwise = True
    decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def check_options(self, group: dict[str, Any]) -> None:
        check_not_negative(group, "lr", "eps", "weight_decay")
        for i, beta in enumerate(group["betas"]):
            if not 0 <= beta < 1:
                raise ValueError(f"betas[{i}] must be at least 0 and below 1, not {beta}")

    def update(
        self,
        x: np.ndarray[Any, Any],
        gradient: np.ndarray[Any, Any],
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        lr = float(group["lr"])
        if self.decoupled and group["weight_decay"]:
            x *= 1 - lr * float(group["weight_decay"])
        coupled = 0.0 if self.decoupled else group["weight_decay"]
        gradient = self.gradient_with_decay(x, gradient, coupled, group["maximize"])
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * bool(group["amsgrad"])):
                state[name] = Tensor(np.zeros_like(x))
        state["step"] += 1
        t = state["step"]
        beta1, beta2 = map(float, group["betas"])
        m, v = state["exp_avg"]._data, state["exp_avg_sq"]._data
        scratch = self.scratch(x)

        m *= beta1
        m += np.multiply(gradient, 1 - beta1, out=scratch)
        v *= beta2
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - beta2
        v += scratch
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]._data
            v = np.maximum(largest, v, out=largest)

        # m̂ / (√v̂ + ε) = (m / (√v + ε c)) · c / (1 − β₁ᵗ)  with  c = √(1 − β₂ᵗ)
        correction = math.sqrt(1 - beta2**t)
        np.sqrt(v, out=scratch)
        scratch += float(group["eps"]) * correction
        np.divide(m, scratch, out=scratch)
        scratch *= lr * correction / (1 - beta1**t)
        x -= scratch


class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay: x ← (1 − lr · λ) x, apart from the gradient.

    Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2: lr, as scheduled, multiplies the decay too.
    The decay of a coordinate then doesn't depend on the scale of its gradient.

    Args:
        params, lr, betas, eps, amsgrad, maximize: as of :class:`Adam`.
        weight_decay: λ, by default 0.01.

    Raises:
        ValueError: ``lr``, ``eps`` or ``weight_decay`` is negative, or a beta outside [0, 1).
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
