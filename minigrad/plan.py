"""What a recorded operation saves and what its rules are given, worked out once and written out as code.

A *rule* names what it needs (see :mod:`minigrad.op`).  A :class:`Plan` says, for one operation and one set of
arguments that want a gradient, which values those are and where a rule finds them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from minigrad.graph import Array, Node

Rule: TypeAlias = Callable[..., Any]

NEVER_WRITTEN = [0, 0]  # the version of what is no Tensor


class Plan(NamedTuple):
    """What to save, and which rules to run, when certain arguments want a gradient."""

    op: Any  # the operation that the plan belongs to
    arguments: tuple[int, ...]  # the positions of those arguments
    values: tuple[int, ...]  # the positions of the values to save; the output's is one after the last argument's
    names: tuple[str, ...]  # what those values are called
    rules: tuple[tuple[Rule, tuple[int | slice, ...]], ...]  # each with where its values are among the saved ones
    record: Callable[..., Node]  # (inputs, values, version, shape, dtype) → the node of a call
    pull: Callable[[Array, Sequence[Any]], Sequence[Any]]  # (g, saved) → the gradients of all `arguments`
    modified: Callable[[Sequence[Any]], bool]  # (versions) → whether a saved value was written since


def plan_for(
    op: Any,
    n: int,
    arguments: tuple[int, ...],
    positions: Mapping[str, Any],
    rules: Sequence[Rule],
    results: Sequence[int] | None = None,
) -> Plan:
    """Return the plan for the gradients of some ``arguments``: save what their ``rules`` name, and nothing else.

    Args:
        op: the operation, called with ``n`` arguments.
        n: how many these are.
        arguments: the positions of those that want a gradient.
        positions: where the value of each name stands: among the arguments, or after them.  Any number of tensors
            under one name, as of ``cat``, have a range.
        rules: one for each of ``arguments``, or a joint one.
        results: of a joint rule, which of the gradients that it returns belong to ``arguments``.
    """
    values: dict[int, str] = {}  # position → name
    shapes: dict[int, None] = {}  # position: of the mere shapes that are saved after the values

    def source(name: str) -> tuple[int | range, bool]:
        """Return where the value stands that a rule's ``name`` stands for, and whether only its shape is meant."""
        only_shape = name not in positions
        return positions[name.removesuffix("_shape") if only_shape else name], only_shape

    for rule in rules:
        for name in rule_names(rule):
            at, only_shape = source(name)
            for i in at if isinstance(at, range) else (at,):
                if only_shape:
                    shapes[i] = None
                else:
                    values[i] = name
    values = dict(sorted(values.items()))  # so that the output comes after all arguments
    kept, shaped = list(values), list(shapes)

    def where(name: str) -> int | slice:
        """Return where the value called ``name`` is among the saved ones."""
        at, only_shape = source(name)
        start = at.start if isinstance(at, range) else at
        k = len(kept) + shaped.index(start) if only_shape else kept.index(start)
        return slice(k, k + len(at)) if isinstance(at, range) else k

    calls = tuple((rule, tuple(map(where, rule_names(rule)))) for rule in rules)
    return Plan(
        op,
        arguments,
        tuple(values),
        tuple(values.values()),
        calls,
        write_out_recording(n, arguments, kept, shaped),
        write_out_rules(calls, results),
        write_out_check(sum(i <= n for i in values)),
    )


# A plan is carried out for every recorded operation and every step back.  Loops over its short tuples would cost
# more than the arithmetic on a small array; so each is written out as one expression when the plan is made.  These
# are the three for x * y where only x wants a gradient, whose rule, g * y, names y:
#
#     record: Node(plan, (inputs[0]._node or inputs[0],), (values[1],), (y's counter, what it says,), shape, dtype)
#     pull: (rules[0](g, saved[0]),)
#     modified: versions[0][0] != versions[1]


def write_out_recording(
    n: int, arguments: Sequence[int], values: Sequence[int], shapes: Sequence[int]
) -> Callable[..., Node]:
    """Return the function (plan, inputs, values, version, shape, dtype) → node of a plan.

    ``inputs`` are the n arguments of the call, ``values`` their arrays, then the output, then what the forward
    function saved of its own; ``version`` is the output's.
    """
    parents = [f"inputs[{i}]._node or inputs[{i}]" for i in arguments]
    saved = [f"values[{i}]" for i in values] + [f"values[{i}].shape" for i in shapes]
    versions = []
    for i in values:
        if i <= n:  # of what the forward function saved of its own nobody else knows
            if i == n:
                counter = "version"
            elif i in arguments:
                counter = f"inputs[{i}]._version"
            else:
                counter = f"getattr(inputs[{i}], '_version', NEVER_WRITTEN)"
            versions.append(f"{counter}, {counter}[0]")
    parts = [f"({', '.join(part)},)" if part else "()" for part in (parents, saved, versions)]
    return written_out(
        f"lambda plan, inputs, values, version, shape, dtype: Node(plan, {', '.join(parts)}, shape, dtype)",
        {"Node": Node, "NEVER_WRITTEN": NEVER_WRITTEN},
    )


def write_out_rules(
    calls: Sequence[tuple[Rule, Sequence[int | slice]]], results: Sequence[int] | None
) -> Callable[[Array, Sequence[Any]], Sequence[Any]]:
    """Return the function (g, saved) → gradients of a plan; of a joint rule's gradients those in ``results``."""
    written = []
    for k, (_, where) in enumerate(calls):
        given = [f"saved[{i.start}:{i.stop}]" if isinstance(i, slice) else f"saved[{i}]" for i in where]
        written.append(f"rules[{k}]({', '.join(['g', *given])})")
    rules = [rule for rule, _ in calls]
    if results is None:
        body = f"({', '.join(written)},)" if written else "()"
    else:
        body = f"[gradients[i] for gradients in [{written[0]}] for i in {results!r}]"
    return written_out(f"lambda g, saved: {body}", {"rules": rules})


def write_out_check(n: int) -> Callable[[Sequence[Any]], bool]:
    """Return the function (versions) → whether one of n saved values was written since it was saved."""
    tests = [f"versions[{2 * k}][0] != versions[{2 * k + 1}]" for k in range(n)]
    return written_out(f"lambda versions: {' or '.join(tests) or False}", {})


def written_out(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the lambda that ``source`` is, in which ``names`` are known.

    In a traceback or profile its file has this one's name with the source after it: a place in this package, which
    anomaly mode does not take for the user's.
    """
    made: Callable[..., Any] = eval(compile(source, f"{__file__}: {source}", "eval"), names)
    return made


def rule_names(rule: Rule) -> tuple[str, ...]:
    """Return which values a rule names: its parameters but for the cotangent, and ``wanted``, which is no value.

    >>> rule_names(lambda g, y, x_shape: g)
    ('y', 'x_shape')
    """
    return tuple(name for name in list(inspect.signature(rule).parameters)[1:] if name != "wanted")


def name_rule(rule: Rule, operation: str, argument: str) -> None:
    """Give a nameless rule the name that a traceback or a profile should show."""
    if rule.__name__ == "<lambda>":
        rule.__name__ = rule.__qualname__ = f"{operation}_gradient_of_{argument}"
        rule.__code__ = rule.__code__.replace(co_name=rule.__name__)
