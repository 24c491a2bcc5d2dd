"""Modules that hold modules: in a chain, in a list, in a dict."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, overload

from minigrad.nn.module import Module, describe


class _Numbered(Module):
    """Submodules under the names "0", "1", …, indexed like a list."""

    def _position(self, index: int) -> str:
        n = len(self)
        index = operator.index(index)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range for {type(self).__name__} of {n} modules")
        return list(self._modules)[index]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._from_named(dict(list(self._modules.items())[index]))
        return self._modules[self._position(index)]

    def _from_named(self, modules: dict[str, Module | None]) -> Self:
        """Return a container of the same class with these modules."""
        return type(self)(list(modules.values()))  # type: ignore[call-arg]

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(self._position(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._position(index)]:
            del self._modules[name]
        # Keep the numbers without a gap; names of the user's own stay.
        kept = list(self._modules.items())
        if all(name.isdecimal() for name, _ in kept):
            self.__dict__["_modules"] = {str(i): module for i, (_, module) in enumerate(kept)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self


class Sequential(_Numbered):
    """A chain: each module is called on the result of the one before.

    >>> import minigrad as mg
    >>> model = mg.nn.Sequential(mg.nn.Linear(2, 3), mg.nn.ReLU())
    >>> model
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    >>> model(mg.zeros(5, 2)).shape
    (5, 3)

    Takes modules, or one dict from names to modules.
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, named in modules[0].items():
                self.register_module(name, named)
        else:
            for number, module in enumerate(modules):
                self.register_module(str(number), module)  # type: ignore[arg-type]

    def _from_named(self, modules: dict[str, Module | None]) -> Self:
        return type(self)(modules)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        """Call the modules one after another."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules that are registered, so that their parameters are found.

    >>> import minigrad as mg
    >>> mg.nn.ModuleList(mg.nn.Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def insert(self, index: int, module: Module) -> None:
        """Add a module before position ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)

    def __repr__(self) -> str:
        """Runs of modules that look alike are shown once, as in PyTorch."""
        runs: list[tuple[int, int, str]] = []  # first, last, text
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        return describe(
            self,
            "",
            [
                f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
                for first, last, text in runs
            ],
        )


class ModuleDict(Module):
    """A dict of modules that are registered, so that their parameters are found.

    >>> import minigrad as mg
    >>> choices = mg.nn.ModuleDict({"relu": mg.nn.ReLU(), "tanh": mg.nn.Tanh()})
    >>> choices["tanh"](mg.zeros(1))
    tensor([0.])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.register_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Any]:
        """Return the names with their modules."""
        return self._modules.items()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules."""
        for name, module in modules.items():
            self.register_module(name, module)
