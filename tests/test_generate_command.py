"""``transformer generate``: prompts from arguments, standard input and a talk."""

import io
import re
import signal
import sys

import pytest
from models import ends_at, make_model

from transformer import CharTokenizer, save_checkpoint
from transformer.__main__ import main
from transformer.commands.generate import unescaped
from transformer.generation import Sampling


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's directory with an untrained model of letters, spaces and line breaks."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = CharTokenizer(" \n/abcdefgh")
    save_checkpoint(folder / "best.safetensors", make_model(stir=0.3), tokenizer)
    return folder


@pytest.fixture
def say(run, capsys, monkeypatch):
    """Return a function that runs ``transformer generate`` with some standard input: (exit code, out, err)."""

    def call(*options, stdin=""):
        source = stdin if isinstance(stdin, io.TextIOBase) else io.StringIO(stdin)
        monkeypatch.setattr(sys, "stdin", source)
        code = main(["generate", "--out", str(run), "--seed", "5", *options])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


def stdin_of(content):
    """Return a standard input with these bytes."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="ascii")


def test_a_long_text_slides_and_says_so(say):
    assert say("--prompt", "abc", "--tokens", "6")[2] == ""  # the last token was drawn, not read
    code, out, err = say("--prompt", "abc", "--tokens", "7")
    assert (code, len(out)) == (0, 11)
    assert re.fullmatch(r"note: .* longer than the 8 tokens .*\n", err)
    assert "past the 8 tokens" in say("--prompt", "abc", "--tokens", "30", "--window", "20")[2]
    assert "longer than the 4 tokens" in say("--prompt", "abcdefgh", "--tokens", "1", "--window", "4")[2]


def test_a_prompt_from_standard_input(say):
    expected = say("--prompt", "ab c", "--tokens", "9")
    for content in (b"ab c", b"ab c\n", b"ab c\r\n", b"\xef\xbb\xbfab c"):
        assert say("--prompt", "-", "--tokens", "9", stdin=stdin_of(content)) == expected
    assert say("--prompt", "-", "--tokens", "9", stdin="ab c") == expected
    code, _, err = say("--prompt", "-", stdin=stdin_of(b"ab\xff"))
    assert (code, err) == (2, "transformer: standard input is not UTF-8: byte 0xff at offset 2\n")


def test_several_prompts_are_continued_side_by_side(say):
    code, out, _ = say("--prompt", "abc", "--prompt", "d", "--tokens", "9")
    one = say("--prompt", "abc", "--tokens", "9")[1]
    two = say("--prompt", "d", "--tokens", "9", "--seed", "6")[1]
    assert (code, out) == (0, f"--- 1\n{one}--- 2\n{two}")


def test_stop_strings_on_the_command_line(say):
    free = say("--tokens", "60")[1][:-1]
    assert "\n" in free[5:]
    assert say("--tokens", "60", "--stop", r"\n")[1] == free[: free.index("\n")] + "\n"
    several = say("--tokens", "60", "--stop", free[9:12], "--stop", free[7:9])[1]
    assert several == free[: ends_at(free, [free[9:12], free[7:9]])] + "\n"
    assert [unescaped(text) for text in (r"a\nb\tc", r"\\n", r"\\\n", "\\x")] == ["a\nb\tc", "\\n", "\\\n", "\\x"]


def test_lines_are_continued_as_one_text(run, say):
    """Each line, and what was written before, is what the next is continued from."""
    code, out, err = say("--interactive", "--tokens", "3", "--temperature", "0", stdin="ab\n\nc\n")
    assert (code, err.count("note:")) == (0, 1)
    first, second, third = re.fullmatch(r"(.{3})\n(.{3})\n(.{3})\n", out, re.DOTALL).groups()
    for prompt, expected in (("ab", first), (f"ab{first}", second), (f"ab{first}{second}c", third)):
        alone = say("--prompt", prompt, "--tokens", "3", "--temperature", "0")[1]
        assert alone == prompt + expected + "\n"
    with_prompt = say("--interactive", "--prompt", "ab", "--tokens", "3", "--temperature", "0", stdin="\nc\n")[1]
    assert with_prompt == "ab" + out


def test_commands_within_a_talk(say):
    options = ("--interactive", "--tokens", "3")
    once = say(*options, stdin="ab")[1]
    assert say(*options, stdin="ab\n/reset\nab\n/quit\nab\n")[1] == once * 2
    code, out, err = say(*options, stdin="/wat\nabé\nab\n")
    assert (code, out) == (0, once), "what was refused leaves no trace"
    assert "/reset" in err
    assert "'é'" in err
    assert say(*options, "--tokens", "20", stdin="//a\n")[1] == say("--prompt", "/a", "--tokens", "20")[1][2:]
    assert say(*options, stdin="")[:2] == (0, "")


def test_ctrl_c_ends_what_is_being_written_and_ctrl_c_at_the_prompt_leaves(say, monkeypatch):
    """The text stays as far as it was written, and can be continued."""
    free = say("--interactive", "--tokens", "7", stdin="ab")[1]
    draw, count = Sampling.draw, 0

    def draw_and_interrupt(self, logits, generator=None):
        nonlocal count
        count += 1
        if count == 3:
            signal.raise_signal(signal.SIGINT)
        return draw(self, logits, generator)

    monkeypatch.setattr(Sampling, "draw", draw_and_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a job is in the background
    assert say("--interactive", "--tokens", "4", stdin="ab\n\n")[1] == f"{free[:3]}\n{free[3:7]}\n"
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler

    def interrupted(prompt=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert say("--interactive") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--interactive", "--prompt", "-"], "--interactive takes one --prompt at most"),
        (["--interactive", "--prompt", "a", "--prompt", "b"], "--interactive takes one --prompt at most"),
        (["--window", "0"], "window must be at least 1"),
        (["--stop", ""], "stop string"),
    ],
)
def test_options_that_make_no_sense(say, options, says):
    code, out, err = say(*options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("transformer: ")
    assert err.count("\n") == 1
