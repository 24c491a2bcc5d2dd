"""``transformer explain``: a page on what a model computes for a text, and how it learned to."""

from __future__ import annotations

import argparse
from pathlib import Path
from webbrowser import open_new_tab

from tqdm import tqdm

from transformer.commands.options import add_run
from transformer.commands.runs import latest_run
from transformer.explain import Material, Subject, json_text, page_data, page_html
from transformer.explain.data import CHAPTERS

HELP = "Explain a model by its own numbers, on a page."


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
        help="two phrases that end alike (default: 'river bank' and 'savings bank')",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="where to write the page (default: RUN/explain.html)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the page's data too, for other tools")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, and say where."""
    material = Material(arguments.out or latest_run())
    text = arguments.text if arguments.text is not None else material.default_text()
    subject = Subject(material, text, arguments.compare)
    if subject.notice:
        print(subject.notice)
    with tqdm(total=len(CHAPTERS), unit="chapter", leave=False) as bar:
        data = page_data(subject, lambda name: bar.update())
    page = arguments.html or material.directory / "explain.html"
    write(page, page_html(data))
    if arguments.json:
        write(arguments.json, json_text(data) + "\n")
    if arguments.open:
        open_new_tab(page.resolve().as_uri())


def write(path: Path, content: str) -> None:
    """Write a file and say where and how large it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")
    print(f"wrote {path} ({len(content.encode('utf-8')) / 1e6:.2f} MB)")
