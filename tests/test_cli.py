"""The command line as a user meets it: what it prints, what it writes, and how it says no."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

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
