"""The tree of a model: parameters, buffers and submodules, noticed when assigned and found by dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from minigrad.nn.parameter import Parameter
from minigrad.tensor import Tensor

if TYPE_CHECKING:
    from minigrad.nn.module import Module

MEMBERS = {
    "_parameters": ("parameter", "Parameter"),
    "_modules": ("module", "Module"),
    "_buffers": ("buffer", "Tensor"),
}
"""Where a module keeps its members; what one is called in messages, and its class."""


class ModuleTree:
    """What a :class:`minigrad.nn.Module` holds, and how it is walked through."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient_buffers: set[str]

    def __init__(self) -> None:
        # Past our own __setattr__, which needs these to exist already.
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, _transient_buffers=set())

    # --- assignment -------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
            return
        if isinstance(value, ModuleTree):
            self._forget(name, but="_modules")
            self.register_module(name, value)  # type: ignore[arg-type]
            return
        kind = self._kind_of(name)
        if kind is None:
            object.__setattr__(self, name, value)
        elif value is None or (kind == "_buffers" and isinstance(value, Tensor)):
            self.__dict__[kind][name] = value
        else:
            what, takes = MEMBERS[kind]
            raise TypeError(f"cannot assign {type(value).__name__} as {what} '{name}': it takes a {takes} or None")

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not an ordinary attribute; but with every use of a weight, so in few steps.
        for kind in MEMBERS:
            registered = self.__dict__.get(kind)
            if registered is not None and name in registered:
                return registered[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        kind = self._kind_of(name)
        if kind is None:
            object.__delattr__(self, name)
        else:
            del self.__dict__[kind][name]
            self._transient_buffers.discard(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._modules, *self._buffers})

    def _kind_of(self, name: str) -> str | None:
        """Return in which of the dicts ``name`` is registered, if it is."""
        return next((kind for kind in MEMBERS if name in self.__dict__.get(kind, ())), None)

    def _forget(self, name: str, but: str) -> None:
        """Take ``name`` from wherever it was registered, before it is registered as something else."""
        if but not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} must call super().__init__() before '{name}' is assigned")
        self.__dict__.pop(name, None)
        for kind in MEMBERS:
            if kind != but:
                self.__dict__[kind].pop(name, None)
        self._transient_buffers.discard(name)

    # --- registration -----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; None keeps the name free for one.

        Raises:
            KeyError: the name is empty, has a dot, or is taken by something else.
            TypeError: ``param`` is no Parameter.
        """
        self._check_member("_parameters", name, param, Parameter)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module but isn't trained; ``persistent`` ones are in the state.

        Raises:
            KeyError: the name is empty, has a dot, or is taken by something else.
            TypeError: ``tensor`` is no Tensor.
        """
        self._check_member("_buffers", name, tensor, Tensor)
        self._buffers[name] = tensor
        if persistent:
            self._transient_buffers.discard(name)
        else:
            self._transient_buffers.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under ``name``: what assignment does.

        Raises:
            KeyError: the name is empty, has a dot, or is taken by something else.
            TypeError: ``module`` is no Module.
        """
        self._check_member("_modules", name, module, ModuleTree)
        self._modules[name] = module

    def add_module(self, name: str, module: Module | None) -> None:
        """The same as :meth:`register_module`."""
        self.register_module(name, module)

    def _check_member(self, kind: str, name: str, member: Any, wanted: type) -> None:
        """Raise unless ``member`` may be registered under ``name`` in the dict called ``kind``."""
        what, takes = MEMBERS[kind]
        if not isinstance(name, str):
            raise TypeError(f"the name of a {what} is a string, not {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"the name of a {what} can't be empty or contain a dot: {name!r}")
        if name not in getattr(self, kind) and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute '{name}'")
        if member is not None and not isinstance(member, wanted):
            raise TypeError(f"'{name}' takes a {takes} or None, not {type(member).__name__}")

    # --- traversal --------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield the module itself and all below it, with dotted names.

        Args:
            memo: modules that count as yielded already, and to which those yielded are added.
            prefix: what the names begin with.
            remove_duplicate: whether a module used twice is yielded once, under its first name.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, join(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yield the module itself and everything below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly below, with their names."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        """Yield the entries of the dict called ``kind`` of each module, with dotted names."""
        seen: set[int] = set()
        modules: Iterable[tuple[str, ModuleTree]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in module.__dict__[kind].items():
                if member is not None and id(member) not in seen:
                    if remove_duplicate:
                        seen.add(id(member))
                    yield join(path, name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with dotted names.

        Args:
            prefix: what the names begin with.
            recurse: whether those of the modules below are yielded too.
            remove_duplicate: whether one used in two places is yielded once, under its first name.
        """
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once: what an optimizer takes.

        Args:
            recurse: whether those of the modules below are yielded too.
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with dotted names: arguments as of :meth:`named_parameters`."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once: ``recurse`` as of :meth:`parameters`."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer


def join(prefix: str, name: str) -> str:
    """Return ``prefix.name``, or the name alone at the top."""
    return f"{prefix}.{name}" if prefix else name
