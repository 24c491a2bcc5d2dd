"""The graph and the walk back through it.

A tensor points to the node that made it, a node points to the nodes that made its inputs, and nothing points
the other way.  So the graph is an ordinary web of Python references: it lives exactly as long as something
refers to it, and there is no tape to reset and no cycle to collect.

    x ──► multiply ──► sum ──► loss         computed in this order
    x ◄── multiply ◄── sum ◄── loss         each arrow is a reference, and the path that a gradient takes

:func:`backward_pass` walks it.  Every node carries the number of its creation, and a node is always made after
its inputs; so taking the highest number first visits each node after everything that used its output.  That is
all of reverse-mode differentiation: no recursion, no second pass, no sorting beforehand.

The gradient of the final result with respect to what an operation gave is called the *cotangent* of that here: the
operation's rules turn it into the gradients of its inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from minigrad import anomaly
from minigrad.grad_mode import enable_grad, set_grad_enabled
from minigrad.observers import Kept

if TYPE_CHECKING:
    from minigrad.nn.module import Call
    from minigrad.op import Op
    from minigrad.plan import Plan

Array: TypeAlias = Any
"""An ndarray in a normal pass; a Tensor where a derivative is itself differentiated (``create_graph=True``)."""

# --- tensors and nodes, as the engine sees them ---------------------------------------------------


class TensorBase:
    """An array and its place in the graph: all that the engine needs to know of a tensor.

    A *leaf* has no node: it was made by the user, not by a recorded operation.  Leaves that require a gradient
    are where a backward pass ends.
    """

    __slots__ = ("__weakref__", "_data", "_hooks", "_node", "_requires_grad", "_version", "_view", "grad")

    result_class: ClassVar[type[TensorBase]]  # the class that operations return, also those on a subclass

    def __init__(
        self,
        data: Array,
        node: Node | None = None,
        requires_grad: bool = False,
        version: list[int] | None = None,
    ) -> None:
        self._data: np.ndarray[Any, np.dtype[Any]] = data
        self._node = node
        self._requires_grad = requires_grad
        # [how many writes in place the memory has had, how many of them were recorded in the graph]: one list for
        # all tensors that share the memory.
        self._version = [0, 0] if version is None else version
        self._view: View | None = None  # how this tensor came to share another's memory
        self._hooks: list[Callable[[Array], Array]] | None = None  # of a leaf; others keep them in their node
        self.grad: Any = None
        """The derivatives that backward passes have added up here: a tensor of the same shape, or None."""

    def refresh(self) -> TensorBase:
        """Return the tensor, a view with its place in the graph brought up to date after writes to its memory."""
        view = self._view
        if view is not None and view.seen != self._version[1]:
            view.base.refresh()
            with enable_grad():
                made = view.replay(view.base)
            self._node, self._requires_grad = made._node, made._requires_grad
            view.seen = self._version[1]
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, a tuple of ints."""
        return self._data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self._data.dtype


Parent: TypeAlias = "Node | TensorBase"  # the node that made an input, or the input itself where it is a leaf


class Node:
    """One recorded operation: where its gradients go and what its rules need to compute them.

    ``parents`` are the inputs that want a gradient.  ``saved`` are the values that the rules name, and no other:
    an addition saves nothing.  ``versions`` tells how often the memory of each had been written in place: for
    every saved tensor the counter of its memory, followed by what it said then.
    """

    # Few and plain: a node is made for every recorded operation.  What is rare is a default of the class.
    __slots__ = ("__dict__", "dtype", "number", "parents", "plan", "saved", "shape", "versions")

    hooks: list[Callable[[Array], Array]] | None = None
    output: int | None = None  # of an operation with several results, each has a small node that says which it is
    trace: anomaly.Trace | None = None  # in anomaly mode only
    calls: Sequence[Call] = ()  # the calls of modules that this is a result of, the inner ones first
    kept: Kept | None = None  # with keep_values() only

    count: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(
        self,
        plan: Plan,
        parents: Sequence[Parent],
        saved: Sequence[Any] | None,
        versions: Sequence[Any],
        shape: Any,
        dtype: Any,
    ) -> None:
        self.number: int = next(Node.count)
        self.plan = plan
        self.parents = parents
        self.saved = saved  # None once it was freed
        self.versions = versions
        self.shape = shape  # of the output; of an operation with several outputs a list, as the dtype
        self.dtype = dtype

    @property
    def op(self) -> Any:
        """The operation, an :class:`minigrad.op.Op` or one that a Function made."""
        return self.plan.op

    def pick(self, k: int) -> Node:
        """Return a node for result ``k`` of an operation with several."""
        picked = Node(self.plan, (self,), (), (), self.shape[k], self.dtype[k])
        picked.output = k
        return picked

    def name(self) -> str:
        """Return the operation's name as PyTorch spells it: "MulBackward0"; "CubeBackward" for a class Cube."""
        words = "".join(part[:1].upper() + part[1:] for part in self.op.name.split("_"))
        return f"{words}Backward" if self.op.name[:1].isupper() else f"{words}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Node | AccumulateGrad, int], ...]:
        """For each input that wants a gradient what made it, and which of its results it was."""
        parents = self.parents
        if self.output is not None and parents:
            (operation,) = parents
            parents = operation.parents if isinstance(operation, Node) else []
        found: list[tuple[Node | AccumulateGrad, int]] = []
        for parent in parents:
            if isinstance(parent, Node):
                found.append((parent, parent.output or 0))
            else:
                found.append((AccumulateGrad(parent), 0))
        return tuple(found)

    def __repr__(self) -> str:
        return f"<{self.name()} {self.number}>"


# --- the walk -------------------------------------------------------------------------------------


def sum_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum ``gradient`` down to ``shape``: what broadcasting copied to several places adds up from all of them."""
    extra = gradient.ndim - len(shape)
    stretched = tuple(extra + i for i, n in enumerate(shape) if n == 1 and gradient.shape[extra + i] != 1)
    dims = (*range(extra), *stretched)
    return np.reshape(np.sum(gradient, axis=dims), shape) if dims else np.reshape(gradient, shape)


def leading_to(targets: Sequence[Parent], outputs: Iterable[Parent]) -> set[Parent]:
    """Return those nodes below ``outputs`` through which a gradient can reach a target, with the targets."""
    found = {output for output in outputs if type(output) is Node}
    pending = list(found)
    while pending:
        for parent in pending.pop().parents:
            if type(parent) is Node and parent not in found:
                found.add(parent)
                pending.append(parent)
    useful: set[Parent] = set(targets)
    for node in sorted(found, key=attrgetter("number")):  # inputs before what was made from them
        if not useful.isdisjoint(node.parents):
            useful.add(node)
    return useful


class Arrivals:
    """The gradients on their way: what has arrived so far at each node and leaf, and which node is next."""

    __slots__ = ("heap", "owned", "pending")

    def __init__(self) -> None:
        self.pending: dict[Parent, Any] = {}  # the sum of what has arrived
        self.owned: set[Parent] = set()  # those whose sum was made here, so that adding into it harms nobody
        self.heap: list[tuple[int, Node]] = []  # the nodes in `pending`, the latest made on top

    def deliver(self, parent: Parent, gradient: Array, fresh: bool) -> None:
        """Add to what ``parent`` has received: the one place that knows broadcasting, dtypes and ownership.

        ``fresh`` says that nobody else has the array, so that it may be added into.
        """
        like: Any = parent if type(parent) is Node else parent._data  # type: ignore[union-attr]
        if gradient.shape != like.shape:  # what follows may give a view, or NumPy's scalar: neither is fresh
            gradient, fresh = sum_to(gradient, like.shape), False
        if gradient.dtype is not like.dtype and gradient.dtype != like.dtype:
            gradient, fresh = gradient.astype(like.dtype), False
        pending, owned = self.pending, self.owned
        present = pending.get(parent)
        if present is None:
            pending[parent] = gradient
            if fresh:
                owned.add(parent)
            if type(parent) is Node:
                heappush(self.heap, (-parent.number, parent))
        elif parent in owned and type(gradient) is np.ndarray:
            present += gradient  # in place
        else:
            pending[parent] = total = present + gradient
            if type(total) is np.ndarray:
                owned.add(parent)
            else:  # the sum of 0-d arrays is a NumPy scalar, which nothing can be added into
                owned.discard(parent)

    def deliver_result(self, node: Node, cotangent: Array) -> None:
        """Put the cotangent of one result among those of its operation; None stands for a result not used."""
        assert node.output is not None
        (operation,) = node.parents
        assert isinstance(operation, Node)
        if operation not in self.pending:
            self.pending[operation] = [None] * len(operation.shape)
            heappush(self.heap, (-operation.number, operation))
        self.pending[operation][node.output] = cotangent

    def take(self, place: Parent, hooks: Sequence[Callable[[Array], Array]] | None) -> Any:
        """Return all that has arrived at ``place``, or what its hooks have made of it."""
        gradient = self.pending.pop(place)
        if hooks:
            self.owned.discard(place)  # a hook may return, or keep, whatever it likes
            for hook in hooks:
                gradient = hook(gradient)
        return gradient


def backward_pass(
    outputs: Sequence[Parent],
    cotangents: Sequence[Array],
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
    targets: Sequence[Parent] | None = None,
) -> dict[Parent, Array]:
    """Carry ``cotangents`` from ``outputs`` back through the graph and return what arrives.

    The product of reverse mode: with outputs y = f(x) and cotangents g, each x receives gᵀ · ∂y/∂x, summed over
    every path from x to y.

    Args:
        outputs: the nodes to start from (or leaves, which receive their cotangent directly).
        cotangents: one for each output, of its shape and dtype: arrays, or Tensors with ``create_graph``.
        create_graph: run the rules on Tensors, so that the result can be differentiated again.
        retain_graph: keep what the nodes saved, so that the walk can be repeated.
        targets: the nodes and leaves of interest; without them, every leaf.

    Returns:
        The gradient of each target reached (or each leaf).  No two arrays in it share memory.

    Raises:
        RuntimeError: a node was freed by an earlier pass, or a saved value has been modified since.
    """
    useful = None if targets is None else leading_to(targets, outputs)
    wanted = set(targets or ())
    results: dict[Parent, Array] = {}
    arrivals = Arrivals()
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if useful is None or output in useful:
            arrivals.deliver(output, cotangent, False)

    # Infinities are a legitimate result of a derivative (√x at 0): they are reported as values, not as warnings.
    with np.errstate(all="ignore"), set_grad_enabled(create_graph):
        while arrivals.heap:
            node = heappop(arrivals.heap)[1]
            cotangent = arrivals.take(node, node.hooks)
            if node in wanted:
                results[node] = cotangent
            if node.output is not None:
                arrivals.deliver_result(node, cotangent)
                continue
            if node.saved is None or (node.versions and node.plan.modified(node.versions)):
                raise freed(node) if node.saved is None else modified_since(node)
            if node.trace is not None:
                anomaly.check_saved(node)
            if type(cotangent) is list:  # of an operation with several results
                cotangent = zeros_for_none(cotangent, node)
            op = node.plan.op
            gradients = (op.pullback_as_tensors if create_graph else op.pullback)(node, cotangent, useful)
            if node.trace is not None:
                anomaly.check_gradients(node, cotangent, gradients)
            for parent, gradient in zip(node.parents, gradients):  # noqa: B905 (strict would cost as much again)
                if gradient is not None and (useful is None or parent in useful):
                    # A rule's result is a new array unless it handed the cotangent on or made a view of something.
                    fresh = gradient is not cotangent and type(gradient) is np.ndarray and gradient.base is None
                    arrivals.deliver(parent, gradient, fresh)
            if not (retain_graph or create_graph):
                node.saved, node.versions = None, ()  # by which a second pass knows what is wrong

        for leaf in list(arrivals.pending):  # no node is left among them
            results[leaf] = arrivals.take(leaf, leaf._hooks)  # type: ignore[union-attr]
    if create_graph:
        return copy_shared(results, cotangents)
    return {
        place: gradient if place in arrivals.owned else np.array(gradient) for place, gradient in results.items()
    }


def zeros_for_none(cotangents: Sequence[Array | None], node: Node) -> list[Array]:
    """Return the cotangents of an operation's results with zeros for those that were not used."""
    return [
        np.zeros(shape, dtype) if cotangent is None else cotangent
        for cotangent, shape, dtype in zip(cotangents, node.shape, node.dtype, strict=True)
    ]


def copy_shared(gradients: dict[Parent, Array], cotangents: Sequence[Array]) -> dict[Parent, Array]:
    """Copy those gradients that share their memory with another one or with a cotangent."""
    taken = {id(cotangent._version) for cotangent in cotangents}
    for parent, gradient in gradients.items():
        if isinstance(gradient, TensorBase):
            if id(gradient._version) in taken:  # a version is shared by all who share the memory
                gradients[parent] = np.copy(gradient)  # type: ignore[call-overload]
            taken.add(id(gradient._version))
    return gradients


# --- around the walk: errors, what lies below a node, views ---------------------------------------


def freed(node: Node) -> RuntimeError:
    """Return the error of a node whose saved values are gone."""
    return RuntimeError(
        f"this graph was already used by a backward pass, which freed what {node.op.name} had saved; "
        "pass retain_graph=True to the first backward if you need a second one"
    )


def modified_since(node: Node) -> RuntimeError:
    """Return the error of a saved value that was written in place since."""
    versions, op = node.versions, node.plan.op
    k = next(k for k in range(0, len(versions), 2) if versions[k][0] != versions[k + 1])
    name = node.plan.names[k // 2]
    what = "result" if name == "out" else f"input '{name}'"
    return RuntimeError(
        f"the gradient of {op.name} needs its {what}, but that tensor was modified in place after {op.name} used "
        f"it (output shape {tuple(node.shape)}; it is at version {versions[k][0]}, version {versions[k + 1]} is "
        "needed); modify a copy instead: x = x.clone()"
    )


def below(start: Parent) -> list[Parent]:
    """Return ``start`` and everything that it was computed from: nodes, the latest first, and then leaves."""
    found: dict[Parent, None] = {start: None}
    pending = [start]
    while pending:
        place = pending.pop()
        if isinstance(place, Node):
            for parent in place.parents:
                if parent not in found:
                    found[parent] = None
                    pending.append(parent)
    return sorted(found, key=lambda place: -place.number if isinstance(place, Node) else 1)


class AccumulateGrad:
    """Where a gradient arrives: in ``next_functions`` it stands for a leaf, which is its ``variable``."""

    def __init__(self, variable: TensorBase) -> None:
        self.variable = variable
        self.next_functions = ()

    def name(self) -> str:
        """Return "AccumulateGrad"."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class View:
    """How a view was made, so that its place in the graph can be found anew after a write to its memory.

    Only what writes in place needs it: :mod:`minigrad.inplace`.
    """

    __slots__ = ("base", "inputs", "op", "output", "seen")

    def __init__(self, base: TensorBase, op: Op[...], inputs: Sequence[Any], output: int | None) -> None:
        self.base = base
        self.op = op
        self.inputs = inputs  # the operation's other arguments
        self.output = output  # which of its results, if it has several
        self.seen = base._version[1]  # recorded writes at the time

    def replay(self, base: Any) -> Any:
        """Make the same view of another array or tensor."""
        operation = self.op if isinstance(base, TensorBase) else self.op.forward
        made = operation(base, *self.inputs)
        return made if self.output is None else made[self.output]
