"""A model at a glance: its layers with shapes, parameters, multiplications and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.grad_mode import enable_grad
from minigrad.graph import Node, TensorBase, below
from minigrad.observers import observing
from minigrad.random import get_rng_state, set_rng_state
from minigrad.rules.linalg import parse_einsum

if TYPE_CHECKING:
    from minigrad.nn.module import Module
    from minigrad.op import Op

UNITS = ("", " k", " M", " G", " T", " P")


@dataclass(eq=False)
class Layer:
    """One row: a module, and what its calls did, those of the modules within it included.

    An array that several operations keep for the backward pass counts where it was kept first.

    Attributes:
        path: its dotted name; "" for the model itself.
        module: the module.
        depth: how many called modules it lies within.
        parent: the name of the innermost of these.
        calls: how often it was called.
        inputs: the shapes of the tensors it was first given.
        output: the shape of what it first returned, or of each tensor therein.
        parameters: how many numbers it trains or holds fixed, each counted once.
        flops: of its matrix products, two for each multiplication and addition.
        kept: bytes that stay in memory for the backward pass.
    """

    path: str
    module: Module
    depth: int = 0
    parent: str = ""
    calls: int = 0
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    output: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    flops: int = 0
    kept: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)  # the numbers of the nodes made in each call


class Summary:
    """What :meth:`minigrad.nn.Module.summary` returns: ``print`` it, or read its ``layers``.

    Args:
        model: what is summed up.
        inputs: what to call it with, once; without any it is not called.
    """

    def __init__(self, model: Module, inputs: Sequence[Any]) -> None:
        self.model = model
        self.inputs = inputs
        self.layers = [Layer(path, module) for path, module in model.named_modules()]
        for layer in self.layers:
            layer.parameters = sum(parameter.numel() for parameter in layer.module.parameters())
        self.ran = bool(inputs)
        if self.ran:
            self.run()

    def run(self) -> None:
        """Call the model once, watched, and leave everything as it was."""
        active: list[Layer] = []

        def count(node: Node | None, op: Op[...], arguments: Sequence[Any], results: Sequence[Any]) -> None:
            done = flops(op.name, arguments, results)
            for layer in set(active):
                layer.flops += done

        generator_state = get_rng_state()
        try:
            with watched(self.layers, active), observing("flops", count), enable_grad():
                result = self.model(*self.inputs)
        finally:
            set_rng_state(generator_state)
        for number, size in kept_arrays(tensors_in(result), self.model):
            for layer in self.layers:
                if any(first < number <= last for first, last in layer.spans):
                    layer.kept += size

    def __str__(self) -> str:
        rows = [("layer", "input", "output", "parameters", "FLOPs", "kept for backward")]
        for layer in self.layers:
            if self.ran and not layer.calls and not layer.module._parameters:
                continue  # a mere container
            name = layer.path.removeprefix(f"{layer.parent}.")
            name = f"{name}: " if name else ""
            times = f" ×{layer.calls}" if layer.calls > 1 else ""
            rows.append(
                (
                    "  " * layer.depth + name + type(layer.module).__name__ + times,
                    shapes(layer.inputs),
                    shapes(layer.output),
                    f"{layer.parameters:,}",
                    amount(layer.flops) if self.ran else "",
                    f"{amount(layer.kept)}B" if self.ran else "",
                )
            )
        keep = [i for i in range(6) if any(row[i] for row in rows[1:])]
        widths = {i: max(len(row[i]) for row in rows) for i in keep}
        lines = [
            "  ".join(row[i].rjust(widths[i]) if i > 2 else row[i].ljust(widths[i]) for i in keep).rstrip()
            for row in rows
        ]
        rule = "─" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self.totals()])

    __repr__ = __str__

    def totals(self) -> Iterator[str]:
        """Yield the lines below the table."""
        parameters = list(self.model.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        fixed = f", {size - trained:,} of them fixed" if trained < size else ""
        own = sum(parameter.nbytes for parameter in parameters)
        yield f"{size:,} parameters{fixed}: {amount(own)}B, the same again for gradients, and twice that for Adam"
        if not self.ran:
            yield "shapes, FLOPs and memory need an input: model.summary(x)"
            return
        top = self.layers[0]
        yield (
            f"{amount(top.flops)}FLOPs forward, about {amount(3 * top.flops)}FLOPs with the backward pass "
            "(matrix products alone, 2 for each multiply-add)"
        )
        yield f"{amount(top.kept)}B kept for the backward pass of this input"


@contextmanager
def watched(layers: Iterable[Layer], active: list[Layer]) -> Iterator[None]:
    """Have each module note its calls, inside the block; ``active`` are those that are running, one in another."""
    before: list[tuple[Module, Any]] = []
    for layer in layers:
        before.append((layer.module, layer.module.__dict__.get("forward")))
        layer.module.__dict__["forward"] = noting(layer, layer.module.forward, active)
    try:
        yield
    finally:
        for module, forward in before:
            if forward is None:
                del module.__dict__["forward"]
            else:
                module.__dict__["forward"] = forward


def noting(layer: Layer, forward: Callable[..., Any], active: list[Layer]) -> Callable[..., Any]:
    """Return ``forward`` with notes about the call left in ``layer``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not layer.calls:
            layer.depth = len(active)
            layer.parent = active[-1].path if active else ""
            layer.inputs = [tensor.shape for tensor in tensors_in([*args, *kwargs.values()])]
        layer.calls += 1
        active.append(layer)
        first = next(Node.count)
        try:
            result = forward(*args, **kwargs)
        finally:
            active.pop()
            layer.spans.append((first, next(Node.count)))
        if not layer.output:
            layer.output = [tensor.shape for tensor in tensors_in(result)]
        return result

    return call


def tensors_in(value: Any) -> list[TensorBase]:
    """Return the tensors in a value: itself, or those in a tuple, list or dict."""
    if isinstance(value, TensorBase):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors_in(part)] if isinstance(value, tuple | list) else []


def flops(name: str, arguments: Sequence[Any], results: Sequence[Any]) -> int:
    """Return the multiplications and additions of an operation's matrix products; of others 0.

    Elementwise work is left out, as is usual: it is of another order, and costs memory traffic rather than
    arithmetic.
    """
    if name == "matmul":
        return 2 * np.size(results[0]) * int(arguments[0].shape[-1])
    if name == "linear":
        return 2 * int(results[0].size) * int(arguments[1].shape[-1])
    if name == "attention":
        query, key, value = arguments[:3]
        rows = math.prod(query.shape[:-1])
        return int(2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
    if name == "einsum":
        *operands, equation = arguments
        labels, _ = parse_einsum(equation, [operand.ndim for operand in operands])
        sizes = {
            label: size
            for names, operand in zip(labels, operands, strict=True)
            for label, size in zip(names, operand.shape, strict=True)
        }
        return 2 * (len(operands) - 1) * int(math.prod(sizes.values()))
    return 0


def kept_arrays(outputs: Iterable[TensorBase], model: Module) -> Iterator[tuple[int, int]]:
    """Yield for each array that the graph holds, the model's aside: the first node that saved it, its bytes."""
    nodes = {place for output in outputs for place in below(output._node or output) if isinstance(place, Node)}
    seen = {id(memory(tensor._data)) for tensor in [*model.parameters(), *model.buffers()]}
    for node in sorted(nodes, key=lambda node: node.number):
        for array in arrays_in(node.saved or ()):
            owner = memory(array)
            if id(owner) not in seen:
                seen.add(id(owner))
                yield node.number, owner.nbytes


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays in a value and in the tuples and lists therein."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from arrays_in(part)


def memory(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the memory of another."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def shapes(of: Sequence[tuple[int, ...]]) -> str:
    """Return shapes as text."""
    return ", ".join(str(shape) for shape in of)


def amount(number: float) -> str:
    """Return a number with a unit, to three digits.

    >>> amount(1234567), amount(12)
    ('1.23 M', '12 ')
    """
    unit = 0
    while number >= 999.5 and unit < len(UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.3g}{UNITS[unit] or ' '}"
