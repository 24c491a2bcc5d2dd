"""The page of the three journeys is true: it names the functions in the order in which they are really called."""

import re
import sys
from pathlib import Path

import pytest

import minigrad as mg
from transformer import Config, Transformer
from transformer.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "journeys.md").read_text(encoding="utf-8")


def named_in(journey):
    """Return what a journey names, in order: pairs of a function and its file."""
    (section,) = (part for part in PAGE.split("\n## ")[1:] if part.startswith(journey))
    return re.findall(r"`([\w.<>]+)`\s+in\s+`([\w/]+\.(?:py|js))`", section)


def called_by(work):
    """Return all calls of functions of the two packages during ``work()``, in their order, as such pairs."""
    calls = []

    def note(frame, event, _):
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(str(ROOT)):
                calls.append((frame.f_code.co_qualname, Path(file).relative_to(ROOT).as_posix()))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def check_order(named, calls):
    """Each function is called, and after the one named before it."""
    remaining = iter(calls)
    for k, function in enumerate(named):
        assert function in remaining, f"{function} is not called after {named[k - 1]}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a directory with a short text, in which a run can be made."""
    directory = tmp_path_factory.mktemp("journeys")
    text = "To be, or not to be, that is the question.\n" * 40
    (directory / "book.txt").write_text(text, encoding="utf-8")
    return directory


def test_a_gradient():
    model = Transformer(Config(vocab_size=65, n_layers=1, d_model=32, n_heads=2, context=16))
    ids, targets = mg.randint(65, (8, 16)), mg.randint(65, (8, 16))
    check_order(named_in("A gradient"), called_by(lambda: model.loss(ids, targets).backward()))
    assert model.blocks[0].attention.W_Q.weight.grad is not None


def test_a_character(run, capsys):
    options = ["--preset", "micro", "--steps", "2", "--threads", "1"]
    arguments = ["train", "--text", str(run / "book.txt"), *options, "--out", str(run / "RUN")]
    check_order(named_in("A character"), called_by(lambda: main(arguments)))


def test_a_number(run, capsys):
    if not (run / "RUN").exists():
        test_a_character(run, capsys)
    named = named_in("A number")
    in_python = [function for function in named if function[1].endswith(".py")]
    arguments = ["explain", "--out", str(run / "RUN"), "--text", "To be, or", "--html", str(run / "page.html")]
    check_order(in_python, called_by(lambda: main(arguments)))
    in_the_browser = [function for function in named if function not in in_python]
    assert len(in_the_browser) == 5
    for name, file in in_the_browser:
        assert f"\nfunction {name}(" in (ROOT / file).read_text(encoding="utf-8")
