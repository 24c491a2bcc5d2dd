"""A run that is left alone: stopped, killed, short of disk, resumed, and what its directory then holds."""

import dataclasses
import errno
import json
import math
import os
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import minigrad as mg
import transformer
from transformer import Config, Recipe, load_checkpoint
from transformer import run as running
from transformer import text as texts
from transformer.__main__ import main
from transformer.checkpoint import CheckpointError
from transformer.corpus import DataError
from transformer.directory import Log
from transformer.lock import Locked, exclusive
from transformer.run import Listener, NotSaved, Run, Stopped
from transformer.text import Text, make_tokenizer
from transformer.training import NonFiniteLoss

TEXT = "the cat sat on the mat. the dog sat on the log. " * 40
SAMPLE_TOKENS = 10


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Have threads share out batches of any size, and samples be short."""
    monkeypatch.setattr(transformer.Trainer, "tokens_per_thread", 1)
    monkeypatch.setattr(texts, "SAMPLE_TOKENS", SAMPLE_TOKENS)


def prepare(preset="micro", tokenizer="char", **fields):
    """Return an encoded text and the config of a model for it."""
    tokens = make_tokenizer(TEXT, tokenizer, 270)
    config = Config.preset(preset, vocab_size=tokens.vocab_size, **fields)
    return Text.encode(TEXT, tokens, config.context), config


SHORT = {"steps": 8, "batch_size": 4, "evaluate_every": 3, "threads": 1, "snapshots": 4, "warmup_steps": 3}
MICRO = Recipe.preset("micro", **SHORT)


class StopAfter(Listener):
    """Asks a run to stop after some step, and remembers what it was told."""

    def __init__(self, step=None):
        self.step, self.now, self.steps = step, 0, []

    def stepped(self, progress):
        self.now = progress.step
        self.steps.append(progress.step)

    def should_stop(self):
        return self.now == self.step


class Crash(BaseException):
    """Stands for the death of the process."""


class CrashAfter(Listener):
    """Ends a run in the middle of the step after some step, before anything of it is kept."""

    def __init__(self, step):
        self.step = step

    def stepped(self, progress):
        if progress.step == self.step:
            raise Crash


def contents(directory):
    """Return all that a run has written, but for the time it took."""
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_dir() or name == ".lock":
            continue
        if name == "log.jsonl":
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
        elif name == "last.safetensors":
            state = mg.load(path)
            state["training"]["progress"].pop("seconds")
            found[name] = plain(state)
        else:
            found[name] = path.read_bytes()
    return found


def plain(value):
    """Return nested dicts and lists with the bytes, dtype and shape of tensors in place of them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, mg.Tensor):
        return value.numpy().tobytes(), str(value.dtype), value.shape
    return value


def trained(out, text, config, recipe, *stops):
    """Train a run, stopping it after some steps and resuming it each time; return what is in its directory."""
    stops = [*stops, None]
    for i, stop in enumerate(stops):
        listener = StopAfter(stop)
        try:
            if i == 0:
                transformer.train(text, out, config, recipe, listener)
            else:
                transformer.resume(out, TEXT, listener=listener)
        except Stopped:
            assert listener.steps[-1] == stop
        else:
            assert stop is None
    return contents(out)


# --- resuming -----------------------------------------------------------------------------------------------

PAPER = {"d_model": 32, "d_ff": 128, "context": 32}  # the paper's shape, narrow
RECIPES = {
    "micro": ("micro", {}, MICRO),
    "small": ("small", {}, Recipe.preset("small", **SHORT | {"steps": 4, "evaluate_every": 2, "batch_size": 3})),
    "paper": ("paper", PAPER, Recipe.preset("paper", 32, **SHORT | {"steps": 6, "sequences_at_once": 1})),
    "depth": (1, {}, Recipe.preset(1, **SHORT, schedule="linear")),
    "pre-norm, learned positions": ("micro", {"norm": "pre", "positions": "learned", "dropout": 0.2}, MICRO),
    "untied": ("micro", {"tie_weights": False, "bias": True, "activation": "gelu"}, MICRO),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", RECIPES)
def test_a_run_that_is_resumed_is_the_run_that_was_never_stopped(name, threads, tmp_path):
    """Weights, moments, generator, schedule, best so far, snapshots and log: equal to the bit."""
    preset, fields, recipe = RECIPES[name]
    recipe = dataclasses.replace(recipe, threads=threads)
    text, config = prepare(preset, **fields)
    straight = trained(tmp_path / "straight", text, config, recipe)
    stopped = trained(tmp_path / "stopped", text, config, recipe, recipe.steps // 2)
    assert len(straight) == 2 + 1 + len(recipe.snapshot_steps())
    assert stopped == straight


def test_a_run_may_be_stopped_after_every_step(tmp_path):
    text, config = prepare(tokenizer="bpe", dropout=0.1)
    straight = trained(tmp_path / "straight", text, config, MICRO)
    assert trained(tmp_path / "stopped", text, config, MICRO, *range(1, MICRO.steps)) == straight


def test_the_best_so_far_is_remembered(tmp_path):
    """The rate is far too high, so that the first is the best."""
    text, config = prepare()
    fields = {"learning_rate": 1.0, "schedule": "constant", "warmup_steps": 0, "evaluate_every": 1}
    recipe = dataclasses.replace(MICRO, **fields)
    straight = trained(tmp_path / "straight", text, config, recipe)
    losses = [line["held_out_nats_per_character"] for line in straight["log.jsonl"]]
    assert losses[0] == min(losses)
    assert trained(tmp_path / "stopped", text, config, recipe, 4) == straight
    assert load_checkpoint(tmp_path / "stopped" / "best.safetensors").training["step"] == 1


@pytest.mark.parametrize("crash", range(1, MICRO.steps + 1))
def test_a_run_that_crashed_after_any_step_goes_on_from_the_checkpoint_before(crash, tmp_path):
    """What was written since then is written again, the same; nothing twice."""
    text, config = prepare()
    straight = trained(tmp_path / "straight", text, config, MICRO)
    with pytest.raises(Crash):
        transformer.train(text, tmp_path / "run", config, MICRO, CrashAfter(crash))
    assert load_checkpoint(tmp_path / "run" / "last.safetensors").training["step"] == (crash - 1) // 3 * 3
    transformer.resume(tmp_path / "run", TEXT)
    assert contents(tmp_path / "run") == straight


def test_the_latest_state_is_saved_by_the_clock_and_that_changes_no_result(tmp_path, monkeypatch):
    text, config = prepare(dropout=0.1)
    seldom = trained(tmp_path / "seldom", text, config, MICRO)
    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(running, "SAVE_SHARE", math.inf)
    saved = []

    class Watch(Listener):
        def stepped(self, progress):
            saved.append(load_checkpoint(tmp_path / "often" / "last.safetensors").training["step"])
            mg.rand(3)  # a listener may draw random numbers

    transformer.train(text, tmp_path / "often", config, MICRO, Watch())
    assert saved == [0, 1, 2, 3, 4, 5, 6, 7]
    assert contents(tmp_path / "often") == seldom


def test_a_config_for_another_tokenizer_is_refused_before_anything_is_written(tmp_path):
    text, config = prepare()
    wrong = dataclasses.replace(config, vocab_size=config.vocab_size - 1)
    with pytest.raises(ValueError, match=f"vocab_size={wrong.vocab_size}, .* has {config.vocab_size} tokens"):
        transformer.train(text, tmp_path / "run", wrong, MICRO)
    assert not (tmp_path / "run").exists()


def test_a_run_can_be_made_longer(tmp_path):
    """From there on the rate is that of the longer run; what was is as it was."""
    text, config = prepare()
    trained(tmp_path / "run", text, config, MICRO)
    short = contents(tmp_path / "run")
    transformer.resume(tmp_path / "run", TEXT, steps=12)
    long = contents(tmp_path / "run")
    assert long["log.jsonl"][: MICRO.steps] == short["log.jsonl"]
    assert [line["step"] for line in long["log.jsonl"]] == list(range(1, 13))
    longer = dataclasses.replace(MICRO, steps=12)
    rates = [line["learning_rate"] for line in long["log.jsonl"][MICRO.steps :]]
    assert rates == [longer.learning_rate * longer.rate(step) for step in range(MICRO.steps, 12)]
    for done, steps in ((12, None), (12, 12), (12, 5)):
        with pytest.raises(ValueError, match=rf"has done {done} of {steps or 12} steps: .*--steps"):
            transformer.resume(tmp_path / "run", TEXT, steps=steps)


def test_only_the_state_of_a_training_can_be_resumed(tmp_path):
    text, config = prepare()
    run = tmp_path / "run"
    trained(run, text, config, MICRO)
    for name in ("best.safetensors", "snapshots/00000001.safetensors"):
        with pytest.raises(
            CheckpointError, match=r"weights but not the state of its training, so it can't be resumed"
        ):
            transformer.resume(run / name, TEXT)
    transformer.resume(run / "last.safetensors", TEXT, steps=9)  # its run is meant
    (run / "last.safetensors").rename(run / "other.safetensors")
    with pytest.raises(CheckpointError, match="is a file: give the run's directory"):
        transformer.resume(run / "other.safetensors", TEXT)
    with pytest.raises(CheckpointError, match=r"no run to resume in '.*': it has no last\.safetensors"):
        transformer.resume(run, TEXT)


def test_a_best_checkpoint_that_is_gone_is_found_anew(tmp_path):
    text, config = prepare()
    with pytest.raises(Stopped):
        transformer.train(text, tmp_path / "run", config, MICRO, StopAfter(4))
    (tmp_path / "run" / "best.safetensors").unlink()
    transformer.resume(tmp_path / "run", TEXT)
    assert load_checkpoint(tmp_path / "run" / "best.safetensors").training["step"] > 4


def test_another_text_or_none_is_refused(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    text, config = prepare()
    run = tmp_path / "run"
    with pytest.raises(Stopped):
        transformer.train(text, run, config, MICRO, StopAfter(4), source=[str(file)])
    before = contents(run)
    with pytest.raises(DataError, match="the text that was given is not"):
        transformer.resume(run, TEXT + " ")
    file.write_text(TEXT.replace("cat", "cap"), encoding="utf-8")
    with pytest.raises(DataError, match=r"text\.txt' is not \(or no longer\) what the run learned from"):
        transformer.resume(run)
    file.unlink()
    with pytest.raises(DataError, match=r"cannot read '.*text\.txt', which the run learned from: no such file"):
        transformer.resume(run)
    assert contents(run) == before
    transformer.resume(run, TEXT)  # the same, from elsewhere


def test_a_text_given_in_python_is_not_taken_for_the_default_one(tmp_path):
    text, config = prepare()
    with pytest.raises(Stopped):
        transformer.train(text, tmp_path / "run", config, MICRO, StopAfter(4))
    with pytest.raises(DataError, match="Python's own reference text is not"):
        transformer.resume(tmp_path / "run")


class DROP:
    """Stands for: leave it out."""


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((("recipe",), value) for value in (DROP, None, 3, {}, {"steps": 8}, {"unknown": 1})),
        *((("recipe", "steps"), value) for value in ("8", 2, 0, 1.5, True, None)),
        (("recipe", "threads"), 0),
        (("recipe", "weight_decay"), math.nan),
        *((("progress",), value) for value in (DROP, None, [1], {"step": "x"}, {"unknown": 1})),
        *((("progress", "step"), value) for value in (-1, 9, None, 4.0)),
        (("progress", "seconds"), "long"),
        *((("rng",), value) for value in (DROP, None, 3, "state", mg.zeros(3), mg.zeros(9, dtype=mg.uint8))),
        *((("best_loss",), value) for value in (DROP, None, "low", math.nan, [1.0])),
        *((("optimizer",), value) for value in (None, 3, [], {}, {"state": {}}, {"state": 3})),
        *((("optimizer", "state"), value) for value in ({}, {0: {}}, {0: {"step": 4}}, {"x": {}}, {99: {}})),
        *((("optimizer", "state", 0), value) for value in (DROP, {}, {"step": 4}, {"exp_avg": mg.zeros(3)})),
        *((("optimizer", "state", 0, "exp_avg"), value) for value in (DROP, 3, mg.zeros(3), "x", None)),
        *((("optimizer", "state", 0, "step"), value) for value in (DROP, "4", mg.zeros(2), None)),
    ],
    ids=str,
)
def test_a_state_that_was_tampered_with_is_refused_in_a_sentence(stopped_run, tmp_path, place, value):
    path = tmp_path / "last.safetensors"
    content = mg.load(stopped_run / "last.safetensors")
    inside = content["training"]
    for key in place[:-1]:
        inside = inside[key]
    if value is DROP:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    mg.save(content, path)
    with pytest.raises(CheckpointError) as caught:
        transformer.resume(tmp_path, TEXT)
    assert f"'{path}'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory):
    """A run that was stopped after its fourth step."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    text, config = prepare()
    with pytest.raises(Stopped):
        transformer.train(text, path, config, MICRO, StopAfter(4))
    return path


# --- what a run writes --------------------------------------------------------------------------------------


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


# --- what goes wrong ----------------------------------------------------------------------------------------


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


# --- one process at a time ----------------------------------------------------------------------------------


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


def test_what_a_killed_process_left_half_written_is_removed(stopped_run, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(stopped_run, run)
    before = contents(run)
    (run / ".last.safetensors.0123456789ab.tmp").write_bytes(b"half")
    (run / "snapshots" / ".00000008.safetensors.0123456789ab.tmp").write_bytes(b"half")
    (run / ".log.jsonl.0123456789ab.tmp").write_bytes(b"half")
    (run / "notes.tmp").write_bytes(b"mine")
    with Run.resume(run, TEXT):
        pass
    assert contents(run) == before | {"notes.tmp": b"mine"}


# --- a run from Python --------------------------------------------------------------------------------------


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
