"""``transformer generate``: continue a prompt."""

from __future__ import annotations

import argparse

from transformer.checkpoint import load_checkpoint
from transformer.commands.options import add_run
from transformer.commands.report import printable
from transformer.commands.runs import latest_run
from transformer.generation import check_sampling, generate

HELP = "Continue a prompt."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument("--prompt", default="", help="the text to continue (default: none, a fresh start)")
    parser.add_argument("--tokens", type=int, default=400, metavar="INT", help="how many (default: 400)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        metavar="FLOAT",
        help="below 1 bolder, above 1 wilder, 0 always the likeliest token (default: 0.8)",
    )
    parser.add_argument(
        "--top-k", type=int, default=0, metavar="INT", help="draw from the k likeliest; 0: all (default: 0)"
    )
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="FLOAT",
        help="draw from the likeliest tokens that together have this probability (default: 1.0, all)",
    )
    parser.add_argument("--seed", type=int, metavar="INT", help="the same seed gives the same text")


def run(arguments: argparse.Namespace) -> None:
    """Print a prompt and its continuation, as it comes."""
    if arguments.tokens < 0:
        raise ValueError(f"--tokens must be at least 0, not {arguments.tokens}")
    check_sampling(arguments.temperature, arguments.top_k, arguments.top_p)
    checkpoint = load_checkpoint(arguments.out or latest_run())
    pieces = generate(
        checkpoint.model,
        checkpoint.tokenizer,
        arguments.prompt,
        arguments.tokens,
        arguments.temperature,
        arguments.top_k,
        arguments.top_p,
        arguments.seed,
    )
    print(printable(arguments.prompt), end="", flush=True)
    for piece in pieces:
        print(printable(piece), end="", flush=True)
    print()
