"""Learning rates that change with the epoch (or step): ``scheduler.step()`` after ``optimizer.step()``.

Each schedule changes the rate that it finds, as PyTorch's do, so that several can act on one optimizer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from minigrad.optim.optimizer import Optimizer


class LRScheduler:
    """The base of the schedules: subclasses say in :meth:`get_lr` what the rates are at ``last_epoch``.

    Args:
        optimizer: whose groups' "lr" are set, from now on.
        last_epoch: −1 to start; otherwise the epoch to go on from, of an optimizer that was loaded.

    Raises:
        TypeError: ``optimizer`` is none.
        KeyError: ``last_epoch`` is not −1, but a group has no "initial_lr".
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule needs an Optimizer, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"group {k} has no 'initial_lr' to go on from at last_epoch {last_epoch}: "
                    "load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._resuming = True  # during the step below, which sets the rates of the first epoch
        self.step()
        self._resuming = False

    @property
    def rates(self) -> list[float]:
        """The rates that the optimizer has now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """Return the rates of ``last_epoch``, one for each group.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr
        self._last_lr = self.rates

    def get_last_lr(self) -> list[float]:
        """Return the rates that this schedule set last, one for each group."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer (whose own state holds the rates) and functions."""
        return {
            name: list(value) if isinstance(value, list) else value
            for name, value in self.__dict__.items()
            if name not in ("optimizer", "lr_lambdas", "_resuming")
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state.  Load that of the optimizer as well.

        Raises:
            ValueError: it is no such state: something is missing.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        if missing:
            raise ValueError(f"this is no state of {type(self).__name__}: it has no '{missing[0]}'")
        self.__dict__.update({name: copy.deepcopy(state_dict[name]) for name in own})


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch.

    >>> import minigrad as mg
    >>> optimizer = mg.optim.SGD([mg.ones(1, requires_grad=True)], lr=0.5)
    >>> warmup = mg.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    >>> for _ in range(4):
    ...     print(warmup.get_last_lr())
    ...     optimizer.step()
    ...     warmup.step()
    [0.125]
    [0.25]
    [0.375]
    [0.5]

    The function is not part of the state.

    Args:
        optimizer: whose rates are set.
        lr_lambda: the function, or one for each group.
        last_epoch: −1 to start.

    Raises:
        ValueError: there are not as many functions as groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"{len(self.lr_lambdas)} functions were given for {groups} parameter groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times ``gamma`` after every ``step_size`` epochs.

    Args:
        optimizer: whose rates are set.
        step_size: epochs between two changes.
        gamma: the factor.
        last_epoch: −1 to start.

    Raises:
        ValueError: ``step_size`` is below 1.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"step_size must be at least 1, not {step_size}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self.rates
        return [lr * self.gamma for lr in self.rates]


class LinearLR(LRScheduler):
    """The rate times a factor that goes straight from one to another: a warm-up, or a linear decay.

    Args:
        optimizer: whose rates are set.
        start_factor: the factor at epoch 0.
        end_factor: the factor at epoch ``total_iters`` and after.
        total_iters: how many epochs it takes.
        last_epoch: −1 to start.

    Raises:
        ValueError: ``start_factor`` is outside (0, 1], or ``end_factor`` outside [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"start_factor must be above 0 and at most 1, not {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"end_factor must be between 0 and 1, not {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """Return the factor at ``epoch``."""
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self.rates]
        if self._resuming or self.last_epoch > self.total_iters:
            return self.rates
        ratio = self.factor(self.last_epoch) / self.factor(self.last_epoch - 1)
        return [lr * ratio for lr in self.rates]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to ``eta_min`` in ``T_max`` epochs, and back up in as many.

    η(t) = η_min + (η_0 − η_min) (1 + cos(π t / T_max)) / 2 (Loshchilov and Hutter 2017, arXiv:1608.03983,
    equation 5, without restarts), computed from the rate before, so that other schedules may act too.

    Args:
        optimizer: whose rates are set.
        T_max: epochs from the highest rate to the lowest.
        eta_min: the lowest rate.
        last_epoch: −1 to start.

    Raises:
        ValueError: ``T_max`` is not positive.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max <= 0:
            raise ValueError(f"T_max must be above 0, not {T_max}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def shape(self, epoch: int) -> float:
        """Return 1 + cos(π · epoch / T_max)."""
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[float]:
        t, low = self.last_epoch, self.eta_min
        if t == 0:
            return self.rates
        if self._resuming:
            return [low + (base - low) * self.shape(t) / 2 for base in self.base_lrs]
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate before was η_min itself, of which nothing can be multiplied back up.
            return [
                lr + (base - low) * (2 - self.shape(1)) / 2
                for base, lr in zip(self.base_lrs, self.rates, strict=True)
            ]
        ratio = self.shape(t) / self.shape(t - 1)
        return [low + (lr - low) * ratio for lr in self.rates]
