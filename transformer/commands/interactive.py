"""Talking with a model, line by line: what was typed and written is one text, of which nothing is read twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from transformer.commands.report import printable
from transformer.commands.signals import StopSignals
from transformer.generation import Writer

HELP = """\
Type a line, and the model continues it; an empty line has it write on.  All is one text, which it remembers.
/reset starts a new text, /quit or Ctrl-D leaves, Ctrl-C ends what is being written, // begins a line with a /."""


def talk(new_writer: Callable[[], Writer], n_tokens: int, stop: Sequence[str], prompt: str | None = None) -> None:
    """Continue ``prompt``, if there is one, and then each line of standard input, until it ends or says /quit."""
    writer = new_writer()
    if sys.stdin.isatty():
        print(HELP, file=sys.stderr)
    if prompt is not None:
        writer.add([prompt])
        print(printable(prompt), end="", flush=True)
        write_on(writer, n_tokens, stop)
    for line in typed_lines():
        if line == "/quit":
            return
        if line == "/reset":
            writer = new_writer()
            continue
        if line.startswith("/") and not line.startswith("//"):
            print(HELP, file=sys.stderr)
            continue
        try:
            writer.add([line.removeprefix("/")])
        except ValueError as error:  # a character that the tokenizer does not know
            print(f"transformer: {error}", file=sys.stderr)
            continue
        write_on(writer, n_tokens, stop)


def write_on(writer: Writer, n_tokens: int, stop: Sequence[str]) -> None:
    """Print what the model writes, until it has written enough or Ctrl-C is pressed."""
    before = writer.reader.note()
    with StopSignals(names=["SIGINT"]) as signals:  # so a token is read and remembered wholly or not at all
        for (piece,) in writer.write(n_tokens, stop):
            print(printable(piece), end="", flush=True)
            if signals.requested:
                break
    print(flush=True)
    if (note := writer.reader.note()) != before:
        print(f"note: {note}", file=sys.stderr)


def typed_lines() -> Iterator[str]:
    """Yield the lines of standard input, without their line breaks; Ctrl-C ends them as well as Ctrl-D."""
    terminal = sys.stdin.isatty()
    if terminal:
        with suppress(ImportError):  # on Windows, whose console does it by itself
            import readline  # noqa: F401 (lines can then be edited, and recalled)
    elif hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8")
    while True:
        try:
            yield input("> " if terminal else "")
        except (EOFError, KeyboardInterrupt):
            if terminal:
                print(file=sys.stderr)
            return
