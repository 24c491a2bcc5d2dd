"""What the documentation says is so: its examples run, its quotations stand in the source, its names exist."""

import ast
import doctest
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import minigrad as mg
from minigrad import op as op_module

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.glob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))]
)
BACKWARD = DOCS / "how-backward-works.md"


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")], ids=str)
def test_examples_print_what_they_say(page):
    options = doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=options, encoding="utf-8")
    assert tried
    assert not failed


def quotations(page):
    """Yield (file, lines) for each block of Python that begins with the name of a file of the project."""
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        first, *lines = block.splitlines()
        if match := re.fullmatch(r"# (\S+\.py)", first):
            yield match[1], lines


def stands_in(lines, source):
    """Return whether ``lines`` stand in ``source`` one after the other; "..." stands for any left out."""
    pieces = "\n".join(line.strip() for line in lines)
    pattern = r"\n(?:.*\n)*?".join(
        r"\n".join(re.escape(line) + r"(?:  #.*)?" for line in piece.strip().split("\n") if line)
        for piece in re.split(r"^\.\.\.$", pieces, flags=re.MULTILINE)
        if piece.strip()
    )
    stripped = "\n".join(line.strip() for line in source.splitlines())
    return re.search(rf"^{pattern}$", stripped, re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quotations_stand_in_the_source(page):
    """A comment at the end of a line may be left out, and where a line is ``...`` lines."""
    for file, lines in quotations(page):
        assert stands_in(lines, (ROOT / file).read_text(encoding="utf-8")), f"not in {file}:\n" + "\n".join(lines)


def test_the_page_on_backward_quotes():
    assert len(list(quotations(BACKWARD))) >= 8


def test_a_wrong_quotation_is_noticed():
    source = "def f(x):\n    # why\n    y = 2 * x  # twice\n    return y\n"
    assert stands_in(["y = 2 * x", "return y"], source)
    assert stands_in(["def f(x):", "    ...", "    return y"], source)
    assert not stands_in(["def f(x):", "    return y"], source)
    assert not stands_in(["return y", "...", "def f(x):"], source)
    assert not stands_in(["y = 2 * x + 1"], source)


def defined_names():
    """Return the functions and methods that the source defines: "f", "Class.method"."""
    names = set()
    for path in (ROOT / "minigrad").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def test_every_function_named_on_the_page_on_backward_exists():
    text = BACKWARD.read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w.]+)\(\)`", text))
    outside = {"loss.backward", "optimizer.zero_grad"}
    assert len(named - outside) > 12
    assert not named - outside - defined_names()


def test_the_functions_are_met_in_the_order_of_the_table():
    """The example, run under a profiler, calls them in that order for the first time."""
    rows = re.findall(r"^\| `(\S+\.py)` \| `([\w.]+)\(\)` \|", BACKWARD.read_text(encoding="utf-8"), re.MULTILINE)
    met = {}

    def note(frame, event, argument):
        if event == "call":
            code = frame.f_code
            met.setdefault((Path(code.co_filename).as_posix(), code.co_qualname), None)

    x, w = mg.tensor([[1.0, 2.0], [3.0, -1.0]]), mg.tensor([[0.5], [-0.3]], requires_grad=True)
    b = mg.tensor([0.2], requires_grad=True)
    op_module.registry["matmul"].pair_plans[:] = [None] * 4  # the first time
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        h = (x @ w + b).tanh()
        (h * h).sum().backward()
    finally:
        sys.setprofile(before)
    order = [
        next(k for k, (path, name) in enumerate(met) if path.endswith(file) and name == function)
        for file, function in rows
    ]
    assert len(order) > 12
    assert order == sorted(order)


def test_links_between_the_pages_lead_somewhere():
    """A link to a file of the project names one that exists (the pages made at build time aside)."""
    made = {"rules.md", "conventions.md", "operations.md"}
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("api/") and target not in made:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


# --- CONTRIBUTING.md: the map ---------------------------------------------------------------------


def imported(path):
    """Yield the modules of minigrad that a module imports as it loads: "graph", "rules"."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("minigrad."))


def test_modules_import_only_what_stands_above_them_on_the_map():
    """What a module imports as it loads; inside a function it may import what it needs as it runs."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("Inside `minigrad`")[2].partition("In `transformer`")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    row_of = {name: k for k, row in enumerate(rows) for name in row}
    package = ROOT / "minigrad"
    assert len(row_of) > 20
    for name, row in row_of.items():
        folder, file = package / name, package / f"{name}.py"
        assert folder.is_dir() or file.is_file(), name
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [file]:
            for other in set(imported(path)) & row_of.keys():
                if path.name == "decoder_step.py":
                    continue  # the exception that stands under the table
                assert row_of[other] <= row, f"{path} imports {other}, which stands below it on the map"


# --- tests/README.md: what is proved, and where ----------------------------------------------------


def test_every_file_of_tests_is_on_their_map_once():
    tests = ROOT / "tests"
    page = (tests / "README.md").read_text(encoding="utf-8")
    tables = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    folders = {file.parent for file in tests.glob("*/test_*.py")}
    files = [file.name for file in tests.glob("test_*.py")] + [f"{folder.name}/" for folder in folders]
    assert sorted(re.findall(r"`([a-z_0-9]+(?:\.py|/))`", tables)) == sorted(files)
    for name in re.findall(r"`([a-z_0-9]+(?:\.py|/))`", page):
        assert (tests / name).exists(), name


# --- the tables that are made when the site is built ----------------------------------------------


@pytest.fixture(scope="module")
def tables():
    """Return the module that makes the tables."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "_site" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(page):
    """Return the rows of all tables of a page, each as its cells."""
    lines = [line for line in page.splitlines() if line.startswith("|") and not line.startswith("| --- ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_operation_has_a_row_of_rules(tables):
    """Each operation of the engine is there once, with what it computes and a rule for each argument with one."""
    rows = {cells[0].strip("`"): cells for cells in rows_of(tables.rules_page()) if cells[0] != "operation"}
    ours = {name: o for name, o in op_module.registry.items() if o.forward.__module__.startswith("minigrad.")}
    assert rows.keys() == ours.keys()
    assert len(rows) > 100
    for name, operation in ours.items():
        _, computes, gradient, keeps = rows[name]
        assert len(computes) > 1, f"{name} says nothing of what it computes: its forward function has no docstring"
        assert keeps
        if operation.differentiable:
            for argument in operation.differentiable:
                assert re.search(rf"`{argument}`[^:]*: \S", gradient), f"{name} has no text for {argument}"
        else:
            assert gradient == "none"


def test_rules_are_shown_as_they_stand_in_the_source(tables):
    page = tables.rules_page()
    assert "| `tanh` | Hyperbolic tangent, elementwise. | `x`: <code>g * (1 - out * out)</code> | `out` |" in page
    assert "| `add` | x + y, elementwise with broadcasting. | `x`, `y`: <code>g</code> | nothing |" in page


def test_every_convention_has_a_row(tables):
    cases = [cells[0] for cells in rows_of(tables.conventions_page()) if cells[0] != "case"]
    assert cases == [tables.cell(row.case) for rows in tables.CONVENTIONS.values() for row in rows]


def test_the_readmes_programs_run(capsys):
    """What a reader copies from the README first is a program that works, and prints what its comments say."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(import .*?)^```", text, re.MULTILINE | re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program, "README.md", "exec"), {})
        printed = capsys.readouterr().out.splitlines()
        assert printed
        assert [line for line in printed if line not in program] == []


def test_one_line_trains_and_one_line_tests():
    """On a machine that has only Python, the README's two lines to copy make their environment themselves."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("python3 -m venv .venv && ")]
    assert [line.split(" && ")[-1] for line in lines] == [
        ".venv/bin/transformer train",
        ".venv/bin/python -m pytest",
    ]
    assert all(".venv/bin/pip install --quiet -e " in line for line in lines)


def test_the_readme_is_a_front_door():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    for page in sorted(DOCS.glob("*.md")):
        assert f"docs/{page.name}" in text, f"the README doesn't lead to {page.name}"
