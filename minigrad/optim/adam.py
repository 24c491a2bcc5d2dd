"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.optim.joined import JoiningOptimizer
from minigrad.optim.optimizer import Array, check_not_negative
from minigrad.tensor import Tensor


class Adam(JoiningOptimizer):
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

    which :func:`adam_step` computes.

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

    decoupled = False  # whether the decay is apart from the gradient

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

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        beta1, beta2 = map(float, group["betas"])
        if self.decoupled and decay:
            x *= 1 - lr * decay
        g = self.gradient_with_decay(x, gradient, 0.0 if self.decoupled else decay, group["maximize"])
        if not state:
            state.update(step=0, exp_avg=Tensor(np.zeros_like(x)), exp_avg_sq=Tensor(np.zeros_like(x)))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = Tensor(np.zeros_like(x))
        state["step"] += 1
        m, v = state["exp_avg"]._data, state["exp_avg_sq"]._data
        largest_v = state["max_exp_avg_sq"]._data if group["amsgrad"] else None
        adam_step(x, g, m, v, largest_v, state["step"], lr, beta1, beta2, float(group["eps"]), self.scratch(x))


def adam_step(
    x: Array,
    g: Array,
    m: Array,
    v: Array,
    largest_v: Array | None,
    t: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    scratch: Array,
) -> None:
    """Carry out step t of Adam, in place: change the averages m and v, and x.

    As the end of the paper's section 2 has it, the corrections of m and v become factors of lr and ε, two numbers:

        m̂ / (√v̂ + ε) = c / (1 − β₁ᵗ) · m / (√v + c ε)    with c = √(1 − β₂ᵗ)

    Args:
        x, g: the parameter and its gradient.
        m, v: the averages of g and g².
        largest_v: the largest v so far, which is divided by in its place, or None.
        t: the number of the step, from 1 on.
        lr, beta1, beta2, eps: as of :class:`Adam`.
        scratch: an array of that shape to compute in.
    """
    move_towards(m, g, beta1, scratch)  # m ← β₁ m + (1 − β₁) g
    move_towards(v, np.multiply(g, g, out=scratch), beta2, scratch)  # v ← β₂ v + (1 − β₂) g²
    if largest_v is not None:
        v = np.maximum(largest_v, v, out=largest_v)
    # x ← x − lr · m̂ / (√v̂ + ε)
    c = math.sqrt(1 - beta2**t)
    step = np.sqrt(v, out=scratch)
    step += c * eps
    np.divide(m, step, out=step)
    step *= lr * c / (1 - beta1**t)
    x -= step


def move_towards(average: Array, value: Array, beta: float, scratch: Array) -> None:
    """Set ``average`` to β · average + (1 − β) · value, in place."""
    average *= beta
    average += np.multiply(value, 1 - beta, out=scratch)


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
