"""A run that is killed: at random moments, by the system; and at every single step of what it writes, simulated.

The first takes its number of kills from the Hypothesis profile; ``python tests/test_kill.py 100`` counts them.
"""

import dataclasses
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from runs import MICRO, SAMPLE_TOKENS, TEXT, contents, prepare

import transformer
from transformer import load_checkpoint
from transformer import run as running
from transformer import text as texts
from transformer.directory import RunDirectory
from transformer.run import Listener

pytestmark = pytest.mark.usefixtures("small_runs")

KILLS = {"default": 3, "ci": 25, "thorough": 100}[os.environ.get("HYPOTHESIS_PROFILE", "default")]
APART = {"default": 7, "ci": 3, "thorough": 1}[os.environ.get("HYPOTHESIS_PROFILE", "default")]

RECIPE = dataclasses.replace(MICRO, steps=60, evaluate_every=2, snapshots=30)


class Tell(Listener):
    """Prints a line for each step, so that the other process knows where this one is."""

    def stepped(self, progress):
        print(progress.step, flush=True)


def train_or_resume(run):
    """What the process that is killed does: begin the run, or go on with it.

    All is written after every step, so that most of the time goes into writing.
    """
    running.SAVE_SECONDS, running.SAVE_SHARE, texts.SAMPLE_TOKENS = 0.0, math.inf, SAMPLE_TOKENS
    text, config = prepare()
    print("ready", flush=True)
    if (run / "last.safetensors").exists():
        transformer.resume(run, TEXT, listener=Tell())
    else:
        transformer.train(text, run, config, RECIPE, Tell())


def start(run):
    """Start that process; return it when it is about to begin."""
    code = "import sys; from pathlib import Path; from test_kill import *; train_or_resume(Path(sys.argv[1]))"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout.readline() == "ready\n"
    return child


def check_whole(run):
    """Assert that everything in a run that was killed can be used; return what it was doing."""
    directory = RunDirectory(run)
    doing = "writing" if list(run.rglob(".*.tmp")) else "else"
    if not directory.last.exists():
        directory.check_unused()  # killed before it began: it may begin anew
        return "beginning"
    assert load_checkpoint(directory.last).training["optimizer"]
    for path in (directory.best, *directory.snapshots.glob("*.safetensors")):
        assert not path.exists() or load_checkpoint(path).training["step"] >= 0
    log = directory.log.read_bytes()
    assert log.endswith(b"\n") or not log
    steps = [json.loads(line)["step"] for line in log.splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    return doing


def kill_again_and_again(folder, kills):
    """Kill runs at random moments until that has happened so often; return what they were doing, counted.

    Those that come to their end in between, and the last one, which is let through, are as if never killed.
    """
    rng = random.Random(kills)
    counts = Counter()
    expected = None
    for number in itertools.count(1):
        run = folder / str(number)
        while True:
            child = start(run)
            try:
                if counts.total() < kills:
                    wait_for_a_moment(child, rng)
                    child.kill()
            finally:
                child.stdout.read()
                code = child.wait()
                child.stdout.close()
            if code == 0:
                break
            assert counts.total() < kills
            counts[check_whole(run)] += 1
            if has_come_to_its_end(run):
                break  # killed while it looked at its result
        expected = expected or straight(folder / "straight")
        assert contents(run) == expected
        if counts.total() >= kills:
            return counts


def has_come_to_its_end(run):
    last = run / "last.safetensors"
    return last.exists() and load_checkpoint(last).training["step"] == RECIPE.steps


def wait_for_a_moment(child, rng):
    """Wait until a process has taken some steps, none to seven, and then for any part of one."""
    last, duration = time.monotonic(), 0.05
    for _ in range(rng.randrange(8)):
        if not child.stdout.readline():
            return  # it has come to its end
        last, duration = time.monotonic(), time.monotonic() - last
    time.sleep(rng.uniform(0, 1.2 * duration))


def straight(run):
    """Train a run without a stop; return what is in its directory."""
    text, config = prepare()
    transformer.train(text, run, config, RECIPE)
    return contents(run)


def test_a_run_killed_at_random_moments_loses_nothing_and_ends_the_same(tmp_path):
    counts = kill_again_and_again(tmp_path, KILLS)
    assert counts.total() == KILLS


# --- simulated ----------------------------------------------------------------------------------------------


class Death(BaseException):
    """The process is dead: nothing that it does has any effect any more."""


class Mortal:
    """Counts what a process does to the file system, and lets it die at some point; a write may be cut in half."""

    def __init__(self, life=math.inf):
        self.life, self.done = life, 0

    def act(self, action, half=None):
        self.done += 1
        if self.done == self.life and half is not None:
            half()
        if self.done >= self.life:
            raise Death
        return action()

    @contextmanager
    def living(self, monkeypatch):
        """Have the functions that change files go through :meth:`act`."""
        with monkeypatch.context() as patch:
            for owner, name in (
                (os, "replace"),
                (os, "fsync"),
                (Path, "unlink"),
                (Path, "mkdir"),
                (Path, "open"),
            ):
                patch.setattr(owner, name, self.mortal(getattr(owner, name)))
            yield

    def mortal(self, function):
        def wrapped(*args, **kwargs):
            result = self.act(lambda: function(*args, **kwargs))
            return MortalFile(self, result) if hasattr(result, "write") else result

        return wrapped


class MortalFile:
    """A file whose every write counts."""

    def __init__(self, mortal, file):
        self.mortal, self.file = mortal, file

    def write(self, data):
        def half():
            if not isinstance(data, str):
                self.file.write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2] if data else data)
                self.file.flush()

        return self.mortal.act(lambda: self.file.write(data), half)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_run_that_dies_at_any_step_of_any_write_loses_nothing_and_ends_the_same(tmp_path, monkeypatch):
    text, config = prepare(n_layers=1, n_heads=1, d_model=2, d_ff=2)
    recipe = dataclasses.replace(MICRO, steps=2, evaluate_every=1, batch_size=1, snapshots=1)

    def train(run):
        transformer.train(text, run, config, recipe)

    train(tmp_path / "straight")
    expected = contents(tmp_path / "straight")
    whole = Mortal()
    with whole.living(monkeypatch):
        train(tmp_path / "counted")
    assert contents(tmp_path / "counted") == expected
    assert whole.done > 200
    doing = Counter()
    for life in range(1, whole.done + 1, APART):
        run = tmp_path / str(life)
        with Mortal(life).living(monkeypatch), pytest.raises(Death):
            train(run)
        doing[check_whole(run) if run.exists() else "nothing"] += 1
        if (run / "last.safetensors").exists():
            if load_checkpoint(run / "last.safetensors").training["step"] < recipe.steps:
                transformer.resume(run, TEXT)
        else:
            train(run)
        assert contents(run) == expected, life
    assert doing["writing"] > 10
    assert doing["else"] > 2


if __name__ == "__main__":
    import tempfile

    kills, texts.SAMPLE_TOKENS = int(sys.argv[1]), SAMPLE_TOKENS
    with tempfile.TemporaryDirectory() as folder:
        counts = kill_again_and_again(Path(folder), kills)
        runs = len(list(Path(folder).iterdir())) - 1
    print(f"{kills} kills of {runs} runs ({dict(counts)}): each ended as if it had never been killed")
