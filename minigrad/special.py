"""The error function, which NumPy lacks and the GELU activation needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BLOCK = 16384  # elements: 64 KB of float32

# Chebyshev fits to 50-digit values, written as polynomials in u, which runs over [−1, 1].
# Near 0, with u = 2x² − 1:  erf(x) = x · P(u)  for 0 ≤ x ≤ 1.
NEAR = (
    0.9654687386698673, -0.1405360890227171, 0.019852496688983708, -0.0022854855611440673,
    0.00021751715604160108, -1.75371694414921e-05, 1.223382738352401e-06, -7.511569160678138e-08,
    4.11580059766496e-09, -2.0352493920247854e-10, 9.167606746069445e-12, -3.7910930392717217e-13,
    1.454817075960679e-14, -5.166061616805981e-16,
)  # fmt: skip
# Farther out, with t = 2 / (2 + x) mapped from [1/4, 2/3]:  1 − erf(x) = e^(−x²) · Q(u)  for 1 ≤ x ≤ 6.
FAR = (
    0.2214295402299318, 0.16189356804102498, 0.03856057042518243, 0.00558881628183956,
    0.0001971391777277114, -8.079220426206841e-05, -7.340517934856549e-06, 1.9795618120654537e-06,
    1.6349935234814868e-07, -7.005316596004799e-08, -5.885338391253864e-10, 2.6239460235609193e-09,
    -2.688335835065745e-10, -7.351064003566237e-11, 2.2281133503204702e-11, -2.338699702983237e-13,
    -1.0200176242562444e-12, 1.9545318063454244e-13, 1.9546357875125924e-14, -1.1221499888965926e-14,
)  # fmt: skip


def polynomial(coefficients: Sequence[float], u: Any) -> Any:
    """Return c₀ + c₁u + c₂u² + …, by Horner's scheme, in the dtype of ``u``."""
    result = np.full_like(u, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= u
        result += coefficient
    return result


def erf(x: Any) -> Any:
    """The error function 2/√π ∫₀ˣ e^(−t²) dt of an array, correct to the last digit of float64 and float32.

    >>> erf(np.array([0.0, 0.5, -2.0, np.inf]))
    array([ 0.        ,  0.52049988, -0.99532227,  1.        ])
    """
    x = np.asarray(x)
    if x.size <= BLOCK:
        return erf_of_block(x)
    # In blocks that stay in a near cache, through all of the polynomials' steps.
    flat = np.ravel(x)
    out = np.empty(x.shape, x.dtype)
    for start in range(0, x.size, BLOCK):
        out.reshape(-1)[start : start + BLOCK] = erf_of_block(flat[start : start + BLOCK])
    return out


def erf_of_block(x: np.ndarray[Any, Any]) -> Any:
    """The error function of a few thousand elements."""
    short = x.dtype.itemsize < 8  # fewer terms reach the precision of float32
    size = np.abs(x)
    near = far = np.zeros_like(size)
    smallest, largest = (size.min(), size.max()) if size.size else (0, 0)
    if not smallest >= 1:
        squared = np.minimum(size * size, 1)
        near = size * polynomial(NEAR[:8] if short else NEAR, 2 * squared - 1)
    if not largest < 1:
        clipped = np.clip(size, 1, 6)  # from 6 on, erf is 1 in float64
        t = 2 / (2 + clipped)
        far = 1 - np.exp(-clipped * clipped) * polynomial(FAR[:11] if short else FAR, (t - 11 / 24) * (24 / 5))
    return np.copysign(np.where(size < 1, near, far), x)
