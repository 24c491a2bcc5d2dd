"""Parameter: a tensor that is trained."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.arguments import as_array
from minigrad.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a :class:`minigrad.nn.Module` notices when it is assigned: a leaf that requires its gradient.

    >>> import minigrad as mg
    >>> w = mg.nn.Parameter(mg.ones(2))
    >>> w
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> type(w * 2).__name__
    'Tensor'

    Unlike Tensor it takes attributes of your own.

    Args:
        data: a tensor or array, whose memory it shares.
        requires_grad: False freezes it.

    Raises:
        TypeError: ``data`` is no tensor.
        RuntimeError: ``requires_grad`` with a dtype that is not floating.
    """

    def __init__(self, data: Tensor | np.ndarray[Any, Any], requires_grad: bool = True) -> None:
        if not isinstance(data, Tensor | np.ndarray):
            raise TypeError(
                f"a Parameter is made from a tensor, not {type(data).__name__}: Parameter(mg.tensor(...))"
            )
        super().__init__(as_array(data), version=data._version if isinstance(data, Tensor) else None)
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return f"Parameter containing:\n{Tensor(self._data, requires_grad=self._requires_grad)!r}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        twin = super().__deepcopy__(memo)
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin


def clear_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Set the gradients to None, or overwrite them by zeros."""
    for parameter in parameters:
        if set_to_none or parameter.grad is None:
            parameter.grad = None
        else:
            parameter.grad = parameter.grad.detach()
            parameter.grad.zero_()
