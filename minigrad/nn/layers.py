"""Layers: modules that hold the parameters of a function in :mod:`minigrad.nn.functional` and call it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from minigrad.creation import empty, ones, zeros
from minigrad.devices import check_device
from minigrad.dtypes import int64
from minigrad.grad_mode import no_grad
from minigrad.nn import functional as F
from minigrad.nn import init
from minigrad.nn.module import Module
from minigrad.nn.parameter import Parameter
from minigrad.tensor import Tensor

# --- with parameters ------------------------------------------------------------------------------


class Linear(Module):
    """x Wᵀ + b over the last dimension: (…, in_features) to (…, out_features).

    >>> import minigrad as mg
    >>> layer = mg.nn.Linear(3, 2)
    >>> layer.weight.shape, layer.bias.shape, layer(mg.zeros(4, 3)).shape
    ((2, 3), (2,), (4, 2))

    Weight (out, in) and bias start uniform within ±1/√in, as PyTorch's.

    Args:
        in_features: the size of the last dimension of what comes in.
        out_features: that of what goes out.
        bias: with False, no b.
        device: "cpu" or None.
        dtype: of the parameters, a floating one (default: the default dtype).

    Raises:
        RuntimeError: another device is named, or the dtype is not floating.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # the gain 1/√3 makes the bound 1/√in
        if self.bias is not None:
            bound = 1 / math.sqrt(max(self.in_features, 1))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(…, in_features) to (…, out_features).

        Raises:
            RuntimeError: the last dimension has another size.
        """
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of ``num_embeddings`` rows: integer indices (…) to (…, embedding_dim).

    The rows start as N(0, 1).

    Args:
        num_embeddings: how many rows, V.
        embedding_dim: how many numbers each has, d.
        padding_idx: a row that starts as 0 and receives no gradient.
        device: "cpu" or None.
        dtype: of the table, a floating one (default: the default dtype).

    Raises:
        ValueError: there is no row ``padding_idx``.
        RuntimeError: another device is named, or the dtype is not floating.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else F.check_padding(padding_idx, num_embeddings)
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """Make an embedding of a given table, whose memory it shares.

        Args:
            embeddings: the table (V, d).
            freeze: whether it stays as it is; with False it is trained.
            padding_idx: a row that receives no gradient.

        Raises:
            ValueError: ``embeddings`` is no matrix, or there is no row ``padding_idx``.
            RuntimeError: the table is not floating.
        """
        if embeddings.ndim != 2:
            raise ValueError(f"an embedding is made of a table (V, d), not of shape {embeddings.shape}")
        rows, width = embeddings.shape
        module = cls(0, width, dtype=embeddings.dtype)
        module.num_embeddings = rows
        module.padding_idx = None if padding_idx is None else F.check_padding(padding_idx, rows)
        module.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return module

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, input: Tensor) -> Tensor:
        """Indices (…) to rows (…, embedding_dim).

        Raises:
            IndexError: an index is negative or not below ``num_embeddings``.
            RuntimeError: the indices are no integers.
        """
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """(x − mean) / √(variance + ε) · γ + β over the last dimensions (Ba et al. 2016, arXiv:1607.06450).

    The variance is the biased one.  γ (``weight``) starts as 1, β (``bias``) as 0.

    Args:
        normalized_shape: the sizes of those dimensions; an int for the last one alone.
        eps: ε.
        elementwise_affine: with False, neither γ nor β.
        bias: with False, no β.
        device: "cpu" or None.
        dtype: of γ and β, a floating one (default: the default dtype).

    Raises:
        RuntimeError: another device is named, or the dtype is not floating.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_device(device)
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", Parameter(ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter(
            "bias",
            Parameter(zeros(self.normalized_shape, dtype=dtype)) if elementwise_affine and bias else None,
        )

    def reset_parameters(self) -> None:
        """Set γ to 1 and β to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(…, *normalized_shape) to the same shape.

        Raises:
            RuntimeError: the last dimensions have other sizes.
        """
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        options = f"eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, {options}"


class BatchNorm1d(Module):
    """Each channel of a batch brought to mean 0 and variance 1, then · γ + β: (N, C) or (N, C, L).

    In training by the batch's own mean and variance, in evaluation by running ones
    (:func:`minigrad.nn.functional.batch_norm`).

    Args:
        num_features: C.
        eps: ε under the root.
        momentum: how far the running statistics move with each batch; None averages all batches evenly.
        affine: with False, neither γ (``weight``) nor β (``bias``).
        track_running_stats: with False, the batch's statistics in evaluation too.
        device: "cpu" or None.
        dtype: of γ, β and the statistics, a floating one (default: the default dtype).

    Raises:
        RuntimeError: another device is named, or the dtype is not floating.
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_device(device)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", Parameter(ones(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, dtype=dtype)) if affine else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64) if tracked else None)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C) or (N, C, L) to the same shape.

        Raises:
            ValueError: another number of dimensions, or in training one value for each channel.
            RuntimeError: another number of channels.
        """
        if input.ndim not in (2, 3):
            raise ValueError(f"BatchNorm1d takes (N, C) or (N, C, L), not shape {input.shape}")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1 / self.num_batches_tracked.item()
        from_batch = self.training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, from_batch, momentum, self.eps
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


# --- without --------------------------------------------------------------------------------------


class Dropout(Module):
    """In training, each element zero with probability ``p`` and the others divided by 1 − p; else nothing.

    Args:
        p: the probability; each element, in each call, has its own draw.
        inplace: overwrite the input.

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        F.check_probability(p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """The input itself; takes and ignores any arguments, to stand in for another module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return ``input``."""
        return input


class Flatten(Module):
    """The dimensions from ``start_dim`` to ``end_dim``, that included, joined into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, a, b, …) to (N, a · b · …), by default."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class ReLU(Module):
    """max(x, 0), elementwise; the derivative at 0 is 0."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(ReLU):
    """x where x > 0, else ``negative_slope`` · x, elementwise."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """x Φ(x), elementwise (Hendrycks and Gimpel 2016); GPT-2 has ``approximate="tanh"``."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x · sigmoid(x), elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.silu(input)


class Softplus(Module):
    """ln(1 + eˣ), elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softplus(input)


class Tanh(Module):
    """Hyperbolic tangent, elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + e⁻ˣ), elementwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.sigmoid(input)


class Softmax(Module):
    """e^xᵢ / Σⱼ e^xⱼ along ``dim``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """xᵢ − ln Σⱼ e^xⱼ along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.log_softmax(input, self.dim)
