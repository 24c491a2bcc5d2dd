"""Making mutants: the source of a rule or of a function of the engine, changed in every small way."""

import ast
import hashlib
import itertools
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .harmless import EQUIVALENT, JUDGED
from .targets import ALONG, COMPARISONS, DECLARERS, DROPS, ENGINE, EXTRA, SWAPS

Entry = tuple[str, str, str]  # (file, function, change), as in HARMLESS


@dataclass
class Mutant:
    """One change: where, what, and the code to put in the place of the living function's."""

    file: str
    line: int
    function: str
    change: str
    key: Any = None  # of the living function
    code: types.CodeType | None = None
    result: str = ""  # which test killed it; "" while unknown or if it survived
    seconds: float = 0.0
    digest: str = ""  # of the function's source

    @property
    def entry(self) -> Entry:
        """How the tables of this package name it."""
        return self.file.removeprefix("minigrad/"), self.function, self.change

    @property
    def reason(self) -> str | None:
        """Why it is no mistake at all, if it is none, and was found so in the function as it is now."""
        return EQUIVALENT.get(self.entry) if JUDGED.get(self.entry[:2]) == self.digest else None


def key_of(code: types.CodeType) -> Any:
    """Return what tells the code objects of one file apart: the places in the source that it was made from."""
    return tuple(code.co_positions())


def constant_codes(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def function_nodes(tree: ast.Module, file: str, helpers: dict[str, ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, node) of every function of a file that is to be mutated."""
    if file in ENGINE:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in ENGINE[file]:
                yield node.name, node
        return
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in declarations(tree):
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DECLARERS:
                owner = getattr(node, "name", None) or ast.unparse(getattr(node, "targets", [node])[0])
                for keyword in call.keywords:
                    if isinstance(keyword.value, ast.Lambda):
                        yield f"{owner.strip('_')}, rule of {keyword.arg}", keyword.value
    for name in defined:
        if name in ALONG.get(file, ()) or name in helpers:
            yield name, defined[name]


def declarations(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a file, and those of its classes, in which operations are declared as methods."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.ClassDef) else [node]


def is_operation(function: ast.FunctionDef) -> bool:
    """Whether a function is the forward pass of an operation, other than one that serves rules only."""
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call) and isinstance(d.func, ast.Name)]
    declared = [d for d in calls if d.func.id in DECLARERS]  # type: ignore[attr-defined]
    return bool(declared) and not any(k.arg == "internal" for d in declared for k in d.keywords)


def helpers_of(trees: dict[str, ast.Module]) -> dict[str, ast.AST]:
    """Return the named functions that rules consist of: named rules, and what they and the lambdas call."""
    defined: dict[str, ast.FunctionDef] = {}
    for file, tree in trees.items():
        if file not in ENGINE:
            functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
            defined.update({n.name: n for n in functions if not is_operation(n)})
    pending: list[ast.AST] = []
    found: dict[str, ast.AST] = {}
    for file, tree in trees.items():
        if file in ENGINE:
            continue
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DECLARERS:
                pending += [k.value for k in call.keywords if k.arg not in ("composed", "numpy")]
                pending += call.args[:1]
    while pending:
        start = pending.pop()
        calls = [node.func for node in ast.walk(start) if isinstance(node, ast.Call)]
        for node in [start, *calls]:
            name = node.id if isinstance(node, ast.Name) else None
            if name in defined and name not in found and not name.endswith("_composed"):
                found[name] = defined[name]
                pending += defined[name].body
    return found


def places(function: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield (parent, field, index, node) of everything in a function but annotations, messages and docstrings."""
    pending: list[ast.AST] = [function]
    while pending:
        parent = pending.pop()
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list", "type_params", "args") and not (
                isinstance(parent, ast.Call) and name == "args"
            ):
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
                    continue
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    continue
                yield parent, name, index, node
                pending.append(node)


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def variants(node: ast.AST, cotangent: str | None) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place."""
    match node:
        case ast.BinOp(left, operator, right):
            match operator:
                case ast.Add():
                    yield from (ast.BinOp(left, ast.Sub(), right), left, right)
                case ast.Sub():
                    yield from (ast.BinOp(left, ast.Add(), right), left, ast.UnaryOp(ast.USub(), right))
                case ast.Mult():
                    yield from (ast.BinOp(left, ast.Add(), right), left, right)
                case ast.Div():
                    yield from (ast.BinOp(left, ast.Mult(), right), left)
                case ast.MatMult():
                    yield ast.BinOp(right, ast.MatMult(), left)
                case ast.Pow() | ast.Mod() | ast.FloorDiv():
                    yield left
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Compare(left, [operator], [right]):
            for pair in COMPARISONS:
                for one, other in (pair, pair[::-1]):
                    if type(operator) is one:
                        yield ast.Compare(left, [other()], [right])
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for value in values:
                rest = [v for v in values if v is not value]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.Constant(value):
            if isinstance(value, bool):
                yield ast.Constant(not value)
            elif isinstance(value, int):
                yield ast.Constant(value + 1)
                yield ast.Constant(value - 1) if value else ast.UnaryOp(ast.USub(), ast.Constant(1))
            elif isinstance(value, float):
                yield ast.Constant(1.5 - value if value in (0.5, 1) else value + 1)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Attribute(value, "mT" | "T"):
            yield value
        case ast.Name(name) if name == cotangent and isinstance(node.ctx, ast.Load):
            yield parsed(f"np.ones_like({name})")
        case ast.Call(function, arguments, keywords):
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            on_module = not isinstance(function, ast.Attribute) or ast.unparse(function.value) == "np"
            if name in SWAPS and on_module:
                yield ast.Call(parsed(f"np.{SWAPS[name]}"), arguments, keywords)
            if name in DROPS:
                yield arguments[0] if on_module and arguments else getattr(function, "value", node)
            if name == "where" and len(arguments) == 3:
                yield ast.Call(function, [arguments[0], arguments[2], arguments[1]], keywords)
                yield from arguments[1:]
        case ast.AugAssign(target, operator, value):
            load = parsed(ast.unparse(target))
            yield ast.Assign([target], value)
            yield ast.Pass()
            other = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}.get(type(operator))
            if other is not None:
                yield ast.Assign([target], ast.BinOp(load, other(), value))
        case ast.Assign([ast.Subscript()]) | ast.Expr(ast.Call()) | ast.Continue():
            yield ast.Pass()
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(True), body, orelse)
            yield ast.If(ast.Constant(False), body, orelse)


def results(function: Any) -> Iterator[tuple[Any, str, int | None, ast.expr]]:
    """Yield (parent, field, index, node) of what a rule returns: for a tuple, each of its elements."""
    if isinstance(function, ast.Lambda):
        yield function, "body", None, function.body
    for statement in ast.walk(function):
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
            yield from ((statement.value, "elts", i, value) for i, value in enumerate(statement.value.elts))
        elif isinstance(statement, ast.Return) and statement.value is not None:
            yield statement, "value", None, statement.value


def swapped_arguments(function: Any) -> Iterator[tuple[str, str]]:
    """Yield pairs of a function's arguments, besides the cotangent, that it uses and that could be confused."""
    body = function.body if isinstance(function.body, list) else [function.body]
    used = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name)}
    names = [a.arg for a in function.args.args[1:] if a.arg in used]
    for one, other in itertools.combinations(names, 2):
        if ("shape" in one) == ("shape" in other) and not {one, other} & {"self", "wanted", "index"}:
            yield one, other


def mutants_of(
    root: Path, file: str, source: str, helpers: dict[str, ast.AST], living: dict[Any, Any]
) -> Iterator[Mutant]:
    """Yield every mutant of a file below ``root``."""
    tree = ast.parse(source)
    path = str(root / file)
    original = compile(tree, path, "exec", dont_inherit=True)
    seen: set[tuple[str, str]] = set()
    times: Counter[tuple[str, str]] = Counter()  # the same change at several places of a function is numbered

    def made(function: str, line_of_change: int, change: str, mutated: Any, span: Span) -> Mutant | None:
        """Compile a changed module and find the code of the living function that the change is in."""
        try:
            code = compile(mutated, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, TypeError):
            return None
        for old, new in pairs(original, code):
            if any(line and (line, column) in span for line, _, column, _ in old.co_positions()):
                return Mutant(file, line_of_change, function, change, key_of(old), new, digest=span.digest)
        return None

    def pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
        """Yield the living functions' code, before and after."""
        if key_of(old) in living:
            yield old, new
        else:
            for one, other in zip(constant_codes(old), constant_codes(new), strict=True):
                yield from pairs(one, other)

    for name, function in function_nodes(tree, file, helpers):
        span = Span(function)
        arguments = function.args.args  # type: ignore[attr-defined]
        cotangent = arguments[0].arg if arguments and arguments[0].arg == "g" else None
        spots = [(spot, list(variants(spot[-1], cotangent))) for spot in places(function)]
        if cotangent is not None:  # the whole result with another sign, and half of it
            for spot in results(function):
                negative, half = (
                    ast.UnaryOp(ast.USub(), spot[-1]),
                    ast.BinOp(ast.Constant(0.5), ast.Mult(), spot[-1]),
                )
                spots.append((spot, [negative, half]))
        for (parent, field_, index, node), news in spots:
            if isinstance(parent, ast.keyword) and parent.arg in ("strict", "optimize"):
                continue  # lengths are equal by construction, and the order of products is a matter of speed
            about = getattr(parent, "attr", None) or getattr(getattr(parent, "func", None), "attr", None)
            if about in ("shape", "dtype", "ndim", "result_type") and isinstance(node, ast.Name):
                continue  # an array of ones has the same
            if isinstance(parent, ast.UnaryOp) and isinstance(node, ast.Constant):
                continue  # −1 becomes 1: that is enough
            for new in news:
                ast.copy_location(new, node)
                change = shown(node, new)
                if isinstance(node, ast.Constant | ast.Name):
                    change = f"in {shown(parent)}: {change}"
                if index is None:
                    setattr(parent, field_, new)
                else:
                    getattr(parent, field_)[index] = new
                whole = (name, ast.unparse(function))
                if whole not in seen:
                    seen.add(whole)
                    ast.fix_missing_locations(tree)
                    mutant = made(name, node.lineno, change, tree, span)  # type: ignore[attr-defined]
                    if mutant is not None:
                        times[name, change] += 1
                        if times[name, change] > 1:
                            mutant.change += f"  ({times[name, change]})"
                        yield mutant
                if index is None:
                    setattr(parent, field_, node)
                else:
                    getattr(parent, field_)[index] = node
        for one, other in swapped_arguments(function):
            exchange = {one: other, other: one}
            body = function.body if isinstance(function.body, list) else [function.body]  # type: ignore[attr-defined]
            used = [n for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and n.id in exchange]
            for n in used:
                n.id = exchange[n.id]
            change, line = f"{one} ↔ {other}", function.lineno  # type: ignore[attr-defined]
            mutant = made(name, line, change, tree, span)
            for n in used:
                n.id = exchange[n.id]
            if mutant is not None:
                yield mutant
    for where, name, before, after in EXTRA:
        if where == file:
            found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
            if before not in source or not found:
                continue  # stale() says so
            line = source[: source.index(before)].count("\n") + 1
            change = f"{before.strip()} → {after.strip()}"
            mutant = made(name, line, change, source.replace(before, after, 1), Span(found[0]))
            if mutant is not None:
                yield mutant


def digest(function: ast.AST) -> str:
    """Return what tells whether a function has changed: not its comments, layout or docstring, all the rest."""
    copy = ast.parse(ast.unparse(function)).body[0]
    if isinstance(copy, ast.FunctionDef) and ast.get_docstring(copy) is not None:
        copy.body = copy.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(copy).encode()).hexdigest()[:8]


class Span:
    """From where to where in the source a function goes, and its digest."""

    def __init__(self, node: Any) -> None:
        self.start = node.lineno, node.col_offset
        self.end = node.end_lineno, node.end_col_offset
        self.digest = digest(node)

    def __contains__(self, place: tuple[int, int]) -> bool:
        return self.start <= place < self.end


def shown(*nodes: ast.AST) -> str:
    """Return "before → after", each by its first line."""
    return " → ".join(ast.unparse(ast.fix_missing_locations(node)).split("\n")[0] for node in nodes)
