"""What mkdocstrings is told about this project's source, as an extension of Griffe, which reads it.

- An operation that is a class attribute (``exp = elementwise.exp``) is documented as the method that it is.
- An operation's documentation ends with the rules that compute its gradient.
- ``:func:`name``` in a docstring becomes a link, if that name is documented.
- Two backquotes around code become one, and an example is shown as one, as Markdown has it.
"""

from __future__ import annotations

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

from minigrad.methods import Methods  # noqa: E402
from minigrad.methods_inplace import InPlaceMethods  # noqa: E402
from minigrad.op import Op, registry  # noqa: E402
from minigrad.rule_text import rule_text  # noqa: E402
from minigrad.tensor import Tensor  # noqa: E402

EXAMPLE = re.compile(r"^(( *)>>> .*\n(?:\2.*\S.*(?:\n|\Z))*)", re.MULTILINE)
"""A line that a reader types into Python, and what follows it up to an empty line."""

PARTS_OF_TENSOR = {
    "minigrad.methods.Methods": Methods,
    "minigrad.methods_inplace.InPlaceMethods": InPlaceMethods,
    "minigrad.tensor.Tensor": Tensor,
}
FULL_NAMES = {"minigrad.tensor": "minigrad.creation.tensor", "minigrad.draw": "minigrad.draw.draw"}
"""Functions that have the name of a module."""
OPERATIONS = {f"{o.forward.__module__}.{o.forward.__name__}": o for o in registry.values()}


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


class Operations(griffe.Extension):
    """The extension."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Change what Griffe has read of a package, once it is whole."""
        if pkg.path == "minigrad":
            for path, kind in PARTS_OF_TENSOR.items():
                self.methods(pkg[path.removeprefix("minigrad.")], kind)
        self.visit(pkg)

    def visit(self, thing: griffe.Module | griffe.Class) -> None:
        """Change the docstrings of everything in a module or class."""
        if thing.docstring is not None:
            thing.docstring.value = links(thing.docstring.value, f"{thing.path}.x")
        for member in list(thing.members.values()):
            if member.is_alias:
                continue
            if isinstance(member, griffe.Module | griffe.Class):
                self.visit(member)
            else:
                self.change(member)

    def change(self, member: Any) -> None:
        """Add rules and links to a function's or attribute's docstring."""
        operation = OPERATIONS.get(member.path)
        if operation is not None and member.is_function:
            hide_arrays(member)
            if member.docstring is not None:
                member.docstring.value = with_rules(member.docstring.value, operation)
        if member.docstring is not None:
            member.docstring.value = links(member.docstring.value, member.path)

    def methods(self, part: griffe.Class, kind: type) -> None:
        """Make methods of a class's attributes that are operations, or other names of methods."""
        for name, member in list(part.members.items()):
            if not isinstance(member, griffe.Attribute) or name.startswith("_"):
                continue
            value = inspect.getattr_static(kind, name, None)
            if isinstance(value, Op):
                part.set_member(name, method(name, member, value))
            elif inspect.isfunction(value) and value.__name__ != name:
                member.docstring = griffe.Docstring(f"Another name of :meth:`{value.__name__}`.", parent=member)


def hide_arrays(function: griffe.Function) -> None:
    """Show the tensors that a user passes in place of the arrays that the forward function gets of them."""
    for parameter in function.parameters:
        if str(parameter.annotation) == "Array":
            parameter.annotation = griffe.ExprName("Tensor", parent=module_of_tensor(function))
    if str(function.returns) in ("Array", "Any"):
        function.returns = griffe.ExprName("Tensor", parent=module_of_tensor(function))
    function.decorators = []


def module_of_tensor(function: griffe.Function) -> Any:
    """Return the module in which "Tensor" means what a reader takes it for."""
    return function.package["tensor"] if "tensor" in function.package.members else function.parent


def method(name: str, attribute: griffe.Attribute, operation: Op[...]) -> griffe.Function:
    """Return the method that an operation is, as a class attribute of that name."""
    kinds = griffe.ParameterKind
    parameters = [griffe.Parameter("self", kind=kinds.positional_or_keyword)]
    for parameter in list(inspect.signature(operation.forward).parameters.values())[1:]:
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        parameters.append(griffe.Parameter(parameter.name, kind=kinds.positional_or_keyword, default=default))
    made = griffe.Function(
        name,
        parameters=griffe.Parameters(*parameters),
        returns=griffe.ExprName("Tensor"),
        lineno=attribute.lineno,
        endlineno=attribute.endlineno,
        parent=attribute.parent,
    )
    text = with_rules(inspect.getdoc(operation.forward) or "", operation)
    made.docstring = griffe.Docstring(text, parent=made)
    return made
