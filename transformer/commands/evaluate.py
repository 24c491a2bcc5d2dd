"""``transformer evaluate``: how well a model predicts text."""

from __future__ import annotations

import argparse
import os

from tqdm import tqdm

from transformer.checkpoint import find_checkpoint, load_checkpoint
from transformer.commands import texts
from transformer.commands.options import add_run, add_text
from transformer.commands.report import describe_model, describe_source, print_scores
from transformer.commands.runs import latest_run

HELP = "Measure how well a model predicts text, beside n-gram baselines."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    add_text(parser, "UTF-8 text to measure on (default: the held-out part of what the run learned from)")


def run(arguments: argparse.Namespace) -> None:
    """Print a model's score on a text, beside n-gram baselines that learned from the same training text."""
    path = find_checkpoint(arguments.out or latest_run())
    checkpoint = load_checkpoint(path)
    source = checkpoint.training.get("source")
    parts = texts.encode(texts.of_run(checkpoint.training), checkpoint.tokenizer, checkpoint.config.context)
    files = arguments.text
    if files:
        text = texts.read(files)
        parts = parts.with_held_out(text)
        print(f"text   {describe_source(files)}: {len(text):,} characters")
    else:
        print(f"text   the held-out part of {describe_source(source)}: {len(parts.held_out):,} characters")
    print(f"model  {path}, {describe_model(checkpoint.model)}", flush=True)
    baselines = texts.baselines(parts, None)
    with tqdm(total=len(parts.held_out_ids), unit="token", dynamic_ncols=True, leave=False) as bar:
        score = parts.score(checkpoint.model, threads=os.cpu_count() or 1, on_batch=bar.update)
    print()
    print_scores(score, baselines)
