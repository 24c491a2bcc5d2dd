"""Losses as modules: the options fixed beforehand, then called with ``(input, target)``."""

from __future__ import annotations

from minigrad.nn import functional as F
from minigrad.nn.loss_functions import check_reduction
from minigrad.nn.module import Module
from minigrad.tensor import Tensor


class _Loss(Module):
    """A loss with a ``reduction``: "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction(reduction)
        self.reduction = reduction


class MSELoss(_Loss):
    """(x − y)², reduced: :func:`minigrad.nn.functional.mse_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape to the loss."""
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """|x − y|, reduced: :func:`minigrad.nn.functional.l1_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape to the loss."""
        return F.l1_loss(input, target, self.reduction)


class CrossEntropyLoss(_Loss):
    """Cross-entropy of logits against classes: :func:`minigrad.nn.functional.cross_entropy`.

    Args:
        weight: one for each class; a buffer, so it is saved with the module.
        ignore_index, label_smoothing: as of the function.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits (N, C, …), class indices (N, …) or probabilities (N, C, …), to the loss."""
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """Negative log-likelihood of log-probabilities: :func:`minigrad.nn.functional.nll_loss`.

    Args:
        weight: one for each class; a buffer, so it is saved with the module.
        ignore_index: as of the function.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities (N, C, …), class indices (N, …), to the loss."""
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits: :func:`minigrad.nn.functional.binary_cross_entropy_with_logits`.

    Args:
        weight, pos_weight: as of the function; buffers, so they are saved with the module.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and probabilities, of one shape, to the loss."""
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities: :func:`minigrad.nn.functional.binary_cross_entropy`.

    Args:
        weight: as of the function; a buffer, so it is saved with the module.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape to the loss."""
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class KLDivLoss(Module):
    """Kullback–Leibler divergence of log-probabilities: :func:`minigrad.nn.functional.kl_div`.

    Args:
        reduction: "mean", "batchmean", "sum" or "none".
        log_target: whether the target is logarithms too.

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__()
        if reduction != "batchmean":
            check_reduction(reduction)
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities and probabilities of one shape to the loss."""
        return F.kl_div(input, target, self.reduction, self.log_target)


class SmoothL1Loss(_Loss):
    """Squares near 0 and distances beyond: :func:`minigrad.nn.functional.smooth_l1_loss`.

    Args:
        reduction: "mean", "sum" or "none".
        beta: where the one becomes the other.

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape to the loss."""
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)
