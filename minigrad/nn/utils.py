"""What training loops do to all gradients or parameters at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.grad_mode import no_grad
from minigrad.rules.shape import cat
from minigrad.tensor import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients that there are."""
    listed = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in listed if parameter.grad is not None]


def _sum_of_powers(array: np.ndarray[Any, Any], p: float) -> float:
    """Return Σ|x|ᵖ."""
    flat = array.ravel(order="K")
    if p == 2:
        total = float(np.vdot(flat, flat))
        if 1e-30 < total < math.inf:
            return total
        # Squares of float32 leave its range early; float64 holds them.
        wide = flat.astype(np.float64)
        return float(np.vdot(wide, wide))
    return float(np.sum(np.abs(flat.astype(np.float64)) ** p))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients, in place, so that their joint norm is at most ``max_norm``; return what it was.

    >>> import minigrad as mg
    >>> x = mg.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x / 2).sum().backward()
    >>> clip_grad_norm_([x], max_norm=1.0)
    tensor(5.)
    >>> x.grad.norm().item() <= 1
    True

    All are multiplied by max_norm / (norm + 1e-6) if that is below 1 (Pascanu et al. 2013, arXiv:1211.5063,
    algorithm 1), and become NaN if the norm is.

    Args:
        parameters: a tensor, or several; those without a gradient are left out.
        max_norm: the longest that the gradients may be.
        norm_type: p of the p-norm of all gradients as one vector; ``math.inf`` takes the largest element.
        error_if_nonfinite: raise rather than scale by a norm that is no number.

    Returns:
        The norm before, (), in the gradients' dtype; 0 if there are none.

    Raises:
        RuntimeError: ``error_if_nonfinite`` and the norm is NaN or infinite.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return Tensor(np.zeros((), np.float32))
    with np.errstate(all="ignore"):
        if norm_type == math.inf:
            norm = float(np.max([np.max(np.abs(gradient._data), initial=0) for gradient in gradients]))
        else:
            p = float(norm_type)
            norm = float(np.sum([_sum_of_powers(gradient._data, p) for gradient in gradients])) ** (1 / p)
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"the total norm of the gradients is {norm}, so they can't be clipped: "
            "look for what overflowed, or pass error_if_nonfinite=False to scale by it all the same"
        )
    factor = float(max_norm) / (norm + 1e-6)
    if not factor >= 1:  # also NaN, which then shows in every gradient
        for gradient in gradients:
            gradient._data *= factor
            gradient._version[0] += 1
    return Tensor(np.asarray(norm, np.result_type(*[gradient.dtype for gradient in gradients])))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of every gradient to [−clip_value, clip_value], in place."""
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        np.clip(gradient._data, -bound, bound, out=gradient._data)
        gradient._version[0] += 1


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements in one vector, through which gradients flow."""
    vector: Tensor = cat([parameter.reshape(-1) for parameter in parameters])
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of ``vec`` into the parameters, in order, unrecorded.

    Raises:
        ValueError: ``vec`` is no vector of as many elements as the parameters have together.
    """
    listed = list(parameters)
    total = sum(parameter.numel() for parameter in listed)
    if vec.shape != (total,):
        raise ValueError(f"the parameters have {total} elements together, the vector has shape {vec.shape}")
    start = 0
    with no_grad():
        for parameter in listed:
            end = start + parameter.numel()
            parameter.copy_(vec[start:end].reshape(parameter.shape))
            start = end
