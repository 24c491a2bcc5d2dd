"""Several optimizers as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minigrad.grad_mode import enable_grad
from minigrad.optim.optimizer import Optimizer, check_state


class Several(Optimizer):
    """Optimizers that each step parameters of their own, used as one: with one schedule, one state, one step.

    >>> import minigrad as mg
    >>> weight, bias = mg.zeros(2, 2).requires_grad_(), mg.zeros(2).requires_grad_()
    >>> optimizer = mg.optim.Several(mg.optim.Muon([weight]), mg.optim.SGD([bias], lr=0.5))
    >>> (weight @ mg.ones(2) + bias).sum().backward()
    >>> optimizer.step()
    >>> bias.detach()
    tensor([-0.5, -0.5])

    Its groups are those of all, in order.

    Raises:
        ValueError: there is none, or a parameter is in two of them.
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise ValueError("Several needs at least one optimizer")
        parameters = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        if len({id(parameter) for parameter in parameters}) < len(parameters):
            raise ValueError("a parameter is in more than one optimizer: give it to one")
        self.optimizers = optimizers
        self.defaults = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of all optimizers: the dicts themselves, which may be changed."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def state(self) -> dict[Any, dict[str, Any]]:  # type: ignore[override]
        """What all optimizers remember of their parameters."""
        return {p: values for optimizer in self.optimizers for p, values in optimizer.state.items()}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse: which of the optimizers would be meant?

        Raises:
            TypeError: always.
        """
        raise TypeError("add the group to one of the optimizers, not to Several")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step all, in order; ``closure`` is called once, before."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state, copied; if a part of it doesn't fit, nothing is changed.

        Raises:
            ValueError: it is no such state, or belongs to other groups or parameters: sizes or shapes differ.
        """
        check_state(state_dict, len(self.param_groups))
        states, groups = dict(state_dict["state"]), list(state_dict["param_groups"])
        before = [(optimizer.state, optimizer.param_groups) for optimizer in self.optimizers]
        try:
            for optimizer in self.optimizers:
                own = [groups.pop(0) for _ in optimizer.param_groups]
                numbers = [number for group in own for number in group["params"] if number in states]
                of_own = {number: states.pop(number) for number in numbers}
                if not groups:
                    of_own |= states  # what belongs to none: the last one complains of it
                optimizer.load_state_dict({"state": of_own, "param_groups": own})
        except ValueError:
            for optimizer, (state, known) in zip(self.optimizers, before, strict=True):
                optimizer.state, optimizer.param_groups = state, known
            raise
