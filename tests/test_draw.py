"""The graph as text and as SVG."""

import xml.etree.ElementTree as ElementTree

import minigrad as mg


def test_text_shows_each_place_once_with_its_shape():
    x = mg.tensor([[1.0, 2.0]], requires_grad=True)
    w = mg.tensor([[3.0], [4.0]], requires_grad=True)
    h = x @ w
    assert str(mg.draw((h * h + h).sum(), {"x": x, "w": w})).splitlines() == [
        "sum  ()",
        "└─ add  (1, 1)",
        "   ├─ mul  (1, 1)",
        "   │  ├─ matmul #1  (1, 1)",
        "   │  │  ├─ x  (1, 2) [[1.0, 2.0]]",
        "   │  │  └─ w  (2, 1) [[3.0], [4.0]]",
        "   │  └─ matmul #1 (above)",
        "   └─ matmul #1 (above)",
    ]


def test_the_results_of_one_operation_are_drawn_as_it():
    x = mg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    first, second = x.split(2)
    picture = str(mg.draw(first * second))
    assert picture.count("split") == 2
    assert "leaf" in picture


def test_svg_is_well_formed_and_escapes_names():
    x = mg.tensor([1.0], requires_grad=True)
    picture = mg.draw((x * 2).exp(), [("<x> & co", x)])
    root = ElementTree.fromstring(picture.svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<x> & co" in texts
    assert {"exp", "mul"} <= set(texts)
    assert picture._repr_svg_() == picture.svg


def test_a_deep_graph_is_cut_with_a_notice(tmp_path):
    x = mg.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(5000):
        y = y + 1
    picture = mg.draw(y, most=50)
    assert len(str(picture).splitlines()) == 51
    assert "only 50 places are drawn" in str(picture)
    picture.save(tmp_path / "graph.svg")
    assert "only 50 places" in (tmp_path / "graph.svg").read_text(encoding="utf-8")


def test_a_leaf_alone():
    assert str(mg.draw(mg.ones(2, requires_grad=True))) == "leaf  (2,) [1.0, 1.0]"
