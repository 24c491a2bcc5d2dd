"""``transformer explain``: a page on what a model computes for a text, and how it learned to."""

from __future__ import annotations

import argparse
from pathlib import Path
from webbrowser import open_new_tab

from transformer.commands.display import bar
from transformer.commands.options import add_run, chosen_run
from transformer.explain import ExplainServer, Material, Subject, json_text, page_data, page_html
from transformer.explain.data import CHAPTERS

HELP = "Explain a model by its own numbers, on a page."
PORT = 8017


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_run(parser)
    parser.add_argument(
        "--text", metavar="TEXT", help="the text to read (default: from the held-out part of the run's text)"
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="two phrases that end in the same token (default: 'river bank' 'savings bank')",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="where to write the page (default: RUN/explain.html)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the page's data as well, for other tools (docs/explain.md)",
    )
    parser.add_argument(
        "--serve", action="store_true", help="serve the page on the loopback address, with a box to type in"
    )
    parser.add_argument(
        "--port", type=int, metavar="INT", help=f"of --serve; 0: any that is free (default: {PORT})"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, or serve it, and say where.

    Raises:
        ValueError: the text or an option can't be used.
    """
    if arguments.port is not None and not arguments.serve:
        raise ValueError("--port is of use only with --serve")
    port = PORT if arguments.port is None else arguments.port
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, not {port}")
    material = Material(chosen_run(arguments))
    text = arguments.text if arguments.text is not None else material.default_text()
    subject = Subject(material, text, arguments.compare)
    if subject.notice:
        print(subject.notice)
    if arguments.json or arguments.html or not arguments.serve:
        write_files(subject, arguments)
    if arguments.serve:
        serve(subject, port, arguments.open)


def write_files(subject: Subject, arguments: argparse.Namespace) -> None:
    """Write the page, and its data if asked for."""
    with bar(len(CHAPTERS), "chapter", "computing") as update:
        data = page_data(subject, lambda name: update(1))
    if arguments.html or not arguments.serve:
        page = arguments.html or subject.material.directory / "explain.html"
        write_file(page, page_html(data))
        if arguments.open and not arguments.serve:
            open_new_tab(page.resolve().as_uri())
    if arguments.json:
        write_file(arguments.json, json_text(data) + "\n")


def write_file(path: Path, content: str) -> None:
    """Write a file and say where and how large it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")
    print(f"wrote {path} ({path.stat().st_size / 1e6:.2f} MB)")


def serve(subject: Subject, port: int, open_browser: bool) -> None:
    """Serve the page until interrupted.

    Raises:
        ValueError: the port can't be used.
    """
    print("computing the page …", flush=True)
    try:
        server = ExplainServer(subject, port)
    except OSError as error:
        raise ValueError(
            f"can't listen on port {port}: {error.strerror or error}; choose another with --port, or 0 for any"
        ) from None
    with server:
        print(f"serving {server.address} to this computer only; Ctrl-C stops", flush=True)
        if open_browser:
            open_new_tab(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
