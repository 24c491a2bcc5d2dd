"""Turn the lessons into notebooks: `python -m examples.notebooks [DIRECTORY]`, in the directory above `examples`.

A lesson is a Python file in which `# %%` begins a cell of code and `# %% [markdown]` one of prose, whose lines are
comments.  Editors know this "percent" format and run such a file cell by cell; here the cells become `.ipynb`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

LESSONS = sorted(Path(__file__).parent.glob("[0-9][0-9]_*.py"))


def cells(source: str) -> list[tuple[str, str]]:
    """Return the cells of a lesson, each as its kind, "markdown" or "code", and its text.

    >>> cells("# %% [markdown]\\n# # Title\\n#\\n# Prose.\\n\\n# %%\\nx = 1\\n")
    [('markdown', '# Title\\n\\nProse.'), ('code', 'x = 1')]
    """
    found: list[tuple[str, list[str]]] = []
    for line in source.splitlines():
        if line.startswith("# %%"):
            found.append(("markdown" if line.endswith("[markdown]") else "code", []))
        elif found[-1][0] == "markdown":
            found[-1][1].append(line.removeprefix("#").removeprefix(" "))
        else:
            found[-1][1].append(line)
    return [(kind, "\n".join(lines).strip("\n")) for kind, lines in found]


def notebook(source: str) -> dict[str, Any]:
    """Return a lesson as a notebook, in version 4.5 of their format: https://nbformat.readthedocs.io"""
    made = []
    for i, (kind, text) in enumerate(cells(source)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write(directory: Path, overwrite: bool = False) -> list[Path]:
    """Write every lesson as a notebook and return those that were left alone, as they are there and differ."""
    directory.mkdir(parents=True, exist_ok=True)
    left = []
    for lesson in LESSONS:
        path = directory / f"{lesson.stem}.ipynb"
        content = json.dumps(notebook(lesson.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"
        if path.exists() and not overwrite and path.read_text(encoding="utf-8") != content:
            left.append(path)
        else:
            path.write_text(content, encoding="utf-8", newline="\n")
    return left


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code: 2 if not every notebook could be written."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.notebooks", description="Make notebooks of the lessons."
    )
    parser.add_argument(
        "directory", nargs="?", default="notebooks", type=Path, help="where to (default: notebooks)"
    )
    parser.add_argument("--overwrite", action="store_true", help="also replace notebooks that you have changed")
    options = parser.parse_args(argv)
    try:
        left = write(options.directory, options.overwrite)
    except (OSError, UnicodeDecodeError) as error:
        print(f"can't write notebooks to {str(options.directory)!r}: {error}", file=sys.stderr)
        return 2
    print(f"{len(LESSONS) - len(left)} of {len(LESSONS)} lessons written to {options.directory}")
    if left:
        names = ", ".join(path.name for path in left)
        print(f"not replaced, as there are changes in them: {names}; --overwrite replaces them", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
