"""The figures of the chapter on backprop in a real browser: one steps back through them, and takes a step down."""

import math
import re

import pytest

from transformer.explain import Material, Subject, page_data

from .explain_pages import Visit, both_sides, plain, write_page
from .explain_run import make_run

SENTENCE = "The state of it"
FIGURES = [f"backprop-{name}" for name in ("neuron", "head", "sizes", "residuals", "step")]


@pytest.fixture(scope="module")
def data(run):
    return page_data(Subject(Material(run), SENTENCE))


@pytest.fixture
def visit(browser, address):
    visit = Visit(browser, address)
    yield visit
    assert visit.complaints == []
    assert visit.requests == [address]
    visit.page.close()


def gradients(visit, figure):
    """Return what the boxes of a graph show as their gradients, in their order."""
    return [text.removeprefix("grad") for text in visit.texts(f"{visit.figure(figure)} .walk-gradient")]


@pytest.mark.parametrize("name", ["neuron", "head"])
def test_the_walk_goes_step_by_step_and_back(visit, data, name):
    page, figure = visit.page, visit.figure(f"backprop-{name}")
    steps = data["chapters"]["backprop"][name]["graph"]["steps"]
    step, back = (
        page.locator(f"{figure} button", has_text="Step"),
        page.locator(f"{figure} button", has_text="Back"),
    )
    assert back.is_disabled()
    known = [len([one for one in gradients(visit, f"backprop-{name}") if one != "·"])]
    for k, told in enumerate(steps, start=1):
        step.click()
        assert page.inner_text(f"{figure} output") == f"step {k} of {len(steps)}"
        panel = page.inner_text(f"{figure} .walk-panel")
        assert f"{k}. {told['expression']}" in panel
        for flow in told["flows"]:
            assert flow["rule"].rstrip(".") in panel
        assert page.locator(f"{figure} .walk-card.current").count() == 1
        assert page.locator(f"{figure} .walk-link.active").count() == len(told["flows"])
        known.append(len([one for one in gradients(visit, f"backprop-{name}") if one != "·"]))
    assert known == [1 + sum(len(told["flows"]) for told in steps[:k]) for k in range(len(steps) + 1)]
    assert step.is_disabled()
    back.click()
    assert page.inner_text(f"{figure} output") == f"step {len(steps) - 1} of {len(steps)}"
    visit.slide(f"{figure} input[type=range]", 0)
    assert "arrives" in page.inner_text(f"{figure} .walk-panel")
    page.locator(f"{figure} .walk-card.can-go").first.click()
    assert page.inner_text(f"{figure} output").startswith("step ")


def test_the_numbers_of_the_neuron_multiply_out(visit, data):
    """Every product and sum that a reader can read off the page is right to its digits."""
    page, figure = visit.page, visit.figure("backprop-neuron")
    checked = 0
    for _ in data["chapters"]["backprop"]["neuron"]["graph"]["steps"]:
        page.locator(f"{figure} button", has_text="Step").click()
        for text in visit.texts(f"{figure} .walk-flow code"):
            left, equals, right = text.rpartition(" = ")
            if equals and not re.match(r"[a-z_]+\(", left):  # a helper of the engine's, which is explained instead
                assert eval(left) == pytest.approx(float(right), rel=2e-3)
                checked += 1
    assert checked >= 4


def test_the_formulas_of_the_head_multiply_out(visit):
    page, figure = visit.page, visit.figure("backprop-head")
    step = page.locator(f"{figure} button", has_text="Step")
    seen = []
    while step.is_enabled():
        step.click()
        seen.append(page.inner_text(f"{figure} .walk-panel .readout").split("\n")[0])
    for formula in seen:
        terms, result = both_sides(formula)
        assert terms == pytest.approx(result, rel=0.02)
    assert len(seen) == 4
    page.locator(f"{figure} button", has_text="Back").click()
    cell = page.locator(f"{figure} .walk-table .result td[tabindex]").nth(1)
    cell.focus()
    formula = page.inner_text(f"{figure} .walk-panel .readout").split("\n")[0]
    assert plain(formula.rpartition(" = ")[2]) == pytest.approx(plain(cell.inner_text()), rel=0.05)


@pytest.mark.parametrize("learned", ["all", "last"])
def test_the_button_takes_a_step_down(visit, data, learned):
    page, figure = visit.page, visit.figure("backprop-step")
    if learned == "last":
        page.locator(f"{figure} .choice label", has_text="the last token").click()
    before, after = data["chapters"]["backprop"]["descent"][learned][0]["states"][:2]
    cells = [f"{figure} .step-table tbody tr:nth-child({row}) td:nth-child({{}})" for row in range(1, 5)]
    assert plain(page.inner_text(cells[0].format(2))) == pytest.approx(before["loss"], rel=1e-3)
    assert page.inner_text(cells[1].format(2)) == ""
    page.locator(f"{figure} button", has_text="Take a step down").click()
    shown = [plain(page.inner_text(cells[row].format(2))) for row in range(3)]
    assert shown[1] < shown[0]
    assert shown[1] == pytest.approx(after["loss"], rel=1e-3)
    assert shown[2] == pytest.approx(after["loss"] - before["loss"], rel=1e-2)
    chances = [plain(page.inner_text(cells[row].format(3))) for row in range(2)]
    assert chances[1] > chances[0]
    assert chances[1] == pytest.approx(math.exp(-after["loss"]), rel=2e-2)
    assert "likelier" in page.inner_text(figure)
    page.locator(f"{figure} button", has_text="Start again").click()
    assert page.inner_text(cells[1].format(2)) == ""
    page.locator(f"{figure} .choice label").last.click()
    page.locator(f"{figure} button", has_text="Take a step down").click()
    assert page.inner_text(cells[1].format(2)) != ""


def test_sizes_move_with_training_and_stacks_can_be_chosen(visit, data):
    page = visit.page
    figure = visit.figure("backprop-sizes")
    last = page.inner_text(f"{figure} .readout")
    visit.slide("#step", 0)
    assert page.inner_text(f"{figure} .readout") != last
    figure = visit.figure("backprop-residuals")
    said = set()
    for k in range(3):
        page.locator(f"{figure} .choice label").nth(k).click()
        said.add(page.inner_text(f"{figure} .note"))
    assert len(said) == 3


def test_the_maps_change_with_the_colours_of_the_page(visit):
    page, figure = visit.page, visit.figure("backprop-head")
    source = f"{figure} .walk-value image"
    light = page.get_attribute(source, "href")
    page.click("#theme")
    assert page.get_attribute(source, "href") != light


def test_a_single_token_gets_a_sentence(browser, tmp_path):
    run = make_run(tmp_path / "run", steps=2, snapshots=(0,))
    visit = Visit(browser, write_page(page_data(Subject(Material(run), "T")), tmp_path))
    assert {visit.texts(f"{visit.figure(name)}")[0][:28] for name in FIGURES} == {"Your text is a single token:"}
    assert visit.complaints == []
    visit.page.close()
