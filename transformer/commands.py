"""What the commands of the command line do and print."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

import minigrad as mg
from transformer import generation, run
from transformer.baselines import Baseline, ngram_baselines
from transformer.checkpoint import CheckpointError, find_checkpoint, load_checkpoint
from transformer.config import Config
from transformer.data import default_corpus, read_text
from transformer.evaluation import Score
from transformer.model import Transformer
from transformer.run import Listener, Text
from transformer.tokenizer import BPETokenizer, Tokenizer
from transformer.training import Progress, Recipe

RUNS = Path("runs")


def train(
    files: Sequence[Path] | None,
    out: Path | None,
    tokenizer_kind: str,
    vocab_size: int,
    preset: str,
    fields: dict[str, Any],
    recipe: Recipe,
) -> None:
    """Train a model on a text and report its held-out loss beside the n-gram baselines."""
    text = read_text(files) if files else default_corpus()
    Config.preset(preset, vocab_size=vocab_size if vocab_size > 0 else 1, **fields)  # complain before the work
    tokenizer = run.make_tokenizer(text, tokenizer_kind, vocab_size)
    config = Config.preset(preset, vocab_size=tokenizer.vocab_size, **fields)
    parts = Text.encode(text, tokenizer, config.context)
    out = new_run() if out is None else unused(out)

    mg.manual_seed(recipe.seed)
    print(
        f"text       {describe_source(files)}: {len(text):,} characters, the last {len(parts.held_out):,} held out"
    )
    print(f"tokens     {describe_tokenizer(tokenizer, tokenizer_kind, vocab_size, parts)}")
    print(f"model      {describe_model(config)}")
    print(
        f"training   {recipe.steps:,} steps of {recipe.batch_size} x {config.context} tokens, "
        f"AdamW at {recipe.learning_rate:g}, threads: {recipe.threads}, seed: {recipe.seed}"
    )
    baselines = ngram_baselines(parts.train, parts.held_out, vocab_size=len(set(text)))
    best = min(baselines, key=lambda baseline: baseline.nats_per_symbol)
    print(
        "baselines  " + " · ".join(f"{b.name} {b.nats_per_symbol:.3f}" for b in baselines) + " nats per character"
    )
    print(f"run        {out}", flush=True)

    began = time.perf_counter()
    with Display(recipe.steps, best) as display:
        source = [str(path.resolve()) for path in files] if files else None
        _, score = run.train(parts, out, config, recipe, display, source)
    seconds = time.perf_counter() - began
    print(f"\ntrained in {seconds:.0f} s ({display.tokens / seconds:,.0f} tokens/s); on the held-out text:\n")
    print_scores(score, baselines)
    print(f"\nwrote {out}: best.safetensors, last.safetensors, log.jsonl")
    print(f'next: transformer generate --out {out} --prompt "The "')


class Display(Listener):
    """A progress bar with the losses, and a sample now and then."""

    def __init__(self, steps: int, best: Baseline) -> None:
        self.bar = tqdm(total=steps, unit="step", dynamic_ncols=True, smoothing=0.05, mininterval=0.5)
        self.best = best
        self.held_out = ""
        self.tokens = 0

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def stepped(self, progress: Progress) -> None:
        """Move the bar on."""
        self.tokens = progress.tokens
        self.bar.set_postfix_str(
            f"loss {progress.smooth_loss:.3f}{self.held_out}, {progress.tokens_per_second:,.0f} tokens/s",
            refresh=False,
        )
        self.bar.update()

    def evaluated(self, step: int, score: Score) -> None:
        """Show the held-out loss in the bar."""
        baseline = f"{self.best.name} {self.best.nats_per_symbol:.3f}"
        self.held_out = f", held-out {score.nats_per_character:.3f} nats/char ({baseline})"

    def sampled(self, step: int, text: str) -> None:
        """Print a sample above the bar."""
        self.bar.write(f"--- after {step:,} steps{self.held_out}\n{printable(text)}\n")


def generate(
    out: Path | None,
    prompt: str,
    n_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int | None,
) -> None:
    """Print a prompt and its continuation, as it comes."""
    if n_tokens < 0:
        raise ValueError(f"--tokens must be at least 0, not {n_tokens}")
    generation.check_sampling(temperature, top_k, top_p)
    checkpoint = load_checkpoint(out or latest_run())
    pieces = generation.generate(
        checkpoint.model, checkpoint.tokenizer, prompt, n_tokens, temperature, top_k, top_p, seed
    )
    print(printable(prompt), end="", flush=True)
    for piece in pieces:
        print(printable(piece), end="", flush=True)
    print()


def evaluate(out: Path | None, files: Sequence[Path] | None) -> None:
    """Print a model's score on a text, beside n-gram baselines that learned from the same training text."""
    path = find_checkpoint(out or latest_run())
    checkpoint = load_checkpoint(path)
    source = checkpoint.training.get("source")
    learned = read_text([Path(name) for name in source]) if source else default_corpus()
    parts = Text.encode(learned, checkpoint.tokenizer, checkpoint.config.context)
    if files:
        text = read_text(files)
        ids = mg.tensor(checkpoint.tokenizer.encode(text), dtype=mg.int32)
        parts = Text(parts.train, text, parts.train_ids, ids, checkpoint.tokenizer)
        print(f"text   {describe_source(files)}: {len(text):,} characters")
    else:
        print(f"text   the held-out part of {describe_source(source)}: {len(parts.held_out):,} characters")
    print(f"model  {path}, {describe_model(checkpoint.config)}", flush=True)
    baselines = ngram_baselines(parts.train, parts.held_out, vocab_size=len(set(parts.train + parts.held_out)))
    with tqdm(total=len(parts.held_out_ids), unit="token", dynamic_ncols=True, leave=False) as bar:
        score = parts.score(checkpoint.model, threads=os.cpu_count() or 1, on_batch=bar.update)
    print()
    print_scores(score, baselines)


def tokenize(out: Path | None, text: str) -> None:
    """Print the tokens of a text: what is seen, and what the model sees."""
    tokenizer = load_checkpoint(out or latest_run()).tokenizer
    ids = tokenizer.encode(text)
    print("│".join(tokenizer.token_text(id) for id in ids))
    print(*ids)
    print(f"{len(ids)} tokens for {len(text)} characters, of {tokenizer.vocab_size} that the tokenizer knows")


# --- shared ---------------------------------------------------------------------------------------


def print_scores(score: Score, baselines: Sequence[Baseline]) -> None:
    """Print a table of the model's loss and the baselines', best first."""
    bits = score.bits_per_character / score.nats_per_character
    per_byte = score.characters / score.bytes
    rows = [("this model", score.nats_per_character)]
    rows += [(baseline.name, baseline.nats_per_symbol) for baseline in baselines]
    print(f"{'':12} {'nats/char':>9} {'bits/char':>9} {'bits/byte':>9}")
    for name, nats in sorted(rows, key=lambda row: row[1]):
        print(f"{name:12} {nats:9.3f} {nats * bits:9.3f} {nats * bits * per_byte:9.3f}")


def describe_source(files: Sequence[Any] | None) -> str:
    """Return the name of a text."""
    return ", ".join(str(path) for path in files) if files else "Python's own reference text"


def describe_tokenizer(tokenizer: Tokenizer, kind: str, asked: int, parts: Text) -> str:
    """Return what a tokenizer is and does to the text."""
    n = tokenizer.vocab_size
    per_token = len(parts.train) / len(parts.train_ids)
    if not isinstance(tokenizer, BPETokenizer):
        return f"{n} different characters, one token each: {len(parts.train_ids):,} to learn from"
    note = f", not the {asked:,} asked for: the text has no more pairs to merge" if n < asked else ""
    size = f"{len(parts.train_ids):,} to learn from, {per_token:.2f} characters each"
    return f"{n:,} by byte-pair encoding{note}: {size}"


def describe_model(config: Config) -> str:
    """Return a model's dimensions and size."""
    n = Transformer(config).n_parameters()
    return (
        f"{config.n_layers} layers, {config.n_heads} heads, d_model {config.d_model}, d_ff {config.d_ff}, "
        f"context {config.context}: {n:,} parameters"
    )


def printable(text: str) -> str:
    """Return text without control characters, which could move a terminal's cursor or change its state."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" if ord(c) < 160 else c for c in text)


def new_run() -> Path:
    """Return the first unused directory of runs/1, runs/2, …"""
    n = 1
    while (RUNS / str(n)).exists():
        n += 1
    return RUNS / str(n)


def unused(out: Path) -> Path:
    """Return ``out`` if no run is in it.

    Raises:
        ValueError: there is one, or ``out`` is a file.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"'{out}' is a file: give a directory for the run")
    if any((out / name).exists() for name in ("last.safetensors", "best.safetensors", "log.jsonl")):
        raise ValueError(f"'{out}' already holds a run: give another directory, or remove it")
    return out


def latest_run() -> Path:
    """Return the run in runs/ that was written last.

    Raises:
        CheckpointError: there is none.
    """
    found = sorted(RUNS.glob("*/*.safetensors"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise CheckpointError(
            "there is no run in runs/: train a model with `transformer train`, or name one with --out"
        )
    return found[-1].parent
