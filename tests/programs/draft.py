"""A program while it is drawn: what each kind of step asks for its operands, and appends its line to."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from strategies import generators

from .meanings import Meanings
from .program import Step

MARGIN = 0.05  # the least distance from a kink
LARGEST = 6.0  # the largest absolute value of any result
MOST = 36  # elements of any result


class Unfit(Exception):
    """This step does not fit what there is so far: it is left out."""


def all_of(test: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], bool]:
    return lambda a: bool(np.all(test(a)))


# What an operand must be like, and what to take in its stead where it is not (None: the step is left out).
DOMAINS: dict[str, tuple[Callable[[np.ndarray], bool], str | None]] = {
    "any": (lambda a: True, None),
    "positive": (all_of(lambda a: a > 0.3), "({a} * {a} + 0.5)"),
    "not zero": (all_of(lambda a: np.abs(a) > 0.4), "({a} * {a} + 0.5)"),
    "small": (all_of(lambda a: np.abs(a) < 1.2), "(0.2 * {a})"),
    "inside 1": (all_of(lambda a: np.abs(a) < 0.8), "(0.13 * {a})"),
    "off 0": (all_of(lambda a: np.abs(a) > MARGIN), None),
    "off halves": (all_of(lambda a: np.abs(2 * a - np.rint(2 * a)) > 2 * MARGIN), None),
    "off 1/2": (all_of(lambda a: np.abs(np.abs(a) - 0.5) > MARGIN), None),
}


def gap(a: np.ndarray) -> float:
    """Return the least distance between two elements."""
    return float(np.min(np.diff(np.sort(a, axis=None)), initial=np.inf))


@dataclass
class Draft:
    """A program while it is drawn: the values so far, and which memory may be written."""

    draw: Any
    values: dict[str, np.ndarray] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)  # values of the same number share memory
    kept: set[int] = field(
        default_factory=set
    )  # memory that a rule has saved, that a leaf owns, or of unsure layout
    needs: set[str] = field(default_factory=set)  # those that require a gradient
    views: set[str] = field(default_factory=set)  # those that can't be written themselves
    steps: list[Step] = field(default_factory=list)
    number: int = 0

    def choose(self, options: Sequence[Any]) -> Any:
        """Draw one of the options; the first is the simplest."""
        if not options:
            raise Unfit
        return self.draw(st.sampled_from(list(options)))

    def operand(self, fits: Callable[[np.ndarray], Any] = lambda a: True) -> str:
        """Draw a value that fits."""
        return self.choose([name for name, a in self.values.items() if fits(a)])

    def partner(self, name: str, fits: Callable[[np.ndarray], Any] = lambda b: True) -> str:
        """Draw a value that broadcasts against another."""
        shape = self.values[name].shape

        def broadcasts(b: np.ndarray) -> bool:
            try:
                return math.prod(np.broadcast_shapes(shape, b.shape)) <= MOST
            except ValueError:
                return False

        return self.operand(lambda b: broadcasts(b) and fits(b))

    def dim(self, name: str, none: bool = False) -> Any:
        """Draw a dimension of a value, counted from either end; or None."""
        n = self.values[name].ndim
        return self.choose([*range(n), *range(-n, 0), *([None] if none else [])])

    def inside(self, name: str, domain: str) -> str:
        """Return the operand, or what stands in its stead where it lies outside the domain."""
        fits, instead = DOMAINS[domain]
        if fits(self.values[name]):
            return name
        if instead is None:
            raise Unfit
        return instead.format(a=name)

    def emit(
        self,
        mine: str,
        numpy: str | Sequence[str],
        reads: Sequence[str],
        *,
        results: int = 1,
        analytic: bool = True,
        linear: bool = False,
        view: bool = False,
        unsure: bool = False,
    ) -> list[str]:
        """Append ``results = mine``, if its value is moderate.

        ``linear``: no rule saves anything.  ``view``: the result shares the first operand's memory.  ``unsure``:
        it may, depending on layouts.
        """
        names = [f"v{self.number + k}" for k in range(results)]
        formulas = [numpy] if isinstance(numpy, str) else list(numpy)
        lines = "; ".join(f"{n} = np.asarray({f})" for n, f in zip(names, formulas, strict=True))
        space = {**Meanings().names(), **self.values}
        with np.errstate(all="ignore"):
            exec(lines, space)
        found = {n: space[n] for n in names}
        for a in found.values():
            if a.dtype != np.float64:
                raise AssertionError(f"{lines} gives {a.dtype}")
            if not np.isfinite(a).all() or np.max(np.abs(a), initial=0) > LARGEST or a.size > MOST or a.ndim > 5:
                raise Unfit
        memory = tuple(sorted({self.memory[r] for r in reads}))
        for n, a in found.items():
            self.values[n] = a
            self.memory[n] = self.memory[reads[0]] if view else len(self.memory) + 100
            if not linear or unsure:
                self.kept.add(self.memory[n])
            if set(reads) & self.needs:
                self.needs.add(n)
            if view and reads[0] in self.views:
                self.views.add(n)
        if not linear or unsure:
            self.kept.update(memory)
        self.number += results
        self.steps.append(
            Step(f"{', '.join(names)} = {mine}", lines, tuple(reads), tuple(names), memory, (), analytic)
        )
        return names

    def write(self, target: str, mine: str, numpy: str, reads: Sequence[str], *, saves: bool = True) -> None:
        """Append a line that writes into the memory of ``target``, if what it leaves there is moderate."""
        at = self.memory[target]
        others = {self.memory[r] for r in reads if r != target}
        if (at in others and saves) or not self.values[target].flags.writeable:
            raise Unfit
        sharing = [n for n, m in self.memory.items() if m == at]
        before = {n: self.values[n].copy() for n in sharing}
        with np.errstate(all="ignore"):
            exec(numpy, {**Meanings().names(), **self.values})
        if not all(np.isfinite(self.values[n]).all() and np.max(np.abs(self.values[n]), initial=0) <= LARGEST
                   for n in sharing):  # fmt: skip
            for n in sharing:
                if self.values[n].flags.writeable:
                    self.values[n][...] = before[n]
            raise Unfit
        if saves:
            self.kept.update(others)
        if (set(reads) | {target}) & self.needs:
            self.needs.update(sharing)
        self.steps.append(Step(mine, numpy, (target, *reads), (), tuple(sorted({at, *others})), (at,), True))


# Each kind of step: draw operands that fit and append a line.
KINDS: dict[str, Callable[[Draft], Any]] = {}


def kind(function: Callable[[Draft], Any]) -> Callable[[Draft], Any]:
    KINDS[function.__name__] = function
    return function


def booleans(d: Draft, shape: tuple[int, ...]) -> Any:
    """Draw a mask, as nested lists."""
    mask = d.draw(generators()).random(shape) < 0.5
    if mask.size == 0:
        raise Unfit
    return mask.tolist()


def slices(d: Draft, x: np.ndarray) -> str:
    """Draw a basic index: for some of the dimensions an int, a slice, a step backwards; None and ``...``."""
    parts = []
    for n in x.shape[: d.draw(st.integers(1, x.ndim))]:
        options = [":", "::-1", "1:", ":1", "::2", "1:1"]
        parts.append(d.choose([*options, *(["0", "-1"] if n else [])]))
    extra = d.choose(["", "None", "..."])
    return ", ".join([*([extra] if extra == "None" else []), *parts, *([extra] if extra == "..." else [])])
