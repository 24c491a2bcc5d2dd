"""The derivative rules as text, read from the source of the rules themselves.

There is no second table that could differ from the one that runs: an expression shown to a reader is the body of
the lambda that the engine calls.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

from minigrad.op import Op


class RuleText(NamedTuple):
    """A rule for the reader.

    Attributes:
        expression: what a lambda returns, "g * y"; of a longer rule the first sentence of its docstring.
        source: the whole source.
        helpers: what the functions that it calls say of themselves.
        cotangent: what the rule calls the gradient that arrives: nearly always "g".
        is_code: whether ``expression`` is Python, so that numbers can be put into it.
    """

    expression: str
    source: str
    helpers: Mapping[str, str]
    cotangent: str
    is_code: bool


def rule_text(operation: Any, argument: str) -> RuleText:
    """Return the rule by which ``operation`` passes a gradient on to ``argument``.

    >>> from minigrad.op import registry
    >>> rule_text(registry["mul"], "x").expression
    'g * y'
    >>> rule_text(registry["matmul"], "x").expression
    '∂(x y)/∂x applied to g: g yᵀ.'
    >>> rule_text(registry["linear"], "weight").expression
    'dx = g W, dW = gᵀ x, db = Σ g, with all leading dimensions as rows.'
    """
    if not isinstance(operation, Op):  # a Function of the user's
        return describe(operation.function.backward)
    return describe(operation.joint if operation.joint is not None else operation.rules[argument])


def describe(rule: Callable[..., Any]) -> RuleText:
    """Return a rule for the reader."""
    cotangent = next(iter(inspect.signature(rule).parameters), "g")
    code = inspect.unwrap(rule).__code__
    definition = find_definition(code)
    if definition is None:
        return RuleText(f"{rule.__name__}, whose source can't be read", "", {}, cotangent, False)
    tree, source = definition
    body = returned(tree)
    documented = "" if isinstance(tree, ast.Lambda) else first_sentence(ast.get_docstring(tree))
    is_code = not documented and body is not None
    expression = documented or (ast.unparse(body) if body is not None else rule.__name__)
    return RuleText(expression, source, dict(helpers(tree, rule)), cotangent, is_code)


Definition = ast.Lambda | ast.FunctionDef


@functools.lru_cache(maxsize=32)
def definitions(source: str) -> list[Definition]:
    """Return the functions that a source text defines."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, Definition)]


def find_definition(code: CodeType) -> tuple[Definition, str] | None:
    """Return the piece of source that ``code`` was compiled from; several lambdas may stand on one line."""
    source = "".join(linecache.getlines(code.co_filename))
    # Where the instructions of the body stand; the first ones of a function have no place of their own.
    places = {(line, column) for line, _, column, _ in code.co_positions() if line and column is not None}
    best: Definition | None = None
    for node in definitions(source):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first != code.co_firstlineno or [a.arg for a in arguments(node)] != list(parameters(code)):
            continue
        body = node.body if isinstance(node, ast.Lambda) else node
        start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
        if isinstance(node, ast.FunctionDef) or any(start <= place < end for place in places):
            best = node
    if best is None:
        return None
    return best, textwrap.dedent(ast.get_source_segment(source, best, padded=True) or "")


def arguments(node: Definition) -> list[ast.arg]:
    """Return the arguments of a function definition in the order of ``co_varnames``."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def parameters(code: CodeType) -> tuple[str, ...]:
    """Return the names of a function's arguments, but for ``*args`` and ``**kwargs``."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def returned(tree: Definition) -> ast.expr | None:
    """Return the expression that a function returns, if that is all it does."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    last = tree.body[-1]
    return last.value if len(tree.body) == 1 and isinstance(last, ast.Return) else None


def helpers(tree: ast.AST, rule: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield the functions of this package that a rule calls, each with the first sentence of its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = rule.__globals__.get(node.func.id)
            document = first_sentence(getattr(function, "__doc__", None))
            if document and getattr(function, "__module__", "").startswith("minigrad"):
                yield node.func.id, document


def first_sentence(document: str | None) -> str:
    """Return a docstring's first sentence, on one line."""
    paragraph = inspect.cleandoc(document or "").partition("\n\n")[0].replace("\n", " ")
    sentence, end, _ = paragraph.partition(".  ")
    return sentence + "." if end else paragraph


def with_numbers(rule: RuleText, numbers: Mapping[str, str]) -> str | None:
    """Return the expression with numbers in place of names; None if a name that it uses has none.

    >>> from minigrad.op import registry
    >>> with_numbers(rule_text(registry["tanh"], "x"), {"g": "2", "out": "-0.5"})
    '2 * (1 - -0.5 * -0.5)'
    """
    if not rule.is_code:
        return None
    tree = ast.parse(rule.expression, mode="eval")
    called = {
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    modules = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in modules and node.id not in called:
            if node.id not in numbers:
                return None
            node.id = numbers[node.id]
    return ast.unparse(tree)
