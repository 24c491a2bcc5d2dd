"""The Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad import special
from minigrad.graph import Array
from minigrad.op import kernel
from minigrad.rules.elementwise import quietly

SLOPE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def gelu_composed(x: Array, approximate: str = "none") -> Array:
    """x Φ(x), where Φ is the distribution function of the normal distribution, or its tanh approximation."""
    if approximate == "tanh":
        return 0.5 * x * (1 + (SLOPE * (x + CUBIC * x * x * x)).tanh())
    return 0.5 * x * (1 + (x * math.sqrt(0.5)).erf())


def _gelu_backward(
    g: Array, x: Array, approximate: str, saved: Array, wanted: Collection[str] = ()
) -> tuple[Array]:
    """d/dx x Φ(x) = Φ(x) + x φ(x), with Φ(x) kept from the forward pass."""
    if approximate == "tanh":
        # Φ = (1 + t) / 2 with t = tanh(u), so Φ' = 2 Φ (1 − Φ) u'.
        slope = np.asarray(x * x)
        slope *= 3 * CUBIC * SLOPE
        slope += SLOPE
        slope *= saved
        slope *= 1 - saved
        slope *= 2
    else:
        slope = np.asarray(x * x)
        slope *= -0.5
        np.exp(slope, out=slope)
        slope *= 1 / math.sqrt(2 * math.pi)
    slope *= x
    slope += saved
    slope *= g
    return (slope,)


@kernel(_gelu_backward, ["x"], composed=gelu_composed, promote="float")
@quietly
def gelu(x: Array, approximate: str = "none") -> Any:
    """x Φ(x), where Φ is the distribution function of the normal distribution.

    ``approximate="tanh"`` is the formula that GPT-2 uses: Φ(x) ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.

    Raises:
        RuntimeError: ``approximate`` is neither "none" nor "tanh".
    """
    if approximate == "tanh":
        phi = np.asarray(x * x)
        phi *= CUBIC
        phi += 1
        phi *= x
        phi *= SLOPE
        np.tanh(phi, out=phi)
        phi += 1
        phi *= 0.5
    elif approximate == "none":
        phi = special.normal_cdf(x)
    else:
        raise ValueError(f'approximate must be "none" or "tanh", not {approximate!r}')
    return x * phi, phi
