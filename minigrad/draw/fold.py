"""Which module call each node of a graph was made in, so that a large graph can be drawn a card per module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minigrad.graph import Node, Parent


class Group:
    """One call of a module: the nodes made in it that its result depends on.

    Attributes:
        module: the module.
        path: its dotted name; "" for an outermost one.
        outputs: the nodes of its result: one, unless it returned several tensors.
        first: the number from which on nodes belong to the call.
    """

    def __init__(self, module: Any, first: int) -> None:
        self.module = module
        self.first = first
        self.path = ""
        self.outputs: list[Node] = []
        self.members: set[Node] = set()

    def collect(self) -> None:
        """Find the members: what the outputs depend on, down to where the call began."""
        pending = list(self.outputs)
        while pending:
            node = pending.pop()
            if node.number > self.first and node not in self.members:
                self.members.add(node)
                pending.extend(parent for parent in node.parents if isinstance(parent, Node))


def groups_of(places: Sequence[Parent]) -> dict[Node, list[Group]]:
    """Return for each node the module calls that it was made in, the outermost first."""
    found: dict[tuple[int, int], Group] = {}
    for place in places:
        for call in place.calls if isinstance(place, Node) else ():
            module = call.module()
            if module is not None:
                group = found.setdefault((id(module), call.first), Group(module, call.first))
                group.outputs.append(place)  # type: ignore[arg-type]  # only nodes have notes
    chains: dict[Node, list[Group]] = {place: [] for place in places if isinstance(place, Node)}
    for group in sorted(found.values(), key=lambda group: group.first):  # an outer call began before an inner one
        group.collect()
        for node in group.members:
            chains[node].append(group)
    return chains


def outermost(chains: Mapping[Node, Sequence[Group]]) -> list[Any]:
    """Return the modules that were called by the user, not by another module, in the order of their calls."""
    first = {id(chain[0].module): chain[0] for chain in chains.values() if chain}
    return [group.module for group in sorted(first.values(), key=lambda group: group.first)]


def folded_into(chain: Sequence[Group], depth: int, opened: Sequence[str]) -> Group | None:
    """Return the module call whose card stands for a node, or None if the node has a card of its own.

    ``depth`` modules are looked into, one within the other, and any that contains or is within one of ``opened``.
    """
    for level, group in enumerate(chain):
        if level < depth:
            continue
        contains = any(
            not group.path or path == group.path or path.startswith(group.path + ".") for path in opened
        )
        within = any(group.path.startswith(path + ".") for path in opened)
        if not contains and not within:
            return group
    return None
