"""Initial values of parameters, in place: ``init.xavier_uniform_(layer.weight)``.

Every function overwrites its tensor unrecorded and returns it.  Those that draw take ``generator=`` (default: the
global one), and need a floating tensor, or raise RuntimeError.  The *fan in* of a weight (out, in, …) is how many
numbers each output sums, the *fan out* how many outputs use each input.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from minigrad import special
from minigrad.grad_mode import no_grad
from minigrad.random import Generator, rand, randn
from minigrad.tensor import Tensor

AnyTensor = TypeVar("AnyTensor", bound=Tensor)


def _write(tensor: AnyTensor, values: Any) -> AnyTensor:
    with no_grad():
        return tensor.copy_(values)


def uniform_(tensor: AnyTensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> AnyTensor:
    """Draw from the uniform distribution on [a, b); ``generator`` as of :func:`minigrad.rand`."""
    return _write(tensor, rand(tensor.shape, generator=generator, dtype=tensor.dtype) * (b - a) + a)


def normal_(
    tensor: AnyTensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> AnyTensor:
    """Draw from the normal distribution of that mean and standard deviation.

    ``generator`` is as of :func:`minigrad.rand`.
    """
    return _write(tensor, randn(tensor.shape, generator=generator, dtype=tensor.dtype) * std + mean)


def _inverse_erf(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return x with erf(x) = y: Winitzki's closed approximation (2008), made exact by Newton's method."""
    y = np.clip(y, -1 + 2**-53, 1 - 2**-53)
    a, log = 0.147, np.log1p(-y * y)
    half = 2 / (math.pi * a) + log / 2
    x: np.ndarray[Any, Any] = np.copysign(np.sqrt(np.sqrt(half * half - log / a) - half), y)
    for _ in range(3):
        x -= (special.erf(x) - y) * (math.sqrt(math.pi) / 2) * np.exp(x * x)
    return x


def trunc_normal_(
    tensor: AnyTensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> AnyTensor:
    """Draw from the normal distribution cut off outside [a, b] (which are values, not multiples of ``std``).

    A uniform number between the distribution function's values at a and b goes through its inverse.

    Raises:
        ValueError: the interval is empty.
    """
    if not a < b:
        raise ValueError(f"trunc_normal_() needs a < b, not {a} and {b}")
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2))) for bound in (a, b))
    drawn = rand(tensor.shape, generator=generator, dtype=np.float64).numpy() * (high - low) + low
    return _write(tensor, np.clip(_inverse_erf(drawn) * (std * math.sqrt(2)) + mean, a, b))


def constant_(tensor: AnyTensor, val: float) -> AnyTensor:
    """Set every element to ``val``."""
    return _write(tensor, val)


def zeros_(tensor: AnyTensor) -> AnyTensor:
    """Set every element to 0."""
    return _write(tensor, 0)


def ones_(tensor: AnyTensor) -> AnyTensor:
    """Set every element to 1."""
    return _write(tensor, 1)


def eye_(tensor: AnyTensor) -> AnyTensor:
    """Make a matrix the identity.

    Raises:
        ValueError: the tensor is no matrix.
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_() needs a matrix, not shape {tensor.shape}")
    return _write(tensor, np.eye(*tensor.shape, dtype=tensor.dtype))


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return the fan in and the fan out of a weight (out, in, …).

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need at least two dimensions (out, in), not shape {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through a nonlinearity: √2 for "relu", 5/3 for "tanh", …

    ``param`` is the slope of "leaky_relu" below 0 (default 0.01).

    Raises:
        ValueError: the nonlinearity is unknown.
    """
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise ValueError(f"no gain is known for {nonlinearity!r}; choose from {[*gains, 'leaky_relu']}")
    return gains[nonlinearity]


def xavier_uniform_(tensor: AnyTensor, gain: float = 1.0, generator: Generator | None = None) -> AnyTensor:
    """U(−a, a) with a = gain · √(6 / (fan in + fan out)) (Glorot and Bengio 2010, equation 16).

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    bound = gain * math.sqrt(6 / max(sum(fans(tensor)), 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: AnyTensor, gain: float = 1.0, generator: Generator | None = None) -> AnyTensor:
    """N(0, σ²) with σ = gain · √(2 / (fan in + fan out)) (Glorot and Bengio 2010, equation 12).

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / max(sum(fans(tensor)), 1)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return gain / √fan (He et al. 2015, arXiv:1502.01852, equations 10 and 14)."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'mode must be "fan_in" or "fan_out", not {mode!r}')
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def kaiming_uniform_(
    tensor: AnyTensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> AnyTensor:
    """U(−b, b) with b = gain · √(3 / fan) (He et al. 2015, arXiv:1502.01852); ``a`` is leaky_relu's slope.

    Args:
        tensor: the weight (out, in, …), overwritten.
        a: the slope of "leaky_relu" below 0.
        mode: "fan_in" keeps the variance of what goes forward, "fan_out" that of the gradients.
        nonlinearity: what follows the layer: see :func:`calculate_gain`.
        generator: where the random numbers come from (default: the global generator).

    Raises:
        ValueError: the tensor has fewer than two dimensions, or an option is unknown.
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: AnyTensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> AnyTensor:
    """N(0, σ²) with σ = gain / √fan (He et al. 2015, arXiv:1502.01852).

    Arguments and errors are those of :func:`kaiming_uniform_`.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: AnyTensor, gain: float = 1.0, generator: Generator | None = None) -> AnyTensor:
    """``gain`` times a random matrix with orthonormal rows, or columns if they are fewer (Saxe et al. 2014).

    The tensor (out, …) counts as a matrix of ``out`` rows.  See arXiv:1312.6120.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_() needs at least two dimensions, not shape {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    drawn = randn(max(rows, columns), min(rows, columns), generator=generator, dtype=np.float64).numpy()
    q, r = np.linalg.qr(drawn)
    q *= np.where(np.diag(r) < 0, -1, 1)  # without this the distribution is not uniform
    return _write(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))
