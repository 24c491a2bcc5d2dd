"""``transformer evaluate``: how well a model predicts text."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from minigrad import Tensor
from transformer.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from transformer.commands import task, texts
from transformer.commands.display import bar
from transformer.commands.options import add_run, add_text, chosen_run
from transformer.commands.report import (
    describe_baselines,
    describe_measured,
    describe_model,
    describe_source,
    print_scores,
)
from transformer.config import Config
from transformer.corpus import DataError
from transformer.data import split_text
from transformer.evaluation import parts_of, position_losses, standard_error
from transformer.tasks import Questions
from transformer.text import REPORTED_TOKENS, Text

HELP = "Measure how well a model predicts text, beside n-gram baselines, and by position."
PAST_CONTEXT = 4  # times the context: how far the loss by position goes
POSITION_TOKENS = 50_000  # of a long text, from which the loss by position is taken


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    add_text(parser, "UTF-8 text to measure on (default: the held-out part of what the run learned from)")
    parser.add_argument(
        "--tokens",
        type=int,
        metavar="INT",
        help=f"measure at most so many tokens; 0: all (default: {REPORTED_TOKENS})",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a model's score on a text, beside n-gram baselines that learned from the same training text.

    Of a run that learned a task, print how many of its held-out questions are answered right.

    Raises:
        ValueError: an option, the checkpoint or the text can't be used.
    """
    tokens = REPORTED_TOKENS if arguments.tokens is None else arguments.tokens
    if tokens < 0:
        raise ValueError(f"--tokens must be at least 0 (0: all), not {tokens}")
    limit = tokens or None
    path = find_checkpoint(chosen_run(arguments))
    checkpoint = load_checkpoint(path)
    if questions := Questions.of_run(checkpoint):
        if arguments.text or arguments.tokens is not None:
            raise ValueError(
                f"the run learned the task {questions.task.name} and is measured by its held-out questions: "
                "--text and --tokens are for runs that learned a text"
            )
        print(f"model  {path}, {describe_model(checkpoint.model)}")
        task.report(questions, checkpoint.model)
        return
    text = text_to_measure(arguments.text, checkpoint)
    name = describe_source(arguments.text or checkpoint.training.get("source"))
    measured = describe_measured(text, limit)
    print(f"text   {measured} of {name}: {len(text.measured(limit)):,} characters")
    print(f"model  {path}, {describe_model(checkpoint.model)}", flush=True)
    baselines = texts.baselines(text, limit) if len(text.train) else []
    if baselines:
        print(f"counts {describe_baselines(baselines, text)}")
    n, threads = len(text.held_out_ids[:limit]), os.cpu_count() or 1
    with bar(n, "token", "measuring") as update:
        score = text.score(checkpoint.model, limit, threads, update)
    print()
    print_scores(score, baselines)
    length = longest_window(checkpoint.config, n)
    if length:
        with bar(min(n, POSITION_TOKENS), "token", "by position") as update:
            losses = position_losses(
                checkpoint.model, text.held_out_ids, length, min(n, POSITION_TOKENS), threads, update
            )
        print()
        print_losses_by_position(losses, checkpoint.config)


def text_to_measure(files: list[Path] | None, checkpoint: Checkpoint) -> Text:
    """Return the given text, or the run's own, with what the run learned from.

    Raises:
        DataError: a file can't be used, or, if none is given, the run's own text is no longer there.
    """
    if not files:
        learned = texts.of_run(checkpoint.training)
        return texts.encode(learned, checkpoint.tokenizer, checkpoint.config.context)
    text = texts.read(files)
    try:
        train, _ = split_text(texts.of_run(checkpoint.training))
    except DataError as error:
        print(f"transformer: {error}: there are no n-gram models to compare with", file=sys.stderr)
        train = text[:0]
    with bar(len(text), "character", "encoding") as update:
        return Text.of_its_own(text, checkpoint.tokenizer, train, update)


def longest_window(config: Config, n_tokens: int) -> int:
    """Return how many positions the loss is shown for: past the context where the model and the text allow it."""
    furthest = 1 if config.positions == "learned" else PAST_CONTEXT
    lengths = (factor * config.context for factor in range(furthest, 0, -1))
    return next((length for length in lengths if length < n_tokens), 0)


def print_losses_by_position(losses: Tensor, config: Config) -> None:
    """Print the mean of the losses (W, length) for positions 1, 2, 3–4, 5–8, …, each with its standard error."""
    n_windows, length = losses.shape
    rows = []
    for first, last in position_ranges(config.context, length):
        of_windows = losses[:, first - 1 : last].mean(1)  # (W,)
        parts = parts_of(n_windows, least=1)
        error = standard_error(
            [of_windows[part].sum().item() for part in parts], [part.stop - part.start for part in parts]
        )
        rows.append((first, last, of_windows.mean().item(), error))
    largest = max(mean for _, _, mean, _ in rows)
    print(f"loss by the number of tokens seen before, in {n_windows:,} windows of {length:,} (nats per token)")
    for first, last, mean, error in rows:
        if first == config.context + 1:
            print(f"--- trained up to here: the context of {config.context} ---")
        label = str(first) if first == last else f"{first}-{last}"
        print(f"{label:>11} {mean:7.3f} ± {error:.3f} {'#' * round(40 * mean / largest)}")


def position_ranges(context: int, length: int) -> list[tuple[int, int]]:
    """Return ranges of positions, each twice as long as the one before, of which one ends at the context.

    >>> position_ranges(6, 12)
    [(1, 1), (2, 2), (3, 4), (5, 6), (7, 12)]
    """
    ends = [context]
    while ends[-1] * 2 <= length:
        ends.append(ends[-1] * 2)
    if ends[-1] < length:
        ends.append(length)
    end = 1
    while end < context:
        ends.append(end)
        end *= 2
    ends.sort()
    return list(zip([1, *(end + 1 for end in ends)], ends, strict=False))
