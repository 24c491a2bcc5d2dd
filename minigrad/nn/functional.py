"""Layers and losses as functions, ``import minigrad.nn.functional as F``: what the modules call.

N is a batch size, C a number of classes, V of rows, d a width, … any leading dimensions.  Losses take
``reduction="mean"``, ``"sum"`` or ``"none"``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad import dtypes
from minigrad.grad_mode import no_grad
from minigrad.kernels.activation import gelu
from minigrad.kernels.attention import _attention, attention_composed
from minigrad.kernels.embedding import embedding_lookup
from minigrad.kernels.layer_norm import layer_norm
from minigrad.kernels.linear import linear
from minigrad.kernels.softmax import log_softmax as _log_softmax
from minigrad.kernels.softmax import softmax as _softmax
from minigrad.nn.loss_functions import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from minigrad.random import current_generator
from minigrad.rules.elementwise import Elementwise
from minigrad.rules.piecewise import where as _where
from minigrad.rules.shape import pad
from minigrad.tensor import Tensor

__all__ = [
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "tanh",
]

# --- activations ----------------------------------------------------------------------------------

sigmoid, softplus, tanh = Elementwise.sigmoid, Elementwise.softplus, Elementwise.tanh


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """e^xᵢ / Σⱼ e^xⱼ along ``dim``, after a cast to ``dtype`` if given; a row that is all −inf gives zeros.

    Raises:
        IndexError: there is no such dimension.
    """
    return _softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """xᵢ − ln Σⱼ e^xⱼ along ``dim``, after a cast to ``dtype`` if given.

    Raises:
        IndexError: there is no such dimension.
    """
    return _log_softmax(input if dtype is None else input.to(dtype), dim)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise; the derivative at 0 is 0.  ``inplace`` overwrites ``input``."""
    return input.relu_() if inplace else Elementwise.relu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else ``negative_slope`` · x, elementwise.  ``inplace`` overwrites ``input``."""
    out: Tensor = _where(input > 0, input, input * negative_slope)
    return input.copy_(out) if inplace else out


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else α (eˣ − 1), elementwise (Clevert et al. 2016, arXiv:1511.07289).

    ``inplace`` overwrites ``input``.
    """
    out: Tensor = _where(input > 0, input, alpha * input.clamp(max=0).expm1())
    return input.copy_(out) if inplace else out


def logsigmoid(input: Tensor) -> Tensor:
    """ln(1 / (1 + e⁻ˣ)), elementwise, exact for x of any size."""
    return -softplus(-input)


def silu(input: Tensor) -> Tensor:
    """x · sigmoid(x), elementwise (Hendrycks and Gimpel 2016, arXiv:1606.08415; also called swish)."""
    return input * sigmoid(input)


# --- lookup and dropout ---------------------------------------------------------------------------


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Row ``input[…]`` of ``weight``: integer indices (…) and a table (V, d) give (…, d).

    The row ``padding_idx`` receives no gradient.

    Raises:
        IndexError: an index is negative or not below V.
        RuntimeError: the indices are no integers.
    """
    if input.dtype.kind not in "iu":
        raise RuntimeError(f"an embedding is looked up by integers, not {input.dtype}: use input.long()")
    rows = embedding_lookup(weight, input)
    if padding_idx is None:
        return rows
    padding = check_padding(padding_idx, len(weight))
    return rows.where((input != padding).unsqueeze(-1), rows.detach())


def check_padding(padding_idx: int, num_embeddings: int) -> int:
    """Return ``padding_idx`` counted from the front.

    Raises:
        ValueError: there is no such row.
    """
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise ValueError(f"padding_idx {padding_idx} is out of range for {num_embeddings} rows")
    return padding_idx % num_embeddings


def check_probability(p: float) -> None:
    """Raise for what is no probability.

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a dropout probability lies between 0 and 1, not {p}")


def draw_kept(shape: tuple[int, ...], p: float, dtype: np.dtype[Any]) -> Tensor:
    """Return 0 with probability ``p`` and else 1 / (1 − p), drawn for each element: its expectation is 1."""
    if p == 1:
        return Tensor(np.zeros(shape, dtype))
    kept = current_generator().numpy.random(shape, dtype=np.float32) >= p
    return Tensor(np.multiply(kept, np.asarray(1 / (1 - p), dtype)))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element zero with probability ``p``, the others divided by 1 − p (Srivastava et al. 2014).

    Returns ``input`` itself when not training, or with p = 0; ``inplace`` overwrites it.

    Raises:
        ValueError: ``p`` is outside [0, 1].
        RuntimeError: ``input`` is not floating, so it can't hold 1 / (1 − p).
    """
    check_probability(p)
    if not training or p == 0:
        return input
    if input.dtype.kind != "f":
        raise RuntimeError(f"dropout divides by 1 - p, so it takes a floating tensor, not {input.dtype}")
    kept = draw_kept(input.shape, p, input.dtype)
    return input.mul_(kept) if inplace else input * kept


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at the position of each class and 0 elsewhere, int64: (…) gives (…, num_classes).

    >>> import minigrad as mg
    >>> one_hot(mg.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])

    Without ``num_classes`` it is one more than the largest class.

    Raises:
        RuntimeError: a class is no integer, negative, or not below ``num_classes``.
    """
    classes = tensor.detach().numpy()
    if classes.dtype.kind not in "iu":
        raise RuntimeError(f"one_hot() takes integers, not {classes.dtype}: use x.long()")
    if num_classes == -1 and not classes.size:
        raise RuntimeError("one_hot() of no classes needs num_classes")
    n = int(classes.max()) + 1 if num_classes == -1 else num_classes
    if classes.size and not (classes.min() >= 0 and classes.max() < n):
        bad = classes[(classes < 0) | (classes >= n)].flat[0]
        raise RuntimeError(f"one_hot() can't place class {bad} among {n} classes")
    return Tensor((classes[..., None] == np.arange(n)).astype(np.int64))


# --- lengths, and statistics of batches -----------------------------------------------------------


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖ₚ, ε), with the p-norm over ``dim``, an int or several; ``eps`` is ε.

    Raises:
        IndexError: there is no such dimension.
    """
    return input / input.norm(p, dim, True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x₁ · x₂ / (max(‖x₁‖, ε) max(‖x₂‖, ε)) over ``dim``; both broadcast, and ``eps`` is ε."""
    return (normalize(x1, 2, dim, eps) * normalize(x2, 2, dim, eps)).sum(dim)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x − mean) / √(variance + ε) · weight + bias for each channel: (N, C) or (N, C, d₁, …) to the same shape.

    In training mean and (biased) variance are the batch's, and the running ones move towards them by
    ``momentum`` (there the variance is the unbiased one); otherwise they are the running ones (Ioffe and Szegedy
    2015, arXiv:1502.03167).

    Args:
        input: (N, C) or (N, C, d₁, …).
        running_mean, running_var: (C,), overwritten in training; None keeps none.
        weight, bias: (C,); None for 1 and 0.
        training: which statistics are used.
        momentum: how far the running ones move, between 0 and 1.
        eps: ε.

    Raises:
        ValueError: in training, there is only one value for each channel.
        RuntimeError: not training, and no running statistics; or another number of channels.
    """
    channels = input.shape[1]
    for given in (running_mean, running_var, weight, bias):
        if given is not None and given.numel() != channels:
            raise RuntimeError(f"batch_norm() of {channels} channels got a vector of {given.numel()}")
    dims = (0, *range(2, input.ndim))
    shape = (1, channels, *(1,) * (input.ndim - 2))
    if training:
        n = math.prod(input.shape[d] for d in dims)
        if n <= 1:
            raise ValueError(f"batch_norm() needs more than one value for each channel, not shape {input.shape}")
        mean, variance = input.mean(dims), input.var(dims, 0)
        for running, now in ((running_mean, mean), (running_var, variance * (n / (n - 1)))):
            if running is not None:
                with no_grad():
                    running.copy_(running + momentum * (now.detach() - running))
    elif running_mean is None or running_var is None:
        raise RuntimeError("batch_norm() outside training needs running_mean and running_var")
    else:
        mean, variance = running_mean, running_var
    scale = (variance + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    out = (input - mean.reshape(shape)) * scale.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


# --- attention ------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + mask) V (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    Args:
        query, key, value: (…, T, d_k), (…, S, d_k) and (…, S, d_v) give (…, T, d_v).
        attn_mask: broadcasts to (…, T, S).  Boolean: True may be attended to.  Floating: added to the scores.
        dropout_p: with this probability a weight becomes 0; pass 0.0 in evaluation, there is no switch here.
        is_causal: query t sees the keys s ≤ t.
        scale: in place of 1 / √d_k.

    A query that may attend to nothing gives zeros (in PyTorch NaN).

    Raises:
        RuntimeError: both ``attn_mask`` and ``is_causal`` are given, or the shapes don't fit.
        ValueError: ``dropout_p`` is outside [0, 1].
    """
    check_probability(dropout_p)
    if attn_mask is not None and is_causal:
        raise RuntimeError("attention takes attn_mask or is_causal=True, not both: put the triangle in the mask")
    if attn_mask is not None and attn_mask.dtype != dtypes.bool_:
        if attn_mask.dtype.kind != "f":
            raise RuntimeError(f"attn_mask is boolean or floating, not {attn_mask.dtype}: use mask.bool()")
        attn_mask = attn_mask.to(query.dtype)
    kept = None
    if dropout_p > 0:
        batches = [x.shape[:-2] for x in (query, key, attn_mask) if x is not None]
        shape = (*np.broadcast_shapes(*batches), query.shape[-2], key.shape[-2])
        kept = draw_kept(shape, dropout_p, query.dtype)
    if attn_mask is not None and attn_mask.requires_grad:
        return attention_composed(query, key, value, attn_mask, is_causal, scale, kept)  # type: ignore[no-any-return]
    return _attention(query, key, value, attn_mask, is_causal, scale, kept)
