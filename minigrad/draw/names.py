"""What the user calls things: tensors, arrays and modules, by their variables and their dotted names."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.graph import Parent
from minigrad.nn.module import Module
from minigrad.tensor import Tensor


class Names:
    """What the user calls tensors, arrays and modules.

    Args:
        given: names that the user passed on purpose, which go first.
        variables: the user's variables; those that begin with an underscore don't count.

    Attributes:
        places: the name of each node or leaf.
        arrays: the name of each array, by its id.
        buffers: the ids of the arrays that modules hold as buffers.
        modules: the name of each module, by its id.
        values: the value of each node or leaf of which the user has the tensor.
        tensors: that tensor.
    """

    def __init__(self, given: Mapping[str, Any] | Iterable[tuple[str, Any]], variables: Mapping[str, Any]) -> None:
        self.places: dict[Parent, str] = {}
        self.arrays: dict[int, str] = {}
        self.buffers: set[int] = set()
        self.modules: dict[int, str] = {}
        self.values: dict[Parent, np.ndarray[Any, Any]] = {}
        self.tensors: dict[Parent, Any] = {}
        for name, value in dict(given).items():
            self.add(name, value)
        for name, value in variables.items():
            if not name.startswith("_"):
                self.add(name, value)

    def add(self, name: str, value: Any) -> None:
        """Remember a name, unless what it stands for has one."""
        if isinstance(value, Tensor):
            place = value.grad_fn or value
            self.places.setdefault(place, name)
            self.arrays.setdefault(id(value._data), name)
            self.values.setdefault(place, value._data)
            self.tensors.setdefault(place, value)
        elif isinstance(value, np.ndarray):
            self.arrays.setdefault(id(value), name)
        elif isinstance(value, Module):
            self.modules.setdefault(id(value), name)

    def add_modules(self, tops: Sequence[Module]) -> dict[int, str]:
        """Name the parameters of the modules called, and return the path of each module below them."""
        paths: dict[int, str] = {}
        for k, top in enumerate(tops):
            prefix = ""
            if len(tops) > 1:
                prefix = self.modules.get(id(top), f"{type(top).__name__.lower()}{k}")
            for path, module in top.named_modules(prefix=prefix):
                paths.setdefault(id(module), path)
            for name, parameter in top.named_parameters(prefix=prefix):
                self.add(name, parameter)
            for name, buffer in top.named_buffers(prefix=prefix):
                self.add(name, buffer)
                self.buffers.add(id(buffer._data))
        return paths


def variables_of(frame: types.FrameType | None) -> dict[str, Any]:
    """Return the variables that a frame sees, its own before those of its module."""
    if frame is None:
        return {}
    return {**frame.f_globals, **frame.f_locals}
