"""What a distribution says of itself, and that it says it in one place."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import minigrad as mg
import transformer
from transformer.__main__ import main

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place(capsys):
    """pyproject.toml reads it from minigrad; the other package, the command and the changelog agree."""
    assert "version" not in PYPROJECT["project"]
    source = ROOT / PYPROJECT["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{mg.__version__}"' in source.read_text(encoding="utf-8")
    assert transformer.__version__ == mg.__version__
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"transformer {mg.__version__}\n")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\] - (unreleased|\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    assert versions[0][0] == mg.__version__


def test_the_oldest_python_is_named_alike_everywhere():
    """requires-python, the classifiers and what ruff and mypy are told agree, and this Python is among them."""
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    named = [
        classifier.removeprefix("Programming Language :: Python :: ")
        for classifier in PYPROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    ]
    assert named[0] == oldest == PYPROJECT["tool"]["mypy"]["python_version"]
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert sys.version_info >= tuple(map(int, oldest.split(".")))


def test_both_packages_are_typed():
    for package in mg, transformer:
        assert (Path(package.__file__).parent / "py.typed").is_file()


def test_the_program_for_type_checkers_runs():
    """What mypy and pyright are shown is a program that works."""
    runpy.run_path(str(ROOT / "tests" / "typing_check" / "user_program.py"), run_name="__main__")


def test_type_checkers_infer_what_the_program_says(tmp_path):
    """mypy --strict accepts it; .ci/run asks pyright too, of the installed wheel."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install minigrad[dev]")
    program = ROOT / "tests" / "typing_check" / "user_program.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
