"""The Gaussian error linear unit (Hendrycks and Gimpel 2016, arXiv:1606.08415)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from minigrad import special
from minigrad.graph import Array
from minigrad.op import kernel, quietly

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
    """The derivative was computed along with the function: d/dx x Φ(x) = Φ(x) + x φ(x)."""
    return (g * saved,)


@kernel(_gelu_backward, ["x"], composed=gelu_composed, promote="float")
@quietly
def gelu(x: Array, approximate: str = "none") -> Any:
    """x Φ(x), where Φ is the distribution function of the normal distribution.

    ``approximate="tanh"`` is the formula that GPT-2 uses: Φ(x) ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.

    Raises:
        RuntimeError: ``approximate`` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'approximate must be "none" or "tanh", not {approximate!r}')
    cdf_and_slope = tanh_cdf_and_slope if approximate == "tanh" else special.normal_cdf_and_density
    x = np.asarray(x)
    out, derivative = np.empty((2, x.size), x.dtype)
    flat = x.reshape(-1)
    for start in range(0, x.size, special.BLOCK):  # many passes, so in pieces that stay in a near cache
        block = slice(start, start + special.BLOCK)
        phi, slope = cdf_and_slope(flat[block])
        np.multiply(flat[block], phi, out=out[block])
        slope *= flat[block]
        np.add(slope, phi, out=derivative[block])
    return out.reshape(x.shape), derivative.reshape(x.shape)


def tanh_cdf_and_slope(x: Array) -> tuple[Array, Array]:
    """Return Φ ≈ (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³), and its derivative 2 Φ (1 − Φ) u'."""
    squared = x * x
    phi = squared * (CUBIC * SLOPE)
    phi += SLOPE
    phi *= x
    np.tanh(phi, out=phi)
    phi += 1
    phi *= 0.5
    squared *= 6 * CUBIC * SLOPE
    squared += 2 * SLOPE
    squared *= phi
    squared *= 1 - phi
    return phi, squared
