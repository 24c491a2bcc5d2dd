"""A program: leaves, steps and outputs, and its lines carried out on Tensors or on arrays."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import minigrad as mg

from .meanings import Meanings


@dataclass(frozen=True)
class Leaf:
    """An input: an expression that makes its array, in some layout, and whether its gradient is wanted."""

    name: str
    expression: str
    wanted: bool

    def array(self) -> np.ndarray:
        """Make the array anew."""
        return eval(self.expression, {"np": np})


@dataclass(frozen=True)
class Step:
    """One line twice, and what it reads, defines and writes, for whoever wants to change the order of lines."""

    mine: str
    numpy: str
    reads: tuple[str, ...]
    defines: tuple[str, ...]
    memory: tuple[int, ...]  # the pieces of memory that it looks at
    writes: tuple[int, ...]  # and those that it writes in place
    analytic: bool


@dataclass
class Program:
    """Leaves, steps, and outputs with a cotangent for each."""

    leaves: list[Leaf]
    steps: list[Step]
    outputs: list[str]
    cotangents: list[np.ndarray]
    order: Sequence[int] | None = None  # of the steps, if another one

    def arrays(self) -> list[np.ndarray]:
        """Return the leaves' arrays, made anew, in their layouts."""
        return [leaf.array() for leaf in self.leaves]

    @property
    def wanted(self) -> list[int]:
        """Which leaves' gradients are wanted."""
        return [i for i, leaf in enumerate(self.leaves) if leaf.wanted]

    @property
    def analytic(self) -> bool:
        """Whether the NumPy lines may run on complex numbers."""
        return all(step.analytic for step in self.steps)

    def code(self) -> str:
        """Return the program as a function of its leaves."""
        names = ", ".join(leaf.name for leaf in self.leaves)
        order = range(len(self.steps)) if self.order is None else self.order
        lines = [self.steps[i].mine for i in order]
        return "\n    ".join([f"def program({names}):", *lines, f"return [{', '.join(self.outputs)}]\n"])

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Carry the program out on Tensors and return the outputs."""
        names = {"mg": mg, "np": np, "F": mg.nn.functional, "inf": math.inf}
        exec(compile(self.code(), "<program>", "exec"), names)
        return names.pop("program")(*leaves)  # no cycle remains: a function refers to the names it was made among

    def prepare(self) -> Callable[..., tuple[list[np.ndarray], list[bytes]]]:
        """Return the program on arrays alone: (arrays) → outputs, and which way each comparison went."""
        lines = compile("\n".join(step.numpy for step in self.steps), "<program in NumPy>", "exec")

        def evaluate(
            arrays: Sequence[np.ndarray], dtype: Any = np.float64
        ) -> tuple[list[np.ndarray], list[bytes]]:
            meanings = Meanings(dtype)
            names = meanings.names()
            names.update({leaf.name: a for leaf, a in zip(self.leaves, arrays, strict=True)})
            with np.errstate(all="ignore"):
                exec(lines, names)
            return [names[output] for output in self.outputs], meanings.trace

        return evaluate

    def source(self) -> str:
        """Return a script that runs by itself: the program, its gradients, and differences beside them."""
        made = "\n".join(f"{leaf.name} = {leaf.expression}" for leaf in self.leaves)
        cotangents = ",\n    ".join(
            f"mg.tensor(np.array({c.tolist()!r}).reshape({c.shape}))" for c in self.cotangents
        )
        names = [leaf.name for leaf in self.leaves]
        wanted = [leaf.name for leaf in self.leaves if leaf.wanted]
        return f"""\
from math import inf

import numpy as np

import minigrad as mg
import minigrad.nn.functional as F


{self.code()}

{made}
arrays = {{{", ".join(f'"{name}": {name}' for name in names)}}}
cotangents = [
    {cotangents},
]
wanted = {wanted!r}

tensors = {{k: mg.from_numpy(a).requires_grad_(k in wanted) for k, a in arrays.items()}}
outputs = program(**tensors)
used = [(y, c) for y, c in zip(outputs, cotangents) if y.requires_grad]
ys, cs = zip(*used)
found = mg.autograd.grad(ys, [tensors[k] for k in wanted], cs, allow_unused=True)
gradients = {{k: np.zeros(arrays[k].shape) if g is None else g.numpy() for k, g in zip(wanted, found)}}


def value(arrays):
    outputs = program(**{{k: mg.tensor(a) for k, a in arrays.items()}})
    return sum(float((c.numpy() * y.numpy()).sum()) for y, c in zip(outputs, cotangents))


differences = {{}}
for name in wanted:
    differences[name] = np.zeros(arrays[name].shape)
    for index in np.ndindex(arrays[name].shape):
        for factor, h in ((8, 1e-3), (-8, -1e-3), (-1, 2e-3), (1, -2e-3)):
            moved = np.array(arrays[name])
            moved[index] += h
            differences[name][index] += factor * value({{**arrays, name: moved}}) / 12e-3
    print(name, "gradient:", gradients[name].tolist(), "differences:", differences[name].tolist())
"""

    def __repr__(self) -> str:
        return f"a program:\n\n{self.source()}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # what Hypothesis asks for


def another_order(program: Program, rng: np.random.Generator) -> Program:
    """Return the program with its steps in another order that respects what each reads and writes."""
    n = len(program.steps)
    before: list[set[int]] = [set() for _ in range(n)]
    for j, later in enumerate(program.steps):
        for i, earlier in enumerate(program.steps[:j]):
            uses = set(later.reads) & set(earlier.defines)
            clash = set(later.writes) & {*earlier.memory, *earlier.writes} or set(earlier.writes) & {*later.memory}
            if uses or clash:
                before[j].add(i)
    order: list[int] = []
    while len(order) < n:
        ready = [j for j in range(n) if j not in order and before[j] <= set(order)]
        order.append(int(rng.choice(ready)))
    return Program(program.leaves, program.steps, program.outputs, program.cotangents, order)
