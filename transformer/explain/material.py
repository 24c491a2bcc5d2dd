"""What a page is made from: a run with its snapshots, log and text; and a reader's sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import minigrad as mg
from minigrad import Tensor
from transformer.baselines import Baseline, ngram_baselines
from transformer.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from transformer.config import Config
from transformer.curve import read_log
from transformer.data import split_text
from transformer.merges import BYTE_TOKENS
from transformer.model import Transformer
from transformer.tasks import Questions
from transformer.text import BASELINES_LEARN_FROM, text_of_run
from transformer.tokenizer import BPETokenizer, Tokenizer

T = TypeVar("T")

MOST_TOKENS = 64  # of a sentence: beyond that a matrix of tokens can't be read on a laptop
DEFAULT_TOKENS = 32
SAMPLE_TOKENS = 60
DEFAULT_COMPARE = ("river bank", "savings bank")
HELD_OUT_CHARACTERS = 200_000  # of a long held-out text, its beginning
FIRST_MERGES = 256  # that byte-pair encoding would learn, shown where the model has a tokenizer of characters


@dataclass(frozen=True)
class Snapshot:
    """The model as it was after some step of training."""

    step: int | None  # None: not known
    model: Transformer


class Material:
    """A run, read once: the model, and how it came to be.

    Args:
        path: the run's directory, or a checkpoint file (then there is no time axis).

    Raises:
        CheckpointError: there is no usable checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint: Checkpoint = load_checkpoint(path)
        self.model = self.checkpoint.model
        self.tokenizer: Tokenizer = self.checkpoint.tokenizer
        self.directory = path if path.is_dir() else path.parent
        self.unusable: list[str] = []  # why some snapshots are not among ``snapshots``
        self.computed: dict[Callable[[Material], Any], Any] = {}  # see :meth:`once`

    def once(self, compute: Callable[[Material], T]) -> T:
        """Return what a chapter computes of the run, whatever the sentence; it is computed the first time only."""
        if compute not in self.computed:
            self.computed[compute] = compute(self)
        result: T = self.computed[compute]
        return result

    @cached_property
    def snapshots(self) -> list[Snapshot]:
        """The model over time, up to the finished one, which is the best: training may have gone on after it."""
        step = self.checkpoint.training.get("step")
        finished = Snapshot(step if isinstance(step, int) else None, self.model)
        earlier = []
        for file in self.snapshot_files():
            try:
                snapshot = self.read_snapshot(file)
            except CheckpointError as error:
                self.unusable.append(str(error))
                continue
            if same_weights(snapshot.model, self.model):
                finished = snapshot
            earlier.append(snapshot)
        end = math.inf if finished.step is None else finished.step
        return [*(snapshot for snapshot in earlier if snapshot.step is not None and snapshot.step < end), finished]

    def snapshot_files(self) -> list[Path]:
        """Return the files of the run's snapshots, by step."""
        files = (self.path / "snapshots").glob("*.safetensors") if self.path.is_dir() else []
        return sorted((file for file in files if file.stem.isdecimal()), key=lambda file: int(file.stem))

    def read_snapshot(self, file: Path) -> Snapshot:
        """Return the model in a file of the run's snapshots.

        Raises:
            CheckpointError: the file is damaged, or does not belong to this run.
        """
        checkpoint = load_checkpoint(file)
        same = (checkpoint.config, checkpoint.tokenizer.to_dict()) == (self.model.config, self.tokenizer.to_dict())
        if not same:
            raise CheckpointError(f"the snapshot '{file}' is of another model than the run's")
        return Snapshot(int(file.stem), checkpoint.model)

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The lines of ``log.jsonl`` that can be read."""
        lines = read_log(self.directory / "log.jsonl")
        return [{key: value for key, value in line.items() if is_plain(value)} for line in lines]

    @cached_property
    def texts(self) -> tuple[str, str]:
        """What the model learned from, and what was held out; of very long ones, the end and the beginning.

        Raises:
            DataError: the text is no longer where it was, or is another one now.
        """
        train, held_out = split_text(text_of_run(self.checkpoint.training))
        return str(train[-BASELINES_LEARN_FROM:]), str(held_out[:HELD_OUT_CHARACTERS])

    @cached_property
    def baselines(self) -> list[Baseline]:
        """What counting achieves on the held-out text."""
        train, held_out = self.texts
        return ngram_baselines(train, held_out, vocab_size=len(set(train + held_out)))

    @cached_property
    def merges(self) -> BPETokenizer:
        """The model's own merges; or, where its tokens are characters, what its text would give.

        Raises:
            DataError: that text is gone.
        """
        if isinstance(self.tokenizer, BPETokenizer):
            return self.tokenizer
        return BPETokenizer.train(self.texts[0], BYTE_TOKENS + FIRST_MERGES)

    def default_text(self) -> str:
        """Return the beginning of a sentence that the model has never seen; or a question, nearly answered.

        Raises:
            DataError: the text that the model learned from is no longer there.
        """
        if questions := Questions.of_run(self.checkpoint):
            return questions.task.text(questions.example)[:-2]
        held_out = self.texts[1]
        start = held_out.find("\n\n") + 2 if "\n\n" in held_out else 0
        ids = self.tokenizer.encode(held_out[start : start + 20 * DEFAULT_TOKENS].lstrip())
        text = self.tokenizer.decode(ids[: min(DEFAULT_TOKENS, self.model.config.context)])
        words = text.rsplit(None, 1)
        return words[0] if len(words) == 2 and len(words[0]) > len(text) / 2 else text


class Subject:
    """A sentence, put through a model with everything captured.

    Args:
        material: the run.
        text: the sentence; of a long one, the beginning is taken and ``notice`` says so.
        compare: two phrases that end in the same token.
        sample_tokens: how far each snapshot continues the text.

    Raises:
        ValueError: the text is empty, or the tokenizer does not know a character of it.
    """

    def __init__(
        self,
        material: Material,
        text: str,
        compare: Sequence[str] | None = None,
        sample_tokens: int = SAMPLE_TOKENS,
    ) -> None:
        self.material = material
        self.model, self.tokenizer = material.model, material.tokenizer
        self.config = material.model.config
        self.given = text
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ValueError("there is no text to explain: give at least one character with --text")
        self.n_given = len(ids)
        self.ids = ids[: min(MOST_TOKENS, self.config.context)]
        self.text = self.tokenizer.decode(self.ids)
        self.logits, self.cache = run(self.model, self.ids)
        self.compare = tuple(compare) if compare else DEFAULT_COMPARE
        self.sample_tokens = sample_tokens

    @cached_property
    def snapshot_runs(self) -> list[tuple[Tensor, dict[str, Tensor]]]:
        """The logits (T, V) and all tensors of the sentence at each snapshot."""
        return [run(snapshot.model, self.ids) for snapshot in self.material.snapshots]

    @property
    def notice(self) -> str:
        """What the reader has to know about the text, or nothing."""
        if self.n_given == len(self.ids):
            return ""
        reason = (
            "as many as the model was trained to see at once"
            if len(self.ids) == self.config.context
            else "as many as fit on a page"
        )
        return f"Your text has {self.n_given:,} tokens. This page shows the first {len(self.ids)}, {reason}."

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens as legible text."""
        return [self.tokenizer.token_text(id) for id in self.ids]


def run(model: Transformer, ids: Sequence[int]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the logits (T, V) of one sequence, and every tensor on the way, without the batch dimension."""
    with mg.no_grad(), mg.limit_threads(1):
        logits, cache = model.run_with_cache(mg.tensor([list(ids)]))
    return logits[0], {name: t if name == "positions" else t[0] for name, t in cache.items()}


def stages(cache: dict[str, Tensor], config: Config) -> list[Tensor]:
    """Return the vectors (T, d) of all tokens: from the table, with positions, and after each block."""
    last = "residual_ffn" if config.norm == "pre" else "norm_ffn"
    return [
        cache["embed"],
        cache["embed"] * math.sqrt(config.d_model) + cache["positions"],
        *(cache[f"blocks.{i}.{last}"] for i in range(config.n_layers)),
    ]


def ffn_input(cache: dict[str, Tensor], config: Config, layer: int) -> Tensor:
    """Return the vectors that enter the feed-forward network of a block."""
    return cache[f"blocks.{layer}.{'norm_ffn' if config.norm == 'pre' else 'norm_attention'}"]


def same_weights(a: Transformer, b: Transformer) -> bool:
    """Return whether two models are equal, bit for bit."""
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def is_plain(value: Any) -> bool:
    """Return whether JSON can hold a value as it is: no infinity, no NaN."""
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
