"""Module: finds parameters, buffers and submodules as they are assigned, under PyTorch's names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from minigrad import dtypes
from minigrad.grad_mode import no_grad
from minigrad.graph import Node, TensorBase
from minigrad.nn.parameter import Parameter, clear_gradients
from minigrad.nn.summary import Summary
from minigrad.tensor import HookHandle, Tensor


class IncompatibleKeys(NamedTuple):
    """What :meth:`Module.load_state_dict` returns: the names that the state lacked, and its unknown ones."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Call(NamedTuple):
    """A call of a module: its result depends on nodes from number ``first`` on that were made in the call."""

    module: weakref.ref[Any]  # a module may hold its own results, and the graph is to be free of cycles
    first: int


def note_call(module: object, first: int, result: object) -> None:
    """Note on what ``module`` returned (a tensor, or tensors in a tuple, list or dict) that it did."""
    if isinstance(result, TensorBase):
        node = result._node
        if node is not None and node.number > first:
            node.calls = (*node.calls, Call(weakref.ref(module), first))
    elif isinstance(result, tuple | list):
        for part in result:
            note_call(module, first, part)
    elif isinstance(result, dict):
        for part in result.values():
            note_call(module, first, part)


class Module:
    """The base of every layer and model: assign parameters and modules to it, and define ``forward``.

    >>> import minigrad as mg
    >>> class Line(mg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = mg.nn.Parameter(mg.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(mg.tensor([1.0, 2.0]))
    tensor([2., 4.], grad_fn=<MulBackward0>)
    >>> [name for name, _ in line.named_parameters()]
    ['slope']

    A parameter assigned in two places is one parameter: it is counted, stepped and saved as one.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient_buffers: set[str]
    _forward_hooks: list[Callable[..., Any]]

    def __init__(self) -> None:
        # Past our own __setattr__, which needs these to exist already.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _modules={},
            _transient_buffers=set(),
            _forward_hooks=[],
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; to be defined by each module.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = next(Node.count)
        result = self.forward(*args, **kwargs)
        note_call(self, first, result)
        for hook in list(self._forward_hooks):
            replaced = hook(self, args, result)
            if replaced is not None:
                result = replaced
        return result

    def register_forward_hook(self, hook: Callable[[Any, Any, Any], Any]) -> HookHandle:
        """Have ``hook(module, args, output)`` called after forward; what it returns replaces the output, None not.

        Returns:
            A handle, whose ``remove()`` takes the hook away.
        """
        self._forward_hooks.append(hook)
        return HookHandle(self._forward_hooks, hook)  # type: ignore[arg-type]

    # --- registration -----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, but="_modules")
            self.register_module(name, value)
        else:
            for kind, allowed in (("_parameters", ()), ("_modules", ()), ("_buffers", (Tensor,))):
                registered = self.__dict__.get(kind, ())
                if name in registered:
                    if value is not None and not isinstance(value, allowed):
                        what = kind[1:-1]
                        raise TypeError(
                            f"cannot assign {type(value).__name__} as {what} '{name}': it takes "
                            f"{'a Tensor' if allowed else f'a {what.capitalize()}'} or None"
                        )
                    registered[name] = value
                    return
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not an ordinary attribute.
        for kind in ("_parameters", "_modules", "_buffers"):
            registered = self.__dict__.get(kind)
            if registered is not None and name in registered:
                return registered[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._transient_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._modules, *self._buffers})

    def _forget(self, name: str, but: str) -> None:
        """Take ``name`` from wherever it was registered, before it is registered as something else."""
        if but not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} must call super().__init__() before '{name}' is assigned")
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_modules", "_buffers"):
            if kind != but:
                self.__dict__[kind].pop(name, None)
        self._transient_buffers.discard(name)

    def _check_name(self, name: str, registered: Mapping[str, Any], what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a {what} is a string, not {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(f"the name of a {what} can't be empty or contain a dot: {name!r}")
        if name not in registered and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute '{name}'")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; None keeps the name free for one.

        Raises:
            KeyError: the name is empty, has a dot, or is taken by something else.
            TypeError: ``param`` is no Parameter.
        """
        self._check_name(name, self._parameters, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"'{name}' needs a Parameter or None, not {type(param).__name__}")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module but isn't trained; ``persistent`` ones are in the state.

        Raises:
            KeyError: the name is empty, has a dot, or is taken by something else.
            TypeError: ``tensor`` is no Tensor.
        """
        self._check_name(name, self._buffers, "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"'{name}' needs a Tensor or None, not {type(tensor).__name__}")
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
        self._check_name(name, self._modules, "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"'{name}' needs a Module or None, not {type(module).__name__}")
        self._modules[name] = module

    def add_module(self, name: str, module: Module | None) -> None:
        """The same as :meth:`register_module`."""
        self.register_module(name, module)

    # --- traversal --------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
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
        yield prefix, self
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
        modules: Iterable[tuple[str, Module]] = [(prefix, self)]
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
        """Yield the buffers with dotted names.

        Args:
            prefix: what the names begin with.
            recurse: whether those of the modules below are yielded too.
            remove_duplicate: whether one used in two places is yielded once, under its first name.
        """
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once.

        Args:
            recurse: whether those of the modules below are yielded too.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # --- what applies to all of them --------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every module below and then on this one: for initialisation."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch to training (dropout drops) or, with False, to evaluation.

        Raises:
            ValueError: ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train() takes True or False, not {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch to evaluation: the same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have all parameters require their gradient, or not (frozen)."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or overwrite them by zeros."""
        clear_gradients(self.parameters(), set_to_none)

    def to(self, *args: Any, dtype: Any = None, device: Any = None) -> Self:
        """Bring all floating parameters and buffers to a dtype, in place: ``model.to(mg.float64)``.

        Args:
            args: a dtype, a device, or a tensor whose dtype is meant.
            dtype: the same by name.
            device: the same by name; None or "cpu".

        Raises:
            RuntimeError: a device other than "cpu" is named.
            TypeError: the dtype is not floating.
        """
        for tensor in [*self.parameters(), *self.buffers()]:
            if tensor.is_floating_point():
                with no_grad():
                    converted = tensor.detach().to(*args, dtype=dtype, device=device)
                if converted.dtype.kind != "f":
                    raise TypeError(f"a module takes a floating dtype, not {converted.dtype}")
                # The tensor stays the same object: optimizers and ties keep referring to it.
                tensor.data = converted
                if tensor.grad is not None:
                    tensor.grad = tensor.grad.detach().to(converted.dtype)
        return self

    def float(self) -> Self:
        """Bring all floating parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Self:
        """Bring all floating parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Self:
        """Bring all floating parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def cpu(self) -> Self:
        """Return the module: it is always on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Refuse: there is no GPU here.

        Raises:
            RuntimeError: always.
        """
        return self.to("cuda")

    # --- state ------------------------------------------------------------------------------------

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield parameters and persistent buffers under every name that they have."""
        for path, module in self.named_modules(remove_duplicate=False):
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    yield join(path, name), parameter
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._transient_buffers:
                    yield join(path, name), buffer

    def state_dict(self, *, prefix: str = "") -> dict[str, Tensor]:
        """Return all parameters and persistent buffers by name: detached, but sharing memory with the module.

        A parameter that has two names is there under both.

        Args:
            prefix: what the names begin with.
        """
        return {prefix + name: tensor.detach() for name, tensor in self._named_state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy the values of ``state_dict`` (tensors or arrays) into the parameters and buffers of that name.

        Unlike PyTorch, nothing is copied if anything doesn't fit.

        Args:
            state_dict: what :meth:`state_dict` returned, or its like.
            strict: raise for names that are missing or unexpected, instead of only returning them.

        Returns:
            ``missing_keys``, which ``state_dict`` lacks, and ``unexpected_keys``, which the module lacks.

        Raises:
            TypeError: ``state_dict`` is no mapping, or a value is neither tensor nor array.
            RuntimeError: names are missing or unexpected, or shapes differ: all of them are listed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"a state is a mapping from names to tensors, not {type(state_dict).__name__}: "
                "pass what state_dict() returned"
            )
        own = dict(self._named_state())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = []
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {quoted(unexpected)}.")
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {quoted(missing)}.")
        for name, tensor in own.items():
            if name in state_dict:
                value = state_dict[name]
                if not isinstance(value, Tensor | np.ndarray):
                    raise TypeError(f"the state has {type(value).__name__} for '{name}', not a tensor")
                if value.shape != tensor.shape:
                    problems.append(
                        f"size mismatch for {name}: the state has shape {tuple(value.shape)}, "
                        f"the module {tensor.shape}."
                    )
        if problems:
            lines = "".join(f"\n\t{problem}" for problem in problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:{lines}")
        with no_grad():
            for name, tensor in own.items():
                if name in state_dict:
                    tensor.copy_(state_dict[name])
        return IncompatibleKeys(missing, unexpected)

    # --- display ----------------------------------------------------------------------------------

    def summary(self, *inputs: Any) -> Summary:
        """Return a table of the layers: their shapes, parameters, FLOPs, and what they keep for a backward pass.

        >>> import minigrad as mg
        >>> model = mg.nn.Sequential(mg.nn.Linear(2, 16), mg.nn.Tanh(), mg.nn.Linear(16, 1))
        >>> model.summary(mg.zeros(8, 2))
        layer        input    output   parameters  FLOPs  kept for backward
        ───────────────────────────────────────────────────────────────────
        Sequential   (8, 2)   (8, 1)           65   768               576 B
          0: Linear  (8, 2)   (8, 16)          48   512                64 B
          1: Tanh    (8, 16)  (8, 16)           0     0               512 B
          2: Linear  (8, 16)  (8, 1)           17   256                 0 B
        ───────────────────────────────────────────────────────────────────
        65 parameters: 260 B, the same again for gradients, and twice that for Adam
        768 FLOPs forward, about 2.3 kFLOPs with the backward pass (matrix products alone, 2 for each multiply-add)
        576 B kept for the backward pass of this input

        Args:
            inputs: what to call the model with, once, in its present mode; without any it is called with what its
                ``example_input()`` returns, if it has that, or else not called.
        """
        if not inputs and hasattr(self, "example_input"):
            inputs = (self.example_input(),)
        return Summary(self, inputs)

    def extra_repr(self) -> str:
        """Return what stands between the parentheses of the module's ``repr``."""
        return ""

    def __repr__(self) -> str:
        return describe(
            self, self.extra_repr(), [f"({name}): {module!r}" for name, module in self._modules.items()]
        )


def join(prefix: str, name: str) -> str:
    """Return ``prefix.name``, or the name alone at the top."""
    return f"{prefix}.{name}" if prefix else name


def quoted(names: Iterable[str]) -> str:
    """Return the names in quotes, separated by commas."""
    return ", ".join(f'"{name}"' for name in names)


def describe(module: Module, extra: str, parts: Iterable[str]) -> str:
    """Return ``Name(extra)``, with each of ``parts`` on an indented line of its own."""
    lines = [part.replace("\n", "\n  ") for part in parts]
    if not lines:
        return f"{type(module).__name__}({extra})"
    body = "\n  ".join([*extra.splitlines(), *lines])
    return f"{type(module).__name__}(\n  {body}\n)"
