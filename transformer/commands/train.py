"""``transformer train``: learn from a text."""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path

from transformer.baselines import Baseline
from transformer.commands import task, texts
from transformer.commands.display import draw, take_steps
from transformer.commands.options import add_fields, add_new_run, add_text, chosen, new_run
from transformer.commands.report import (
    describe_baselines,
    describe_measured,
    describe_model,
    describe_recipe,
    describe_source,
    describe_tokenizer,
    print_scores,
)
from transformer.config import Config
from transformer.directory import RunDirectory
from transformer.footprint import check_memory
from transformer.presets import PRESETS, of_depth
from transformer.recipe import Recipe
from transformer.run import Run
from transformer.text import DEFAULT_VOCAB_SIZE, Text

HELP = "Train a model on a text."
FROM_PRESET = {
    name: "from the preset"
    for preset in (*PRESETS.values(), of_depth(1))
    for name in (*preset.model, *preset.training)
}
WITH_RESUME = ("command", "resume", "text", "steps")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_text(parser, "UTF-8 text to learn (default: Python's own reference text, which comes with it)")
    add_new_run(parser)
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was stopped, exactly as if it had not been; with --steps, make it longer",
    )
    parser.add_argument("--tokenizer", choices=("char", "bpe"), help="of characters, or byte-pair (default: char)")
    parser.add_argument(
        "--vocab-size",
        type=int,
        metavar="INT",
        help=f"tokens of a bpe tokenizer (default: {DEFAULT_VOCAB_SIZE})",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--preset",
        choices=tuple(PRESETS),
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
    with start(arguments) if arguments.resume is None else resume(arguments) as run:
        if not isinstance(run.data, Text):
            task.learn(run)
            return
        baselines = report(run, run.data, asked=arguments.vocab_size or DEFAULT_VOCAB_SIZE)
        take_steps(run, baselines)
        _, score = run.result()
        done = run.progress
        print(
            f"\ntrained in {done.seconds:.0f} s ({done.tokens_per_second:,.0f} tokens/s); "
            f"on {describe_measured(run.data)}:\n"
        )
        print_scores(score, baselines)
        print(f"\n{draw(run, baselines)}")
        print(f"\nwrote {run.directory.path}: {run.directory.describe()}")
        print(f'next: transformer generate --out {run.directory.path} --prompt "The "')


def start(arguments: argparse.Namespace) -> AbstractContextManager[Run]:
    """Begin a run; all that can be wrong with the arguments is found before anything is written.

    Raises:
        ValueError: an option, or the text, makes no sense.
    """
    preset = (arguments.preset or "small") if arguments.depth is None else arguments.depth
    files: list[Path] | None = arguments.text
    if arguments.out is not None:
        RunDirectory(arguments.out).check_unused()
    if arguments.vocab_size is not None and arguments.tokenizer != "bpe":
        raise ValueError(
            f"--vocab-size {arguments.vocab_size} is for byte pairs: add --tokenizer bpe (of characters "
            "there are as many tokens as the text has different ones)"
        )
    asked = Config.preset(preset, **{"vocab_size": DEFAULT_VOCAB_SIZE, **chosen(arguments, Config)})
    recipe = Recipe.preset(preset, asked.d_model, **chosen(arguments, Recipe))
    corpus = texts.read(files)
    tokenizer = texts.tokenizer_for(corpus, arguments.tokenizer or "char", asked.vocab_size)
    config = dataclasses.replace(asked, vocab_size=tokenizer.vocab_size)
    text = texts.encode(corpus, tokenizer, config.context)
    check_memory(config, recipe)
    source = [str(path.resolve()) for path in files] if files else None
    return Run.start(new_run(arguments), text, config, recipe, source)


def resume(arguments: argparse.Namespace) -> AbstractContextManager[Run]:
    """Take up a run.

    Raises:
        ValueError: an option was given that the run has decided already.
    """
    for name, value in vars(arguments).items():
        if value is not None and name not in WITH_RESUME:
            raise ValueError(
                f"--{name.replace('_', '-')} can't be given with --resume, for a run keeps what it began with: "
                "only --steps can, to make it longer, and --text, if the text is elsewhere now"
            )
    text = texts.read(arguments.text) if arguments.text else None
    return Run.resume(arguments.resume, text, arguments.steps)


def report(run: Run, text: Text, asked: int) -> list[Baseline]:
    """Print what will be done; return what simple counting achieves on the text."""
    config, recipe, step = run.model.config, run.recipe, run.progress.step
    characters = len(text.train) + len(text.held_out)
    print(
        f"text       {describe_source(run.source)}: {characters:,} characters, "
        f"the last {len(text.held_out):,} held out"
    )
    print(f"tokens     {describe_tokenizer(text, 0 if step else asked)}")
    print(f"model      {describe_model(run.model)}")
    print(f"training   {describe_recipe(recipe, f'{recipe.batch_size} x {config.context} tokens')}")
    print(f"memory     {check_memory(config, recipe)}")
    baselines = texts.baselines(text)
    print(f"baselines  {describe_baselines(baselines, text)}")
    print(f"run        {run.directory.path}" + f", from step {step:,} on" * bool(step), flush=True)
    return baselines
