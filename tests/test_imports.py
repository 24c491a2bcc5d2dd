"""Who may import whom, and how files are opened: read off the source, so that no code path escapes.

    examples → transformer → minigrad → numpy

``minigrad`` stands on NumPy and the standard library alone; ``transformer`` is written on ``minigrad`` and never
touches NumPy, which shows that the engine is enough.  What loads slowly, or is seldom wanted, is imported in the
function that uses it.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import minigrad
import transformer

ALLOWED = {"minigrad": {"numpy", "minigrad"}, "transformer": {"minigrad", "transformer", "tqdm"}}
ALLOWED_IN_FUNCTIONS = {"minigrad": {"safetensors"}, "transformer": {"matplotlib"}}
PACKAGES = {"minigrad": minigrad, "transformer": transformer}

SOURCES = [
    (name, path)
    for name, package in PACKAGES.items()
    for path in sorted(Path(package.__file__).parent.rglob("*.py"))
]


def imports(tree):
    """Yield (line, module, whether inside a function) for each import of a syntax tree."""

    def visit(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((child.lineno, alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"line {child.lineno}: a relative import"
                yield child.lineno, child.module, inside
            else:
                deeper = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(child, deeper)

    return visit(tree, False)


def text_files_without_encoding(tree):
    """Yield the line of each call that opens a text file in whatever encoding the machine happens to have."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = getattr(getattr(function, "value", None), "id", "")
        if name not in ("open", "fdopen", "read_text", "write_text", "NamedTemporaryFile", "TextIOWrapper"):
            continue
        if (owner, name) == ("os", "open"):
            continue  # a descriptor: bytes
        if name in ("read_text", "write_text") and not isinstance(function, ast.Attribute):
            continue  # a function of that name, not the method of Path
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        modes = [keywords["mode"]] if "mode" in keywords else node.args
        if name in ("read_text", "write_text", "TextIOWrapper"):
            modes = []
        binary = any(
            isinstance(mode, ast.Constant)
            and isinstance(mode.value, str)
            and set(mode.value) <= set("rwaxb+")
            and "b" in mode.value
            for mode in modes
        )
        if name == "NamedTemporaryFile" and not modes:
            binary = True  # its default
        if not binary and "encoding" not in keywords:
            yield node.lineno


@pytest.mark.parametrize(("package", "path"), SOURCES, ids=[f"{p}/{path.name}" for p, path in SOURCES])
def test_imports_and_files(package, path):
    """Each module imports only what its package may, never pickle, and opens text files as a named encoding."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, module, inside in imports(tree):
        top = module.partition(".")[0]
        where = f"{path}:{line} imports {module}"
        assert top not in ("pickle", "cPickle", "dill", "marshal", "shelve"), where
        allowed = ALLOWED[package] | (ALLOWED_IN_FUNCTIONS[package] if inside else set())
        assert top in allowed or top in sys.stdlib_module_names, where
    lines = list(text_files_without_encoding(tree))
    assert not lines, f"{path}: text files opened without encoding= in lines {lines}"


def test_the_checks_see_what_they_look_for():
    """The two readers of source above find what they should in a module that breaks every rule."""
    tree = ast.parse(
        "import torch, os.path\n"
        "def f(p):\n"
        "    from pickle import load\n"
        "    open(p); open(p, 'rb'); open(p, 'w', encoding='utf-8'); p.open(mode='ab'); p.open('r')\n"
        "    p.read_text(); p.write_text('b')\n"
    )
    assert list(imports(tree)) == [(1, "torch", False), (1, "os.path", False), (3, "pickle", True)]
    assert list(text_files_without_encoding(tree)) == [4, 4, 5, 5]


def test_import_minigrad_loads_numpy_only():
    """``import minigrad`` pulls in NumPy and none of the others, even where they are installed."""
    others = "tqdm", "safetensors", "torch", "transformer", "pytest", "hypothesis"
    code = f"import minigrad, sys; print(*[m for m in {others} if m in sys.modules])"
    root = Path(minigrad.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", cwd=root)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
