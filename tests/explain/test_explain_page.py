"""The explain page as a file, a command and a server: no text can do harm, and what fails says so."""

import json
import math
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from transformer.__main__ import main
from transformer.data import split_text
from transformer.explain import ExplainServer, Material, Subject, json_text, page_data, page_html
from transformer.explain.packing import packed

from .explain_pages import SENTENCE, Page, data_of, numbers
from .explain_run import make_run

HOSTILE = "</script ></script><script>alert(1)</script><b>&amp; \u2028\n😀日本<!--<img src=x onerror=hack()>"


# --- hostile texts ----------------------------------------------------------------------------------


def our_scripts(html):
    """Assert that a page holds our two scripts and nothing else that could run or ask for something."""
    page = Page(html)
    assert [attributes.get("type") for tag, attributes in page.elements if tag == "script"] == [
        "application/json",
        None,
    ]
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base", "img", "audio", "video")
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "srcdoc", "action", "formaction"), (tag, name)
            assert not (name == "href" and not value.startswith(("#", "data:,"))), (tag, value)
    assert not set("<>&\u2028\u2029") & set(page.scripts[0])
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe-eval" not in policy
    return page


def test_hostile_text_and_tokenizer_stay_text(tmp_path):
    run = make_run(tmp_path / "run", text=(HOSTILE + "\nThe end. ") * 40, kind="bpe", steps=2, snapshots=(0, 2))
    material = Material(run)
    assert any("script" in material.tokenizer.token_text(id) for id in range(256, material.tokenizer.vocab_size))
    data = page_data(Subject(material, HOSTILE[:40], (HOSTILE, HOSTILE), sample_tokens=20))
    html = page_html(data)
    clean = our_scripts(page_html(page_data(Subject(material, "The end", sample_tokens=1))))
    assert [tag for tag, _ in our_scripts(html).elements] == [tag for tag, _ in clean.elements]
    assert json.loads(Page(html).scripts[0]) == json.loads(json_text(data))
    assert data_of(html)["compare"] == [HOSTILE, HOSTILE]


def test_characters_with_tags_newlines_emoji_and_parts_of_them(tmp_path):
    run = make_run(tmp_path / "bpe", kind="bpe", vocab_size=260, steps=2, snapshots=(0, 2))
    data = page_data(Subject(Material(run), "é😀\n", sample_tokens=8))
    assert data["text"]["tokens"] == ["\\xc3", "\\xa9", "\\xf0", "\\x9f", "\\x98", "\\x80", "\\n"]
    assert [name for name, chapter in data["chapters"].items() if "error" in chapter] == []
    our_scripts(page_html(data))
    lone = page_data(Subject(Material(run), "a\ud83d", sample_tokens=1))
    page_html(lone).encode("utf-8")


def test_the_script_takes_texts_by_text_content_alone():
    from transformer.explain.page import SCRIPTS, asset

    for name in SCRIPTS:
        code = asset(f"scripts/{name}.js")
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert danger not in code, (name, danger)
        assert "http" not in code.replace("http://www.w3.org/2000/svg", ""), name


def test_packed_tensors_survive_and_other_dtypes_are_refused():
    for dtype in ("float32", "float16"):
        tensor = mg.tensor([[0.5, -math.inf], [1e-3, 3.0]])
        assert np.array_equal(numbers(packed(tensor, dtype)), tensor.numpy().astype(dtype))
    assert numbers(packed(mg.tensor([3, -4]), "int32")).tolist() == [3, -4]
    with pytest.raises(ValueError, match="float64"):
        packed(tensor, "float64")


# --- the command ------------------------------------------------------------------------------------


def test_the_command_writes_the_page_and_its_data(run, tmp_path, capsys):
    page, file = tmp_path / "new" / "page.html", tmp_path / "data.json"
    arguments = ["--text", SENTENCE, "--compare", "a dog", "the dog", "--html", str(page), "--json", str(file)]
    assert main(["explain", "--out", str(run), *arguments]) == 0
    said = capsys.readouterr().out
    assert f"wrote {page} (" in said
    assert f"wrote {file} (" in said
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data_of(page.read_text(encoding="utf-8")) == data
    assert data["compare"] == ["a dog", "the dog"]
    assert (data["format"], data["version"]) == ("transformer explain", 1)


def test_the_data_is_documented(data):
    guide = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    for name in data:
        assert f"`{name}`" in guide, name
    for name, chapter in data["chapters"].items():
        assert f"`{name}`" in guide, name
        for key in chapter:
            assert f"`{key}`" in guide, (name, key)


def test_without_options_it_reads_held_out_text(run, capsys):
    assert main(["explain", "--out", str(run)]) == 0
    html = (run / "explain.html").read_text(encoding="utf-8")
    held_out = split_text((run / "text.txt").read_text(encoding="utf-8"))[1]
    assert data_of(html)["text"]["given"] in held_out
    assert "explain.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--text", ""], "no text to explain"),
        (["--text", "日"], "never occurred in the training text"),
        (["--text", "a", "--port", "8000"], "--port is of use only with --serve"),
        (["--serve", "--port", "70000"], "--port must be from 0 to 65535, not 70000"),
        (["--txt", "a"], "did you mean --text?"),
        (["--compare", "a"], "expected 2 arguments"),
    ],
)
def test_what_can_be_wrong_is_one_sentence(run, capsys, arguments, reason):
    try:
        code = main(["explain", "--out", str(run), *arguments])
    except SystemExit as stopped:
        code = stopped.code
    said = capsys.readouterr().err
    assert code == 2
    assert reason in said
    assert len(said.strip().splitlines()) == 1


def test_no_run_is_one_sentence(tmp_path, capsys):
    assert main(["explain", "--out", str(tmp_path / "none"), "--text", "a"]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err


# --- the server -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(run):
    with ExplainServer(Subject(Material(run), SENTENCE, sample_tokens=1), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="", content=None, **headers):
    """Return the status and the text of an answer."""
    request = urllib.request.Request(
        server.address + path, content, {"Content-Type": "application/json", **headers}
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode("utf-8")


def test_the_server_gives_the_page_and_explains_what_is_typed(server):
    assert server.server_address[0] == "127.0.0.1"
    status, html = ask(server)
    assert status == 200
    assert data_of(html)["served"] is True
    our_scripts(html)
    status, answer = ask(server, "data", json.dumps({"text": "for a", "compare": ["one", "none"]}).encode())
    answer = json.loads(answer)
    assert status == 200
    assert answer["text"]["given"] == "for a"
    assert answer["compare"] == ["one", "none"]
    status, answer = ask(server, "data", b'{"text": "for a", "compare": ["", ""]}')
    assert json.loads(answer)["compare"] == ["river bank", "savings bank"]


@pytest.mark.parametrize(
    ("path", "content", "headers", "status"),
    [
        ("nothing", None, {}, 404),
        ("nothing", b"{}", {}, 404),
        ("data", b"no json", {}, 400),
        ("data", b"[" * 90_000, {}, 400),
        ("data", b'{"text": 3}', {}, 400),
        ("data", b'{"text": "a", "compare": "b"}', {}, 400),
        ("data", b'{"text": ""}', {}, 400),
        ("data", '{"text": "日"}'.encode(), {}, 400),
        ("data", b'{"text": "' + b"a" * 100_000 + b'"}', {}, 400),
        ("data", b'{"text": "a"}', {"Content-Type": "text/plain"}, 400),
        ("data", b'{"text": "a"}', {"Origin": "http://example.org"}, 403),
        ("data", b'{"text": "a"}', {"Host": "example.org"}, 403),
        ("", None, {"Host": "example.org"}, 403),
    ],
)
def test_the_server_refuses_what_is_not_for_it(server, path, content, headers, status):
    found, answer = ask(server, path, content, **headers)
    assert found == status
    assert json.loads(answer)["error"]


def test_a_taken_port_is_one_sentence(run, server, capsys):
    arguments = ["--text", "a", "--serve", "--port", str(server.server_port)]
    assert main(["explain", "--out", str(run), *arguments]) == 2
    assert f"can't listen on port {server.server_port}" in capsys.readouterr().err
