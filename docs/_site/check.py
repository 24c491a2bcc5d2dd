"""Check the built site: ``python docs/_site/check.py site``.

A page fetches nothing from the network as it is viewed; everything public is documented; a differentiable method
of Tensor is shown with its gradient.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import api

import minigrad as mg
import transformer
from minigrad import creation, func, functional, optim, random, threads
from minigrad.op import Op

HELPERS = {"minigrad.tensor.Tensor.result_class", "minigrad.autograd.likely_cause"}
"""Names that only other modules of the package use."""

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Reader(HTMLParser):
    """What a page fetches, which anchors it has, and the text after each."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.texts: dict[str, str] = {}
        self.anchor = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what the tag fetches and its anchor."""
        given = dict(attributes)
        if place := given.get(FETCHED.get(tag, "")):
            self.fetched.append(place)
        if (anchor := given.get("id")) and anchor.startswith(("minigrad.", "transformer.")):
            self.anchor = anchor
            self.texts[anchor] = ""

    def handle_data(self, data: str) -> None:
        """Add to the text of the last anchor."""
        if self.anchor:
            self.texts[self.anchor] += data


def public() -> Iterator[str]:
    """Yield the full name of everything public."""
    aliases: dict[int, str] = {}
    for name in functional.__all__:
        if id(getattr(mg, name)) not in aliases:  # other names of an operation stand below its first one
            aliases[id(getattr(mg, name))] = name
    yield from (f"minigrad.{getattr(getattr(mg, name), '__name__', name).strip('_')}" for name in aliases.values())
    yield from (f"minigrad.creation.{name}" for name in creation.__all__)
    for module in random, threads:
        yield from (f"minigrad.{name}" for name in module.__all__)
    yield from (f"minigrad.func.{name}" for name in func.__all__)
    yield from (f"minigrad.nn.functional.{name}" for name in mg.nn.functional.__all__)
    for module in mg.nn, optim:
        names = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
        yield from (f"{module.__name__}.{name}" for name in names)
    for module in mg.autograd, mg.nn.init, mg.nn.utils, optim.lr_scheduler:
        yield from (f"{module.__name__}.{name}" for name in api.defined_in(module))
    yield from (f"transformer.{name}" for name in transformer.__all__)
    yield from (f"minigrad.tensor.Tensor.{name}" for name in dir(mg.Tensor) if not name.startswith("_"))


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for everything that is wrong."""
    texts: dict[str, str] = {}
    for path in sorted(site.rglob("*.html")):
        reader = Reader()
        reader.feed(path.read_text(encoding="utf-8"))
        texts |= reader.texts
        yield from (f"{path} fetches {place}" for place in reader.fetched if re.match(r"(https?:)?//", place))
    for path in sorted(site.rglob("*.css")):
        for place in re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8")
        ):
            yield f"{path} fetches {place}"
    for name in sorted(set(public()) - HELPERS):
        if not texts.get(name, "").strip():
            yield f"{name} is not documented"
    for name in dir(mg.Tensor):
        operation = inspect.getattr_static(mg.Tensor, name)
        shown = texts.get(f"minigrad.tensor.Tensor.{name}", "")
        if isinstance(operation, Op) and operation.differentiable and "Gradient" not in shown:
            yield f"the method {name} is shown without its gradient"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print(*found[:20] or ["the site fetches nothing, and everything public is documented"], sep="\n")
    if len(found) > 20:
        print(f"… and {len(found) - 20} more")
    sys.exit(1 if found else 0)
