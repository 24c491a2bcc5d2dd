"""The picture of a training: the right points at the right places, in SVG, in characters and as PNG."""

import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.__main__ import main
from transformer.baselines import Baseline
from transformer.curve import Curve, curve_of, read_log, round_numbers, save_pictures, save_png, svg, text_plot

SVG = "{http://www.w3.org/2000/svg}"
LOG = [
    {"step": 100, "loss": 8.0},
    {"step": 200, "loss": 6.0, "held_out_nats_per_character": 3.5},
    {"step": 400, "loss": 4.0, "held_out_nats_per_character": 2.5},
]
BASELINES = [Baseline(name, 0, loss, ()) for name, loss in (("uniform", 9.0), ("1-gram", 3.0), ("<2>-gram", 1.5))]


@pytest.fixture
def curve() -> Curve:
    made = curve_of(LOG, characters_per_token=2.0, baselines=BASELINES)
    assert made is not None
    return made


def test_the_losses_of_the_log_are_in_one_unit(curve: Curve) -> None:
    assert list(curve.training) == [(100, 4.0), (200, 3.0), (400, 2.0)]
    assert list(curve.held_out) == [(200, 3.5), (400, 2.5)]
    steps, lowest, highest = curve.bounds
    assert steps == 400
    assert lowest < 1.5 < 4.0 < highest < 9.0
    assert [name for name, _ in curve.visible_levels] == ["<2>-gram", "1-gram"]


def test_a_log_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert read_log(path) == []
    lines = [
        '{"step": 1, "loss": 2.0}',
        "[]",
        '{"step": true, "loss": 1.0}',
        '{"loss": 1.0}',
        '{"step": 2}',
        '{"st',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_log(path) == [{"step": 1, "loss": 2.0}, {"step": 2}]
    path.write_bytes(b"\xff")
    assert read_log(path) == []


@pytest.mark.parametrize("loss", [None, "2.0", True, math.nan, math.inf, [2.0]])
def test_what_is_no_loss_is_not_drawn(loss: object) -> None:
    assert curve_of([{"step": 3, "loss": loss, "held_out_nats_per_character": loss}], 1.0) is None
    assert curve_of([], 1.0) is None


def test_the_svg_has_every_point_at_its_place(curve: Curve) -> None:
    root = ET.fromstring(svg(curve, "a <run> & its losses"))
    assert root.find(f"{SVG}title").text == "a <run> & its losses"  # type: ignore[union-attr]
    lines = {line.get("class"): line.get("points", "").split() for line in root.iter(f"{SVG}polyline")}
    frame = root.find(f"{SVG}rect[@class='frame']")
    assert frame is not None
    left, top, width, height = (float(frame.get(name, "")) for name in ("x", "y", "width", "height"))
    _, lowest, highest = curve.bounds
    for kind, points in (("training", curve.training), ("held-out", curve.held_out)):
        assert len(lines[kind]) == len(points)
        for written, (step, loss) in zip(lines[kind], points, strict=True):
            x, y = map(float, written.split(","))
            assert (x - left) / width == pytest.approx(step / 400, abs=1e-3)
            assert (y - top) / height == pytest.approx((highest - loss) / (highest - lowest), abs=1e-3)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"steps", "nats per character", "1-gram", "<2>-gram", "held out", "400"} <= set(texts)
    levels = [float(line.get("y1", "")) for line in root.iter(f"{SVG}line") if line.get("class") == "level"]
    assert [(y - top) / height for y in levels] == pytest.approx(
        [(highest - loss) / (highest - lowest) for loss in (1.5, 3.0)], abs=1e-3
    )


def test_levels_that_cannot_be_told_apart_share_a_line() -> None:
    baselines = [Baseline(name, 0, loss, ()) for name, loss in (("b", 1.01), ("a", 1.0), ("c", 3.0))]
    curve = curve_of(LOG, 2.0, baselines)
    assert curve is not None
    assert curve.visible_levels == [("a, b", 1.0), ("c", 3.0)]


def test_the_plot_in_characters(curve: Curve) -> None:
    lines = text_plot(curve, width=40, height=10).splitlines()
    plot = [line.split("|")[1] for line in lines[:10]]
    assert all(len(row) == 40 for row in plot)
    assert [(row.index("o"), i) for i, row in enumerate(plot) if "o" in row] == [(20, 2), (39, 5)]
    assert [(row.index("."), i) for i, row in enumerate(plot) if "." in row] == [(10, 0), (20, 4), (39, 7)]
    assert "1-gram 3.000" in lines[4]
    assert "<2>-gram 1.500" in lines[9]
    assert lines[11].endswith("400 steps")
    assert "\n".join(lines).isascii()


def test_a_curve_of_one_point_can_be_drawn() -> None:
    for line in ({"step": 0, "loss": 2.0}, {"step": 5, "held_out_nats_per_character": 2.0}):
        curve = curve_of([line], 1.0)
        assert curve is not None
        ET.fromstring(svg(curve, "one point"))
        rows = [row.split("|")[1] for row in text_plot(curve).splitlines()[:14]]
        assert sum(row.count("." if "loss" in line else "o") for row in rows) == 1


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 12))
def test_round_numbers_are_round_and_within(low: float, width: float, at_most: int) -> None:
    high = low + width
    numbers = round_numbers(low, high, at_most)
    assert len(numbers) <= at_most
    slack = 1e-6 * max(abs(low), abs(high), 1)
    assert all(low - slack <= number <= high + slack for number in numbers)


def test_png_needs_matplotlib(curve: Curve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert save_pictures(curve, tmp_path, "a run") == ["loss.svg"]
    assert [path.name for path in tmp_path.iterdir()] == ["loss.svg"]


def test_png_is_drawn_by_matplotlib(curve: Curve, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install minigrad[plot]")
    assert save_png(curve, tmp_path / "loss.png", "a run")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_training_draws_its_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("the cat sat on the mat. " * 100, encoding="utf-8")
    options = "--preset micro --steps 6 --evaluate-every 3 --threads 1 --tokenizer bpe --vocab-size 270"
    assert main(["train", "--text", str(text), "--out", str(out), *options.split()]) == 0
    printed = capsys.readouterr().out
    assert "nats per character:  . training (running mean)   o held out" in printed
    assert "loss.svg" in re.findall(r"^wrote .*$", printed, re.M)[0]
    root = ET.fromstring((out / "loss.svg").read_text(encoding="utf-8"))
    points = {line.get("class"): len(line.get("points", "").split()) for line in root.iter(f"{SVG}polyline")}
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert points == {"training": len(lines), "held-out": 2}
