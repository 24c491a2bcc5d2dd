"""The command line as a user meets it: what it prints, what it writes, and how it says no."""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from transformer import Trainer, load_checkpoint
from transformer.__main__ import main

TEXT = "the cat sat on the mat. the dog sat on the log. " * 60
TINY = ["--preset", "micro", "--steps", "6", "--evaluate-every", "3", "--threads", "1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a finished run on a small text of the user's own."""
    folder = tmp_path_factory.mktemp("run")
    text = folder / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    out = folder / "out"
    assert main(["train", "--text", str(text), "--out", str(out), *TINY]) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must be refused: exit code 2 and one sentence on stderr, which is returned."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        code = stopped.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert code == 2, (out, err)
    assert err.startswith("transformer")
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    return err


def test_training_reports_what_it_does_and_writes_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["train", "--text", str(text), "--out", str(out), *TINY]) == 0
    printed = capsys.readouterr().out
    assert "2,880 characters" in printed
    assert "the last 288 held out" in printed
    assert re.search(r"uniform 2\.\d+ · 1-gram", printed)
    assert "this model" in printed
    assert str(out) in printed
    for name in ("best.safetensors", "last.safetensors", "log.jsonl"):
        assert (out / name).is_file()
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    looks = {line["step"]: line["held_out_nats_per_character"] for line in lines if len(line) == 7}
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [*looks] == [3, 6]
    assert all(loss > 0 for loss in looks.values())


def test_one_seed_repeats_to_the_bit(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        options = ["--dropout", "0.1", "--threads", "2", "--seed", seed]
        assert main(["train", "--text", str(text), "--out", str(tmp_path / name), *TINY, *options]) == 0
    a, b, c = ((tmp_path / name / "best.safetensors").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_bpe_and_every_option_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    options = "--tokenizer bpe --vocab-size 300 --norm pre --positions learned --activation gelu --no-tie-weights"
    command = [
        "train",
        "--text",
        str(text),
        "--out",
        str(tmp_path / "out"),
        *TINY,
        *options.split(),
        "--bias",
    ]
    assert main(command) == 0
    assert "by byte-pair encoding, not the 300 asked for" in capsys.readouterr().out
    assert main(["generate", "--out", str(tmp_path / "out"), "--prompt", "ünseen 😀", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("ünseen 😀")


def test_generation_streams_the_prompt_and_its_continuation(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["generate", "--out", str(run), "--prompt", "the ", "--tokens", "20", "--seed", "5"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == second
    assert first.startswith("the ")
    assert main(["generate", "--out", str(run), "--tokens", "5", "--temperature", "0", "--top-k", "1"]) == 0


def test_evaluation_prints_the_table(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--out", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "the held-out text of" in printed
    assert re.search(r"nats/char\s+bits/char\s+bits/byte", printed)
    assert "5-gram" in printed
    other = tmp_path / "other.txt"
    other.write_text("the mat sat on the cat. " * 5, encoding="utf-8")
    assert main(["evaluate", "--out", str(run), "--text", str(other)]) == 0
    assert "120 characters" in capsys.readouterr().out


def test_evaluation_agrees_with_the_training_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    main(["train", "--text", str(text), "--out", str(tmp_path / "out"), *TINY])
    row = re.compile(r"^this model.*$", re.MULTILINE)
    trained = row.search(capsys.readouterr().out)
    main(["evaluate", "--out", str(tmp_path / "out")])
    evaluated = row.search(capsys.readouterr().out)
    assert trained is not None
    assert evaluated is not None
    assert trained[0] == evaluated[0]


def test_tokenize_shows_chips_and_ids(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", "--out", str(run), "the cat"]) == 0
    chips, ids, count = capsys.readouterr().out.splitlines()
    assert chips == "t│h│e│␣│c│a│t"
    assert len(ids.split()) == 7
    assert count.startswith("7 tokens for 7 characters")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_sample_that_the_terminal_cannot_print_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("é😀" * 200, encoding="utf-8")
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    assert main(["train", "--text", str(text), "--out", str(tmp_path / "run"), *TINY]) == 0
    streams[0].flush()
    shown = streams[0].buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "--- after 3 steps" in shown
    assert "??" in shown.split("--- after 3 steps")[1]
    assert load_checkpoint(tmp_path / "run").tokenizer.encode("é😀") == [0, 1]


# --- stopping and resuming -----------------------------------------------------------------------


LONGER = ["--preset", "micro", "--steps", "8", "--evaluate-every", "3", "--threads", "1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A small text of the user's own."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def signal_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, signal.Signals, int], None]]:
    """Have a signal, or several, arrive in the middle of some step; handlers are as in a fresh Python."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ordinary = Trainer.step
    steps = itertools.count(1)

    def install(step: int, number: signal.Signals, times: int) -> None:
        def interrupted(*arguments: Any) -> float:
            if next(steps) == step:
                for _ in range(times):
                    signal.raise_signal(number)
            return ordinary(*arguments)

        monkeypatch.setattr(Trainer, "step", interrupted)

    yield install
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    signal_at: Callable[[int, signal.Signals, int], None],
    number: signal.Signals,
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert main(["train", "--text", str(text), "--out", str(straight), *LONGER]) == 0
    signal_at(5, number, 1)
    capsys.readouterr()
    assert main(["train", "--text", str(text), "--out", str(stopped), *LONGER]) == 130
    assert signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
    err = capsys.readouterr().err
    advice = f"transformer: stopped after step 5 of 8, and saved; go on with: transformer train --resume {stopped}"
    assert err.splitlines()[-1] == advice
    assert load_checkpoint(stopped / "last.safetensors").training["step"] == 5
    assert main(advice.split()[-3:]) == 0
    out = capsys.readouterr().out
    assert f"run        {stopped}, from step 5 on" in out
    assert f"wrote {stopped}: best.safetensors, last.safetensors, log.jsonl" in out
    assert (stopped / "best.safetensors").read_bytes() == (straight / "best.safetensors").read_bytes()


def test_a_second_ctrl_c_stops_at_once(
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    signal_at: Callable[[int, signal.Signals, int], None],
) -> None:
    signal_at(5, signal.SIGINT, 2)
    assert main(["train", "--text", str(text), "--out", str(tmp_path / "run"), *LONGER]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "transformer: stopped; what was saved before stays"
    assert load_checkpoint(tmp_path / "run" / "last.safetensors").training["step"] == 3


def test_a_signal_that_was_ignored_is_ignored_still(
    text: Path, tmp_path: Path, signal_at: Callable[[int, signal.Signals, int], None]
) -> None:
    """As of a command that a shell started in the background."""
    signal_at(2, signal.SIGINT, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert main(["train", "--text", str(text), "--out", str(tmp_path / "run"), *LONGER]) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--learning-rate", "0.1"], "--learning-rate can't be given with --resume"),
        (["--threads", "1"], "--threads can't"),
        (["--preset", "micro"], "--preset can't"),
        (["--depth", "2"], "--depth can't"),
        (["--tokenizer", "char"], "--tokenizer can't"),
        (["--vocab-size", "300"], "--vocab-size can't"),
        (["--no-bias"], "--bias can't"),
        (["--out", "elsewhere"], "--out can't"),
        (["--steps", "6"], "has done 6 of 6 steps"),
        (["--steps", "0"], "steps must be at least 1"),
        ([], "has done 6 of 6 steps: to train it further, give more (--steps)"),
    ],
)
def test_a_resumed_run_keeps_what_it_began_with(
    run: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert says in refused(capsys, "train", "--resume", run, *options)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_what_cannot_be_resumed(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = run / "best.safetensors"
    assert f"'{best}' holds a model's weights but not the state" in refused(capsys, "train", "--resume", best)
    assert "no run to resume" in refused(capsys, "train", "--resume", tmp_path / "nowhere")
    assert "no run to resume" in refused(capsys, "train", "--resume", tmp_path)


def test_a_run_goes_on_with_a_text_that_was_moved(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    moved = tmp_path / "moved.txt"
    moved.write_text(TEXT + "x", encoding="utf-8")
    assert "is not" in refused(capsys, "train", "--resume", copy, "--steps", "8", "--text", moved)
    moved.write_text(TEXT, encoding="utf-8")
    assert main(["train", "--resume", str(copy), "--steps", "8", "--text", str(moved)]) == 0


def test_evaluation_of_a_run_whose_text_has_changed_is_refused(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its held-out part would not be what the model has not seen."""
    main(["train", "--text", str(text), "--out", str(tmp_path / "run"), *TINY])
    capsys.readouterr()
    text.write_text("And so on. " + TEXT, encoding="utf-8")
    assert "is not (or no longer) what the run learned from" in refused(
        capsys, "evaluate", "--out", tmp_path / "run"
    )
    text.unlink()
    assert "no such file" in refused(capsys, "evaluate", "--out", tmp_path / "run")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"  \n\t ", "only whitespace"),
        (b"abc", "too short"),
        (b"abcdefghij", "too short"),
        (b"good text \xff and more", "byte 0xff at offset 10"),
    ],
)
def test_a_text_that_cannot_be_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str
) -> None:
    text = tmp_path / "text.txt"
    if content is not None:
        text.write_bytes(content)
    sentence = refused(capsys, "train", "--text", text, "--out", tmp_path / "out", *TINY)
    assert says in sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "--step", "5"], "--steps"),
        (["train", "--learning_rate", "5"], "--learning-rate"),
        (["generate", "--promt", "x"], "--prompt"),
        (["trian"], "did you mean train?"),
        (["nonsense"], "unknown command nonsense"),
        (["train", "--steps", "many"], "many"),
        (["train", "--steps", "0"], "steps must be at least 1"),
        (["train", "--learning-rate", "nan"], "learning_rate must be"),
        (["train", "--n-heads", "3"], "3 heads don't divide a width of 128"),
        (["train", "--d-model", "63", "--n-heads", "3"], "must be even"),
        (["train", "--dropout", "1.5"], "dropout"),
        (["train", "--norm", "sideways"], "sideways"),
        (["train", "--preset", "huge"], "huge"),
        (["train", "--tokenizer", "bpe", "--vocab-size", "100"], "256"),
        (["train", "--vocab-size", "500"], "add --tokenizer bpe"),
    ],
)
def test_an_option_that_makes_no_sense(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, *arguments)
    assert not list(tmp_path.iterdir()), "nothing is written before all is checked"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--temperature", "-1"], "temperature"),
        (["--temperature", "nan"], "temperature"),
        (["--top-k", "-1"], "top_k"),
        (["--top-p", "0"], "top_p"),
        (["--top-p", "1.5"], "top_p"),
        (["--tokens", "-3"], "--tokens"),
        (["--prompt", "Zebra?"], "'Z'"),
    ],
)
def test_a_generation_that_makes_no_sense(
    run: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert says in refused(capsys, "generate", "--out", run, *options)


def test_a_checkpoint_that_is_none(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no checkpoint" in refused(capsys, "generate", "--out", tmp_path / "nowhere")
    assert "no checkpoint" in refused(capsys, "generate", "--out", tmp_path)
    whole = (run / "best.safetensors").read_bytes()
    broken = tmp_path / "broken.safetensors"
    for content in (b"", whole[: len(whole) // 2], b"PK\x03\x04 a zip file", b"\xff" * 64, whole[:-1]):
        broken.write_bytes(content)
        assert "broken.safetensors" in refused(capsys, "generate", "--out", broken)


def test_a_directory_that_holds_a_run_is_not_overwritten(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "best.safetensors").read_bytes()
    assert "already holds a run" in refused(capsys, "train", "--out", run, *TINY)
    assert (run / "best.safetensors").read_bytes() == before
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    assert "is a file" in refused(capsys, "train", "--out", file, *TINY)


def test_without_any_run_the_sentence_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "transformer train" in refused(capsys, "generate")


def test_runs_are_numbered_and_the_latest_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    assert main(["train", "--text", "text.txt", *TINY]) == 0
    assert main(["train", "--text", "text.txt", *TINY]) == 0
    assert {path.name for path in Path("runs").iterdir()} == {"1", "2"}
    assert main(["generate", "--tokens", "2"]) == 0


def test_help_shows_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--steps INT training steps (default: from the preset)" in shown
    assert "--learning-rate FLOAT" in shown
    assert "--norm {post,pre}" in shown
