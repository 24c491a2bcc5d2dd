"""What there is to draw: a card for each operation, leaf and constant, or for a whole module, and their links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from minigrad.draw import numbers
from minigrad.draw.fold import Group, folded_into, groups_of, outermost
from minigrad.draw.names import Names
from minigrad.draw.values import argument_name, arguments_of, known_values, original_of, parameter_names
from minigrad.draw.walk import CannotWalk, Flow, Step, walk_back
from minigrad.graph import Node, Parent, TensorBase, below
from minigrad.nn.parameter import Parameter
from minigrad.op import Op
from minigrad.rule_text import RuleText, rule_text
from minigrad.tensor import Tensor

LONGEST_DETAIL = 30  # characters of an operation's further arguments
FOLDED_ABOVE = 16  # cards: a larger graph is folded to its modules, unless the user says otherwise


@dataclass(eq=False)
class Link:
    """An input of a card: where it comes from, which argument it is, and the gradient that flows back along it."""

    source: Card
    argument: str
    flow: Flow | None = None


@dataclass(eq=False)
class Card:
    """One thing in the picture.

    Attributes:
        kind: "operation"; "leaf", which requires a gradient; "constant", which takes part but wants none;
            "module", for all that a call of one has done.
        name: what the user calls it: a variable, or a parameter's or module's dotted name; "" if nobody does.
        operation: the operation's name; of a module its class.
        detail: further arguments: "dim=-1".
        shape: "(2, 3)".
        value: None if it is not known any more.
        gradient: None if no gradient reaches it, or none can be told.
        links: its inputs, in the order of the arguments.
        about: further lines for whoever points at the card.
    """

    kind: Literal["operation", "leaf", "constant", "module"]
    name: str
    operation: str
    detail: str
    shape: str
    value: np.ndarray[Any, Any] | None = None
    gradient: np.ndarray[Any, Any] | None = None
    links: list[Link] = field(default_factory=list)
    about: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the card is, in one line: "h = tanh", "sum(dim=0)", "w"."""
        if self.kind in ("leaf", "constant"):
            return self.name
        done = f"{self.operation}({self.detail})" if self.detail else self.operation
        if self.kind == "module":
            return f"{self.name}: {done}" if self.name else done
        return f"{self.name} = {done}" if self.name else done


class Picture:
    """The cards of a graph, the output first and each before its inputs, with what there is to say about it all.

    Attributes:
        cards: what to draw.
        card_of: the card of each node, leaf or module call that has one.
        notices: sentences for the reader: what is missing, and why.
        steps: of the backward pass, in its order; empty if it can't be told.
        names: what the user calls things.
        places: the nodes and leaves of the graph, each before its inputs.
        values: the value of each place that is still known.
        gradients: the gradient of each place, as far as it can be told.
    """

    def __init__(
        self,
        output: Tensor,
        names: Names,
        gradient: Tensor | None = None,
        most: int | None = None,
        depth: int | None = None,
        opened: Sequence[str] = (),
    ) -> None:
        self.names = names
        self.notices: list[str] = []
        self.steps: list[Step] = []
        self.cards: list[Card] = []
        self.card_of: dict[Any, Card] = {}
        start = output.grad_fn or output
        self.places = below(start)
        self.names.values.setdefault(start, output._data)
        self.chains = groups_of(self.places)
        paths = names.add_modules(outermost(self.chains))
        for chain in self.chains.values():
            for group in chain:
                group.path = paths.get(id(group.module), "")
        self.values = known_values(self.places, names.values)
        self.gradients = self.find_gradients(output, gradient)
        self.flows = {(flow.node, flow.argument): flow for step in self.steps for flow in step.flows}
        self.choose_depth(depth, opened)
        self.make_cards(start, most)

    # --- gradients --------------------------------------------------------------------------------

    def find_gradients(self, output: Tensor, gradient: Tensor | None) -> dict[Parent, Any]:
        """Return the gradient of each place, by a backward pass that changes nothing.

        Raises:
            RuntimeError: ``gradient`` has another shape than the output.
        """
        if not output.requires_grad:
            return {}
        if gradient is None and output.numel() != 1:
            self.notices.append(
                f"Gradients are those of one number, and this has the shape {output.shape}: pass gradient= to "
                "weigh its elements, or draw a loss."
            )
            return {}
        if gradient is not None and gradient.shape != output.shape:
            raise RuntimeError(f"the gradient has shape {gradient.shape}, its output {output.shape}")
        seed = np.ones_like(output._data) if gradient is None else gradient._data
        try:
            self.steps, gradients = walk_back(self.places, seed)
        except CannotWalk as reason:
            self.notices.append(f"Gradients: what `.grad` holds, no more; {reason}.")
            return self.kept_gradients()
        if any(node.hooks and not all(hasattr(h, "retains_grad") for h in node.hooks) for node in self.chains):
            self.notices.append("Hooks were not run for this picture.")
        return gradients

    def kept_gradients(self) -> dict[Parent, Any]:
        """Return what an earlier backward pass has left in ``grad``, of the user's tensors and of leaves."""
        found: dict[Parent, Any] = dict(self.names.tensors)
        found |= {place: place for place in self.places if isinstance(place, TensorBase)}
        return {place: tensor.grad._data for place, tensor in found.items() if tensor.grad is not None}

    # --- cards ------------------------------------------------------------------------------------

    def choose_depth(self, depth: int | None, opened: Sequence[str]) -> None:
        """Decide what is folded: as little as keeps the picture small, unless ``depth`` says how much."""
        deepest = max((len(chain) for chain in self.chains.values()), default=0)
        if opened and depth is None:
            depth = 0
        chosen = depth if depth is not None else deepest
        self.folded = self.fold(chosen, opened)
        while depth is None and chosen > 0 and self.count() > FOLDED_ABOVE:
            chosen -= 1
            self.folded = self.fold(chosen, opened)
        if any(self.folded.values()) and depth is None:
            self.notices.append(
                f"Modules are folded to one card each: draw(…, depth={chosen + 1}) opens one more level, "
                "open='name' a single one."
            )

    def fold(self, depth: int, opened: Sequence[str]) -> dict[Node, Group | None]:
        """Return the module call that each node is folded into, if any."""
        return {node: folded_into(chain, depth, opened) for node, chain in self.chains.items()}

    def count(self) -> int:
        """Return roughly how many cards there would be."""
        cards = {self.key(node) for node in self.chains}
        leaves = self.users_of_leaves().values()
        return len(cards) + sum(len(users) > 1 or not isinstance(next(iter(users)), Group) for users in leaves)

    def users_of_leaves(self) -> dict[TensorBase, set[Any]]:
        """Return for each leaf the operations and folded modules that use it."""
        users: dict[TensorBase, set[Any]] = {}
        for node in self.chains:
            for parent in node.parents:
                if isinstance(parent, TensorBase):
                    users.setdefault(parent, set()).add(self.key(node))
        return users

    def key(self, place: Parent) -> Any:
        """Return what shares one card with ``place``: itself, or the module call that it is folded into."""
        return (self.folded.get(place) or place) if isinstance(place, Node) else place

    def make_cards(self, start: Parent, most: int | None) -> None:
        """Make the cards, those nearest the output first, up to ``most``."""
        self.incomplete = False
        self.find_inner_leaves()
        pending: list[Parent] = [start]
        links: list[tuple[Card, Any, str, Flow | None]] = []
        hidden = False
        while pending:
            place = pending.pop(0)
            key = self.key(place)
            if key in self.card_of:
                continue
            if most is not None and len(self.card_of) >= most:
                hidden = True
                continue
            card = self.card_of[key] = self.make_card(key)
            for source, argument, flow in self.inputs_of(key):
                links.append((card, source, argument, flow))
                if isinstance(source, Node | TensorBase):
                    pending.append(source)
        for card, source, argument, flow in links:
            source = self.key(source) if isinstance(source, Node | TensorBase) else source
            if isinstance(source, Constant):
                source = self.card_of.setdefault(("constant", id(source.original)), source.card(self.names))
            else:
                source = self.card_of.get(source)
            if source is not None:
                card.links.append(Link(source, argument, flow))
        self.cards = sort_cards(self.card_of[self.key(start)])
        if hidden:
            self.notices.append(f"Only the {most} cards nearest the output are drawn.")
        if self.incomplete:
            self.notices.append(
                "Values not shown were not kept: compute inside `with mg.autograd.keep_values():` to see them all."
            )

    def find_inner_leaves(self) -> None:
        """Find the leaves that only one folded module uses, as its own parameters: they are part of its card."""
        self.inner: dict[TensorBase, Group] = {}
        for leaf, keys in self.users_of_leaves().items():
            (key, *others) = keys
            if isinstance(key, Group) and not others:
                self.inner[leaf] = key

    def inputs_of(self, key: Any) -> list[tuple[Any, str, Flow | None]]:
        """Return what a card is linked to: places and constants, each with the argument's name and the flow."""
        if isinstance(key, TensorBase):
            return []
        if isinstance(key, Group):
            found: list[tuple[Any, str, Flow | None]] = []
            seen: set[Any] = set()
            for node in sorted(key.members, key=lambda node: node.number):
                for parent in node.parents:
                    source = self.key(parent)
                    outside = source is not key and not (isinstance(parent, TensorBase) and parent in self.inner)
                    if outside and source not in seen:
                        seen.add(source)
                        found.append((parent, "", None))
                for _, constant in self.constants_of(node):
                    at = id(constant.original)
                    if at in self.names.arrays and at not in self.names.buffers and at not in seen:
                        seen.add(at)  # the user's own data; what a module holds is part of its card
                        found.append((constant, "", None))
            return found
        return self.inputs_of_operation(key)

    def inputs_of_operation(self, node: Node) -> list[tuple[Any, str, Flow | None]]:
        """Return the inputs of an operation in the order of its arguments, the constants among them."""
        if node.output is not None:
            return [(node.parents[0], "", None)]
        found: list[tuple[int, tuple[Any, str, Flow | None]]] = []
        for k, (at, parent) in enumerate(zip(node.plan.arguments, node.parents, strict=True)):
            argument = argument_name(node, k)
            found.append((at, (parent, argument, self.flows.get((node, argument)))))
        found += [(at, (constant, constant.argument, None)) for at, constant in self.constants_of(node)]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def constants_of(self, node: Node) -> list[tuple[int, Constant]]:
        """Return the arrays that an operation was given outside of the graph, with their positions."""
        given = {name: value for name, value in arguments_of(node).items() if isinstance(value, np.ndarray)}
        if not given:
            return []
        positions = {name: at for at, name in parameter_names(node.op, node).items()}
        return [
            (positions[name], Constant(name, value, original_of(node, positions[name], value)))
            for name, value in given.items()
        ]

    def make_card(self, key: Any) -> Card:
        """Make the card of a node, a leaf or a module call."""
        if isinstance(key, Group):
            return self.module_card(key)
        value, gradient = self.values.get(key), self.gradients.get(key)
        if isinstance(key, TensorBase):
            name = self.names.places.get(key, "parameter" if isinstance(key, Parameter) else "leaf")
            kind: Any = "leaf" if key._requires_grad else "constant"
            return Card(kind, name, "", "", numbers.shape(key.shape), value, gradient)
        name = self.names.places.get(key, "")
        shape = numbers.shape(key.shape)
        if key.output is not None:
            return Card("operation", name, f"{key.op.name}[{key.output}]", "", shape, value, gradient)
        if isinstance(key.shape, list):
            value = gradient = None
        elif value is None:
            self.incomplete = True
        card = Card("operation", name, key.op.name, details(key), shape, value, gradient)
        card.about = rules_of(key)
        return card

    def module_card(self, group: Group) -> Card:
        """Make the card that stands for a module call."""
        output = group.outputs[0]
        leaves = [leaf for leaf, inside in self.inner.items() if inside is group]
        size = sum(leaf._data.size for leaf in leaves)
        single = not isinstance(output.shape, list)
        card = Card(
            "module",
            group.path,
            type(group.module).__name__,
            "",
            numbers.shape(output.shape),
            self.values.get(output) if single else None,
            self.gradients.get(output) if single else None,
        )
        plural = "s" if len(group.members) > 1 else ""
        card.about = [f"{len(group.members)} operation{plural}, {size:,} parameters"]
        for leaf in leaves:
            gradient = self.gradients.get(leaf)
            size_text = (
                "" if gradient is None else f", norm of the gradient {numbers.number(np.linalg.norm(gradient))}"
            )
            card.about.append(f"{self.names.places.get(leaf, 'leaf')} {numbers.shape(leaf.shape)}{size_text}")
        return card


@dataclass(frozen=True, eq=False)
class Constant:
    """An array that an operation was given and that wants no gradient."""

    argument: str
    array: np.ndarray[Any, Any]
    original: Any  # the array that the operation was given, where ``array`` is a copy of it

    def card(self, names: Names) -> Card:
        """Return the card for it."""
        plain = "constant" if self.argument in ("x", "y") else self.argument
        name = names.arrays.get(id(self.original), plain)
        return Card("constant", name, "", "", numbers.shape(self.array.shape), self.array)


def sort_cards(start: Card) -> list[Card]:
    """Return the cards below ``start``, each before all of its inputs."""
    order: list[Card] = []
    done: set[Card] = set()
    pending: list[tuple[Card, bool]] = [(start, False)]
    while pending:
        card, finished = pending.pop()
        if finished:
            order.append(card)
        elif card not in done:
            done.add(card)
            pending.append((card, True))
            pending.extend((link.source, False) for link in card.links)
    return order[::-1]


def details(node: Node) -> str:
    """Return the arguments worth mentioning: those that are no arrays, known and not the default."""
    defaults = node.op.defaults if isinstance(node.op, Op) else {}
    parts = []
    for name, value in arguments_of(node).items():
        if isinstance(value, np.ndarray) or value is None or (name in defaults and defaults[name] == value):
            continue
        parts.append(f"{name}={plain(value)}")
    text = ", ".join(parts)
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 1] + "…"


def plain(value: Any) -> str:
    """Return an argument as one would write it.

    >>> plain((slice(None, 3), Ellipsis, 2.5))
    '(:3, ..., 2.5)'
    """
    if isinstance(value, slice):
        ends = ["" if end is None else plain(end) for end in (value.start, value.stop, value.step)]
        return ":".join(ends if value.step is not None else ends[:2])
    if value is Ellipsis:
        return "..."
    if isinstance(value, tuple | list):
        return f"({', '.join(plain(part) for part in value)})"
    if isinstance(value, np.ndarray):
        return f"array {value.shape}"
    return numbers.number(value) if isinstance(value, int | float | np.number) else str(value)


def rule_of(node: Node, k: int) -> RuleText:
    """Return the rule by which a node passes a gradient on to its ``k``-th parent."""
    op = node.op
    return rule_text(op, op.parameters[node.plan.arguments[k]] if isinstance(op, Op) and not op.variadic else "")


def rules_of(node: Node) -> list[str]:
    """Return the rules of an operation for the arguments that want a gradient, as lines."""
    names = [argument_name(node, k) for k in range(len(node.parents))]
    if not isinstance(node.op, Op) or node.op.joint is not None:
        return [f"rule for {', '.join(names)}: {rule_of(node, 0).expression}"] if names else []
    lines = []
    for k, name in enumerate(names):
        rule = rule_of(node, k)
        lines.append(f"rule for {name}: {rule.expression}")
        lines += [f"    {helper}: {what}" for helper, what in rule.helpers.items() if rule.is_code]
    return lines
