"""A computation graph and the walk back through it, as data: what ``mg.explain_backward`` tells, for a figure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import minigrad as mg
from minigrad import Tensor
from minigrad.draw.layout import place
from minigrad.draw.picture import Card, rule_of
from minigrad.draw.story import Story, evaluated
from minigrad.draw.svg import SIGNS
from minigrad.draw.walk import Flow, Step
from transformer.explain.packing import packed

HEIGHT, MAP_HEIGHT, GAP = 64, 92, 16  # of a card with a number, of one with a map of numbers, and between cards

PRODUCTS = {
    # What is multiplied in the rules of a product: of a matrix by a vector, and of a vector by a matrix.
    (2, 1): {"x": ("g", "j", "y", "d", "jd"), "y": ("x", "jd", "g", "j", "d")},
    (1, 2): {"x": ("y", "jd", "g", "d", "j"), "y": ("x", "j", "g", "d", "jd")},
}


def walked(output: Tensor, gradient: Tensor, names: dict[str, Tensor]) -> dict[str, Any]:
    """Return the graph of ``output`` and its backward pass from ``gradient``, step by step.

    The result: ``cards`` (kind, name, sign, shape, value, gradient, and where to draw it), ``links`` between them,
    and ``steps`` in the order of the engine's walk.  A step has the ``card`` of its operation, the ``gradient``
    that arrives, and ``flows``: for each input the rule as the engine has it, what the rule was given, and what it
    returned.  Where that is a sum of products, ``product`` says of what: the names and index letters of the two
    factors, and the letters of the result.
    """
    story = mg.explain_backward(output, names, gradient=gradient)
    cards = story.picture.cards
    number = {card: k for k, card in enumerate(cards)}
    heights: dict[Hashable, float] = {card: HEIGHT if card.shape == "()" else MAP_HEIGHT for card in cards}
    inputs: dict[Hashable, list[Card]] = {card: [link.source for link in card.links] for card in cards}
    layout = place(cards, inputs, heights, GAP)
    return {
        "height": layout.height,
        "columns": len(layout.columns),
        "cards": [
            card_data(card)
            | {"column": layout.spots[card].column, "y": layout.spots[card].y, "height": heights[card]}
            for card in cards
        ],
        "links": [
            {
                "source": number[link.source],
                "target": number[card],
                "argument": link.argument,
                "passes": [[spot.column, spot.y] for spot in layout.routes[link.source, card, k][1:-1]],
            }
            for card in cards
            for k, link in enumerate(card.links)
        ],
        "steps": [step_data(step, story, number) for step in story.steps],
    }


def card_data(card: Card) -> dict[str, Any]:
    """Return what a card shows."""
    return {
        "kind": card.kind,
        "name": card.name,
        "operation": card.operation,
        "sign": SIGNS.get(card.operation, card.operation),
        "shape": card.shape,
        "value": packed(mg.tensor(card.value)),
        "gradient": packed(mg.tensor(card.gradient)),
    }


def step_data(step: Step, story: Story, number: dict[Card, int]) -> dict[str, Any]:
    """Return one step of the walk."""
    card_of = story.picture.card_of
    return {
        "card": number[card_of[step.node]],
        "expression": story.expression(step.node),
        "gradient": packed(mg.tensor(step.gradient)),
        "flows": [flow_data(flow, step, number[card_of[flow.target]]) for flow in step.flows],
    }


def flow_data(flow: Flow, step: Step, target: int) -> dict[str, Any]:
    """Return what a rule was given and what it returned."""
    rule = rule_of(flow.node, flow.index)
    data = {
        "target": target,
        "argument": flow.argument,
        "rule": rule.expression,
        "code": rule.is_code,
        "helpers": dict(rule.helpers) if rule.is_code else {},
        "evaluated": evaluated(rule, step.gradient, flow),
        "values": {name: value_data(value) for name, value in flow.values.items()},
        "returned": packed(mg.tensor(flow.returned)),
        "product": None,
    }
    if flow.node.op.name == "matmul":
        x, y = (flow.values.get(name) for name in ("x", "y"))
        x_ndim = len(flow.values["x_shape"]) if x is None else x.ndim
        y_ndim = len(flow.values["y_shape"]) if y is None else y.ndim
        data["product"] = PRODUCTS[x_ndim, y_ndim][flow.argument]
    return data


def value_data(value: Any) -> Any:
    """Return something that a rule was given: an array packed, anything else as text."""
    return packed(mg.tensor(value)) if hasattr(value, "dtype") else str(value)
