"""``transformer tokenize``: what is seen, and what the model sees."""

from __future__ import annotations

import argparse

from transformer.checkpoint import load_checkpoint
from transformer.commands.options import add_run, chosen_run

HELP = "Show how a run's tokenizer sees a text."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the text to cut into tokens")


def run(arguments: argparse.Namespace) -> None:
    """Print the tokens of a text and their ids."""
    text = " ".join(arguments.text)
    tokenizer = load_checkpoint(chosen_run(arguments)).tokenizer
    ids = tokenizer.encode(text)
    print("│".join(tokenizer.token_text(id) for id in ids))
    print(*ids)
    print(f"{len(ids)} tokens for {len(text)} characters, of {tokenizer.vocab_size} that the tokenizer knows")
