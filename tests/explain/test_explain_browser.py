"""The explain page in a real browser: it draws everything, asks for nothing, and answers to hand and keyboard.

Skipped where there is no Playwright or no Chromium: ``pip install minigrad[browser]``, and Chromium from the
system's packages (``apt-get install chromium``) or from ``playwright install chromium``.
"""

import json
import shutil
import threading
from pathlib import Path

import pytest

import minigrad as mg
from transformer.explain import ExplainServer, Material, Subject, page_data
from transformer.explain.data import CHAPTERS
from transformer.generation import Sampling

from .explain_pages import Visit, both_sides, plain, write_page
from .explain_run import SNAPSHOTS, make_run

SENTENCE = "The state of it"
HOSTILE = "</script ></script><img src=x onerror='window.hacked=1'><b>&\n日"
WIDTHS = {"phone": (390, 844), "laptop": (1280, 800), "projector": (1920, 1080)}


@pytest.fixture(scope="module")
def material(run):
    return Material(run)


@pytest.fixture(scope="module")
def bpe_material(tmp_path_factory):
    text = (HOSTILE + "\nThe end of the state. ") * 60
    return Material(make_run(tmp_path_factory.mktemp("explain") / "bpe", text=text, kind="bpe", steps=20))


@pytest.fixture(scope="module")
def data(material):
    return page_data(Subject(material, SENTENCE, sample_tokens=8))


@pytest.fixture
def visit(browser, address):
    visit = Visit(browser, address)
    yield visit
    visit.page.close()


def test_every_chapter_renders_and_nothing_is_asked_for(visit, address):
    page = visit.page
    assert page.eval_on_selector_all("main > section", "all => all.map(one => one.id)") == list(CHAPTERS)
    figures = page.eval_on_selector_all(
        "[data-figure]", "all => all.map(one => [one.dataset.figure, one.children.length, one.clientHeight])"
    )
    assert len(figures) > 25
    assert [name for name, children, height in figures if not children or height < 20] == []
    assert (
        visit.texts(".failed")
        == ["The figures of this page are drawn by a script, which this browser does not run."][:0]
    )
    captions = page.eval_on_selector_all(
        "main section figure", "all => all.map(one => one.querySelector('figcaption b')?.textContent || '')"
    )
    assert all(len(caption) > 10 for caption in captions), "each figure says what to look at"
    assert visit.texts("[data-value]")
    assert not [text for text in visit.texts("[data-value]") if text in ("", "(not known)", "undefined", "NaN")]
    assert visit.complaints == []
    assert visit.requests == [address]


def test_time_to_interactive(visit):
    """It is measured and printed; how long it takes is a matter of the machine."""
    drawn = visit.page.evaluate("performance.now()")
    print(f"interactive {visit.ready:.0f} ms after it was asked for, its last figure drawn after {drawn:.0f} ms")
    assert 0 < visit.ready < drawn


@pytest.mark.parametrize(
    ("device", "theme"),
    [
        ("phone", "light"),
        ("laptop", "dark"),
        pytest.param("laptop", "light", marks=pytest.mark.slow),
        pytest.param("projector", "light", marks=pytest.mark.slow),
    ],
)
def test_nothing_sticks_out_at_any_width(browser, address, tmp_path, device, theme):
    width, height = WIDTHS[device]
    visit = Visit(browser, address, width, height, color_scheme=theme)
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        """width => [...document.querySelectorAll('main *')].filter(one => {
             const box = one.getBoundingClientRect();
             return box.width > 0 && (box.right > width + 1 || box.left < -1)
               && !one.closest('.scroll, .skip, p.formula')
               && getComputedStyle(one).position !== 'absolute';
           }).map(one => one.outerHTML.slice(0, 120))""",
        width,
    )
    assert wide == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 23, 26)") == (theme == "dark")
    picture = tmp_path / f"{device}-{theme}.png"
    page.screenshot(path=picture, full_page=True)
    print(f"the whole page, {device}, {theme}: {picture}")
    assert picture.stat().st_size > 100_000
    assert visit.complaints == []
    page.close()


def test_the_bars_are_the_model_s_own_and_move_with_training(visit, material, data):
    ids = data["text"]["ids"]
    for step in range(len(SNAPSHOTS)):
        visit.slide("#step", step)
        with mg.no_grad():
            logits = material.snapshots[step].model(mg.tensor([ids]))[0, -1]
        p = logits.double().softmax(-1)
        order = p.sort(descending=True, stable=True)[1].tolist()[:10]
        figure = visit.figure("prediction-bars")
        labels = visit.texts(f"{figure} .bar-label")
        assert labels[:10] == [data["vocabulary"][id] for id in order]
        shown = [plain(text) for text in visit.texts(f"{figure} .bar-value")]
        assert shown[:10] == pytest.approx([p[id].item() for id in order], rel=0.02, abs=6e-4)
        assert sum(shown) == pytest.approx(1, abs=0.006)
        assert visit.texts("#timeline output")[0].startswith(f"step {SNAPSHOTS[step]}")


def test_all_that_moves_with_training_moves(visit):
    page = visit.page
    figures = page.eval_on_selector_all(
        "figure:has(> figcaption.moves) [data-figure]", "all => all.map(one => one.dataset.figure)"
    )
    assert len(figures) >= 9
    look = """name => {
      const root = document.querySelector(`[data-figure="${name}"]`);
      const drawn = [...root.querySelectorAll('canvas')].map(canvas => canvas.toDataURL());
      return root.innerHTML + drawn.join();
    }"""
    before = {name: page.evaluate(look, name) for name in figures}
    visit.slide("#step", 0)
    assert [name for name in figures if page.evaluate(look, name) == before[name]] == []


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(0.5, 0, 1.0), (2.0, 5, 1.0), (1.5, 0, 0.4), (0, 0, 1.0)]
)
def test_the_knobs_recompute_the_bars_as_python_does(visit, material, data, temperature, top_k, top_p):
    figure = visit.figure("output-bars")
    for i, value in enumerate((temperature, top_k, top_p)):
        visit.page.eval_on_selector_all(
            f"{figure} input[type=range]",
            "(all, [i, value]) => { all[i].value = value; all[i].dispatchEvent(new Event('input')); }",
            [i, value],
        )
    with mg.no_grad():
        logits = material.model(mg.tensor([data["text"]["ids"]]))[0, -1]
    p = Sampling(temperature, top_k, top_p).distribution(logits)
    order = logits.sort(descending=True, stable=True)[1].tolist()[:12]
    shown = [plain(text) for text in visit.texts(f"{figure} .bar-value")]
    assert shown[:12] == pytest.approx([p[id].item() for id in order], rel=0.02, abs=6e-4)
    assert sum(shown) == pytest.approx(1, abs=0.006)
    visit.page.click(f"{figure} button:nth-of-type(2)")
    told = visit.texts(f"{figure} .bar-value")
    times = [int(text.split("drawn ")[1].replace(",", "")) for text in told]
    assert sum(times) == 1000
    for text, n in zip(told, times, strict=True):
        share = plain(text.split(",")[0])
        assert abs(n - 1000 * share) <= 6 * (1000 * share * (1 - share)) ** 0.5 + 2
    visit.page.click(f"{figure} button")
    reset = [plain(text) for text in visit.texts(f"{figure} .bar-value")]
    assert reset[0] == pytest.approx(Sampling().distribution(logits)[order[0]].item(), abs=1e-3)


def test_the_merge_slider_replays_the_tokenizer(browser, bpe_material, tmp_path):
    data = page_data(Subject(bpe_material, "The end of", sample_tokens=1))
    visit = Visit(browser, write_page(data, tmp_path))
    merges = data["chapters"]["tokens"]["merges"]
    assert len(merges) > 4
    figure = visit.figure("tokens-merges")
    for count in (0, 1, len(merges) // 2, len(merges)):
        visit.slide(f"{figure} input[type=range]", count)
        rank = merges[count - 1]["rank"] if count else 0
        tokenizer = bpe_material.tokenizer.with_merges(rank)
        wanted = tokenizer.encode("The end of")
        shown = visit.page.get_attribute(f"{figure} .pieces", "data-ids")
        assert [int(id) for id in shown.split()] == wanted
        assert visit.texts(f"{figure} .piece") == [tokenizer.token_text(id) for id in wanted]
    assert visit.complaints == []
    visit.page.close()


def test_the_keyboard_reaches_tokens_cells_and_heads(visit, data):
    page = visit.page
    page.focus('[data-figure="reading"] input:checked')
    page.keyboard.press("ArrowLeft")
    n = len(data["text"]["ids"])
    chosen = page.eval_on_selector_all(
        "[data-figure='embedding-strip'] .tokens input", "all => all.findIndex(one => one.checked)"
    )
    assert chosen == n - 2
    page.focus('[data-figure="scores-matrix"] canvas')
    before = visit.texts('[data-figure="scores-matrix"] .readout')
    page.keyboard.press("Home")
    first = visit.texts('[data-figure="scores-matrix"] .readout')
    assert first != before
    assert f"Query {data['text']['tokens'][n - 2]} at {n - 2}, key {data['text']['tokens'][0]} at 0" in first[0]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    rows = page.eval_on_selector_all(
        "[data-figure='scores-why'] .tokens input", "all => all.findIndex(one => one.checked)"
    )
    assert rows == n - 3
    page.focus('[data-figure="heads-grid"] .thumbnail:last-child')
    page.keyboard.press("Enter")
    assert "Block 2, head 2" in visit.texts('[data-figure="heads-grid"] .part-title')[0]


def test_the_first_tab_leads_past_the_chapters(visit):
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "skip"


def test_pointing_at_a_cell_shows_its_formula_with_the_captured_numbers(visit, data, material):
    page, ids = visit.page, data["text"]["ids"]
    with mg.no_grad():
        _, cache = material.model.run_with_cache(mg.tensor([ids]))
    opened = data["chapters"]["projections"]["weights"][0]["head"]
    weights = cache["blocks.0.attention.pattern"][0, opened, -1]
    canvas = page.locator('[data-figure="scores-matrix"] canvas')
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.keyboard.press("End")
    said = visit.texts('[data-figure="scores-matrix"] .readout')[0]
    share = said.split(" = ")[-1].split(" of the row")[0]
    assert plain(share) == pytest.approx(weights[-1].item(), abs=6e-4)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 6, box["y"] + 30)
    assert "exactly no weight" in visit.texts('[data-figure="scores-matrix"] .readout')[0]


@pytest.mark.parametrize("name", ["projections-strips", "scores-why", "scores-mix", "output-table"])
def test_sums_of_products_multiply_out(visit, name):
    readout = visit.page.inner_text(f"{visit.figure(name)} .readout").split("\n")
    (formula,) = [line for line in readout if "×" in line and "smaller products" in line]
    terms, result = both_sides(formula)
    assert terms == pytest.approx(result, rel=0.02, abs=0.02)


def test_pointing_anywhere_is_answered_without_complaint(visit):
    page = visit.page
    page.add_style_tag(content="html { scroll-behavior: auto !important; }")
    for drawing in page.locator("main .grid-canvas, main .chart svg").all():
        drawing.scroll_into_view_if_needed()
        box = drawing.bounding_box()
        for across in (0.4, 0.8):
            page.mouse.move(box["x"] + across * box["width"], box["y"] + box["height"] / 2)
    assert visit.complaints == []


def test_touch_reaches_the_cells(browser, address):
    visit = Visit(browser, address, 390, 844, has_touch=True)
    canvas = visit.page.locator('[data-figure="context-change"] canvas')
    canvas.scroll_into_view_if_needed()
    before = visit.texts('[data-figure="context-change"] .readout')
    box = canvas.bounding_box()
    visit.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] - 60)
    assert visit.texts('[data-figure="context-change"] .readout') != before
    visit.page.close()


def test_hostile_text_is_shown_and_does_nothing(browser, bpe_material, tmp_path):
    data = page_data(Subject(bpe_material, HOSTILE, (HOSTILE, HOSTILE), sample_tokens=8))
    visit = Visit(browser, write_page(data, tmp_path))
    assert visit.page.evaluate("window.hacked") is None
    assert visit.page.query_selector("main img, main script") is None
    assert visit.texts('[data-figure="reading"] .chip') == data["text"]["tokens"]
    assert len(visit.requests) == 1
    assert visit.complaints == []
    visit.page.close()


def test_a_failing_figure_says_why_in_its_place(browser, data, tmp_path):
    broken = json.loads(json.dumps(data))
    broken["chapters"]["positions"] = {"error": "ValueError: <b>no positions</b> today"}
    del broken["tensors"]["blocks.1.ffn.hidden"]
    visit = Visit(browser, write_page(broken, tmp_path))
    failed = visit.texts(".failed")
    assert len(failed) == 4
    assert all("<b>no positions</b> today" in text for text in failed)
    visit.page.click('[data-figure="blocks-ffn"] .choice label:nth-of-type(2)')
    assert "the page's data has no tensor blocks.1.ffn.hidden" in visit.texts('[data-figure="blocks-ffn"]')[0]
    assert visit.texts('[data-figure="prediction-bars"] .bar-label')
    visit.page.close()


def test_a_run_without_snapshots_says_so(browser, material, tmp_path):
    shutil.copy(material.directory / "best.safetensors", tmp_path / "best.safetensors")
    data = page_data(Subject(Material(tmp_path), SENTENCE, sample_tokens=1))
    visit = Visit(browser, write_page(data, tmp_path))
    assert visit.texts(".failed") == []
    assert "no snapshots" in visit.texts('[data-figure="prediction-history"]')[0]
    assert not visit.page.is_visible("#timeline")
    assert visit.complaints == []
    visit.page.close()


def test_printing_leaves_out_the_frame(visit):
    page = visit.page
    page.emulate_media(media="print")
    assert not page.is_visible("#timeline")
    assert not page.is_visible("nav")
    assert page.is_visible('[data-figure="scores-matrix"] canvas')
    assert len(page.pdf()) > 50_000


def test_typing_into_the_served_page_computes_everything_anew(browser, material):
    from playwright.sync_api import expect

    with ExplainServer(Subject(material, SENTENCE, sample_tokens=1), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            visit = Visit(browser, server.address)
            page = visit.page
            assert page.is_visible("#live textarea")
            page.fill("#live textarea", "for it")
            expect(page.locator("[data-figure=reading] .chip")).to_have_text(list("for␣it"))
            assert "for␣it" in visit.texts('[data-figure="prediction-bars"] .part-title')[0]
            page.fill("#live textarea", "日")
            expect(page.locator("#live-status")).to_contain_text("never occurred")
            assert visit.texts('[data-figure="reading"] .chip') == list("for␣it")
            assert {Path(url).name for url in visit.requests} <= {f"127.0.0.1:{server.server_port}", "data"}
            page.close()
        finally:
            server.shutdown()
            thread.join()
