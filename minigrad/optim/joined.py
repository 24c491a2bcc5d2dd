"""Many small parameters updated as one vector: a step of Adam costs a dozen calls for each array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.optim.optimizer import Optimizer
from minigrad.tensor import Tensor

LARGEST_JOINED = 8192  # elements: up to here the calls cost more than copying the parameter and its gradient


class JoiningOptimizer(Optimizer):
    """An optimizer whose ``update`` treats each element by itself, so that the small parameters can be joined."""

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], defaults: dict[str, Any]) -> None:
        self._joined: dict[int, Joined] = {}  # for each group its small parameters as one vector
        super().__init__(params, defaults)

    def update_group(self, k: int, parameters: list[Tensor]) -> None:
        """Update the small parameters of group ``k`` as one vector, the others one by one."""
        dtype = parameters[0].dtype if parameters else None
        small: list[Tensor] = []
        others: list[Tensor] = []
        for p in parameters:
            assert p.grad is not None
            fits = p._data.size <= LARGEST_JOINED and p.dtype == p.grad.dtype == dtype
            (small if fits else others).append(p)
        joined = self.join(k, small)
        if joined is None:
            super().update_group(k, parameters)
            return
        joined.gather()
        self.update(joined.x, joined.gradient, joined.state, self.param_groups[k])
        joined.scatter()
        super().update_group(k, others)

    def join(self, k: int, small: list[Tensor]) -> Joined | None:
        """Return the small parameters of group ``k`` as one vector; None where they have to be updated one by one.

        So they are at first, which makes their state, and while one has taken fewer steps than another.
        """
        states = [self.state.get(p, {}) for p in small]
        if len(small) < 2 or not all(states):
            return None
        joined = self._joined.get(k)
        if joined is None or not joined.is_current(small, states):
            if any(numbers_of(state) != numbers_of(states[0]) for state in states):
                return None
            joined = self._joined[k] = Joined(small, states)
        return joined


class Joined:
    """Small parameters of one dtype side by side in one vector, and their state likewise.

    Each parameter's own state stays where it was found, as a view of the joint one.

    Args:
        parameters: what is joined.
        states: for each its state: tensors of its shape, and numbers, which are the same for all.
    """

    def __init__(self, parameters: Sequence[Tensor], states: Sequence[dict[str, Any]]) -> None:
        self.parameters = parameters
        self.states = states
        sizes = [math.prod(parameter.shape) for parameter in parameters]
        ends = np.cumsum(sizes).tolist()
        self.places = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self.x, self.gradient = np.empty((2, ends[-1]), parameters[0].dtype)
        self.state: dict[str, Any] = {}
        for name, value in states[0].items():
            if isinstance(value, Tensor):
                whole = np.concatenate([state[name]._data.ravel() for state in states])
                self.state[name] = Tensor(whole)
                for parameter, state, place in zip(parameters, states, self.places, strict=True):
                    state[name] = Tensor(whole[place].reshape(parameter.shape))
            else:
                self.state[name] = value

    def is_current(self, parameters: Sequence[Tensor], states: Sequence[dict[str, Any]]) -> bool:
        """Return whether these are the parameters, and their state is still what was joined here."""
        return (
            len(parameters) == len(self.parameters)
            and all(a is b for a, b in zip(parameters, self.parameters, strict=True))
            and all(a is b for a, b in zip(states, self.states, strict=True))
            and all(
                state[name]._data.base is value._data if isinstance(value, Tensor) else state[name] == value
                for name, value in self.state.items()
                for state in states
            )
        )

    def gather(self) -> None:
        """Copy the parameters and their gradients into the vectors."""
        np.concatenate([parameter._data.ravel() for parameter in self.parameters], out=self.x)
        gradients = [parameter.grad for parameter in self.parameters]
        np.concatenate([g._data.ravel() for g in gradients if g is not None], out=self.gradient)

    def scatter(self) -> None:
        """Copy the vector back into the parameters, and the numbers of the state to each."""
        for parameter, place in zip(self.parameters, self.places, strict=True):
            parameter._data[...] = self.x[place].reshape(parameter.shape)
        numbers = numbers_of(self.state)
        for state in self.states:
            state.update(numbers)


def numbers_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a parameter's state is no tensor."""
    return {name: value for name, value in state.items() if not isinstance(value, Tensor)}
