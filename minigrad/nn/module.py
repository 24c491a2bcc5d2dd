"""Module: what every layer and model can do, under PyTorch's names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from minigrad import dtypes
from minigrad.grad_mode import no_grad
from minigrad.graph import Node
from minigrad.nn.parameter import clear_gradients
from minigrad.nn.summary import Summary, tensors_in
from minigrad.nn.tree import ModuleTree, join
from minigrad.tensor import HookHandle, Tensor


class Module(ModuleTree):
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

    def __init__(self) -> None:
        super().__init__()
        self.training = True
        self._forward_hooks: list[Callable[..., Any]] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; to be defined by each module.

        Raises:
            NotImplementedError: the class doesn't define it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = next(Node.count)  # the nodes made from here on are of this call: drawings show them as one box
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

    # --- what applies to the whole tree -------------------------------------------------------------

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
        known = {name: state_dict[name] for name in own if name in state_dict}
        problems = []
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {quoted(unexpected)}.")
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {quoted(missing)}.")
        for name, value in known.items():
            if not isinstance(value, Tensor | np.ndarray):
                raise TypeError(f"the state has {type(value).__name__} for '{name}', not a tensor")
            if value.shape != own[name].shape:
                problems.append(
                    f"size mismatch for {name}: the state has shape {tuple(value.shape)}, "
                    f"the module {own[name].shape}."
                )
        if problems:
            lines = "".join(f"\n\t{problem}" for problem in problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:{lines}")
        with no_grad():
            for name, value in known.items():
                own[name].copy_(value)
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


class IncompatibleKeys(NamedTuple):
    """What :meth:`Module.load_state_dict` returns: the names that the state lacked, and its unknown ones."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Call(NamedTuple):
    """A call of a module: its result depends on nodes from number ``first`` on that were made in the call."""

    module: weakref.ref[Any]  # a module may hold its own results, and the graph is to be free of cycles
    first: int


def note_call(module: Module, first: int, result: Any) -> None:
    """Note on the nodes behind ``result`` that a call of ``module`` returned it, with nodes from ``first`` on."""
    for tensor in tensors_in(result):
        node = tensor._node
        if node is not None and node.number > first:
            node.calls = (*node.calls, Call(weakref.ref(module), first))


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
