"""Losses as functions, which :mod:`minigrad.nn.functional` has among its own; ``loss.py`` has them as modules.

N is a batch size, C a number of classes.  All take ``reduction="mean"``, ``"sum"`` or ``"none"``.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from minigrad.kernels.cross_entropy import _cross_entropy
from minigrad.kernels.softmax import log_softmax
from minigrad.rules.elementwise import Elementwise
from minigrad.rules.piecewise import where
from minigrad.tensor import Tensor


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


def check_same_shape(input: Tensor, target: Tensor) -> None:
    """Raise for a target of another shape.

    Raises:
        ValueError: the shapes differ.
    """
    if input.shape != target.shape:
        raise ValueError(f"the target has shape {target.shape}, the input {input.shape}: they must agree")


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
    loss: Tensor = where(distance < beta, distance.square() * (0.5 / beta), distance - 0.5 * beta)
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
        loss = where(nothing, 0, target * (target.masked_fill(nothing, 1).log() - input))
    return loss.sum() / input.shape[0] if reduction == "batchmean" else reduce_loss(loss, reduction)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """−[y ln p + (1 − y) ln(1 − p)], reduced: probabilities p against y, of one shape; no logarithm below −100.

    ``weight`` multiplies each element's loss; it broadcasts.

    Raises:
        ValueError: the shapes differ, or ``reduction`` is unknown.
    """
    check_same_shape(input, target)
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
    check_same_shape(input, target)
    # 1 − σ(x) = σ(−x), and ln σ(−x) = ln σ(x) − x: one softplus serves both terms.
    positive = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input + positive * Elementwise.softplus(-input)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def dim_of_classes(input: Tensor) -> int:
    """Return which dimension has the classes: 0 of (C,), 1 of (N, C, …).

    Raises:
        ValueError: there is no dimension.
    """
    if not input.ndim:
        raise ValueError("scores of classes need at least one dimension, (C,)")
    return 0 if input.ndim == 1 else 1


def rows_of_classes(input: Tensor, target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Bring scores (C,), (N, C) or (N, C, d₁, …) and class indices to (n, C) and (n,), checked.

    Raises:
        ValueError, RuntimeError: the shapes don't fit (of which type, as PyTorch).
        IndexError: a target is neither a class nor ``ignore_index``.
    """
    dim = dim_of_classes(input)
    if target.dtype.kind not in "iu":
        raise RuntimeError(
            f"the target holds class indices (integers) or probabilities of the input's shape {input.shape}, "
            f"not {target.dtype} of shape {target.shape}"
        )
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
    return weighted_nll(input, target, weight, ignore_index, reduction, 0.0)


def weighted_nll(
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
        return cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing)
    if weight is not None:
        log_p = log_softmax(input, dim_of_classes(input))
        return weighted_nll(log_p, target, weight, ignore_index, reduction, label_smoothing)
    check_reduction(reduction)
    rows, flat = rows_of_classes(input, target, ignore_index)
    loss = _cross_entropy(rows, flat, ignore_index, reduction, label_smoothing)
    return loss.reshape(target.shape) if reduction == "none" else loss


def cross_entropy_of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """The cross-entropy of two distributions; the mean is over everything but the classes."""
    check_reduction(reduction)
    dim = dim_of_classes(input)
    classes = input.shape[dim]
    check_class_weight(weight, classes)
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    terms = log_softmax(input, dim) * target
    if weight is not None:
        terms = terms * weight.reshape(classes, *(1,) * (input.ndim - dim - 1))
    return reduce_loss(-terms.sum(dim), reduction)
