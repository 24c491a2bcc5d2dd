"""What all optimizers share: groups of parameters with their options, and a state that can be saved."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from minigrad.grad_mode import enable_grad, no_grad
from minigrad.nn.parameter import clear_gradients
from minigrad.tensor import Tensor

Array = np.ndarray[Any, Any]


class Optimizer:
    """The base of the optimizers: subclasses say in :meth:`update` how one parameter changes.

    ``param_groups`` is a list of dicts, each with its "params" and options such as "lr", which may be changed
    between steps.  ``state`` maps each parameter to what the optimizer remembers of it.

    Args:
        params: an iterable of tensors, or of dicts with "params" and options of their own.
        defaults: the options of groups that don't give their own.

    Raises:
        ValueError: there are no parameters, one is in two groups or no leaf, or an option is out of range.
        TypeError: something else than tensors is given.
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("an optimizer takes a list of parameters, not one Tensor: write [x]")
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[dict[str, Any]] = []
        self._scratch: dict[tuple[np.dtype[Any], int], Array] = {}
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("an optimizer needs at least one parameter, but the list is empty")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own: ``{"params": [...], "lr": 1e-4}``.

        Raises:
            ValueError: a parameter is in another group already, or no leaf, or an option is out of range.
            TypeError: something else than tensors is given.
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f'a parameter group is a dict with "params", not {param_group!r:.60}')
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("parameters need an order, which a set has not: pass a list")
        listed = [params] if isinstance(params, Tensor) else list(params)
        for parameter in listed:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"an optimizer takes Tensors, not {type(parameter).__name__}")
            if not parameter.is_leaf:
                raise ValueError(
                    f"a tensor of shape {parameter.shape} that was computed from others can't be optimized: "
                    "pass the leaves, or x.detach().requires_grad_()"
                )
        if len({id(parameter) for parameter in listed}) < len(listed):
            warnings.warn(
                "a parameter is twice in one group and will be stepped twice: pass each once", stacklevel=3
            )
        known = {id(parameter) for group in self.param_groups for parameter in group["params"]}
        if any(id(parameter) in known for parameter in listed):
            raise ValueError("a parameter is in more than one group: pass each once")
        group = {**self.defaults, **param_group, "params": listed}
        self.check_options(group)
        self.param_groups.append(group)

    def check_options(self, group: dict[str, Any]) -> None:
        """Raise for options that are out of range; called with every group.

        Raises:
            ValueError: names the option and its value.
        """

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or overwrite them by zeros."""
        clear_gradients((parameter for group in self.param_groups for parameter in group["params"]), set_to_none)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, in its own memory.

        Args:
            closure: computes the loss anew, with its gradients; called first.

        Returns:
            What ``closure`` returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with np.errstate(all="ignore"):  # a gradient that overflowed shows as inf or NaN, not as a warning
            for k, group in enumerate(self.param_groups):
                parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
                self.update_group(k, parameters)
                for parameter in parameters:
                    parameter._version[0] += 1
        return loss

    def update_group(self, k: int, parameters: list[Tensor]) -> None:
        """Call :meth:`update` for each of the parameters of group ``k`` that have a gradient."""
        for parameter in parameters:
            assert parameter.grad is not None
            state = self.state.setdefault(parameter, {})
            self.update(parameter._data, parameter.grad._data, state, self.param_groups[k])

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Overwrite the array of one parameter by its next value.

        Args:
            x: the parameter's array.
            gradient: its gradient, of the same shape, which stays as it is.
            state: what the optimizer remembers of the parameter, empty at first; changed in place.
            group: the options.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def scratch(self, like: Array, number: int = 0) -> Array:
        """Return an array like ``like`` to compute in, of any values: the same memory for all parameters.

        Another ``number`` is other memory.
        """
        key = (like.dtype, number)
        if key not in self._scratch or self._scratch[key].size < like.size:
            self._scratch[key] = np.empty(like.size, like.dtype)
        return self._scratch[key][: like.size].reshape(like.shape)

    def gradient_with_decay(self, x: Array, gradient: Array, decay: float, maximize: bool) -> Array:
        """Return the gradient of the loss (or minus it, to maximize) with ``decay`` · x added."""
        if maximize:
            gradient = np.negative(gradient, out=self.scratch(x, 1))
        if decay:
            pull = np.multiply(x, float(decay), out=self.scratch(x))
            gradient = np.add(gradient, pull, out=self.scratch(x, 1))
        return gradient

    # --- state ------------------------------------------------------------------------------------

    def _numbered(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the parameters with their numbers in the state."""
        return enumerate(parameter for group in self.param_groups for parameter in group["params"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, numbers in place of the parameters, for :func:`minigrad.save`.

        The tensors in it are the optimizer's own, not copies.
        """
        numbers = {id(parameter): number for number, parameter in self._numbered()}
        return {
            "state": {
                number: dict(self.state[parameter])
                for number, parameter in self._numbered()
                if self.state.get(parameter)
            },
            "param_groups": [
                {**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
                for group in self.param_groups
            ],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state, copied: the next step is exactly the one that would have followed there.

        If the state doesn't fit, nothing is changed.

        Raises:
            ValueError: it is no such state, belongs to other groups or parameters (sizes or shapes differ), or has
                an option that is out of range.
        """
        check_state(state_dict, len(self.param_groups))
        saved = state_dict["param_groups"]
        parameters: dict[Any, Tensor] = {}
        for k, (there, here) in enumerate(zip(saved, self.param_groups, strict=True)):
            if len(there["params"]) != len(here["params"]):
                raise ValueError(
                    f"group {k} has {len(there['params'])} parameters in the state, not {len(here['params'])}"
                )
            parameters.update(zip(there["params"], here["params"], strict=True))
        state: dict[Tensor, dict[str, Any]] = {}
        for number, values in state_dict["state"].items():
            if number not in parameters:
                raise ValueError(f"the state remembers something of a parameter {number!r} that is in no group")
            state[parameters[number]] = {
                name: restored(value, parameters[number], name) for name, value in values.items()
            }
        groups = []
        for there, here in zip(saved, self.param_groups, strict=True):
            options = {name: copy.deepcopy(value) for name, value in there.items() if name != "params"}
            groups.append({**self.defaults, **options, "params": here["params"]})
            self.check_options(groups[-1])
        self.state, self.param_groups = state, groups

    def __repr__(self) -> str:
        lines = []
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def check_state(state_dict: Any, n_groups: int) -> None:
    """Raise for what is no state of an optimizer with so many groups.

    Raises:
        ValueError: it lacks "state" or "param_groups", or has another number of groups.
    """
    if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
        raise ValueError('an optimizer state has "state" and "param_groups": pass what state_dict() returned')
    saved = state_dict["param_groups"]
    if len(saved) != n_groups:
        raise ValueError(f"the state has {len(saved)} parameter groups, the optimizer {n_groups}")


def restored(value: Any, parameter: Tensor, name: str) -> Any:
    """Return a copy of one saved value; tensors in the dtype of their parameter.

    Raises:
        ValueError: the tensor has another shape than the parameter.
    """
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if name == "step":
        return value.item()  # PyTorch keeps the number of steps as a tensor
    if value.shape != parameter.shape:
        raise ValueError(
            f"the state has '{name}' of shape {value.shape} for a parameter of shape {parameter.shape}"
        )
    return Tensor(np.array(value._data, parameter.dtype))


def check_not_negative(group: Mapping[str, Any], *names: str) -> None:
    """Raise for an option below 0 (or NaN).

    Raises:
        ValueError: names the option and its value.
    """
    for name in names:
        if not group[name] >= 0:
            raise ValueError(f"{name} must be at least 0, not {group[name]}")
