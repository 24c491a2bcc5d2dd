"""``transformer generate``: continue a prompt, several prompts, or what the user types."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from transformer.checkpoint import load_checkpoint
from transformer.commands.display import bar
from transformer.commands.interactive import talk
from transformer.commands.options import add_run, chosen_run
from transformer.commands.report import printable
from transformer.generation import Sampling, StopFilter, Writer

HELP = "Continue a prompt, or talk."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="the text to continue; - reads it from standard input; may be given several times (default: none, a "
        "fresh start)",
    )
    parser.add_argument(
        "--interactive", action="store_true", help="read lines and continue them, one after another, as one text"
    )
    parser.add_argument("--tokens", type=int, default=400, metavar="INT", help="how many at most (default: 400)")
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help=r"end before this text, where \n is a line break and \t a tab; may be given several times",
    )
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
    parser.add_argument(
        "--window",
        type=int,
        metavar="INT",
        help="how many tokens the model sees at most: a longer text slides through it; sinusoidal positions go on "
        "beyond the context, at a loss (default: the model's context)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a prompt and its continuation, as it comes.

    Raises:
        ValueError: an option, the prompt or the checkpoint can't be used.
    """
    if arguments.tokens < 0:
        raise ValueError(f"--tokens must be at least 0, not {arguments.tokens}")
    sampling = Sampling(arguments.temperature, arguments.top_k, arguments.top_p)
    stop = [unescaped(text) for text in arguments.stop]
    StopFilter(stop)  # complain before the work
    given: list[str] = arguments.prompt or []
    if arguments.interactive and (len(given) > 1 or "-" in given):
        raise ValueError("--interactive takes one --prompt at most, and reads its lines from standard input")
    prompts = [standard_input() if text == "-" else text for text in given] or [""]
    checkpoint = load_checkpoint(chosen_run(arguments))

    def new_writer() -> Writer:
        return Writer(
            checkpoint.model, checkpoint.tokenizer, sampling, arguments.seed, len(prompts), arguments.window
        )

    if arguments.interactive:
        talk(new_writer, arguments.tokens, stop, *given)
        return
    writer = new_writer()
    writer.add(prompts)
    if len(prompts) == 1:
        print(printable(prompts[0]), end="", flush=True)
        for (piece,) in writer.write(arguments.tokens, stop):
            print(printable(piece), end="", flush=True)
        print()
    else:
        print_several(writer, prompts, arguments.tokens, stop)
    if said := writer.reader.note():
        print(f"note: {said}", file=sys.stderr)


def print_several(writer: Writer, prompts: Sequence[str], n_tokens: int, stop: Sequence[str]) -> None:
    """Print several prompts, each with its continuation; they grow side by side, so they come at the end."""
    texts = list(prompts)
    with bar(n_tokens, "token", "writing") as update:
        for pieces in writer.write(n_tokens, stop):
            texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
            update(1)
    for number, text in enumerate(texts, 1):
        print(f"--- {number}\n{printable(text)}")


def standard_input() -> str:
    """Return all of standard input, without the line break at its end, as the shell's $(...) does.

    Raises:
        ValueError: it is not UTF-8.
    """
    stream = getattr(sys.stdin, "buffer", None)
    try:
        text = sys.stdin.read() if stream is None else stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, offset = error.object[error.start], error.start
        raise ValueError(f"standard input is not UTF-8: byte 0x{byte:02x} at offset {offset}") from None
    return text.removesuffix("\n").removesuffix("\r")


def unescaped(text: str) -> str:
    r"""Return the text with \n, \t and \\ replaced by a line break, a tab and a backslash.

    >>> unescaped(r"\n\\n")
    '\n\\n'
    """
    parts = text.split(r"\\")
    return "\\".join(part.replace(r"\n", "\n").replace(r"\t", "\t") for part in parts)
