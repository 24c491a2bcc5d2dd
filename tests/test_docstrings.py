"""Docstrings keep their form: everything public has one, and what it names exists."""

import builtins
import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import pytest

import minigrad
import transformer
from minigrad.op import Op

MODULES = [
    importlib.import_module(found.name)
    for package in (minigrad, transformer)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.name.endswith(".__main__")
]
MODULES += [minigrad, transformer]
EXCEPTIONS = {
    name
    for module in [builtins, *MODULES]
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def is_ours(value, module):
    return getattr(value, "__module__", None) == module.__name__ and (
        inspect.isfunction(value) or inspect.isclass(value) or isinstance(value, Op)
    )


def documented_in(module):
    """Yield (name, object, class or None) for what a module defines for others: functions, classes and methods."""
    for name, value in vars(module).items():
        if name.startswith("_") or not is_ours(value, module):
            continue
        yield name, value, None
        if inspect.isclass(value):
            for member, defined in vars(value).items():
                if not member.startswith("_") and isinstance(
                    defined, property | classmethod | staticmethod | type(documented_in)
                ):
                    yield f"{name}.{member}", inspect.getattr_static(value, member), value


def docstring_of(value, owner, name):
    """Return a docstring, or the one inherited from the method that it overrides."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    own = inspect.getdoc(value)
    if own or owner is None:
        return own
    bases = (vars(base).get(name) for base in owner.__mro__[1:])
    return next((inspect.getdoc(base) for base in bases if base is not None and inspect.getdoc(base)), None)


CASES = {
    f"{module.__name__}.{name}": (module, value, owner, docstring_of(value, owner, name.rpartition(".")[2]))
    for module in MODULES
    for name, value, owner in documented_in(module)
}


def parameters_of(value):
    if isinstance(value, property):
        return []
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    names = list(inspect.signature(value.forward if isinstance(value, Op) else value).parameters)
    return [name for name in names if name not in ("self", "cls")]


def section(text, title):
    """Return the names that the entries of a section begin with: ``name: what it is``, several by commas."""
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n?|\n(?=[ ]))+)", text, re.MULTILINE)
    entries = re.findall(r"^ {4}(\S[^:\n]*):", found[1], re.MULTILINE) if found else []
    return [name.strip(" *") for entry in entries for name in entry.split(",")]


def test_everything_public_is_documented():
    assert [module.__name__ for module in MODULES if not module.__doc__] == []
    assert [name for name, (_, _, _, text) in CASES.items() if not text] == []
    assert len(CASES) > 900


def test_arguments_are_those_of_the_signature():
    """An ``Args:`` section names each parameter, and nothing else."""
    wrong = {}
    for name, (_, value, _, text) in CASES.items():
        if listed := section(text or "", "Args"):
            given = parameters_of(value)
            if set(listed) != set(given):
                wrong[name] = sorted(set(listed) ^ set(given))
    assert wrong == {}


def test_what_is_raised_are_exceptions():
    names = {name: set(section(text or "", "Raises")) - EXCEPTIONS for name, (_, _, _, text) in CASES.items()}
    assert {name: unknown for name, unknown in names.items() if unknown} == {}


def resolves(reference, module, owner):
    """Return whether a dotted name means something: in the class, in the module, or from a package on."""
    first, *rest = reference.split(".")
    starts = [getattr(owner, first, None), getattr(module, first, None)]
    if first in ("minigrad", "transformer"):
        starts.append(importlib.import_module(first))
    for start in starts:
        for part in rest:
            if start is None:
                break
            inside = getattr(start, part, None)
            if inside is None and isinstance(start, ModuleType) and hasattr(start, "__path__"):
                try:
                    inside = importlib.import_module(f"{start.__name__}.{part}")
                except ImportError:
                    inside = None
            start = inside
        if start is not None:
            return True
    return False


def test_references_lead_somewhere():
    """What stands in :func:`…`, :class:`…` and their kin exists."""
    texts = [(module.__name__, module, None, module.__doc__ or "") for module in MODULES]
    texts += [
        (name, module, owner or (value if inspect.isclass(value) else None), text or "")
        for name, (module, value, owner, text) in CASES.items()
    ]
    dead = [
        (name, reference)
        for name, module, owner, text in texts
        for reference in re.findall(r":(?:func|class|meth|mod|data|attr):`~?([\w.]+)`", text)
        if not resolves(reference, module, owner)
    ]
    assert dead == []


@pytest.mark.parametrize("text", ["A word in `marks` of its own.", "`x`"])
def test_the_search_for_single_marks_finds_them(text):
    assert single_marks(text)


def single_marks(text):
    """Return what stands between single backquotes: Markdown's and reStructuredText's meanings of them differ."""
    without = re.sub(r"``.*?``|:\w+:`[^`]*`", "", text, flags=re.DOTALL)
    return re.findall(r"`[^`\n]*`", without)


def test_code_stands_between_double_backquotes():
    texts = {module.__name__: module.__doc__ or "" for module in MODULES}
    texts |= {name: text or "" for name, (_, _, _, text) in CASES.items()}
    assert {name: single_marks(text) for name, text in texts.items() if single_marks(text)} == {}
