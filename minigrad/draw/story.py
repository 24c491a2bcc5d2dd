"""The backward pass told step by step, with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.draw import numbers
from minigrad.draw.numbers import number, shape
from minigrad.draw.picture import Picture, plain, rule_of
from minigrad.draw.values import arguments_of, original_of, parameter_names
from minigrad.draw.walk import Flow, Step
from minigrad.graph import Node, Parent
from minigrad.op import Op
from minigrad.rule_text import RuleText, with_numbers

FEW = 9  # elements of an array that are written out
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}


class Story:
    """What :func:`minigrad.explain_backward` tells: ``print`` it.

    Attributes:
        steps: the same as data, with every array.
    """

    def __init__(self, picture: Picture, most: int) -> None:
        self.picture = picture
        self.steps: Sequence[Step] = picture.steps
        self.most = most
        self.names = names_for_all(picture)
        self.number_of = {step.node: k for k, step in enumerate(self.steps, start=1)}
        self.arrivals: dict[Parent, list[Flow]] = {}
        for step in self.steps:
            for flow in step.flows:
                self.arrivals.setdefault(flow.target, []).append(flow)
        self.explained: set[str] = set()

    def __str__(self) -> str:
        self.explained = set()
        output, told = self.names[self.picture.places[0]], self.steps[: self.most]
        plural = "s" if len(self.steps) != 1 else ""
        lines = [f"{output} and its gradients, in {len(self.steps)} step{plural} back from the result", ""]
        lines += ["Forward"]
        for step in reversed(told):
            value = self.picture.values.get(step.node)
            shown = "" if value is None or isinstance(value, tuple) else f" = {short(value)}"
            lines.append(
                f"  {self.names[step.node]} = {self.expression(step.node)}{shown}{sized(step.node.shape)}"
            )
        if len(told) < len(self.steps):
            lines[3:3] = [f"  … {len(self.steps) - len(told)} operations before these"]
        seed = self.picture.gradients[self.picture.places[0]]
        lines += [
            "",
            f"Backward: what arrives at a step is g, the gradient of {output} with respect to its result, out.",
            f"In a rule, x and y are the step's inputs.  It starts with {short(seed)}, of {output} itself.",
        ]
        for k, step in enumerate(told, start=1):
            lines += ["", *self.tell(k, step)]
        if len(told) < len(self.steps):
            lines += [
                "",
                f"… and {len(self.steps) - len(told)} more steps: explain_backward(…, most=…) tells them.",
            ]
        return "\n".join([*lines, "", *self.ending(), *self.picture.notices])

    __repr__ = __str__

    def expression(self, node: Node) -> str:
        """Return how a node was computed, as one would write it: "x * w", "softmax(scores, dim=-1)"."""
        parents = dict(zip(node.plan.arguments, node.parents, strict=True))
        names = parameter_names(node.op, node) if isinstance(node.op, Op) else dict.fromkeys(parents, "")
        given, defaults = arguments_of(node), node.op.defaults if isinstance(node.op, Op) else {}
        parts: dict[int, str] = {}
        for at, name in names.items():
            if at in parents:
                parts[at] = self.names[parents[at]]
            elif name in given and isinstance(given[name], np.ndarray):
                parts[at] = self.constant(name, given[name], original_of(node, at, given[name]))
            elif (
                name in given
                and given[name] is not None
                and not (name in defaults and defaults[name] == given[name])
            ):
                parts[at] = plain(given[name]) if node.op.name in SIGNS else f"{name}={plain(given[name])}"
        if node.op.name in SIGNS:
            return f" {SIGNS[node.op.name]} ".join(parts.get(at, "…") for at in (0, 1))
        return f"{node.op.name}({', '.join(parts.values())})"

    def constant(self, argument: str, array: np.ndarray[Any, Any], original: Any) -> str:
        """Return what to call an array that is no place in the graph."""
        name = self.picture.names.arrays.get(id(original))
        return name or (short(array) if array.size <= FEW else argument)

    def tell(self, k: int, step: Step) -> list[str]:
        """Return the lines of one step."""
        arriving = (
            ", ".join(map(short, step.gradient)) if isinstance(step.gradient, list) else short(step.gradient)
        )
        lines = [f"{k}. {self.names[step.node]} = {self.expression(step.node)}", f"   g = {arriving}"]
        joint = isinstance(step.node.op, Op) and step.node.op.joint is not None
        if joint and step.flows:
            lines.append(f"   rule: {rule_of(step.node, 0).expression}")
        width = max((len(self.names[flow.target]) for flow in step.flows), default=0)
        for flow in step.flows:
            lead = f"   to {self.names[flow.target].ljust(width)}  "
            rule = rule_of(flow.node, flow.index)
            lines.append(lead + (short(flow.returned) if joint else evaluated(rule, step.gradient, flow)))
            lines += [" " * len(lead) + remark for remark in self.remarks(k, flow, rule)]
        return lines

    def remarks(self, k: int, flow: Flow, rule: RuleText) -> list[str]:
        """Return what else to say about a gradient on its way."""
        found = []
        for helper, what in rule.helpers.items() if rule.is_code else ():
            if helper not in self.explained:
                self.explained.add(helper)
                found.append(f"{helper}: {what}")
        if flow.returned.shape != flow.delivered.shape:
            found.append(
                f"summed from {shape(flow.returned.shape)} to {shape(flow.delivered.shape)}, since broadcasting "
                f"had copied {self.names[flow.target]}: {short(flow.delivered)}"
            )
        if flow.before is not None:
            earlier = [
                self.number_of[other.node] for other in self.arrivals[flow.target] if other.node is not flow.node
            ]
            steps = sorted({step for step in earlier if step < k}) or [k]
            found.append(
                f"{self.names[flow.target]} was used more than once: added to {short(flow.before)} from "
                f"{listed(steps)}, that makes {short(flow.total)}"
            )
        return found

    def ending(self) -> list[str]:
        """Return the gradients of the leaves, and from which steps they came."""
        leaves = [place for place in self.picture.places if not isinstance(place, Node) and place in self.arrivals]
        lines = ["What has arrived at the leaves"]
        width = max((len(self.names[leaf]) for leaf in leaves), default=0)
        for leaf in leaves:
            steps = sorted({self.number_of[flow.node] for flow in self.arrivals[leaf]})
            lines.append(
                f"  {self.names[leaf].ljust(width)}  {short(self.picture.gradients[leaf])}{sized(leaf.shape)}  "
                f"from {listed(steps)}"
            )
        return lines


def short(array: Any) -> str:
    """Return an array in a few words, or written out if it is small."""
    return numbers.short(array, FEW)


def names_for_all(picture: Picture) -> dict[Parent, str]:
    """Return a name for every place: the user's, or t1, t2, … in the order of computation."""
    names: dict[Parent, str] = {}
    counts = {"t": 0, "leaf": 0}
    for place in reversed(picture.places):
        kind = "t" if isinstance(place, Node) else "leaf"
        if (given := picture.names.places.get(place)) is not None:
            names[place] = given
        else:
            counts[kind] += 1
            names[place] = f"{kind}{counts[kind]}"
    return names


def evaluated(rule: RuleText, gradient: Any, flow: Flow) -> str:
    """Return a rule, with numbers put into it if they are single ones, and what it returned."""
    values = {rule.cotangent: gradient, **flow.values}
    texts = {name: text for name, value in values.items() if (text := single(value)) is not None}
    filled = with_numbers(rule, texts)
    if filled is not None:
        # "g = -1", not "g = (-1) = -1".
        middle = "" if filled.strip("()") == short(flow.returned) else f" = {filled}"
        return f"{rule.expression}{middle} = {short(flow.returned)}"
    arrays = (np.ndarray, np.generic, float, int)
    used = [f"{name} = {short(value)}" for name, value in flow.values.items() if isinstance(value, arrays)]
    where = f"   ({', '.join(used)})" if used else ""
    if rule.is_code:
        return f"{rule.expression} = {short(flow.returned)}{where}"
    return f"{short(flow.returned)}{where}   by {rule.expression}"


def single(value: Any) -> str | None:
    """Return a value as it may stand in an expression, if it is a single number, a shape or None."""
    if isinstance(value, np.ndarray | np.generic):
        return single(value.item()) if value.ndim == 0 else None
    if isinstance(value, bool | int | float):
        text = number(value)
        return f"({text})" if text.startswith("-") else text
    return plain(value) if value is None or isinstance(value, tuple) else None


def sized(of: Any) -> str:
    """Return a shape in parentheses, unless it is that of a number."""
    return "" if of == () else f"   {shape(of)}"


def listed(steps: Sequence[int]) -> str:
    """Return steps as one names them.

    >>> listed([1, 2, 4]), listed([3])
    ('steps 1, 2 and 4', 'step 3')
    """
    *others, last = [str(step) for step in steps]
    return f"steps {', '.join(others)} and {last}" if others else f"step {last}"
