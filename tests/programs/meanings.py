"""What the steps of a program mean in NumPy, written down without minigrad."""

import math
from typing import Any

import numpy as np

from minigrad.op import registry


class Meanings:
    """The functions that the NumPy lines call, besides NumPy's own: formulas, on real or complex arrays.

    A complex array stands for its real part with a tiny imaginary one (the complex step), so comparisons look at
    the real part, and nothing conjugates.  ``trace`` collects what was decided on the way.
    """

    def __init__(self, dtype: Any = np.float64) -> None:
        self.dtype = dtype
        self.trace: list[bytes] = []

    def names(self) -> dict[str, Any]:
        """Return what a NumPy line may name."""
        own = {name: getattr(self, name) for name in dir(self) if not name.startswith("_") and name != "names"}
        return {"np": np, "math": math, "inf": math.inf, **own}

    def branch(self, decision: Any) -> Any:
        """Record which way a comparison went."""
        self.trace.append(np.asarray(decision).tobytes())
        return decision

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape, self.dtype)

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def larger(self, x: Any, y: Any) -> Any:
        return np.where(self.branch(np.real(x) > np.real(y)), x, y)

    def smaller(self, x: Any, y: Any) -> Any:
        return np.where(self.branch(np.real(x) < np.real(y)), x, y)

    def absolute(self, x: Any) -> Any:
        return np.where(self.branch(np.real(x) > 0), x, -x)

    def forward(self, name: str, *x: Any) -> Any:
        """What an operation of no other spelling computes: taken for granted here, though its gradient is not."""
        return registry[name].forward(*x)

    def remainder(self, x: Any, y: Any) -> Any:
        return x - y * self.branch(np.floor(np.real(x) / np.real(y)))

    def extreme(self, x: Any, dim: Any, keepdim: bool, sign: int) -> Any:
        """The largest (or smallest) element over one dim or all, found by its place."""
        if dim is None:
            flat = x.reshape(-1)
            picked = flat[self.branch(np.argmax(sign * np.real(flat)))]
            return np.reshape(picked, (1,) * x.ndim) if keepdim else picked
        at = self.branch(np.argmax(sign * np.real(x), axis=dim, keepdims=True))
        picked = np.take_along_axis(x, at, axis=dim)
        return picked if keepdim else np.squeeze(picked, axis=dim)

    def ordered(self, x: Any, dim: int, descending: bool) -> Any:
        order = self.branch(np.argsort(-np.real(x) if descending else np.real(x), axis=dim, kind="stable"))
        return np.take_along_axis(x, order, axis=dim)

    def variance(self, x: Any, dim: Any, correction: int, keepdim: bool = False) -> Any:
        centered = x - x.mean(axis=dim, keepdims=True)
        n = x.size if dim is None else x.shape[dim]
        return (centered * centered).sum(axis=dim, keepdims=keepdim) / (n - correction)

    def logsumexp(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return np.log(np.exp(x).sum(axis=dim, keepdims=keepdim))

    def softmax(self, x: Any, dim: int) -> Any:
        return np.exp(x) / np.exp(x).sum(axis=dim, keepdims=True)

    def gelu_tanh(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        centered = x - x.mean(axis=-1, keepdims=True)
        out = centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + 0.1)
        out = out if weight is None else out * weight
        return out if bias is None else out + bias

    def attention(self, q: Any, k: Any, v: Any, causal: bool, mask: Any) -> Any:
        scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.shape[-1])
        seen = np.ones(scores.shape[-2:], bool) if mask is None else np.asarray(mask)
        if causal:
            seen = seen & (np.arange(scores.shape[-1]) <= np.arange(scores.shape[-2])[:, None])
        weights = np.where(seen, np.exp(scores), 0)
        total = weights.sum(axis=-1, keepdims=True)
        return np.einsum("...ts,...sd->...td", weights / np.where(total == 0, 1, total), v)

    def cross_entropy(self, x: Any, target: Any, ignored: int, reduction: str, smoothing: float) -> Any:
        log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        losses = []
        for row, t in zip(log_p, target, strict=True):
            loss = -(1 - smoothing) * row[t] - smoothing * row.sum() / len(row)
            losses.append(loss if t != ignored else 0 * loss)
        number = max(1, sum(t != ignored for t in target))
        total = np.array(losses)
        return total if reduction == "none" else total.sum() / (number if reduction == "mean" else 1)

    def added_at(self, x: Any, dim: int, index: Any, source: Any) -> Any:
        """x[…, index[i], …] += source[…, i, …], one slice after the other."""
        out = np.moveaxis(np.array(x), dim, 0)
        for i, row in enumerate(index):
            out[row, ...] += np.moveaxis(source, dim, 0)[i]
        return np.moveaxis(out, 0, dim)

    def written(self, x: Any, rows: Any, source: Any) -> Any:
        """x[rows[r]] = source[r], one row after the other, so that the last one to a row stays."""
        out = np.array(x)
        for r, row in enumerate(rows):
            out[row] = source[r] if source.ndim else source
        return out

    def scattered(self, x: Any, dim: int, index: Any, source: Any, add: bool) -> Any:
        """x with source[i, j] written or added at [index[i, j], j] (dim 0), element by element."""
        out = np.array(x)
        for at in np.ndindex(np.shape(index)):
            place = list(at)
            place[dim] = index[at]
            out[tuple(place)] = source[at] + (out[tuple(place)] if add else 0)
        return out

    def padded(self, x: Any, before: int, after: int) -> Any:
        out = np.full((*x.shape[:-1], x.shape[-1] + before + after), 0.5, self.dtype)
        out[..., before : before + x.shape[-1]] = x
        return out

    def cumulated(self, x: Any, dim: int, product: bool) -> Any:
        out = np.moveaxis(np.array(x), dim, 0)
        for i in range(1, len(out)):
            out[i] = out[i - 1] * out[i] if product else out[i - 1] + out[i]
        return np.moveaxis(out, 0, dim)
