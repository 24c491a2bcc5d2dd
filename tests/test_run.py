"""A run that is stopped, or whose process died, and is resumed: it ends as if it had not been."""

import dataclasses
import math
import shutil

import pytest
from runs import MICRO, SHORT, TEXT, Crash, CrashAfter, StopAfter, contents, prepare, trained

import minigrad as mg
import transformer
from transformer import Recipe, load_checkpoint
from transformer import run as running
from transformer.checkpoint import CheckpointError
from transformer.corpus import DataError
from transformer.run import Listener, Run, Stopped

pytestmark = pytest.mark.usefixtures("small_runs")


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
