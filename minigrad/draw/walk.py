"""A backward pass that writes down every number: the same rules in the same order as the engine's own walk.

:func:`minigrad.graph.backward_pass` keeps only what arrives at the end.  A teacher wants to see what each rule
was given, what it returned, and what was added to what; that is all that this walk does besides.  The graph stays
as it was, and no ``grad`` is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.draw.values import argument_name, named_values, saved_by
from minigrad.grad_mode import no_grad
from minigrad.graph import Node, Parent, modified_since, sum_to
from minigrad.op import Op


@dataclass(eq=False)
class Flow:
    """A gradient on its way from an operation to one of its inputs.

    Attributes:
        node: the operation.
        index: which of the node's parents the input is.
        argument: its name, as in the rule.
        target: what the input is: a node or a leaf.
        values: what the rule was given besides the gradient that arrived, by name.
        returned: what the rule returned.
        delivered: the same after it was summed over what broadcasting had copied, in the input's dtype.
        before: what had arrived at the input already, from other uses of it; None at the first.
        total: their sum.
    """

    node: Node
    index: int
    argument: str
    target: Parent
    values: dict[str, Any]
    returned: np.ndarray[Any, Any]
    delivered: np.ndarray[Any, Any]
    before: np.ndarray[Any, Any] | None
    total: np.ndarray[Any, Any]


@dataclass(eq=False)
class Step:
    """One operation of the backward pass: the gradient that arrives at it, and what flows on to its inputs.

    ``gradient`` is a list for an operation of several results: one for each.
    """

    node: Node
    gradient: Any
    flows: list[Flow]


class CannotWalk(RuntimeError):
    """The walk can't be done: the graph was freed, or a value that a rule needs has been written since."""


def walk_back(places: Sequence[Parent], seed: np.ndarray[Any, Any]) -> tuple[list[Step], dict[Parent, Any]]:
    """Return the steps of a backward pass from the first of ``places``, and the gradient of each place.

    Args:
        places: all that the output was computed from, itself first: see :func:`minigrad.graph.below`.
        seed: the gradient of the output, of its shape.

    Raises:
        CannotWalk: says why the walk can't be done.
    """
    gradients: dict[Parent, Any] = {places[0]: seed}
    steps: list[Step] = []
    with np.errstate(all="ignore"), no_grad():
        for node in places:
            if not isinstance(node, Node) or node not in gradients:
                continue
            gradient = gradients[node]
            if node.output is not None:
                (operation,) = node.parents
                assert isinstance(operation, Node)
                parts = gradients.setdefault(operation, zeros(operation))
                parts[node.output] = gradient
                continue
            steps.append(step := Step(node, gradient, []))
            for k, returned in enumerate(pull_back(node, gradient)):
                if returned is not None:
                    step.flows.append(deliver(node, k, np.asarray(returned), gradients))
    return steps, gradients


def zeros(operation: Node) -> list[np.ndarray[Any, Any]]:
    """Return a gradient of 0 for each result of an operation: it stays for those that were not used."""
    return [np.zeros(shape, dtype) for shape, dtype in zip(operation.shape, operation.dtype, strict=True)]


def pull_back(node: Node, gradient: Any) -> Sequence[Any]:
    """Run the rules of a node.

    Raises:
        CannotWalk: it was freed, or a value that it needs has been written since.
    """
    saved = saved_by(node)
    if saved is None:
        raise CannotWalk(
            "a backward pass has freed what the rules need: draw before it, or call backward(retain_graph=True), "
            "or compute inside `with mg.autograd.keep_values():`"
        )
    if node.kept is None and node.versions and node.plan.modified(node.versions):
        raise CannotWalk(str(modified_since(node)))
    given = (saved,) if isinstance(node.op, Op) else ()
    pulled: Sequence[Any] = node.op.pullback(node, gradient, None, *given)
    return pulled


def deliver(node: Node, k: int, returned: np.ndarray[Any, Any], gradients: dict[Parent, Any]) -> Flow:
    """Add what a rule returned to what its target has received, as the engine does."""
    target = node.parents[k]
    shape, dtype = target.shape, target.dtype
    delivered = returned if returned.shape == tuple(shape) else np.asarray(sum_to(returned, shape))
    delivered = np.array(delivered, dtype)  # a copy: rules may hand on what they were given
    before = gradients.get(target)
    total = delivered if before is None else np.asarray(before + delivered)
    gradients[target] = total
    return Flow(node, k, argument_name(node, k), target, named_values(node, k), returned, delivered, before, total)
