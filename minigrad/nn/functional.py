"""Layers and losses as functions, ``import minigrad.nn.functional as F``: what the modules call.

N is a batch size, C a number of classes, V of rows, d a width, … any leading dimensions.  Losses take
``reduction="mean"``, ``"sum"`` or ``"none"``.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minigrad import dtypes
from minigrad.grad_mode import no_grad
from minigrad.kernels.activation import gelu
from minigrad.kernels.attention import _attention, attention_composed
from minigrad.kernels.cross_entropy import _cross_entropy
from minigrad.kernels.embedding import embedding_lookup
from minigrad.kernels.layer_norm import layer_norm
from minigrad.kernels.linear import linear
from minigrad.kernels.softmax import log_softmax as _log_softmax
from minigrad.kernels.softmax import softmax as _softmax
from minigrad.random import current_generator
from minigrad.rules.elementwise import Elementwise
from minigrad.rules.elementwise import where as _where
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
    if padding_idx is None:
        return embedding_lookup(weight, input)
    padding = check_padding(padding_idx, len(weight))
    rows = embedding_lookup(weight, input)
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
    """x / max(‖x‖ₚ, ε), with the p-norm over ``dim``, an int or several; ``eps`` is ε."""
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
    dims = (0, *range(2, input.ndim))
    shape = (1, input.shape[1], *(1,) * (input.ndim - 2))
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


# --- losses ---------------------------------------------------------------------------------------


def check_reduction(reduction: str) -> None:
    """Raise for an unknown ``reduction``.

    Raises:
        ValueError: it is neither "mean", "sum" nor "none".
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'reduction must be "mean", "sum" or "none", not {reduction!r}')


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """Return the mean or the sum of ``loss``, or itself.

    Raises:
        ValueError: ``reduction`` is unknown.
    """
    check_reduction(reduction)
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def warn_of_broadcast(input: Tensor, target: Tensor, name: str) -> None:
    """Warn of a target of another shape: (N, 1) against (N,) broadcasts to (N, N), which nobody means."""
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: the target has shape {target.shape} and the input {input.shape}; they broadcast, "
            "which is seldom meant: give both the same shape",
            UserWarning,
            stacklevel=3,
        )


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(x − y)², reduced; warns if the shapes differ, for then x and y broadcast.

    Raises:
        ValueError: ``reduction`` is unknown.
        RuntimeError: the shapes don't broadcast.
    """
    warn_of_broadcast(input, target, "mse_loss")
    return reduce_loss((input - target).square(), reduction)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """|x − y|, reduced; warns if the shapes differ, for then x and y broadcast.

    Raises:
        ValueError: ``reduction`` is unknown.
        RuntimeError: the shapes don't broadcast.
    """
    warn_of_broadcast(input, target, "l1_loss")
    return reduce_loss((input - target).abs(), reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """(x − y)² / 2β where |x − y| < β, else |x − y| − β / 2, reduced (Girshick 2015, arXiv:1504.08083).

    ``beta`` is β, which is 1 there; with 0 this is :func:`l1_loss`.  Warns if the shapes differ, for then x and y
    broadcast.

    Raises:
        ValueError: ``reduction`` is unknown.
        RuntimeError: ``beta`` is negative, or the shapes don't broadcast.
    """
    if beta < 0:
        raise RuntimeError(f"beta must be at least 0, not {beta}")
    warn_of_broadcast(input, target, "smooth_l1_loss")
    distance = (input - target).abs()
    if not beta:
        return reduce_loss(distance, reduction)
    loss: Tensor = _where(distance < beta, distance.square() * (0.5 / beta), distance - 0.5 * beta)
    return reduce_loss(loss, reduction)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """y (ln y − x), reduced: log-probabilities x against probabilities y; 0 where y = 0.

    ``reduction="batchmean"`` divides the sum by the first size: the Kullback–Leibler divergence of each row, on
    average.  With ``log_target`` the target is ln y.  The shapes broadcast.

    Raises:
        ValueError: ``reduction`` is unknown.
        RuntimeError: the shapes don't broadcast.
    """
    if log_target:
        loss = target.exp() * (target - input)
    else:
        nothing = target == 0
        loss = _where(nothing, 0, target * (target.masked_fill(nothing, 1).log() - input))
    return loss.sum() / input.shape[0] if reduction == "batchmean" else reduce_loss(loss, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """−[y ln p + (1 − y) ln(1 − p)], reduced: probabilities p against y, of one shape; no logarithm below −100.

    ``weight`` multiplies each element's loss; it broadcasts.

    Raises:
        ValueError: the shapes differ, or ``reduction`` is unknown.
    """
    if input.shape != target.shape:
        raise ValueError(f"the target has shape {target.shape}, the input {input.shape}: they must agree")
    loss = -(target * input.log().clamp(min=-100) + (1 - target) * (-input).log1p().clamp(min=-100))
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """−[y ln σ(x) + (1 − y) ln(1 − σ(x))], reduced: logits x against probabilities y, of one shape.

    ``weight`` multiplies each element's loss, ``pos_weight`` the first term only; both broadcast.

    Raises:
        ValueError: the shapes differ, or ``reduction`` is unknown.
    """
    if input.shape != target.shape:
        raise ValueError(f"the target has shape {target.shape}, the input {input.shape}: they must agree")
    # 1 − σ(x) = σ(−x), and ln σ(−x) = ln σ(x) − x: one softplus serves both terms.
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input + positive * softplus(-input)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def rows_of_classes(input: Tensor, target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Bring scores (C,), (N, C) or (N, C, d₁, …) and class indices to (n, C) and (n,), checked.

    Raises:
        ValueError, RuntimeError: the shapes don't fit (of which type, as PyTorch).
        IndexError: a target is neither a class nor ``ignore_index``.
    """
    if not input.ndim:
        raise ValueError("scores of classes need at least one dimension, (C,)")
    if target.dtype.kind not in "iu":
        raise RuntimeError(
            f"the target holds class indices (integers) or probabilities of the input's shape {input.shape}, "
            f"not {target.dtype} of shape {target.shape}"
        )
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    expected = input.shape[:dim] + input.shape[dim + 1 :]
    if target.shape != expected:
        error = ValueError if input.ndim <= 2 or target.shape[:1] != input.shape[:1] else RuntimeError
        raise error(f"scores of shape {input.shape} need a target of shape {expected}, not {target.shape}")
    indices = target._data
    if indices.size and not (indices.min() >= 0 and indices.max() < classes):
        wrong = indices[((indices < 0) | (indices >= classes)) & (indices != ignore_index)]
        if wrong.size:
            raise IndexError(f"target {wrong.flat[0]} is out of range for {classes} classes")
    if input.ndim == 2:
        return input, target
    if input.ndim > 2:
        input = input.permute(0, *range(2, input.ndim), 1)
    return input.reshape(math.prod(expected), classes), target.reshape(-1)


def check_class_weight(weight: Tensor | None, classes: int) -> None:
    """Raise unless there is one weight for each class.

    Raises:
        RuntimeError: ``weight`` has another shape than (C,).
    """
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"class weights for {classes} classes have shape ({classes},), not {weight.shape}")


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−w[y] · input[y], reduced: log-probabilities (C,), (N, C) or (N, C, d₁, …) against class indices.

    Args:
        input: log-probabilities.
        target: class indices y, of that shape without C.
        weight: w (C,); None for 1.
        ignore_index: targets of this value count neither in the sum nor in the mean.
        reduction: "mean", "sum" or "none".

    The mean divides by the sum of the w[y] that count.  If all targets are ignored, the loss is 0 (in
    PyTorch, the mean is then NaN).

    Raises:
        IndexError: a target is neither a class nor ``ignore_index``.
        ValueError, RuntimeError: the shapes don't fit, or ``reduction`` is unknown.
    """
    return _weighted_nll(input, target, weight, ignore_index, reduction, 0.0)


def _weighted_nll(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """−Σ_c q_c w_c input_c, with q = 1 − ε on the target and ε / C spread over all C classes."""
    check_reduction(reduction)
    rows, flat = rows_of_classes(input, target, ignore_index)
    classes = rows.shape[1]
    check_class_weight(weight, classes)
    ignored = flat._data == ignore_index
    at = np.where(ignored, 0, flat._data)
    loss = -rows[np.arange(len(at)), at]
    weights = Tensor(np.ones(len(at), rows.dtype)) if weight is None else weight[at]
    if weight is not None:
        loss = loss * weights
    if label_smoothing:
        spread = -(rows if weight is None else rows * weight).mean(-1)
        loss = (1 - label_smoothing) * loss + label_smoothing * spread
    loss = loss.masked_fill(Tensor(ignored), 0)
    if reduction == "none":
        return loss.reshape(target.shape)
    if reduction == "sum":
        return loss.sum()
    total = weights.masked_fill(Tensor(ignored), 0).sum()
    return loss.sum() / total.masked_fill(total == 0, 1)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """−Σ_c q_c w_c ln softmax(input)_c, reduced: how surprised the prediction is by the target, in nats.

    >>> import minigrad as mg
    >>> cross_entropy(mg.zeros(3, 10), mg.tensor([1, 2, 3]))  # a uniform guess: ln 10
    tensor(2.3025851)

    Args:
        input: logits (C,), (N, C) or (N, C, d₁, …).
        target: class indices of that shape without C; or probabilities of the same shape, floating.
        weight: w, one for each class; with class indices the mean divides by the sum of w[target].
        ignore_index: targets of this value count neither in the sum nor in the mean.
        reduction: "mean", "sum" or "none".
        label_smoothing: ε in q = (1 − ε) · target + ε / C (Szegedy et al. 2016, arXiv:1512.00567, section 7).

    If all targets are ignored, the loss is 0 and so is its gradient (in PyTorch, the mean is then NaN).

    Raises:
        IndexError: a target is neither a class nor ``ignore_index``.
        ValueError, RuntimeError: the shapes don't fit, or an option is out of range.
    """
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing lies between 0 and 1, not {label_smoothing}")
    if target.dtype.kind == "f" and target.shape == input.shape:
        return _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing)
    if weight is not None:
        log_p = log_softmax(input, 1 if input.ndim > 1 else 0)
        return _weighted_nll(log_p, target, weight, ignore_index, reduction, label_smoothing)
    check_reduction(reduction)
    rows, flat = rows_of_classes(input, target, ignore_index)
    loss = _cross_entropy(rows, flat, ignore_index, reduction, label_smoothing)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _cross_entropy_of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """The cross-entropy of two distributions; the mean is over everything but the classes."""
    check_reduction(reduction)
    if not input.ndim:
        raise ValueError("logits need at least one dimension, (C,)")
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    check_class_weight(weight, classes)
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    terms = log_softmax(input, dim) * target
    if weight is not None:
        terms = terms * weight.reshape(classes, *(1,) * (input.ndim - dim - 1))
    return reduce_loss(-terms.sum(dim), reduction)
