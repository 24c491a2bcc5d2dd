"""Muon: momentum whose every direction gets the same length."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from minigrad.optim.optimizer import Optimizer, check_not_negative
from minigrad.tensor import Tensor

Matrix = np.ndarray[Any, Any]
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(
    matrix: Matrix, steps: int = 5, coefficients: tuple[float, float, float] = COEFFICIENTS, eps: float = 1e-7
) -> Matrix:
    """Return about U Vᵀ, of the singular value decomposition U Σ Vᵀ of a matrix: all singular values near 1.

    >>> values = np.linalg.svd(orthogonalize(np.diag([3.0, 1.0, 0.1])), compute_uv=False)
    >>> bool(np.all((values > 0.6) & (values < 1.3)))
    True

    Newton-Schulz iteration: X ← a X + (b S + c S²) X with S = X Xᵀ maps every singular value σ to the odd
    polynomial a σ + b σ³ + c σ⁵ of it, and leaves U and V alone.  These coefficients (Jordan et al. 2024,
    https://kellerjordan.github.io/posts/muon) lift small values fastest, by 3.4 a step, and don't settle at 1 but
    between 0.7 and 1.2, which serves as well.  To begin with, all are brought below 1, by the matrix's norm.

    A power of S is the product of a symmetric matrix with itself, of which BLAS needs to compute only half.

    Args:
        matrix: (A, B).
        steps: how often the polynomial is applied.
        coefficients: a, b and c.
        eps: what the norm counts as at least, so that a matrix of zeros stays one.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / max(math.sqrt(np.vdot(wide, wide)), eps)
    a, b, c = coefficients
    for _ in range(steps):
        s = x @ x.T
        update = s @ s.T
        update *= c
        s *= b
        update += s
        update.flat[:: len(s) + 1] += a
        x = update @ x
    return x if wide is matrix else x.T


class Muon(Optimizer):
    """Steps of one length in every direction that a matrix can change in: for the matrices inside a network.

    >>> import minigrad as mg
    >>> x = mg.zeros(2, 2).requires_grad_()
    >>> optimizer = mg.optim.Muon([x], lr=0.1)
    >>> (x * mg.tensor([[3.0, 0.0], [0.0, 1.0]])).sum().backward()
    >>> optimizer.step()
    >>> bool(x[0, 0] < -0.06 and x[1, 1] < -0.06)  # though one gradient is three times the other
    True

    A gradient matrix has a few large singular values and many small ones; a step along it moves in few
    directions.  Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) makes all of them about
    equal.  With gradient G, momentum μ and decay λ:

        B ← μ B + (1 − μ) G;    U = orthogonalize(μ B + (1 − μ) G)  (or of B, without Nesterov)
        X ← (1 − lr · λ) X − lr · r U

    where r depends on the shape (A, B) of X: "original" √max(1, A / B), so that the outputs of a layer change
    equally, or "match_rms_adamw" 0.2 √max(A, B), so that rates and decays found for AdamW can be used (Liu et
    al. 2025, arXiv:2502.16982).  Tables, biases and gains want :class:`minigrad.optim.AdamW`;
    :class:`minigrad.optim.Several` steps both.

    PyTorch's orthogonalises in bfloat16, this one in the dtype of the parameter.

    Args:
        params: matrices, or dicts with "params" and options of their own.
        lr: the step size.
        weight_decay: λ, by default 0.1.
        momentum: μ.
        nesterov: look ahead by one step of the momentum.
        ns_coefficients, eps, ns_steps: of :func:`orthogonalize`.
        adjust_lr_fn: "original" (also None) or "match_rms_adamw".
        threads: matrices that are worked on side by side; the result is the same.

    Raises:
        ValueError: a parameter is no matrix, an option is negative, ``threads`` is below 1, or there is no such
            adjustment.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        threads: int = 1,
    ) -> None:
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.threads = threads
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )

    def check_options(self, group: dict[str, Any]) -> None:
        check_not_negative(group, "lr", "weight_decay", "momentum", "eps", "ns_steps")
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"adjust_lr_fn must be original or match_rms_adamw, not {group['adjust_lr_fn']!r}")
        for parameter in group["params"]:
            if parameter.ndim != 2:
                raise ValueError(
                    f"Muon steps matrices, not a parameter of shape {parameter.shape}: give that to AdamW"
                )

    def update_group(self, k: int, parameters: list[Tensor]) -> None:
        """Update the matrices of group ``k``, ``threads`` of them at a time."""
        distinct = len({id(parameter) for parameter in parameters}) == len(parameters)
        if self.threads == 1 or len(parameters) < 2 or not distinct:
            super().update_group(k, parameters)
            return
        update_group = super().update_group
        for parameter in parameters:
            self.state.setdefault(parameter, {})  # in order, whichever thread is first
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(lambda parameter: update_group(k, [parameter]), parameters):
                pass  # raises what was raised there

    def update(self, x: Matrix, gradient: Matrix, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["momentum_buffer"] = Tensor(np.zeros_like(x))
        buffer = state["momentum_buffer"]._data
        momentum, lr = float(group["momentum"]), float(group["lr"])
        with np.errstate(all="ignore"):  # of this thread
            new = gradient * (1 - momentum)
            buffer *= momentum
            buffer += new
            direction = buffer * momentum + new if group["nesterov"] else buffer
            step = orthogonalize(direction, group["ns_steps"], tuple(group["ns_coefficients"]), group["eps"])
            x *= 1 - lr * float(group["weight_decay"])
            x -= step * (lr * shape_factor(x.shape, group["adjust_lr_fn"]))


def shape_factor(shape: tuple[int, ...], adjustment: str | None) -> float:
    """Return what the rate of a matrix of a shape (outputs, inputs) is multiplied by."""
    outputs, inputs = shape
    if adjustment == "match_rms_adamw":
        return 0.2 * math.sqrt(max(outputs, inputs))
    return math.sqrt(max(1, outputs / max(1, inputs)))
