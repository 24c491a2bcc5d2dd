"""A run: from a text to a directory with a trained model, its log and an honest score.

Whatever happens to the process, the directory holds a checkpoint from which training goes on to exactly the same
result, bit for bit, as if nothing had happened.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import minigrad as mg
from minigrad import optim
from transformer.checkpoint import CheckpointError, NotFinite, load_checkpoint, save_checkpoint
from transformer.config import Config
from transformer.corpus import Corpus
from transformer.directory import Log, RunDirectory
from transformer.evaluation import Score
from transformer.model import Transformer
from transformer.phrases import counted
from transformer.recipe import Recipe, make_optimizer
from transformer.state import gather_state, training_state
from transformer.tasks import Questions
from transformer.text import REPORTED_TOKENS, Text, make_tokenizer, text_of_run
from transformer.tokenizer import Tokenizer
from transformer.training import Batch, NonFiniteLoss, Progress, training_steps

EVALUATED_TOKENS = 50_000  # of a long held-out text, what the looks during training are limited to
LOG_LINES = 500  # about so many in a whole run
SAVE_SECONDS = 30.0  # between two savings of the latest state, however long a step takes …
SAVE_SHARE = 0.05  # … but they take at most this share of the time


class TrainingData(Protocol):
    """What a run learns from and is measured on: a text, or a task's questions."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes the model's tokens of text."""

    @property
    def characters_per_token(self) -> float:
        """How long a token is on average."""

    def batch(self, batch_size: int, context: int) -> Batch:
        """Return something to learn from, drawn by the current random generator."""

    def score(self, model: Transformer, limit: int | None = None, threads: int = 1) -> Score:
        """Return how well a model predicts what is held out, or about ``limit`` tokens of it."""

    def sample(self, model: Transformer, seed: int) -> str:
        """Return something that a model writes, to be looked at."""

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint has to say to find it again."""


class Listener:
    """What a run tells whoever watches it; every method may be overridden, none needs to be."""

    def stepped(self, progress: Progress) -> None:
        """Be told of a step, and how far the training has come with it."""

    def evaluated(self, step: int, score: Score) -> None:
        """Be told of the score on what is held out, after a step."""

    def sampled(self, step: int, text: str) -> None:
        """Be told of a sample."""

    def should_stop(self) -> bool:
        """Be asked, after each step, whether to save and stop."""
        return False


class NotSaved(ValueError):
    """Something could not be written; the message says what, why, and how to go on."""


class Stopped(Exception):
    """The run was stopped before its end; the message says at which step, and how to go on."""


def train(
    text: str | Text,
    out: str | Path,
    config: Config | None = None,
    recipe: Recipe | None = None,
    listener: Listener | None = None,
    source: Sequence[str] | None = None,
) -> tuple[Transformer, Score]:
    """Train a model on a text and write the run to the directory ``out``.

    ``last.safetensors`` holds the latest state of the training, for :func:`resume`; ``best.safetensors`` the
    weights that predicted the held-out text best so far; ``snapshots/`` the model along the way; ``log.jsonl``
    the losses.

    Args:
        text: what to learn: a str, which is taken by characters, or a text encoded by :meth:`Text.encode`.
        out: the directory, made if need be.
        config: the model's shape (default: the default one, for the text's tokenizer).
        recipe: how it is trained (default: the default one).
        listener: is told of every step.
        source: the names of the files that the text comes from, kept in the checkpoint.

    Returns:
        The best model and its score on the held-out part, of a long one on its first 200,000 tokens.

    Raises:
        DataError: the text is too short.
        ValueError: the directory holds a run already, another process is training in it, or the config's
            ``vocab_size`` is not that of the text's tokenizer.
        OSError: the directory can't be written.
        NotSaved: something could not be written later on; what was saved before stays.
        NonFiniteLoss: the loss became infinite or NaN; the last good checkpoint stays.
        Stopped: the listener wanted to stop.
    """
    if isinstance(text, str):
        tokenizer = make_tokenizer(text)
        config = config or Config(vocab_size=tokenizer.vocab_size)
        text = Text.encode(text, tokenizer, config.context)
    config = config or Config(vocab_size=text.tokenizer.vocab_size)
    if config.vocab_size != text.tokenizer.vocab_size:
        raise ValueError(
            f"the config has vocab_size={config.vocab_size}, but the text's tokenizer has "
            f"{text.tokenizer.vocab_size} tokens"
        )
    with Run.start(out, text, config, recipe or Recipe(), source) as run:
        run.train(listener)
        return run.result()


def resume(
    out: str | Path, text: str | Corpus | None = None, steps: int | None = None, listener: Listener | None = None
) -> tuple[Transformer, Score]:
    """Go on with the run in the directory ``out``, from its last checkpoint, to the result it would have had.

    Args:
        out: the run's directory.
        text: what the run learns from (default: it is read from where it was).
        steps: the steps of the whole run, if it is to become longer: from here on, the learning rate then follows
            the schedule of a run of so many steps.
        listener: is told of every step.

    Returns:
        The best model and its score on the held-out part, of a long one on its first 200,000 tokens.

    Raises:
        CheckpointError: there is no state of a training in ``out``, or it is damaged.
        DataError: the text is another one than the run learned from, or no longer there.
        ValueError: the run has had all its steps; or as of :func:`train`.
    """
    with Run.resume(out, text, steps) as run:
        run.train(listener)
        return run.result()


@dataclass
class Run:
    """A training and the directory that keeps it safe: made by :meth:`start` or :meth:`resume`."""

    directory: RunDirectory
    data: TrainingData
    source: Sequence[str] | None
    recipe: Recipe
    model: Transformer
    optimizer: optim.Optimizer
    generator: mg.Generator  # for the first weights, the batches and dropout, and for nothing else
    progress: Progress = dataclasses.field(default_factory=Progress)
    best_loss: float = math.inf  # in nats per character of held-out text, of best.safetensors
    saved_step: int = 0  # of last.safetensors
    next_save: float = 0.0  # on the clock

    @classmethod
    @contextmanager
    def start(
        cls,
        out: str | Path,
        data: TrainingData,
        config: Config,
        recipe: Recipe,
        source: Sequence[str] | None = None,
    ) -> Iterator[Run]:
        """Begin a run, whose directory is locked inside the block: arguments and errors as of :func:`train`."""
        directory = RunDirectory(out)
        with directory.create():
            with mg.use_generator(mg.Generator().manual_seed(recipe.seed)) as generator:
                model = Transformer(config)
            yield cls(directory, data, source, recipe, model, make_optimizer(model, recipe), generator)

    @classmethod
    @contextmanager
    def resume(cls, out: str | Path, text: str | Corpus | None = None, steps: int | None = None) -> Iterator[Run]:
        """Take up a run, whose directory is locked inside the block: arguments and errors as of :func:`resume`."""
        directory = RunDirectory(find_run(Path(out)))
        with directory.reopen():
            checkpoint = load_checkpoint(directory.last)
            recipe, progress, optimizer, generator = training_state(checkpoint, directory.last)
            if steps is not None:
                recipe = dataclasses.replace(recipe, steps=steps)
            if progress.step >= recipe.steps:
                raise ValueError(
                    f"the run in '{directory.path}' has done {progress.step:,} of "
                    f"{counted(recipe.steps, 'step')}: to train it further, give more (--steps)"
                )
            state = checkpoint.training
            learned: TrainingData | None = None if text else Questions.of_run(checkpoint)
            if learned is None:
                corpus = text_of_run(state, text)
                learned = Text.encode(corpus, checkpoint.tokenizer, checkpoint.config.context)
            best_loss = state["best_loss"] if usable(directory.best) else math.inf
            yield cls(
                directory,
                learned,
                state.get("source"),
                recipe,
                checkpoint.model,
                optimizer,
                generator,
                progress,
                best_loss,
                saved_step=progress.step,
            )

    def train(self, listener: Listener | None = None) -> None:
        """Take all the steps that remain.

        Args:
            listener: is told of every step.

        Raises:
            NonFiniteLoss: a loss, a gradient or a weight became infinite or NaN.
            NotSaved: something could not be written.
            Stopped: the listener wanted to stop.
        """
        listener = listener or Listener()
        log = Log(self.directory.log, self.progress.step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of what a look at every step finds anyway
            if self.progress.step == 0:
                self.save(log)
                self.keep_snapshot(None)
            draw = partial(self.data.batch, self.recipe.batch_size, self.model.config.context)
            steps = training_steps(self.model, draw, self.recipe, self.optimizer, self.progress, self.generator)
            try:
                for progress in steps:
                    self.progress = progress
                    listener.stepped(progress)
                    self.after_step(listener, log)
            except NotFinite as error:
                done = self.progress
                raise NonFiniteLoss(
                    f"after step {done.step} (loss {done.loss:.3g}, learning rate {done.learning_rate:.3g}, "
                    f"gradient norm {done.gradient_norm:.3g}) {error}: try a lower learning rate; {self.last_good}"
                ) from None
            except NonFiniteLoss as error:
                raise NonFiniteLoss(f"{error}; {self.last_good}") from None

    @property
    def last_good(self) -> str:
        """A clause on where the training was well, for messages on where it no longer is."""
        return f"the last good checkpoint is '{self.directory.last}', of step {self.saved_step}"

    def result(self) -> tuple[Transformer, Score]:
        """Return the best model and its score on the held-out part, of a long one on its first 200,000 tokens."""
        best = load_checkpoint(self.directory.best).model
        return best, self.data.score(best, REPORTED_TOKENS, self.recipe.threads)

    def after_step(self, listener: Listener, log: Log) -> None:
        """Look at the model, keep it and write about it, each when it is due.

        What the latest state relies on is written before it.  After a crash in between, the steps since the
        state before are taken once more, and write the same again.

        Raises:
            NotFinite: the held-out loss, or what is to be saved, is infinite or NaN.
            NotSaved: something could not be written.
            Stopped: the listener wanted to stop.
        """
        step, recipe = self.progress.step, self.recipe
        score = sample = None
        if recipe.looks_at(step):
            score = self.evaluate()
            listener.evaluated(step, score)
            if step != recipe.steps:
                sample = self.sample()
        self.keep_snapshot(sample)
        if score is not None or step % max(1, recipe.steps // LOG_LINES) == 0:
            log.add(log_line(self.progress, score))
        stop = listener.should_stop() and step != recipe.steps
        if score is not None or stop or time.monotonic() >= self.next_save:
            self.save(log)
        if sample is not None:
            listener.sampled(step, sample)
        if stop:
            raise Stopped(
                f"stopped after step {step:,} of {recipe.steps:,}, and saved; "
                f"go on with: transformer train --resume {self.directory.path}"
            )

    def evaluate(self) -> Score:
        """Return the score on held-out text; if it is the best so far, keep the weights.

        Raises:
            NotFinite: the loss is infinite or NaN.
            NotSaved: the weights could not be written.
        """
        score = self.data.score(self.model, EVALUATED_TOKENS, self.recipe.threads)
        loss = score.nats_per_character
        if not math.isfinite(loss):
            raise NotFinite("the loss on held-out text is infinite or NaN")
        if loss < self.best_loss:
            self.best_loss = loss
            self.write(self.directory.best, {"held_out_nats_per_character": loss})
        return score

    def sample(self) -> str:
        """Return something that the model writes."""
        text = self.data.sample(self.model, self.recipe.seed)
        self.model.train()
        return text

    def keep_snapshot(self, sample: str | None) -> None:
        """Keep the model as it is now, if it is time, with what it writes if that is known."""
        if self.progress.step not in self.recipe.snapshot_steps():
            return
        with self.writing():
            self.directory.snapshots.mkdir(exist_ok=True)
        self.write(self.directory.snapshot(self.progress.step), {"sample": sample})

    def save(self, log: Log) -> None:
        """Replace the log and the latest state by the present ones."""
        began = time.monotonic()
        with self.writing():
            log.save()
        state = gather_state(self.recipe, self.progress, self.optimizer, self.generator, self.best_loss)
        self.write(self.directory.last, state)
        self.saved_step, now = self.progress.step, time.monotonic()
        self.next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)

    def write(self, path: Path, state: dict[str, Any]) -> None:
        """Write a checkpoint: the model, what it learns from, the step, and what else is known."""
        known = {"source": self.source, **self.data.identity(), "step": self.progress.step}
        with self.writing():
            save_checkpoint(path, self.model, self.data.tokenizer, known | state)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an error of the system, such as a full disk, into a sentence that says how to go on.

        Raises:
            NotSaved: in the place of an OSError.
        """
        try:
            yield
        except OSError as error:
            raise NotSaved(
                f"cannot write '{error.filename or self.directory.path}': {error.strerror or error}; what was "
                "saved before stays, and when this is mended, go on with: "
                f"transformer train --resume {self.directory.path}"
            ) from None


def log_line(progress: Progress, score: Score | None) -> dict[str, Any]:
    """Return what ``log.jsonl`` says of a step: losses in nats, the seconds since the start.

    The loss on held-out text is there for those steps after which it was looked at.
    """
    held_out = {"held_out_nats_per_character": round(score.nats_per_character, 6)} if score else {}
    return {
        "step": progress.step,
        "loss": round(progress.smooth_loss, 6),
        **held_out,
        "learning_rate": progress.learning_rate,
        "gradient_norm": round(progress.gradient_norm, 6),
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 3),
    }


def find_run(path: Path) -> Path:
    """Return the run's directory, which may be named by its last checkpoint too.

    Raises:
        CheckpointError: it is another file.
    """
    if not path.is_file():
        return path
    training_state(load_checkpoint(path), path)  # what is wrong with the file itself is told first
    if path.name != "last.safetensors":
        raise CheckpointError(f"'{path}' is a file: give the run's directory")
    return path.parent


def usable(path: Path) -> bool:
    """Return whether there is a whole checkpoint."""
    try:
        load_checkpoint(path)
    except CheckpointError:
        return False
    return True
