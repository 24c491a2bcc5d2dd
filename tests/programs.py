"""Random programs: a few lines of straight code on a few tensors, of which the gradient is known otherwise.

A :class:`Program` is text.  Each of its steps is one line of minigrad and, beside it, one line of plain NumPy that
means the same and knows nothing of minigrad:

    v0 = mg.tanh(x0)            v0 = np.asarray(np.tanh(x0))
    v1 = v0[1:]                 v1 = np.asarray(v0[1:])
    v1 *= x1                    v1[...] = v1 * x1

The lines are drawn by Hypothesis, one after the other, each with a look at the shapes and values so far: operands
fit, stay inside the domain of the function and off its kinks by a margin, and results stay of moderate size.  That
is decided once, on the leaves' own values, and what is decided is the text; so every evaluation of a program, at
whatever other values, carries out the same steps.  What a kink would still change (which of two numbers is larger,
in which order they are sorted) the NumPy lines report through ``branch``, so that a difference that stepped over
one is noticed and not compared.

:meth:`Program.source` is the program as a script that can be run by itself: what a failing test prints.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from strategies import generators, shapes

import minigrad as mg
from minigrad import kernels, nn  # noqa: F401  # the registry is complete once all modules are imported
from minigrad.op import Op, numpy_functions, registry
from minigrad.rules.elementwise import Activations, Arithmetic, Exponentials, Trigonometry

MARGIN = 0.05  # the least distance from a kink
LARGEST = 6.0  # the largest absolute value of any result
MOST = 36  # elements of any result


# --- what the steps mean in NumPy -----------------------------------------------------------------


class Meanings:
    """The functions that the NumPy lines call, besides NumPy's own: formulas, on real or complex arrays.

    A complex array stands for its real part with a tiny imaginary one (the complex step), so comparisons look at
    the real part, and nothing conjugates.  ``trace`` collects what was decided on the way.
    """

    def __init__(self, dtype: Any = np.float64) -> None:
        self.dtype = dtype
        self.trace: list[bytes] = []

    def names(self) -> dict[str, Any]:
        """Return what a NumPy line may name."""
        own = {name: getattr(self, name) for name in dir(self) if not name.startswith("_") and name != "names"}
        return {"np": np, "math": math, "inf": math.inf, **own}

    def branch(self, decision: Any) -> Any:
        """Record which way a comparison went."""
        self.trace.append(np.asarray(decision).tobytes())
        return decision

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape, self.dtype)

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def larger(self, x: Any, y: Any) -> Any:
        return np.where(self.branch(np.real(x) > np.real(y)), x, y)

    def smaller(self, x: Any, y: Any) -> Any:
        return np.where(self.branch(np.real(x) < np.real(y)), x, y)

    def absolute(self, x: Any) -> Any:
        return np.where(self.branch(np.real(x) > 0), x, -x)

    def forward(self, name: str, *x: Any) -> Any:
        """What an operation of no other spelling computes: taken for granted here, though its gradient is not."""
        return registry[name].forward(*x)

    def remainder(self, x: Any, y: Any) -> Any:
        return x - y * self.branch(np.floor(np.real(x) / np.real(y)))

    def extreme(self, x: Any, dim: Any, keepdim: bool, sign: int) -> Any:
        """The largest (or smallest) element over one dim or all, found by its place."""
        if dim is None:
            flat = x.reshape(-1)
            picked = flat[self.branch(np.argmax(sign * np.real(flat)))]
            return np.reshape(picked, (1,) * x.ndim) if keepdim else picked
        at = self.branch(np.argmax(sign * np.real(x), axis=dim, keepdims=True))
        picked = np.take_along_axis(x, at, axis=dim)
        return picked if keepdim else np.squeeze(picked, axis=dim)

    def ordered(self, x: Any, dim: int, descending: bool) -> Any:
        order = self.branch(np.argsort(-np.real(x) if descending else np.real(x), axis=dim, kind="stable"))
        return np.take_along_axis(x, order, axis=dim)

    def variance(self, x: Any, dim: Any, correction: int, keepdim: bool = False) -> Any:
        centered = x - x.mean(axis=dim, keepdims=True)
        n = x.size if dim is None else x.shape[dim]
        return (centered * centered).sum(axis=dim, keepdims=keepdim) / (n - correction)

    def logsumexp(self, x: Any, dim: Any, keepdim: bool) -> Any:
        return np.log(np.exp(x).sum(axis=dim, keepdims=keepdim))

    def softmax(self, x: Any, dim: int) -> Any:
        return np.exp(x) / np.exp(x).sum(axis=dim, keepdims=True)

    def gelu_tanh(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        centered = x - x.mean(axis=-1, keepdims=True)
        out = centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + 0.1)
        out = out if weight is None else out * weight
        return out if bias is None else out + bias

    def attention(self, q: Any, k: Any, v: Any, causal: bool, mask: Any) -> Any:
        scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.shape[-1])
        seen = np.ones(scores.shape[-2:], bool) if mask is None else np.asarray(mask)
        if causal:
            seen = seen & (np.arange(scores.shape[-1]) <= np.arange(scores.shape[-2])[:, None])
        weights = np.where(seen, np.exp(scores), 0)
        total = weights.sum(axis=-1, keepdims=True)
        return np.einsum("...ts,...sd->...td", weights / np.where(total == 0, 1, total), v)

    def cross_entropy(self, x: Any, target: Any, ignored: int, reduction: str, smoothing: float) -> Any:
        log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        losses = []
        for row, t in zip(log_p, target, strict=True):
            loss = -(1 - smoothing) * row[t] - smoothing * row.sum() / len(row)
            losses.append(loss if t != ignored else 0 * loss)
        number = max(1, sum(t != ignored for t in target))
        total = np.array(losses)
        return total if reduction == "none" else total.sum() / (number if reduction == "mean" else 1)

    def added_at(self, x: Any, dim: int, index: Any, source: Any) -> Any:
        """x[…, index[i], …] += source[…, i, …], one slice after the other."""
        out = np.moveaxis(np.array(x), dim, 0)
        for i, row in enumerate(index):
            out[row, ...] += np.moveaxis(source, dim, 0)[i]
        return np.moveaxis(out, 0, dim)

    def written(self, x: Any, rows: Any, source: Any) -> Any:
        """x[rows[r]] = source[r], one row after the other, so that the last one to a row stays."""
        out = np.array(x)
        for r, row in enumerate(rows):
            out[row] = source[r] if source.ndim else source
        return out

    def scattered(self, x: Any, dim: int, index: Any, source: Any, add: bool) -> Any:
        """x with source[i, j] written or added at [index[i, j], j] (dim 0), element by element."""
        out = np.array(x)
        for at in np.ndindex(np.shape(index)):
            place = list(at)
            place[dim] = index[at]
            out[tuple(place)] = source[at] + (out[tuple(place)] if add else 0)
        return out

    def padded(self, x: Any, before: int, after: int) -> Any:
        out = np.full((*x.shape[:-1], x.shape[-1] + before + after), 0.5, self.dtype)
        out[..., before : before + x.shape[-1]] = x
        return out

    def cumulated(self, x: Any, dim: int, product: bool) -> Any:
        out = np.moveaxis(np.array(x), dim, 0)
        for i in range(1, len(out)):
            out[i] = out[i - 1] * out[i] if product else out[i - 1] + out[i]
        return np.moveaxis(out, 0, dim)


# --- programs -------------------------------------------------------------------------------------


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


# --- drawing one ----------------------------------------------------------------------------------


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

    def fresh(self) -> str:
        self.number += 1
        return f"v{self.number - 1}"

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


# group: name: (minigrad, NumPy, domain, analytic)
UNARY = {
    "powers": {
        "square": ("mg.square({a})", "{a} * {a}", "any", True),
        "reciprocal": ("mg.reciprocal({a})", "1 / {a}", "not zero", True),
        "sqrt": ("mg.sqrt({a})", "np.sqrt({a})", "positive", True),
        "rsqrt": ("mg.rsqrt({a})", "1 / np.sqrt({a})", "positive", True),
        "cubed": ("{a} ** 3", "{a} * {a} * {a}", "any", True),
        "inverse_square": ("{a} ** -2", "1 / ({a} * {a})", "not zero", True),
        "power_of": ("1.5 ** {a}", "np.exp(np.log(1.5) * {a})", "any", True),
        "over": ("2.0 / {a}", "2.0 / {a}", "not zero", True),
    },
    "exponentials": {
        "exp": ("mg.exp({a})", "np.exp({a})", "small", True),
        "expm1": ("mg.expm1({a})", "np.expm1({a})", "small", True),
        "exp2": ("mg.exp2({a})", "np.exp2({a})", "small", True),
        "log": ("mg.log({a})", "np.log({a})", "positive", True),
        "log2": ("mg.log2({a})", "np.log({a}) / np.log(2)", "positive", True),
        "log10": ("mg.log10({a})", "np.log({a}) / np.log(10)", "positive", True),
        "log1p": ("mg.log1p({a})", "np.log(1 + {a})", "positive", True),
    },
    "trigonometry": {
        "sin": ("mg.sin({a})", "np.sin({a})", "any", True),
        "cos": ("mg.cos({a})", "np.cos({a})", "any", True),
        "tan": ("mg.tan({a})", "np.sin({a}) / np.cos({a})", "small", True),
        "asin": ("mg.asin({a})", "np.arcsin({a})", "inside 1", True),
        "acos": ("mg.acos({a})", "np.arccos({a})", "inside 1", True),
        "atan": ("mg.atan({a})", "np.arctan({a})", "any", True),
        "sinh": ("mg.sinh({a})", "(np.exp({a}) - np.exp(-{a})) / 2", "small", True),
        "cosh": ("mg.cosh({a})", "(np.exp({a}) + np.exp(-{a})) / 2", "small", True),
    },
    "activations": {
        "tanh": ("mg.tanh({a})", "np.tanh({a})", "any", True),
        "sigmoid": ("mg.sigmoid({a})", "sigmoid({a})", "any", True),
        "softplus": ("F.softplus({a})", "np.log(1 + np.exp({a}))", "any", True),
        "gelu": ("{a}.gelu()", "0.5 * {a} * (1 + erf({a} / math.sqrt(2)))", "any", False),
        "gelu_tanh": ("{a}.gelu('tanh')", "gelu_tanh({a})", "any", True),
        "erf": ("mg.erf({a})", "erf({a})", "any", False),
        "relu": ("mg.relu({a})", "larger({a}, 0.0)", "off 0", True),
    },
    "piecewise": {
        "abs": ("mg.abs({a})", "absolute({a})", "off 0", True),
        "sign": ("mg.sign({a}) * {a}", "absolute({a})", "off 0", True),
        "floor": ("{a} - mg.floor({a})", "remainder({a}, 1.0)", "off halves", True),
        "ceil": ("mg.ceil({a}) - {a}", "1.0 - remainder({a}, 1.0)", "off halves", True),
        "clamp": ("mg.clamp({a}, -0.5, 0.5)", "larger(smaller({a}, 0.5), -0.5)", "off 1/2", True),
        "nan_to_num": ("mg.nan_to_num({a})", "{a} + 0", "any", True),
    },
    "plain": {
        "scaled": ("{a} * 0.75", "{a} * 0.75", "any", True),
        "neg": ("-{a}", "-{a}", "any", True),
        "mirrored": ("1.5 - {a}", "1.5 - {a}", "any", True),
        "clone": ("{a}.clone()", "np.array({a})", "any", True),
        "contiguous": ("{a} * 0 + {a}.contiguous()", "np.array({a})", "any", True),
    },
}
LINEAR = {"neg", "scaled", "mirrored", "clone"}


def elementwise(group: str) -> Callable[[Draft], None]:
    """Return the kind of step that applies one of a group of functions of one operand."""

    def step(d: Draft) -> None:
        name = d.choose(list(UNARY[group]))
        mine, numpy, domain, analytic = UNARY[group][name]
        a = d.operand()
        x = d.inside(a, domain)
        d.emit(mine.format(a=x), numpy.format(a=x), [a], analytic=analytic, linear=name in LINEAR)

    return step


@kind
def arithmetic(d: Draft) -> None:
    """Sum, difference, product, quotient of two that broadcast; often of one value with itself."""
    sign = d.choose("+-*/")
    a = d.operand()
    b = d.partner(a)
    y = d.inside(b, "not zero") if sign == "/" else b
    d.emit(f"{a} {sign} {y}", f"{a} {sign} {y}", [a, b], linear=sign in "+-")


@kind
def two(d: Draft) -> None:
    """Other functions of two operands that broadcast."""
    name = d.choose(["maximum", "minimum", "pow", "atan2", "remainder", "where", "lerp", "select"])
    a = d.operand()
    b = d.partner(a)
    x, y = d.values[a], d.values[b]
    apart = bool(np.all(np.abs(x - y) > MARGIN))
    if name == "maximum" and apart:
        d.emit(f"mg.maximum({a}, {b})", f"larger({a}, {b})", [a, b])
    elif name == "minimum" and apart:
        d.emit(f"mg.minimum({a}, {b})", f"smaller({a}, {b})", [a, b])
    elif name == "select" and apart:
        mine = f"mg.where({a} > {b}, {a} * 0.5, {b})"
        d.emit(mine, f"np.where(branch(np.real({a}) > np.real({b})), {a} * 0.5, {b})", [a, b])
    elif name == "pow":
        x = d.inside(a, "positive")
        d.emit(f"{x} ** {b}", f"np.exp({b} * np.log({x}))", [a, b])
    elif name == "atan2":
        x = f"({a} * {a} + 0.5)"
        d.emit(f"mg.atan2({b}, {x})", f"np.arctan({b} / {x})", [a, b])
    elif name == "remainder" and np.all(np.abs(y) > 0.4):
        quotient = x / y
        if not np.all(np.abs(quotient - np.rint(quotient)) > 2 * MARGIN):
            raise Unfit
        d.emit(f"{a} % {b}", f"remainder({a}, {b})", [a, b])
    elif name == "where":
        shape = np.broadcast_shapes(x.shape, y.shape)
        mask = booleans(d, shape)
        d.emit(f"mg.where(mg.tensor({mask}), {a}, {b})", f"np.where({mask}, {a}, {b})", [a, b])
    elif name == "lerp":
        d.emit(f"mg.lerp({a}, {b}, 0.25)", f"0.75 * {a} + 0.25 * {b}", [a, b])
    else:
        raise Unfit


def booleans(d: Draft, shape: tuple[int, ...]) -> Any:
    """Draw a mask, as nested lists."""
    mask = d.draw(generators()).random(shape) < 0.5
    if mask.size == 0:
        raise Unfit
    return mask.tolist()


@kind
def reduction(d: Draft) -> None:
    """Sums, products and extremes over one dim, or all."""
    reduce(d, d.choose(["sum", "mean", "amax", "amin", "max", "min", "prod", "average"]))


@kind
def statistics(d: Draft) -> None:
    """Spreads and norms over one dim, or all."""
    reduce(d, d.choose(["var", "std", "logsumexp", "norm", "norm1"]))


def reduce(d: Draft, name: str) -> None:
    """Append one of the reductions."""
    a = d.operand()
    x = d.values[a]
    dim, keepdim = d.dim(a, none=name not in ("max", "min")), d.draw(st.booleans())
    if name not in ("sum", "prod") and not (x.size if dim is None else x.shape[dim]):
        raise Unfit
    options = f"dim={dim}, keepdim={keepdim}"
    numpy_options = f"axis={dim}, keepdims={keepdim}"
    match name:
        case "sum" | "mean":
            d.emit(f"{a}.{name}({options})", f"{a}.{name}({numpy_options})", [a], linear=True)
        case "average":
            mine = f"{a}.sum(dim=(0, -1), keepdim={keepdim})"
            if x.ndim < 2:
                raise Unfit
            d.emit(mine, f"{a}.sum(axis=(0, -1), keepdims={keepdim})", [a], linear=True)
        case "amax" | "amin" | "max" | "min":
            if gap(x) < MARGIN or not x.size:
                raise Unfit
            mine = f"{a}.{name}({options})" + (".values" if name in ("max", "min") else "")
            d.emit(mine, f"extreme({a}, {dim}, {keepdim}, {1 if 'max' in name else -1})", [a])
        case "prod":
            d.emit(f"{a}.prod({options})", f"{a}.prod({numpy_options})", [a])
        case "var" | "std":
            correction = d.choose([1, 0])
            n = x.size if dim is None else x.shape[dim]
            if n <= correction:
                raise Unfit
            variance = f"variance({a}, {dim}, {correction}, {keepdim})"
            if name == "std":
                if not np.all(np.var(x, axis=dim) > 0.04):
                    raise Unfit
                variance = f"np.sqrt({variance})"
            d.emit(f"{a}.{name}({options}, correction={correction})", variance, [a])
        case "logsumexp":
            over = dim if dim is not None else tuple(range(x.ndim))
            mine = f"mg.logsumexp({a}, dim={over}, keepdim={keepdim})"
            d.emit(mine, f"logsumexp({a}, {over}, {keepdim})", [a])
        case "norm":
            if not np.all(np.sum(x * x, axis=dim) > 0.04):
                raise Unfit
            d.emit(f"mg.norm({a}, {options})", f"np.sqrt(({a} * {a}).sum({numpy_options}))", [a])
        case _:
            if not np.all(np.abs(x) > MARGIN):
                raise Unfit
            d.emit(f"mg.norm({a}, 1, {options})", f"absolute({a}).sum({numpy_options})", [a])


@kind
def cumulation(d: Draft) -> None:
    """Partial sums and products along a dim."""
    name = d.choose(["cumsum", "cumprod"])
    a = d.operand(lambda a: a.ndim)
    dim = d.dim(a)
    d.emit(f"{a}.{name}({dim})", f"cumulated({a}, {dim}, {name == 'cumprod'})", [a], linear=name == "cumsum")


@kind
def product(d: Draft) -> None:
    """A matrix product of any two that fit, or of one with its own transpose."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]

    def fits(b: np.ndarray) -> bool:
        try:
            return bool(b.ndim) and np.matmul(x, b).size <= MOST
        except ValueError:
            return False

    partners = [name for name, b in d.values.items() if fits(b)]
    if x.ndim >= 2 and (not partners or d.draw(st.booleans())):
        d.emit(f"{a} @ {a}.mT * 0.25", f"np.einsum('...ij,...kj->...ik', {a}, {a}) * 0.25", [a])
    else:
        b = d.choose(partners)
        d.emit(f"0.25 * ({a} @ {b})", f"0.25 * np.matmul({a}, {b})", [a, b])


@kind
def row_dots(d: Draft) -> None:
    """The dot product of each row with that of another array whose rows are as long."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]

    def fits(b: np.ndarray) -> bool:
        try:
            return bool(b.ndim) and b.shape[-1] == x.shape[-1] and np.broadcast(x, b).size <= MOST
        except ValueError:
            return False

    b = d.choose([name for name, b in d.values.items() if fits(b)])
    d.emit(f"0.25 * np.vecdot({a}, {b})", f"0.25 * np.sum({a} * {b}, axis=-1)", [a, b])


@kind
def einsum(d: Draft) -> None:
    """A random equation of one or two operands: labels shared, repeated, summed or kept."""
    a = d.operand(lambda a: a.ndim)
    names = [a] if d.draw(st.booleans()) else [a, d.operand(lambda a: a.ndim)]
    sizes: dict[str, int] = {}
    terms = []
    for name in names:
        term = ""
        for n in d.values[name].shape:
            label = d.choose([*[k for k, size in sizes.items() if size == n], "ijklmnopqr"[len(sizes)]])
            sizes[label] = n
            term += label
        terms.append(term)
    used = sorted(set("".join(terms)))
    output = "".join(d.draw(st.permutations(used))[: d.draw(st.integers(0, len(used)))])
    equation = f"{','.join(terms)}->{output}"
    operands = ", ".join(names)
    d.emit(f"mg.einsum('{equation}', {operands})", f"np.einsum('{equation}', {operands}) + 0.0", names)


@kind
def shape(d: Draft) -> None:
    """Elements moved, nothing computed; most of these are views."""
    names = "permute transpose unsqueeze squeeze expand reshape flip roll tril triu repeat diagonal pad T"
    name = d.choose(names.split())
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]
    n = x.ndim
    match name:
        case "permute":
            order = tuple(d.draw(st.permutations(range(n))))
            d.emit(f"{a}.permute{order}", f"np.transpose({a}, {order})", [a], linear=True, view=True)
        case "T":
            d.emit(f"{a}.permute({list(range(n))[::-1]})", f"{a}.T", [a], linear=True, view=True)
        case "transpose":
            i, j = d.dim(a), d.dim(a)
            d.emit(f"{a}.transpose({i}, {j})", f"np.swapaxes({a}, {i}, {j})", [a], linear=True, view=True)
        case "unsqueeze":
            i = d.choose(range(-n - 1, n + 1))
            d.emit(f"{a}.unsqueeze({i})", f"np.expand_dims({a}, {i})", [a], linear=True, view=True)
        case "squeeze":
            d.emit(f"{a}.squeeze()", f"np.squeeze({a})", [a], linear=True, view=True)
        case "expand":
            wide = (2, *(k if k != 1 else d.choose([1, 2, 3]) for k in x.shape))
            made = d.emit(f"{a}.expand{wide}", f"np.broadcast_to({a}, {wide})", [a], linear=True, view=True)
            d.views.update(made)
        case "reshape":
            factors = [k for k in range(1, x.size + 1) if x.size % k == 0]
            if not factors:
                raise Unfit
            k = d.choose(factors)
            wide = d.choose([(x.size,), (k, x.size // k), (1, x.size, 1)])
            d.emit(f"{a}.reshape{wide}", f"np.reshape({a}, {wide})", [a], linear=True, view=True, unsure=True)
        case "flip":
            i = d.dim(a)
            d.emit(f"{a}.flip({i})", f"np.flip({a}, {i}) + 0.0", [a], linear=True)
        case "roll":
            i, k = d.dim(a), d.choose([1, -2])
            d.emit(f"{a}.roll({k}, {i})", f"np.roll({a}, {k}, {i})", [a], linear=True)
        case "tril" | "triu":
            if n < 2:
                raise Unfit
            k = d.choose([0, 1, -1])
            d.emit(f"{a}.{name}({k})", f"np.{name}({a}, {k})", [a], linear=True)
        case "repeat":
            times = (2, *(d.choose([1, 2]) for _ in range(n - 1)))
            d.emit(f"{a}.repeat{times}", f"np.tile({a}, {times})", [a], linear=True)
        case "diagonal":
            if n < 2:
                raise Unfit
            k = d.choose([0, 1, -1])
            mine, numpy = f"{a}.diagonal({k}, 0, {n - 1})", f"np.diagonal({a}, {k}, 0, {n - 1})"
            d.views.update(d.emit(mine, numpy, [a], linear=True, view=True))
        case _:
            before, after = d.choose([0, 1]), d.choose([1, 0, 2])
            mine = f"F.pad({a}, ({before}, {after}), value=0.5)"
            d.emit(mine, f"padded({a}, {before}, {after})", [a], linear=True)


def slices(d: Draft, x: np.ndarray) -> str:
    """Draw a basic index: for some of the dimensions an int, a slice, a step backwards; None and ``...``."""
    parts = []
    for n in x.shape[: d.draw(st.integers(1, x.ndim))]:
        options = [":", "::-1", "1:", ":1", "::2", "1:1"]
        parts.append(d.choose([*options, *(["0", "-1"] if n else [])]))
    extra = d.choose(["", "None", "..."])
    return ", ".join([*([extra] if extra == "None" else []), *parts, *([extra] if extra == "..." else [])])


@kind
def view(d: Draft) -> None:
    """A basic index, which gives a view."""
    a = d.operand(lambda a: a.ndim)
    index = slices(d, d.values[a])
    exact = index if "..." in index else f"{index}, ..."  # so that NumPy gives a view of one element too
    d.emit(f"{a}[{index}]", f"{a}[{exact}]", [a], linear=True, view=True)


@kind
def selection(d: Draft) -> None:
    """An index of arrays or masks, repeats included; gather, index_select, take_along_dim, sort, topk."""
    name = d.choose(["rows", "pairs", "mask", "select", "gather", "sort", "topk", "embedding", "along"])
    a = d.operand(lambda a: a.ndim and a.size)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    rng = d.draw(generators())
    match name:
        case "rows":
            rows = rng.integers(-x.shape[0], x.shape[0], 3).tolist()
            d.emit(f"{a}[{rows}]", f"{a}[{rows}]", [a], linear=True)
        case "embedding":
            rows = rng.integers(0, x.shape[0], (2, 2)).tolist()
            if x.ndim != 2:
                raise Unfit
            d.emit(f"F.embedding(mg.tensor({rows}), {a})", f"{a}[np.array({rows})]", [a], linear=True)
        case "pairs":
            if x.ndim < 2:
                raise Unfit
            i, j = rng.integers(0, x.shape[0], 4).tolist(), rng.integers(0, x.shape[-1], 4).tolist()
            index = f"{i}, ..., {j}"
            d.emit(f"{a}[{index}]", f"{a}[{index}]", [a], linear=True)
        case "mask":
            mask = booleans(d, x.shape)
            d.emit(f"{a}[mg.tensor({mask})]", f"{a}[np.array({mask})]", [a], linear=True)
        case "select":
            rows = rng.integers(0, n, d.choose([2, 1, 4])).tolist()
            d.emit(
                f"{a}.index_select({dim}, mg.tensor({rows}))",
                f"np.take({a}, {rows}, axis={dim})",
                [a],
                linear=True,
            )
        case "gather" | "along":
            wide = list(x.shape)
            wide[dim] = d.choose([2, 1, 3])
            rows = rng.integers(0, n, wide).tolist()
            numpy = f"np.take_along_axis({a}, np.array({rows}), axis={dim})"
            mine = f"{a}.gather({dim}, mg.tensor({rows}))"
            if name == "along":
                mine = f"{a}.take_along_dim(mg.tensor({rows}), {dim})"
            d.emit(mine, numpy, [a], linear=True)
        case _:
            if gap(x) < MARGIN:
                raise Unfit
            descending = name == "topk" or d.draw(st.booleans())
            ordered = f"ordered({a}, {dim}, {descending})"
            if name == "sort":
                d.emit(f"{a}.sort({dim}, descending={descending}).values", ordered, [a], linear=True)
            else:
                k = d.choose(range(1, n + 1))
                mine = f"{a}.topk({k}, {dim}).values"
                d.emit(mine, f"np.take({ordered}, range({k}), axis={dim})", [a], linear=True)


@kind
def placed(d: Draft) -> None:
    """Out of place: values added or written at indices that may repeat, or masked."""
    name = d.choose(["scatter_add", "scatter", "index_add", "masked_fill"])
    a = d.operand(lambda a: a.ndim and a.size)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    rng = d.draw(generators())
    if name == "masked_fill":
        mask = booleans(d, x.shape)
        d.emit(f"{a}.masked_fill(mg.tensor({mask}), 0.5)", f"np.where({mask}, 0.5, {a})", [a])
        return
    if name == "index_add":
        b = d.operand(lambda b: b.shape == x.shape)
        rows = rng.integers(0, n, n).tolist()
        numpy = f"added_at({a}, {dim}, {rows}, {b})"
        d.emit(f"{a}.index_add({dim}, mg.tensor({rows}), {b})", numpy, [a, b], linear=True)
        return
    b = d.operand(lambda b: b.shape == x.shape)
    rows = rng.integers(0, n, x.shape).tolist()
    numpy = f"scattered({a}, {dim}, np.array({rows}), {b}, {name == 'scatter_add'})"
    d.emit(f"{a}.{name}({dim}, mg.tensor({rows}), {b})", numpy, [a, b])


@kind
def joined(d: Draft) -> None:
    """Several tensors joined; the same one twice as well."""
    a = d.operand()
    x = d.values[a]
    b = d.operand(lambda b: b.shape == x.shape)
    if x.ndim and d.draw(st.booleans()):
        dim = d.dim(a)
        mine = f"mg.cat([{a}, {b}, {a}], dim={dim})"
        d.emit(mine, f"np.concatenate([{a}, {b}, {a}], axis={dim})", [a, b], linear=True)
    else:
        dim = d.choose(range(-x.ndim - 1, x.ndim + 1))
        d.emit(f"mg.stack([{a}, {b}], dim={dim})", f"np.stack([{a}, {b}], axis={dim})", [a, b], linear=True)


@kind
def pieces(d: Draft) -> None:
    """Several results of one operation, two of which are used further."""
    a = d.operand(lambda a: a.ndim)
    x = d.values[a]
    dim = d.dim(a)
    n = x.shape[dim]
    before = (slice(None),) * (dim % x.ndim)
    if n >= 2 and d.draw(st.booleans()):
        parts = [f"{a}[{(*before, k, ...)}]" for k in (0, n - 1)]
        d.emit(f"{a}.unbind({dim})[::{n - 1}]", parts, [a], results=2, linear=True, view=True)
    elif n >= 3:
        k = d.choose(range(1, n - 1))
        parts = [f"{a}[{(*before, slice(0, k))}]", f"{a}[{(*before, slice(k, n - 1))}]"]
        mine = f"mg.split({a}, [{k}, {n - 1 - k}, 1], dim={dim})[:2]"
        d.emit(mine, parts, [a], results=2, linear=True, view=True)
    else:
        raise Unfit


@kind
def kernel(d: Draft) -> None:
    """The fused kernels."""
    name = d.choose(["softmax", "log_softmax", "linear", "layer_norm", "attention", "cross_entropy"])
    a = d.operand(lambda a: a.size and (a.ndim == 2 if name == "cross_entropy" else a.ndim))
    x = d.values[a]
    match name:
        case "softmax":
            dim = d.dim(a)
            d.emit(f"{a}.softmax({dim})", f"softmax({a}, {dim})", [a])
        case "log_softmax":
            dim = d.dim(a)
            d.emit(f"{a}.log_softmax({dim})", f"np.log(softmax({a}, {dim}))", [a])
        case "linear":
            w = d.operand(lambda w: w.ndim == 2 and w.shape[1] == x.shape[-1])
            biases = [n for n, b in d.values.items() if b.shape == (d.values[w].shape[0],)]
            b = d.choose([*biases, None])
            numpy = f"np.einsum('...i,oi->...o', {a}, {w})" + ("" if b is None else f" + {b}")
            d.emit(f"F.linear({a}, {w}, {b})", numpy, [a, w, *([b] if b else [])])
        case "layer_norm":
            vectors = [n for n, b in d.values.items() if b.shape == x.shape[-1:]]
            w, b = d.choose([None, *vectors]), d.choose([None, *vectors])
            mine = f"F.layer_norm({a}, ({x.shape[-1]},), {w}, {b}, 0.1)"
            d.emit(mine, f"layer_norm({a}, {w}, {b})", [a, *(v for v in (w, b) if v)])
        case "attention":
            if x.ndim < 2:
                raise Unfit

            def fits(k: np.ndarray) -> bool:
                return (
                    k.ndim == x.ndim and k.shape[:-2] == x.shape[:-2] and k.shape[-1] == x.shape[-1] and k.size > 0
                )

            k = d.operand(fits)
            v = d.operand(lambda v: v.ndim == x.ndim and v.shape[:-1] == d.values[k].shape[:-1] and v.size)
            causal = d.draw(st.booleans())
            mask = None if causal or d.draw(st.booleans()) else booleans(d, (x.shape[-2], d.values[k].shape[-2]))
            shown = None if mask is None else f"mg.tensor({mask})"
            mine = f"F.scaled_dot_product_attention({a}, {k}, {v}, {shown}, is_causal={causal})"
            d.emit(mine, f"attention({a}, {k}, {v}, {causal}, {mask})", [a, k, v])
        case _:
            target = d.draw(generators()).integers(0, x.shape[1], x.shape[0]).tolist()
            ignored = d.choose([-100, 0])
            how, smoothing = d.choose(["mean", "sum", "none"]), d.choose([0.0, 0.1])
            mine = f"F.cross_entropy({a}, mg.tensor({target}), None, {ignored}, '{how}', {smoothing})"
            d.emit(mine, f"cross_entropy({a}, {target}, {ignored}, '{how}', {smoothing})", [a])


def writable(d: Draft) -> str:
    """Draw memory that no rule needs: of a value so far, or of a copy made for the purpose; or a view of it."""
    free = [n for n, m in d.memory.items() if m not in d.kept and n not in d.views]
    if free and d.draw(st.booleans()):
        target = d.choose(free)
    elif d.draw(st.integers(0, 3)):
        a = d.operand()
        (target,) = d.emit(f"{a}.clone()", f"np.array({a})", [a], linear=True)
    else:
        sizes = d.choose([(3,), (2, 3), (2, 2), ()])
        (target,) = d.emit(f"mg.zeros{sizes or '(())'}.double()", f"zeros{sizes}", [], linear=True)
    if d.values[target].ndim and d.draw(st.booleans()):
        index = slices(d, d.values[target])
        exact = index if "..." in index else f"{index}, ..."
        (target,) = d.emit(f"{target}[{index}]", f"{target}[{exact}]", [target], linear=True, view=True)
    return target


@kind
def in_place(d: Draft) -> None:
    """A write into memory, whole or in part, also through views."""
    t = writable(d)
    x = d.values[t]
    name = d.choose(
        ["+=", "-=", "*=", "/=", "[]=", "rows=", "mask=", "copy_", "masked_fill_", "zero_", "tanh_", "index_add_"]
    )

    def into(b: np.ndarray) -> bool:
        try:
            return np.broadcast_shapes(b.shape, x.shape) == x.shape
        except ValueError:
            return False

    match name:
        case "+=" | "-=" | "*=" | "/=":
            b = d.operand(into)
            y = d.inside(b, "not zero") if name == "/=" else b
            if y != b and d.memory[b] == d.memory[t]:
                raise Unfit  # y is computed from what is about to be overwritten, and its rule needs that
            d.write(t, f"{t} {name} {y}", f"{t}[...] = {t} {name[0]} {y}", [b], saves=name in ("*=", "/="))
        case "[]=":
            if not x.ndim:
                raise Unfit
            index = slices(d, x)
            part = x[eval(f"np.s_[{index}]", {"np": np})]
            b = d.operand(lambda b: np.shape(part) == b.shape or not b.ndim)
            d.write(t, f"{t}[{index}] = {b}", f"{t}[{index}] = {b}", [b])
        case "rows=":
            if not x.ndim or not x.size:
                raise Unfit
            rows = d.draw(generators()).integers(0, len(x), 2).tolist()
            b = d.operand(lambda b: not b.ndim or b.shape == (2, *x.shape[1:]))
            d.write(t, f"{t}[{rows}] = {b}", f"{t}[...] = written({t}, {rows}, {b})", [b])
        case "mask=" | "masked_fill_":
            mask = booleans(d, x.shape)
            if name == "mask=":
                b = d.operand(lambda b: not b.ndim)
                d.write(t, f"{t}[mg.tensor({mask})] = {b}", f"{t}[np.array({mask})] = {b}", [b])
            else:
                mine = f"{t}.masked_fill_(mg.tensor({mask}), -0.25)"
                d.write(t, mine, f"{t}[np.array({mask})] = -0.25", [])
        case "copy_":
            b = d.operand(into)
            d.write(t, f"{t}.copy_({b})", f"{t}[...] = {b}", [b])
        case "zero_":
            d.write(t, f"{t}.zero_()", f"{t}[...] = 0", [])
        case "tanh_":
            d.write(t, f"{t}.tanh_()", f"{t}[...] = np.tanh({t})", [])
            d.kept.add(d.memory[t])
        case _:
            if not x.ndim or not x.size:
                raise Unfit
            rows = d.draw(generators()).integers(0, len(x), len(x)).tolist()
            b = d.operand(lambda b: b.shape == x.shape)
            mine = f"{t}.index_add_(0, mg.tensor({rows}), {b})"
            d.write(t, mine, f"{t}[...] = added_at({t}, 0, {rows}, {b})", [b])


@kind
def declared(d: Draft) -> None:
    """A smooth elementwise operation that no line of this file names: its declaration says all that is needed."""
    if not UNNAMED:
        raise Unfit
    name = d.choose(UNNAMED)
    a = d.operand()
    operands = [a] if len(registry[name].operands) == 1 else [a, d.partner(a)]
    own = [function.__name__ for function, meant in numpy_functions.items() if meant is registry[name]]
    function = f"np.{own[0]}(" if own else f"forward('{name}', "
    listed = ", ".join(operands)
    d.emit(f"mg.Tensor.{name}({listed})", f"{function}{listed})", operands, analytic=False)


NAMED = set(re.findall(r"\.(\w+)\(", Path(__file__).read_text(encoding="utf-8")))
OPERATORS = {"add", "sub", "mul", "div", "neg", "pow", "remainder"}
SMOOTH = {
    operation.name
    for family in (Arithmetic, Exponentials, Trigonometry, Activations)
    for operation in vars(family).values()
    if isinstance(operation, Op) and operation.rules
}
UNNAMED = sorted(SMOOTH - NAMED - OPERATORS)

KINDS.update({group: elementwise(group) for group in UNARY})


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers of both signs, of sizes in [0.2, 1.4], with four digits: short when printed, and exact."""
    return np.asarray(np.round(rng.uniform(0.2, 1.4, shape) * rng.choice([-1.0, 1.0], shape), 4))


@st.composite
def leaf(draw: Any, name: str, wanted: bool, related: Sequence[tuple[int, ...]]) -> Leaf:
    """Draw an input: often of a shape that there is already, so that operations find partners."""
    wide = draw(st.one_of(st.sampled_from(list(related)), shapes(max_size=12)) if related else shapes(max_size=12))
    values = numbers(draw(generators()), wide)
    layout = draw(st.sampled_from(["C", "transposed", "reversed", "stepped", "read-only", "stride 0"]))
    if not wide:
        layout = "C"
    match layout:
        case "transposed":
            made = f"np.array({values.T.tolist()}).reshape({wide[::-1]}).T"
        case "reversed":
            made = f"np.array({values[::-1].tolist()}).reshape({wide})[::-1]"
        case "stepped":
            made = f"np.array({np.repeat(values, 2, -1).tolist()}).reshape({(*wide[:-1], 2 * wide[-1])})[..., ::2]"
        case "stride 0":
            made = f"np.broadcast_to(np.array({values[:1].tolist()}).reshape({values[:1].shape}), {wide})"
        case "read-only":
            made = f"np.broadcast_to(np.array({values.tolist()}).reshape({wide}), {wide})"
        case _:
            made = f"np.array({values.tolist()}).reshape({wide})"
    return Leaf(name, made, wanted)


@st.composite
def programs(draw: Any, max_steps: int = 15) -> Program:
    """Draw a program; at least one of its outputs depends on a leaf whose gradient is wanted."""
    d = Draft(draw)
    leaves: list[Leaf] = []
    for i in range(draw(st.integers(1, 4))):
        wanted = i == 0 or draw(st.booleans())
        related = [a.shape for a in d.values.values()] + [a.shape[-1:] for a in d.values.values()]
        leaves.append(draw(leaf(f"x{i}", wanted, related)))
        array = leaves[-1].array()
        d.values[f"x{i}"] = array
        d.memory[f"x{i}"] = i
        d.kept.add(i)
        d.views.add(f"x{i}")
        if wanted:
            d.needs.add(f"x{i}")
    least = draw(st.sampled_from([k for k in (1, 4, 7, 10, 13) if k <= max_steps]))
    for name in draw(st.lists(st.sampled_from(list(KINDS)), min_size=least, max_size=max_steps)):
        try:
            KINDS[name](d)
        except Unfit:
            continue
    computed = [n for n in d.values if n in d.needs and n.startswith("v")] or ["x0"]
    chosen = draw(st.lists(st.sampled_from(computed[::-1]), min_size=1, max_size=3, unique=True))
    rng = draw(generators())
    cotangents = [numbers(rng, d.values[name].shape) for name in chosen]
    return Program(leaves, d.steps, chosen, cotangents)


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
