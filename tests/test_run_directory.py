"""What a run writes, one process at a time; and what it keeps when disk, numbers or permissions fail."""

import dataclasses
import errno
import json
import math
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from runs import MICRO, SAMPLE_TOKENS, TEXT, StopAfter, contents, plain, prepare, trained

import minigrad as mg
import transformer
from transformer import Config, Recipe, load_checkpoint
from transformer import run as running
from transformer.__main__ import main
from transformer.directory import Log
from transformer.lock import Locked, exclusive
from transformer.run import Listener, NotSaved, Run, Stopped
from transformer.training import NonFiniteLoss

pytestmark = pytest.mark.usefixtures("small_runs")


# --- what a run writes ------------------------------------------------------------------------------


def test_snapshots_hold_the_model_on_its_way(tmp_path):
    text, config = prepare()
    recipe = dataclasses.replace(MICRO, steps=64, evaluate_every=8, snapshots=4)
    transformer.train(text, tmp_path / "run", config, recipe)
    files = sorted((tmp_path / "run" / "snapshots").iterdir())
    assert [file.name for file in files] == [f"{step:08d}.safetensors" for step in (0, 1, 8, 27, 64)]
    snapshots = [load_checkpoint(file) for file in files]
    assert [snapshot.training["step"] for snapshot in snapshots] == [0, 1, 8, 27, 64]
    losses = [text.score(snapshot.model).nats_per_character for snapshot in snapshots]
    assert losses == sorted(losses, reverse=True)
    samples = [snapshot.training["sample"] for snapshot in snapshots]
    assert [sample is not None for sample in samples] == [False, False, True, False, False]
    assert len(samples[2]) == SAMPLE_TOKENS
    with mg.fork_rng(recipe.seed):
        untrained = transformer.Transformer(config)
    assert mg.equal(snapshots[0].model.output.weight, untrained.output.weight)


def test_no_snapshots_if_none_are_wanted(tmp_path):
    text, config = prepare()
    transformer.train(text, tmp_path / "run", config, dataclasses.replace(MICRO, snapshots=0))
    assert not (tmp_path / "run" / "snapshots").exists()


def test_the_log_has_so_many_lines_and_a_held_out_loss_now_and_then(tmp_path, monkeypatch):
    assert running.LOG_LINES == 500
    monkeypatch.setattr(running, "LOG_LINES", 12)
    text, config = prepare()
    recipe = dataclasses.replace(MICRO, steps=24, batch_size=1, evaluate_every=7, snapshots=0)
    transformer.train(text, tmp_path / "run", config, recipe)
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [line["step"] for line in lines] == sorted({*range(2, 25, 2), 7, 21})
    assert [line["step"] for line in lines if "held_out_nats_per_character" in line] == [7, 14, 21, 24]


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (b"", 0),
        (b'{"step": 1}\n{"step": 3}\n{"step": 5}\n', 2),
        (b'{"step": 1}\n{"step": 3}', 1),
        (b'{"step": 1}\n{"st', 1),
        (b'{"step": 1}\n\x00\x00\x00\n', 1),  # what a file system may leave after a power cut
        (b'{"step": 1}\n[]\n{"step": 2}\n', 1),
        (b'{"step": 1}\n{"step": "2"}\n', 1),
        (b"\xff\n", 0),
    ],
)
def test_a_log_is_taken_up_after_its_last_whole_line_of_a_step_that_was_kept(content, left, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    log = Log(path, step=4)
    log.add({"step": 5, "loss": 0.5})
    assert path.read_bytes() == content
    log.save()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == left + 1
    assert json.loads(lines[-1]) == {"step": 5, "loss": 0.5}


# --- what goes wrong --------------------------------------------------------------------------------


@contextmanager
def room_for(n):
    """Let no file grow beyond n bytes inside the block."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.parametrize(
    "room", [0, 100, 2_000, 200_000]
)  # of the log; of the log later; of the models; of the state
def test_a_disk_that_fills_up_costs_one_sentence_and_no_more(room, tmp_path):
    text, config = prepare()
    straight = trained(tmp_path / "straight", text, config, MICRO)
    run = tmp_path / "run"

    class FillTheDisk(StopAfter):
        def stepped(self, progress):
            super().stepped(progress)
            if progress.step == 5:
                disk.enter_context(room_for(room))

    with (
        ExitStack() as disk,
        pytest.raises(NotSaved, match=r"File too large.* go on with: transformer train --resume"),
    ):
        transformer.train(text, run, config, MICRO, FillTheDisk())
    assert load_checkpoint(run / "last.safetensors").training["step"] == 3
    assert all(line.endswith("}") for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    transformer.resume(run, TEXT)
    assert contents(run) == straight


def test_a_directory_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, capsys):
    """Read-only directories are not for root, who may run the tests: the system's answer is simulated."""
    text, config = prepare()
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        transformer.train(text, run, config, MICRO, StopAfter(4), source=[str(file)])
    before = contents(run)
    ordinary = Path.open

    def read_only(path, mode="r", *args, **kwargs):
        if set(mode) & set("wax+"):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return ordinary(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", read_only)
    assert main(["train", "--resume", str(run)]) == 2
    assert main(["train", "--text", str(file), "--out", str(tmp_path / "new")]) == 2
    monkeypatch.undo()
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("transformer: cannot use '")
        assert line.endswith("Read-only file system")
    assert contents(run) == before


class Poison(Listener):
    """Puts a number into the first weight after some step."""

    def __init__(self, step, value):
        self.step, self.value = step, value

    def stepped(self, progress):
        if progress.step == self.step:
            with mg.no_grad():
                self.run.model.blocks[0].ffn.expand.weight[0, 0] = self.value


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("step", "says"),
    [
        (4, r"the loss became infinite or NaN at step 5 \(loss nan, learning rate 0\.00\d+, gradient norm nan\)"),
        (
            6,
            r"after step 6 \(loss \d.*, learning rate 0.00\d+, gradient norm \d.*\) the loss on held-out",
        ),
    ],
)
def test_a_loss_that_is_no_number_stops_the_run_and_the_last_good_checkpoint_stays(
    step, value, says, threads, tmp_path
):
    text, config = prepare()
    poison = Poison(step, value)
    with Run.start(tmp_path / "run", text, config, dataclasses.replace(MICRO, threads=threads)) as run:
        poison.run = run
        with pytest.raises(NonFiniteLoss, match=says + r".*try a lower.* '.*last\.safetensors', of step 3"):
            run.train(poison)
    assert load_checkpoint(tmp_path / "run" / "last.safetensors").training["step"] == 3
    transformer.resume(tmp_path / "run", TEXT)


def test_weights_that_are_no_numbers_are_not_saved_by_the_clock_either(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(running, "SAVE_SHARE", math.inf)
    text, config = prepare()
    poison = Poison(5, math.nan)
    with Run.start(tmp_path / "run", text, config, MICRO) as run:
        poison.run = run
        says = r"after step 5 .* 'blocks\.0\.ffn\.expand\.weight' holds infinity or NaN.*of step 4"
        with pytest.raises(NonFiniteLoss, match=says):
            run.train(poison)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gradient_that_is_no_number_stops_the_run_though_the_loss_is_one(threads, tmp_path):
    """The weights stay as they were before that step."""
    text, config = prepare()
    recipe = dataclasses.replace(MICRO, threads=threads)
    with Run.start(tmp_path / "run", text, config, recipe) as run:
        run.model.blocks[0].ffn.expand.weight.register_hook(lambda g: g * math.inf)
        before = plain(run.model.state_dict())
        with pytest.raises(
            NonFiniteLoss, match=r"the gradient became .* at step 1 \(loss 2\.\d+, .* norm (nan|inf)\)"
        ):
            run.train()
        assert plain(run.model.state_dict()) == before


# --- one process at a time --------------------------------------------------------------------------


def test_two_runs_in_one_directory_are_refused(tmp_path):
    text, config = prepare()
    with Run.start(tmp_path / "run", text, config, MICRO) as first:
        with pytest.raises(Locked, match=rf"run' is in use by process {os.getpid()}"):
            transformer.train(text, tmp_path / "run", config, MICRO)

        class Intrude(Listener):
            def stepped(self, progress):
                with pytest.raises(Locked, match="is in use"):
                    transformer.resume(tmp_path / "run", TEXT)

        first.train(Intrude())
    with pytest.raises(ValueError, match=r"already holds a run: go on with it by --resume"):
        transformer.train(text, tmp_path / "run", config, MICRO)
    transformer.resume(tmp_path / "run", TEXT, steps=9)


@pytest.mark.parametrize("name", ["last.safetensors", "best.safetensors", "snapshots", "log.jsonl"])
def test_a_directory_with_a_trace_of_a_run_is_not_begun_in(name, tmp_path):
    """But with an empty log, as of a start that failed, it is."""
    text, config = prepare()
    (tmp_path / name).write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="already holds a run"):
        transformer.train(text, tmp_path, config, MICRO)
    (tmp_path / name).unlink()
    (tmp_path / "log.jsonl").touch()
    transformer.train(text, tmp_path, config, MICRO)


def test_a_file_system_without_locks_locks_nothing(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def no_locks(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with exclusive(tmp_path / "lock"):
        pass


# --- a run from Python ------------------------------------------------------------------------------


def test_train_takes_a_plain_text(tmp_path):
    """``transformer.train(text, out)`` is the command without its printing."""
    recipe = Recipe(steps=4, batch_size=2, evaluate_every=2, threads=1)
    config = Config.preset("micro", vocab_size=len(set("the cat sat. ")))
    model, score = transformer.train("the cat sat. " * 40, tmp_path / "run", config, recipe)
    assert not model.training
    assert 0 < score.nats_per_character < 2 * math.log(config.vocab_size)
    loaded = load_checkpoint(tmp_path / "run")
    ids = mg.tensor([loaded.tokenizer.encode("the cat")])
    assert mg.equal(loaded.model(ids).detach(), model(ids).detach())
