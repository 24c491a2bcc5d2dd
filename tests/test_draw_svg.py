"""The graph as SVG: all is shown and inside its card, and links cross no more than they must."""

import itertools
import random
import xml.etree.ElementTree as ElementTree

import pytest
from drawings import neuron, small_model

import minigrad as mg
from minigrad.draw import layout
from minigrad.draw.layout import place

SVG = "{http://www.w3.org/2000/svg}"


def test_svg_shows_names_signs_shapes_values_gradients_and_rules():
    picture, _, _ = neuron()
    root = ElementTree.fromstring(picture.svg)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"w1", "b", "n", "×", "+", "tanh", "0.7071", "0.5"} <= set(texts)
    hovers = [element.text for element in root.iter(f"{SVG}title")]
    assert any("rule for x: g * (1 - out * out)" in hover for hover in hovers)
    assert picture._repr_svg_() == picture.svg
    assert picture.svg in picture._repr_html_()


def test_svg_is_well_formed_whatever_the_names():
    x = mg.tensor([1.0], requires_grad=True)
    picture = mg.draw((x * 2).exp(), [("<script>&\"'", x)])
    root = ElementTree.fromstring(picture.svg)
    assert "<script>&\"'" in [element.text for element in root.iter(f"{SVG}text")]
    assert "<script" not in picture.svg


def test_texts_stay_inside_their_cards_and_cards_apart():
    _, loss = small_model()
    for depth in (0, 1, 2, 9):
        root = ElementTree.fromstring(mg.draw(loss, depth=depth).svg)
        frames = []
        for group in root.iter(f"{SVG}g"):
            frame = group.find(f"{SVG}rect")
            x, y, width, height = (float(frame.get(name)) for name in ("x", "y", "width", "height"))
            frames.append((x, y, width, height))
            for text in group.iter(f"{SVG}text"):
                size = 7.3 if text.get("class") in ("title", "sign") else 6.65
                length, at = size * len(text.text), float(text.get("x"))
                start = at - length if text.get("text-anchor") == "end" else at
                assert x <= start
                assert start + length <= x + width + 0.5
        for one, other in itertools.combinations(frames, 2):
            apart_x = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
            apart_y = one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]
            assert apart_x or apart_y


def drawn(inputs):
    """Lay out a graph given as {item: inputs}, items before their inputs."""
    found = place(list(inputs), inputs, dict.fromkeys(inputs, 40.0), 10.0)
    return found, layout.crossings(found.columns)


def test_inputs_stand_left_and_a_tree_has_no_crossings():
    tree = {1: [2, 3], 2: [4, 5], 3: [6, 7], 4: [], 5: [8, 9], 6: [], 7: [], 8: [], 9: []}
    found, crossed = drawn(tree)
    assert crossed == 0
    for item, sources in tree.items():
        assert all(found.spots[source].column < found.spots[item].column for source in sources)


def crossings_of(upper, lower, inputs):
    """Count the crossings between two columns, pair by pair."""
    return sum(
        lower.index(p) > lower.index(q)
        for x, y in itertools.combinations(upper, 2)
        for p in inputs[x]
        for q in inputs[y]
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_other_order_has_fewer_crossings(seed):
    """On small graphs all orders can be tried."""
    draw_from = random.Random(seed)
    first = [f"a{i}" for i in range(4)]
    inputs = {"out": first} | {item: draw_from.sample([f"b{i}" for i in range(4)], 2) for item in first}
    second = sorted({source for item in first for source in inputs[item]})
    inputs |= {item: draw_from.sample([f"c{i}" for i in range(4)], 2) for item in second}
    third = sorted({source for item in second for source in inputs[item]})
    inputs |= {item: [] for item in third}
    fewest = min(
        min(crossings_of(upper, middle, inputs) for upper in itertools.permutations(first))
        + min(crossings_of(middle, lower, inputs) for lower in itertools.permutations(third))
        for middle in itertools.permutations(second)
    )
    _, crossed = drawn(inputs)
    assert crossed == fewest


def test_crossings_that_can_be_avoided_are_avoided():
    # Met in the order of the arguments, c and d stand so that two links cross; the other order has none.
    _, crossed = drawn({"out": ["a", "b"], "a": ["c", "d"], "b": ["e", "c"], "c": [], "d": [], "e": []})
    assert crossed == 0


def test_a_long_link_keeps_clear_of_the_cards_it_passes():
    found, _ = drawn({"out": ["a", "x"], "a": ["b"], "b": ["c"], "c": ["x"], "x": []})
    for passing in found.routes["x", "out", 1][1:-1]:
        for item in ("a", "b", "c"):
            spot = found.spots[item]
            if spot.column == passing.column:
                assert abs(spot.y - passing.y) >= spot.height / 2 + 4
