"""Short runs for tests: to be stopped, crashed and resumed, and what they leave."""

import json
from pathlib import Path

import minigrad as mg
import transformer
from transformer import Config, Recipe
from transformer.run import Listener, Stopped
from transformer.text import Text, make_tokenizer

TEXT = "the cat sat on the mat. the dog sat on the log. " * 40
SAMPLE_TOKENS = 10


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
