"""``transformer train``: learn from a text."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from tqdm import tqdm

import minigrad as mg
from transformer import run as runner
from transformer.baselines import Baseline, ngram_baselines
from transformer.commands.options import add_fields, add_text, chosen
from transformer.commands.report import (
    describe_model,
    describe_source,
    describe_tokenizer,
    print_scores,
    printable,
)
from transformer.commands.runs import new_run, unused
from transformer.config import Config
from transformer.data import default_corpus, read_text
from transformer.evaluation import Score
from transformer.footprint import check_memory
from transformer.presets import PRESETS, of_depth
from transformer.recipe import Recipe
from transformer.run import Listener
from transformer.text import Text, make_tokenizer
from transformer.training import Progress

HELP = "Train a model on a text."
FROM_PRESET = {name for preset in (*PRESETS.values(), of_depth(1)) for name in (*preset.model, *preset.training)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_text(parser, "UTF-8 text to learn (default: Python's own reference text, which comes with it)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the run (default: a new runs/N)")
    parser.add_argument(
        "--tokenizer",
        choices=("char", "bpe"),
        default="char",
        help="of characters, or byte-pair (default: char)",
    )
    parser.add_argument(
        "--vocab-size", type=int, default=512, metavar="INT", help="tokens of a bpe tokenizer (default: 512)"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        default="small",
        help="a model and how to train it: in seconds, in minutes, or the paper's (default: small)",
    )
    size.add_argument(
        "--depth",
        type=int,
        metavar="INT",
        help="instead of a preset: so many blocks, and all else in proportion; 4 is small",
    )
    model = parser.add_argument_group("model")
    shown = [f.name for f in dataclasses.fields(Config) if f.name not in ("vocab_size", "causal")]
    add_fields(model, Config, shown, FROM_PRESET)
    recipe = parser.add_argument_group("training")
    add_fields(recipe, Recipe, [f.name for f in dataclasses.fields(Recipe)], FROM_PRESET)


def run(arguments: argparse.Namespace) -> None:
    """Train a model on a text and report its held-out loss beside the n-gram baselines."""
    fields = {name: value for name, value in chosen(arguments, Config).items() if name != "vocab_size"}
    files: list[Path] | None = arguments.text
    kind, vocab_size = arguments.tokenizer, arguments.vocab_size
    preset = arguments.preset if arguments.depth is None else arguments.depth
    text = read_text(files) if files else default_corpus()
    planned = Config.preset(preset, vocab_size=vocab_size if vocab_size > 0 else 1, **fields)
    recipe = Recipe.preset(preset, planned.d_model, **chosen(arguments, Recipe))  # complain before the work
    tokenizer = make_tokenizer(text, kind, vocab_size)
    config = Config.preset(preset, vocab_size=tokenizer.vocab_size, **fields)
    parts = Text.encode(text, tokenizer, config.context)
    out = new_run() if arguments.out is None else unused(arguments.out)

    mg.manual_seed(recipe.seed)
    print(
        f"text       {describe_source(files)}: {len(text):,} characters, the last {len(parts.held_out):,} held out"
    )
    print(f"tokens     {describe_tokenizer(tokenizer, kind, vocab_size, parts)}")
    print(f"model      {describe_model(config)}")
    print(
        f"training   {recipe.steps:,} steps of {recipe.batch_size} x {config.context} tokens, "
        f"{'AdamW' if recipe.weight_decay else 'Adam'} at {recipe.learning_rate:g}, "
        f"threads: {recipe.threads}, seed: {recipe.seed}"
    )
    print(f"memory     {check_memory(config, recipe)}")
    baselines = ngram_baselines(parts.train, parts.held_out, vocab_size=len(set(text)))
    best = min(baselines, key=lambda baseline: baseline.nats_per_symbol)
    print(
        "baselines  " + " · ".join(f"{b.name} {b.nats_per_symbol:.3f}" for b in baselines) + " nats per character"
    )
    print(f"run        {out}", flush=True)

    began = time.perf_counter()
    with Display(recipe.steps, best) as display:
        source = [str(path.resolve()) for path in files] if files else None
        _, score = runner.train(parts, out, config, recipe, display, source)
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
