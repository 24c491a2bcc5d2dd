"""What an operation is: a NumPy function, and one local derivative for each differentiable argument.

    @op(x=lambda g, y: g @ y.mT, y=lambda g, x: x.mT @ g)
    def matmul(x, y):
        return np.matmul(x, y)

A *rule* is a vector-Jacobian product.  It receives ``g``, the gradient of the final result with respect to this
operation's output (the cotangent), and returns the gradient with respect to one argument.  What else it needs it
names: an argument, ``out`` for the output, or ``x_shape`` for the mere shape of argument ``x``.  An operation
saves what its rules name, and nothing else.

Rules are plain NumPy.  In a normal backward pass they receive arrays and run at NumPy's speed.  Where the
derivative is to be differentiated again (``create_graph=True``) the same rules receive Tensors, and the NumPy
calls in them come back here through NumPy's dispatch protocol and are recorded like any others.

A rule does not care about broadcasting, dtypes, ownership or freeing: the engine does, once for all.  An
elementwise operation is a single row: :mod:`minigrad.rules.rows`.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, overload

import numpy as np

from minigrad.calls import PLAIN_TYPES, bind, explained, no_tensor, promote
from minigrad.grad_mode import _recording, enable_grad
from minigrad.graph import Array, Node, Parent, TensorBase, View, backward_pass
from minigrad.observers import observers, tell
from minigrad.plan import NEVER_WRITTEN, Plan, Rule, name_rule, plan_for, rule_names

if TYPE_CHECKING:
    from minigrad.tensor import Tensor

P = ParamSpec("P")
Q = ParamSpec("Q")


FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

quietly = np.errstate(all="ignore")  # around a forward function: infinities and NaN are values, not warnings

registry: dict[str, Op[...]] = {}
"""Every operation by name: the rule table of the documentation, and what the property tests draw from."""

numpy_functions: dict[Any, Callable[..., Any]] = {}
"""NumPy's functions, and what runs in their place when an argument is a Tensor."""


class Op(Generic[P]):
    """An operation: called like the function it wraps, on Tensors; as a class attribute, a method of Tensor.

    Args:
        forward: the NumPy function.
        rules: for each differentiable argument its rule.
        joint: instead of ``rules``, one rule that returns the gradients of all differentiable arguments as a
            tuple, for operations whose gradients share work.  It may name ``saved``: then ``forward`` returns
            the pair (output, what to save); and ``wanted``: the names of the arguments that need a gradient.
        differentiable: the arguments that a joint rule answers for.
        composed: the same function written with basic operations: what the tests compare with, and what is
            differentiated, instead of a joint rule that is not differentiable NumPy itself, where a derivative
            is to be differentiated again.
        numpy: NumPy's functions of this meaning, which then accept Tensors.
        promote: "common" for elementwise operations, whose operands are brought to one dtype first; "float"
            where integers become floats.
        view: the output may share the first argument's memory.
        internal: a helper of rules, which accepts arrays alone as well.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        rules: Mapping[str, Rule],
        *,
        joint: Rule | None = None,
        differentiable: Sequence[str] = (),
        composed: Callable[..., Any] | None = None,
        numpy: Sequence[Any] = (),
        promote: str | None = None,
        view: bool = False,
        internal: bool = False,
    ) -> None:
        self.forward = forward
        self.rules = rules
        self.joint = joint
        self.differentiable = tuple(rules) or tuple(differentiable)
        self.composed = composed
        self.promote = promote
        self.view = view
        self.internal = internal
        # By the number of arguments, and a number with bit i set if argument i wants a gradient; of two arguments
        # also by that number alone, which is quicker to find.
        self.plans: dict[tuple[int, int], Plan] = {}
        self.pair_plans: list[Plan | None] = [None] * 4

        parameters = inspect.signature(forward).parameters.values()
        self.parameters = tuple(parameter.name for parameter in parameters)
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        # cat and einsum take any number of tensors: def forward(*tensors, option=...).
        self.variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        self.arity = -1 if self.variadic else len(self.parameters)
        # Whether it has the short cut of_pair(): two operands with a rule each, as x + y and x @ y.
        self.takes_pairs = promote == "common" and self.arity == 2 and len(self.differentiable) == 2
        self.returns_saved = joint is not None and "saved" in rule_names(joint)
        # The positions of what promotion brings to one dtype.
        operands = self.differentiable or [name for name in self.parameters if name not in self.defaults]
        self.operands = () if self.variadic else tuple(self.parameters.index(name) for name in operands)

        for function in numpy:
            numpy_functions[function] = self
        self.name = forward.__name__.strip("_")
        if self.name:
            self.register()

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name that a class body gives to an operation whose forward function has none."""
        if not self.name:
            forward = self.forward
            forward.__name__, forward.__qualname__ = name, f"{owner.__qualname__}.{name}"
            forward.__module__ = owner.__module__
            self.name = name
            self.register()

    def register(self) -> None:
        """Enter the operation under its name, which its rules get as well."""
        functools.update_wrapper(self, self.forward)
        registry[self.name] = self
        for argument, rule in self.rules.items():
            name_rule(rule, self.name, argument)

    def __repr__(self) -> str:
        return f"<operation {self.name}({', '.join(self.parameters)})>"

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Op[P]: ...
    @overload
    def __get__(self: Op[Concatenate[Any, Q]], instance: object, owner: Any = None) -> Callable[Q, Tensor]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    # --- forward: compute, and record -------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        """Compute the result, and record it if an argument wants a gradient.

        Of an operation with several results it is a tuple; of an internal one on arrays alone, an array.

        Raises:
            TypeError: there is no tensor among the arguments, or they don't fit the parameters.
            RuntimeError: the forward function refuses the values (from its ValueError).
            IndexError: there is no such dimension.
        """
        # The short cut: two tensors of one floating dtype, whose places in the graph no recorded write has moved.
        if self.takes_pairs and not kwargs and len(args) == 2:
            x, y = args
            if type(x) is type(y) is TensorBase.result_class and not (x._version[1] or y._version[1]):
                a, b = x._data, y._data
                dtype = a.dtype
                if dtype is b.dtype and (dtype is FLOAT32 or dtype is FLOAT64):
                    return self.of_pair(x, y, a, b)  # type: ignore[no-any-return]
        inputs: Any = args if not kwargs and len(args) == self.arity else bind(self, args, kwargs)
        values, first, wanted = self.take_arrays(inputs)
        try:
            out = self.forward(*values) if not self.variadic else self.call_variadic(values)
        except (ValueError, TypeError) as error:
            raise explained(self, error, values) from None
        saved = None
        if self.returns_saved:
            out, saved = out
        if first is None:
            return out  # type: ignore[no-any-return]
        if type(out) is tuple:
            return self.several_results(inputs, values, out, saved, wanted, first)  # type: ignore[no-any-return]
        if type(out) is not np.ndarray:
            out = np.asarray(out)  # NumPy makes scalars of 0-d results

        version = None
        if self.view and shares_memory(out, first._data):
            version = first._version
        result = first.result_class(out, None, False, version)
        if version is not None:
            result._view = View(first, self, inputs[1:], None)
        if wanted and _recording.get():
            plan = self.plans.get((len(inputs), wanted)) or self.make_plan(len(inputs), wanted)
            if plan.arguments:
                values += (out, saved)
                result._node = plan.record(plan, inputs, values, result._version, out.shape, out.dtype)
                result._requires_grad = True
        if (watching := observers.get()) is not None:
            tell(watching, result._node, self, values[: len(inputs)], [out])
        return result  # type: ignore[no-any-return]

    def take_arrays(self, inputs: Sequence[Any]) -> tuple[list[Any], Any, int]:
        """Take the arrays out of the tensors, brought to one dtype where the operation wants that.

        Returns:
            The values to call ``forward`` with; the first tensor; a number with bit i set if argument i wants a
            gradient.

        Raises:
            TypeError: there is no tensor among the arguments.
        """
        values = list(inputs)
        first: Any = None
        common: Any = None
        plain = True  # all operands are tensors of one dtype, or Python scalars
        wanted = 0
        for position, argument in enumerate(inputs):
            if isinstance(argument, TensorBase):
                if argument._version[1]:  # of a view, a recorded write to its memory has moved its place
                    argument.refresh()
                values[position] = data = argument._data
                if first is None:
                    first, common = argument, data.dtype
                elif data.dtype is not common:
                    plain = False
                if argument._requires_grad:
                    wanted |= 1 << position
            elif type(argument) not in PLAIN_TYPES:
                plain = False
        if first is None and not self.internal:
            raise no_tensor(self, inputs)
        if self.promote is not None and not (plain and common.kind == "f" and not self.variadic):
            promote(self, inputs, values)
        return values, first, wanted

    def of_pair(self, x: Any, y: Any, a: Array, b: Array) -> Any:
        """Return the result for two tensors of one floating dtype: the commonest call by far, so written out."""
        try:
            out = self.forward(a, b)
        except ValueError as error:
            raise explained(self, error, (a, b)) from None
        if type(out) is not np.ndarray:
            out = np.asarray(out)
        result = TensorBase.result_class(out)
        wanted = x._requires_grad + 2 * y._requires_grad
        if wanted and _recording.get():
            plan = self.pair_plans[wanted] or self.make_plan(2, wanted)
            result._node = plan.record(plan, (x, y), (a, b, out), result._version, out.shape, out.dtype)
            result._requires_grad = True
        if (watching := observers.get()) is not None:
            tell(watching, result._node, self, (a, b), [out])
        return result

    def call_variadic(self, values: Sequence[Any]) -> Any:
        """Call ``forward`` with the tensors in order and the options by keyword."""
        options = self.parameters[1:]
        n = len(values) - len(options)
        return self.forward(*values[:n], **dict(zip(options, values[n:], strict=True)))

    def several_results(
        self, inputs: Sequence[Any], values: list[Any], arrays: Sequence[Any], saved: Any, wanted: int, first: Any
    ) -> Any:
        """Wrap the outputs of an operation with several, each with a node that says which one it is."""
        version = first._version if self.view else None
        node: Node | None = None
        if wanted and _recording.get():
            plan = self.plans.get((len(inputs), wanted)) or self.make_plan(len(inputs), wanted)
            if plan.arguments:
                if len(inputs) in plan.values:  # a write to one of them would go unnoticed
                    raise RuntimeError(f"{self.name} has several results, so that its rule can't name 'out'")
                values += (arrays, saved)
                shapes, kinds = [a.shape for a in arrays], [a.dtype for a in arrays]
                node = plan.record(plan, inputs, values, NEVER_WRITTEN, shapes, kinds)
        if (watching := observers.get()) is not None:
            tell(watching, node, self, values[: len(inputs)], arrays)
        results = []
        for k, array in enumerate(arrays):
            picked = None if node is None else node.pick(k)
            result = first.result_class(array, picked, node is not None, version)
            if self.view:
                result._view = View(first, self, inputs[1:], k)
            results.append(result)
        return tuple(results)

    def make_plan(self, n: int, wanted: int) -> Plan:
        """Work out, once for each set of arguments that want a gradient, what to save and what to run.

        Those of the ``n`` arguments want one that have their bit set in ``wanted``.
        """
        wanting = [i for i in range(n) if wanted >> i & 1]
        positions = self.positions(n)
        if self.variadic:
            results = arguments = tuple(i for i in wanting if i in positions[self.parameters[0]])
        else:
            differentiable = [self.parameters.index(name) for name in self.differentiable]
            arguments = tuple(i for i in wanting if i in differentiable)
            if len(arguments) < len(wanting) and differentiable:
                name = self.parameters[next(i for i in wanting if i not in differentiable)]
                raise RuntimeError(f"{self.name} has no derivative with respect to '{name}': pass {name}.detach()")
            results = tuple(differentiable.index(i) for i in arguments)
        if self.joint is None:
            plan = plan_for(self, n, arguments, positions, [self.rules[self.parameters[i]] for i in arguments])
        else:
            plan = plan_for(self, n, arguments, positions, [self.bind_wanted(self.joint, arguments)], results)
        self.plans[(n, wanted)] = plan
        if self.takes_pairs:
            self.pair_plans[wanted] = plan
        return plan

    def positions(self, n: int) -> dict[str, Any]:
        """Return where each name stands among n arguments, the output after them, and what it saved besides."""
        positions: dict[str, int | range] = {"out": n, "saved": n + 1}
        if not self.variadic:
            return positions | {name: k for k, name in enumerate(self.parameters)}
        n_operands = n - len(self.parameters) + 1
        positions[self.parameters[0]] = range(n_operands)
        return positions | {name: n_operands + k for k, name in enumerate(self.parameters[1:])}

    def bind_wanted(self, rule: Rule, arguments: Sequence[int]) -> Rule:
        """Tell a rule that asks which gradients are wanted."""
        if "wanted" not in inspect.signature(rule).parameters:
            return rule
        return functools.partial(rule, wanted=frozenset(self.parameters[i] for i in arguments))

    # --- backward: run the rules ------------------------------------------------------------------

    def pullback(
        self, node: Node, g: Array, useful: set[Parent] | None, values: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Return the gradient of each of ``node.parents``, or None where it leads to nothing useful.

        The rules get the saved ``values`` that they name: the arrays, unless others are given in their place.
        """
        if values is None:
            values = node.saved
        assert values is not None
        if self.joint is not None or useful is None or useful.issuperset(node.parents):
            return node.plan.pull(g, values)
        return [
            rule(g, *[values[i] for i in where]) if parent in useful else None
            for parent, (rule, where) in zip(node.parents, node.plan.rules, strict=True)
        ]

    def pullback_as_tensors(self, node: Node, g: Array, useful: set[Parent] | None) -> Sequence[Any]:
        """Return the same as :meth:`pullback`, recorded: saved arrays become Tensors at their old places."""
        assert node.saved is not None
        values = list(node.saved)
        for k, (position, name) in enumerate(zip(node.plan.values, node.plan.names, strict=True)):
            if name == "out":
                values[k] = TensorBase.result_class(values[k], node, True)
            elif position in node.plan.arguments:
                values[k] = self.restore(node.parents[node.plan.arguments.index(position)], values[k])
        if self.composed is not None and self.joint is not None:
            return self.differentiate_composed(node, g, values)
        return self.pullback(node, g, useful, values)

    def restore(self, parent: Parent, array: Array) -> Tensor:
        """Return a Tensor of the saved ``array`` at the place in the graph that ``parent`` is."""
        if isinstance(parent, Node):
            return TensorBase.result_class(array, parent, True)  # type: ignore[return-value]
        if parent.dtype != array.dtype:
            return registry["cast"](parent, array.dtype)  # it was promoted to its partner's dtype
        if parent._data is not array:
            raise RuntimeError(
                f"the gradient of {self.name} needs a leaf tensor whose .data has been replaced since; "
                "replace it after the backward pass, or work on a copy"
            )
        return parent  # type: ignore[return-value]

    def differentiate_composed(self, node: Node, g: Array, values: list[Any]) -> Sequence[Any]:
        """Differentiate the composed form instead of running the rule, which need not be differentiable."""
        assert self.composed is not None
        named = {
            name: TensorBase.result_class(value) if isinstance(value, np.ndarray) else value
            for name, value in zip(node.plan.names, values, strict=True)
        }
        inputs: list[Any] = []
        for i in node.plan.arguments:
            # A node of its own for each input, so that the walk below stops there, whatever lies behind it.
            named[self.parameters[i]] = entrance = registry["identity"](named[self.parameters[i]])
            inputs.append(entrance._node)
        with enable_grad():
            out = self.composed(**{name: named[name] for name in self.parameters})
        gradients = backward_pass([out._node], [g], create_graph=True, targets=inputs)
        return [gradients.get(entrance) for entrance in inputs]


def op(
    *,
    joint: Rule | None = None,
    differentiable: Sequence[str] = (),
    composed: Callable[..., Any] | None = None,
    numpy: Any = (),
    promote: str | None = None,
    view: bool = False,
    internal: bool = False,
    **rules: Rule,
) -> Callable[[Callable[P, Any]], Op[P]]:
    """Declare an operation: decorate its forward function, and give one rule for each differentiable argument.

    >>> import minigrad as mg
    >>> @op(x=lambda g, x: g * 3 * x * x)
    ... def cube(x):
    ...     return x * x * x
    >>> x = mg.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).backward(mg.tensor([1.0, 1.0]))
    >>> x.grad
    tensor([ 3., 12.])
    >>> _ = registry.pop("cube")

    The other arguments are those of :class:`Op`; ``numpy`` may be one function.
    """

    def declare(forward: Callable[P, Any]) -> Op[P]:
        return Op(
            forward,
            rules,
            joint=joint,
            differentiable=differentiable,
            composed=composed,
            numpy=numpy if isinstance(numpy, tuple) else (numpy,),
            promote=promote,
            view=view,
            internal=internal,
        )

    return declare


def kernel(backward: Rule, differentiable: Sequence[str], **options: Any) -> Callable[[Callable[P, Any]], Op[P]]:
    """Declare an operation whose gradients share work: one ``backward`` returns them all, as a tuple.

    The ``options`` are those of :func:`op`.  ``composed`` is the same function in basic operations: the definition
    that the kernel is tested against, and what is differentiated where a derivative is to be differentiated again.
    """
    return op(joint=backward, differentiable=differentiable, **options)


def shares_memory(view: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> bool:
    """Return whether ``view`` was made as a view of ``base``, not as a copy."""
    return view is base or (view.base is not None and (view.base is base or view.base is base.base))
