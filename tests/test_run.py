"""A run that is left alone: stopped, killed, short of disk, resumed, and what its directory then holds."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

import minigrad as mg
import transformer
from transformer import Config, Recipe, load_checkpoint
from transformer import run as running
from transformer.run import Listener, Stopped
from transformer.text import Text, make_tokenizer

TEXT = "the cat sat on the mat. the dog sat on the log. " * 40


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Have threads share out batches of any size, and samples be short."""
    monkeypatch.setattr(transformer.Trainer, "tokens_per_thread", 1)
    monkeypatch.setattr(running, "SAMPLE_TOKENS", 10)


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
    """Return nested dicts with the bytes, dtype and shape of tensors in place of them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
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
