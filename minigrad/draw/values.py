"""What can still be known of the values inside a graph.

A node doesn't hold its result: it would keep memory alive that no rule needs.  But most results can be told: from
the user's own variables, from what other nodes saved of it, or by computing it again from what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.graph import Node, Parent, TensorBase
from minigrad.op import Op
from minigrad.plan import rule_names

RESHAPING = ("reshape", "squeeze", "unsqueeze")  # the shape of their result says all


def saved_by(node: Node) -> Sequence[Any] | None:
    """Return what a node saved for its rules, also after a backward pass if ``keep_values`` was on; or None."""
    return node.saved if node.kept is None else node.kept.saved


def arguments_of(node: Node) -> dict[str, Any]:
    """Return the arguments of a node's operation that are known and no places in the graph, by name."""
    op = node.op
    if not isinstance(op, Op) or node.output is not None:
        return {}
    known: dict[int, Any] = {}
    if node.kept is not None:
        known = dict(enumerate(node.kept.arguments))
    elif (saved := saved_by(node)) is not None:
        known = {
            at: saved[k] for k, at in enumerate(node.plan.values) if node.plan.names[k] not in ("out", "saved")
        }
    names = parameter_names(op, node)
    return {
        names[at]: value for at, value in sorted(known.items()) if at not in node.plan.arguments and at in names
    }


def original_of(node: Node, at: int, array: Any) -> Any:
    """Return the array that an operation was given at a position: the very one, for which a name may be known."""
    return node.kept.originals[at] if node.kept is not None else array


def parameter_names(op: Op[...], node: Node) -> dict[int, str]:
    """Return what the argument at each position is called; of ``cat(*tensors)`` tensors0, tensors1, …"""
    if not op.variadic:
        return dict(enumerate(op.parameters))
    options = op.parameters[1:]
    if node.kept is not None:
        n = len(node.kept.arguments) - len(options)
    else:  # a saved option tells how many operands stood before it
        placed = zip(node.plan.values, node.plan.names, strict=True)
        n = next(
            (at - options.index(name) for at, name in placed if name in options), max(node.plan.arguments) + 1
        )
    return {k: f"{op.parameters[0]}{k}" if k < n else options[k - n] for k in range(n + len(options))}


def argument_name(node: Node, k: int) -> str:
    """Return the name of the argument that a node's ``k``-th parent is; of a Function its number."""
    at = node.plan.arguments[k]
    return parameter_names(node.op, node)[at] if isinstance(node.op, Op) else str(at)


def named_values(node: Node, k: int) -> dict[str, Any]:
    """Return what the rule for a node's ``k``-th parent is given besides the cotangent, by name."""
    saved = saved_by(node)
    if saved is None or not node.plan.rules:
        return {}
    rule, where = node.plan.rules[k if len(node.plan.rules) > 1 else 0]
    return {name: saved[at] for name, at in zip(rule_names(rule), where, strict=True)}


def known_values(places: Iterable[Parent], variables: Mapping[Parent, Any]) -> dict[Parent, np.ndarray[Any, Any]]:
    """Return the value of each of ``places`` that can be told; ``variables`` are those that the user still has."""
    known: dict[Parent, Any] = {}
    nodes = [place for place in places if isinstance(place, Node)]
    for node in nodes:
        collect_kept(node, known)
    for place in places:
        if place in variables:
            known.setdefault(place, variables[place])
        elif isinstance(place, TensorBase):
            known.setdefault(place, place._data)
    for node in nodes:
        collect_saved(node, known)
    for node in reversed(nodes):  # inputs before what was made from them
        if node not in known:
            compute_again(node, known)
    return known


def collect_kept(node: Node, known: dict[Parent, Any]) -> None:
    """Take from ``node`` what it kept inside ``keep_values``: values as they were then."""
    if node.kept is not None:
        results = tuple(node.kept.results)
        known[node] = results if isinstance(node.shape, list) else results[0]
        for at, parent in zip(node.plan.arguments, node.parents, strict=True):
            value = node.kept.arguments[at]
            if value.dtype == parent.dtype:  # else it was promoted to its partner's
                known.setdefault(parent, value)


def collect_saved(node: Node, known: dict[Parent, Any]) -> None:
    """Take from ``node`` what it saved for its rules: its own result, or its inputs."""
    if node.saved is None or not isinstance(node.op, Op) or node.output is not None:
        return
    for k, at in enumerate(node.plan.values):
        value = node.saved[k]
        unchanged = 2 * k >= len(node.versions) or node.versions[2 * k][0] == node.versions[2 * k + 1]
        if not (isinstance(value, np.ndarray) and unchanged):
            continue
        if node.plan.names[k] == "out":
            known.setdefault(node, value)
        elif at in node.plan.arguments:
            parent = node.parents[node.plan.arguments.index(at)]
            if value.dtype == parent.dtype:  # else it was promoted to its partner's
                known.setdefault(parent, value)


def compute_again(node: Node, known: dict[Parent, Any]) -> None:
    """Run the operation of ``node`` once more, if every argument that matters is known."""
    if node.output is not None:
        results = known.get(node.parents[0])
        if isinstance(results, tuple):
            known[node] = results[node.output]
        return
    op = node.op
    if not isinstance(op, Op) or node.saved is None or not all(parent in known for parent in node.parents):
        return
    given = arguments_of(node)
    names = parameter_names(op, node)
    for at, parent in zip(node.plan.arguments, node.parents, strict=True):
        given[names[at]] = known[parent]
    if op.name in RESHAPING:
        known[node] = np.reshape(known[node.parents[0]], node.shape)
        return
    # What a rule doesn't name and the result still tells.  Any other argument that is unknown could be anything.
    given.setdefault("shape", node.shape)
    given.setdefault("keepdim", False)
    given.setdefault("dtype", None if op.name != "cast" else node.dtype)
    try:
        if op.variadic:
            options = op.parameters[1:]
            operands = [given[name] for name in names.values() if name not in options]
            result = op.forward(*operands, **{name: given[name] for name in options})
        else:
            result = op.forward(*[given[name] for name in op.parameters])
    except Exception:  # an argument is missing or of another kind: then the value stays unknown
        return
    if op.returns_saved:
        result = result[0]
    if isinstance(node.shape, list):
        if [part.shape for part in result] == node.shape:
            known[node] = result
    elif np.size(result) == int(np.prod(node.shape)):
        known[node] = np.reshape(np.asarray(result, node.dtype), node.shape)
