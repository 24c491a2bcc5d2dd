"""What mkdocstrings is told about this project's source, as an extension of Griffe, which reads it.

- An operation is documented as the function or the method that it is, under each of its names.
- Its documentation ends with the rules that compute its gradient, and its source is that of its declaration.
- ``:func:`name``` in a docstring becomes a link, if that name is documented.
- Two backquotes around code become one, and an example is shown as one, as Markdown has it.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import griffe

HERE = Path(__file__).resolve().parent
for place in (HERE, HERE.parents[1]):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

from minigrad.op import Op  # noqa: E402
from minigrad.rule_text import rule_text  # noqa: E402

EXAMPLE = re.compile(r"^(( *)>>> .*\n(?:\2.*\S.*(?:\n|\Z))*)", re.MULTILINE)
"""A line that a reader types into Python, and what follows it up to an empty line."""

FULL_NAMES = {"minigrad.tensor": "minigrad.creation.tensor", "minigrad.draw": "minigrad.draw.draw"}
"""Functions that have the name of a module."""


def rules_of(operation: Op[...]) -> str:
    """Return a paragraph that gives the gradient of each argument."""
    if not operation.differentiable:
        return ""
    texts: dict[str, list[str]] = {}
    for argument in operation.differentiable:
        rule = rule_text(operation, argument)
        text = f"`{rule.expression}`" if rule.is_code else rule.expression.removeprefix("Return ")
        texts.setdefault(text, []).append(f"`{argument}`")
    lines = [f"**Gradient** of {' and '.join(arguments)}: {text}" for text, arguments in texts.items()]
    return "<br>".join(lines)


def with_rules(text: str, operation: Op[...]) -> str:
    """Return an operation's docstring with its rules, which stand before the sections on arguments and errors."""
    rules = rules_of(operation)
    if not rules:
        return text
    before = re.split(r"^(?:Args|Raises|Returns):$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return f"{before.rstrip()}\n\n{rules}\n\n{text[len(before) :]}".rstrip()


def links(text: str, near: str) -> str:
    """Return a docstring in Markdown: its roles as links, if what they name is documented, its code as code."""

    def link(match: re.Match[str]) -> str:
        name = match[1]
        full = name if name.startswith(("minigrad.", "transformer.")) else resolve(name, near)
        full = FULL_NAMES.get(full, full)
        return f'<autoref identifier="{full}" optional><code>{name}</code></autoref>'

    parts = EXAMPLE.split(text)  # prose, an example and its indentation, prose, …
    prose = [re.sub(r":(?:func|meth|class|data|attr|mod):`([^`]+)`", link, part) for part in parts[::3]]
    prose = [re.sub(r"``([^`]+)``", r"`\1`", part) for part in prose]
    examples = [
        f"\n{indent}```pycon\n{example.rstrip()}\n{indent}```\n"
        for example, indent in zip(parts[1::3], parts[2::3], strict=True)
    ]
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(prose, examples, fillvalue="")))


def resolve(name: str, near: str) -> str:
    """Return the full name of what a docstring near an object calls ``name``."""
    if name.startswith("Tensor."):
        return f"minigrad.tensor.{name}"
    scope = near.rsplit(".", 1)[0]
    while scope:
        target: Any = sys.modules.get(scope)
        if target is not None and hasattr(target, name.split(".")[0]):
            return f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    parent = near.rsplit(".", 1)[0]
    return f"{parent}.{name}"


class Declared(griffe.Function):
    """An operation under one of its names, with the source of its declaration, wherever that name was given."""

    declared_in: Path

    @property
    def filepath(self) -> Path:
        """The file of the declaration."""
        return self.declared_in


def declared(name: str, place: griffe.Module | griffe.Class, operation: Op[...]) -> Declared:
    """Return what an operation is in a module, a function, or in a class, a method."""
    kinds = griffe.ParameterKind
    parameters = []
    for parameter in inspect.signature(operation.forward).parameters.values():
        kind = kinds.var_positional if parameter.kind is parameter.VAR_POSITIONAL else kinds.positional_or_keyword
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        shown = "Tensor" if parameter.annotation == "Array" else parameter.annotation
        annotation = None if shown is parameter.empty else griffe.ExprName(shown)
        parameters.append(griffe.Parameter(parameter.name, annotation=annotation, kind=kind, default=default))
    if isinstance(place, griffe.Class):
        parameters[0] = griffe.Parameter("self", kind=kinds.positional_or_keyword)
    forward = operation.forward
    declaration = place.modules_collection[f"{forward.__module__}.{forward.__qualname__}"]
    made = Declared(
        name,
        parameters=griffe.Parameters(*parameters),
        returns=griffe.ExprName("Tensor"),
        lineno=declaration.lineno,
        endlineno=declaration.endlineno,
        parent=place,
    )
    made.declared_in = Path(declaration.filepath)
    made.docstring = griffe.Docstring(with_rules(inspect.getdoc(operation.forward) or "", operation), parent=made)
    return made


def living(thing: griffe.Module | griffe.Class) -> Any:
    """Return the module or class itself, which Griffe has only read."""
    module = thing if isinstance(thing, griffe.Module) else thing.module
    value: Any = importlib.import_module(module.path)
    for name in thing.path.removeprefix(module.path).split(".")[1:]:
        value = inspect.getattr_static(value, name)
    return value


class Operations(griffe.Extension):
    """The extension."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Change what Griffe has read of a package, once it is whole."""
        if pkg.path in ("minigrad", "transformer"):
            self.change(pkg)

    def change(self, thing: griffe.Module | griffe.Class) -> None:
        """Change the docstrings of everything in a module or class."""
        if thing.path.endswith("__main__"):
            return
        itself = living(thing)
        if thing.docstring is not None:
            thing.docstring.value = links(thing.docstring.value, f"{thing.path}.x")
        for name in getattr(itself, "__all__", ()):  # also those that Griffe can't see: sigmoid, tanh = …
            if name not in thing.members and isinstance(getattr(itself, name), Op):
                thing.set_member(name, declared(name, thing, getattr(itself, name)))
        for name, member in list(thing.members.items()):
            if member.is_alias:
                continue
            if isinstance(member, griffe.Module | griffe.Class):
                self.change(member)
                continue
            value = inspect.getattr_static(itself, name, None)
            if isinstance(value, Op):
                member = declared(name, thing, value)
                thing.set_member(name, member)
            elif isinstance(member, griffe.Attribute) and inspect.isfunction(value):
                member.docstring = griffe.Docstring(f"Another name of :meth:`{value.__name__}`.", parent=member)
            if member.docstring is not None:
                member.docstring.value = links(member.docstring.value, member.path)
