"""The tables of the documentation, made from what runs: the engine's rules, and the conventions that tests pin."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad.op import Op, registry
from minigrad.plan import rule_names
from minigrad.rule_text import first_sentence, rule_text

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from conventions import CONVENTIONS, Convention  # noqa: E402

for module in pkgutil.walk_packages(mg.__path__, "minigrad."):
    importlib.import_module(module.name)  # each module registers its operations

TOPICS = {
    "minigrad.rules.elementwise": "Elementwise",
    "minigrad.rules.piecewise": "Piecewise",
    "minigrad.rules.comparison": "Comparisons",
    "minigrad.rules.reduce": "Reductions",
    "minigrad.rules.linalg": "Products",
    "minigrad.rules.shape": "Shape",
    "minigrad.rules.indexing": "Indexing",
    "minigrad.kernels": "Kernels",
}


def cell(text: str) -> str:
    """Return a text as the cell of a table, with the names in it as code."""
    named = re.sub(r":\w+:`([^`]+)`", r"`\1`", text).replace("``", "`")
    return " ".join(named.replace("|", "\\|").split())


def code(text: str) -> str:
    """Return a piece of code as the content of a cell; a bar needs no escape that would show."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# --- rules ----------------------------------------------------------------------------------------


def operations() -> dict[str, list[Op[...]]]:
    """Return the operations of the engine by topic; those of a program that runs in this process are left out."""
    found: dict[str, list[Op[...]]] = {title: [] for title in TOPICS.values()}
    for operation in registry.values():
        module = operation.forward.__module__
        for prefix, title in TOPICS.items():
            if module == prefix or module.startswith(f"{prefix}."):
                found[title].append(operation)
                break
        else:
            if module.startswith("minigrad."):
                raise ValueError(f"the rule table has no topic for {module}")
    return found


def kept(operation: Op[...]) -> str:
    """Return which arrays the rules keep, if all of the arguments want a gradient: those that they name."""
    parameters = inspect.signature(operation.forward).parameters.values()
    arrays = {"out", "saved", *(parameter.name for parameter in parameters if parameter.annotation == "Array")}
    rules = [operation.joint] if operation.joint is not None else operation.rules.values()
    names = dict.fromkeys(name for rule in rules for name in rule_names(rule) if name in arrays)
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def gradients(operation: Op[...]) -> str:
    """Return each argument's rule as the content of a cell."""
    texts: dict[str, list[str]] = {}
    for argument in operation.differentiable:
        rule = rule_text(operation, argument)
        text = code(rule.expression) if rule.is_code else cell(rule.expression.removeprefix("Return "))
        texts.setdefault(text, []).append(f"`{argument}`")
    return "<br>".join(f"{', '.join(arguments)}: {text}" for text, arguments in texts.items())


def rule_rows(chosen: Iterable[Op[...]]) -> Iterator[list[str]]:
    """Yield a row for each operation: its name, what it computes, its rules, what they keep."""
    for operation in chosen:
        computes = cell(first_sentence(operation.forward.__doc__))
        composed = inspect.getdoc(operation.composed) if operation.composed is not None else None
        if composed:
            computes += f"<br>*composed:* {cell(first_sentence(composed))}"
        if operation.differentiable:
            yield [f"`{operation.name}`", computes, gradients(operation), kept(operation)]
        else:
            yield [f"`{operation.name}`", computes, "none", "nothing"]


def helper_lines(chosen: Iterable[Op[...]]) -> Iterator[str]:
    """Yield what the functions that the rules call say of themselves."""
    helpers: dict[str, str] = {}
    for operation in chosen:
        for argument in operation.differentiable:
            rule = rule_text(operation, argument)
            if rule.is_code:
                helpers |= rule.helpers
    for name, document in sorted(helpers.items()):
        yield f"- `{name}`: {' '.join(document.replace('``', '`').split())}"


def rules_page() -> str:
    """Return the page of all rules."""
    parts = [
        "# The rules",
        "Every operation of the engine, read from its declaration as this page was built: what you see in the "
        "third column is the source that runs. `g` is the gradient that arrives, `out` the output, `x_shape` the "
        "shape of `x`. A rule keeps the arrays that it names, and nothing else. Broadcasting and dtypes are no "
        "business of a rule: the engine sums each gradient to its argument's shape and casts it.",
        "Where a rule is longer than one expression, its docstring stands here. *Composed* is the same function "
        "in basic operations: what a kernel is tested against, and what is differentiated for second derivatives.",
    ]
    for title, chosen in operations().items():
        parts += [f"## {title}", table(["operation", "computes", "gradient", "keeps"], rule_rows(chosen))]
        if lines := list(helper_lines(chosen)):
            parts.append("What the rules call:\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


# --- conventions ----------------------------------------------------------------------------------


def number(value: Any) -> str:
    """Return a number, a list of numbers or a word for the reader."""
    if isinstance(value, list):
        return f"[{', '.join(map(number, value))}]"
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:g}".replace("-", "−")


def convention_row(row: Convention) -> list[str]:
    """Return a row of the table of conventions."""
    at = "" if row.at is None else number(row.at)
    gradient = "" if row.gradient is None else number(row.gradient)
    return [cell(row.case), at, code(row.code), number(row.value), gradient, cell(row.pytorch)]


def conventions_page() -> str:
    """Return the page of conventions."""
    parts = [
        "# Conventions",
        "What is laid down where mathematics leaves a choice. Each row is a test that runs here and on PyTorch "
        "(`tests/conventions.py`, from which this page was made). The gradient is that of the sum with respect to "
        "`x`. [What differs from PyTorch](differences.md) gives the reasons where it isn't the same.",
    ]
    for title, rows in CONVENTIONS.items():
        if title == "Dtypes":
            lines = [[cell(row.case), code(row.code), row.value, cell(row.pytorch)] for row in rows]
            parts += [f"## {title}", table(["case", "code", "dtype", "PyTorch"], lines)]
        else:
            head = ["case", "at x =", "code", "value", "gradient", "PyTorch"]
            parts += [f"## {title}", table(head, map(convention_row, rows))]
    return "\n\n".join(parts) + "\n"
