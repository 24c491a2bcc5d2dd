"""The command: see the package."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from .report import survivors, table
from .running import Runner
from .targets import TESTS

ROOT = Path(__file__).resolve().parents[2]


os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads don't survive a fork


def main() -> int:
    """Run the command; return 0 if no mutant survived."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description="Break every rule in every small way, and see the tests notice.",
    )
    parser.add_argument("--limit", type=int, help="so many mutants at most")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th mutant")
    parser.add_argument("--only", metavar="FILE,…", help="only files whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--out", type=Path, default=Path("mutants.md"), help="where the table is written")
    parser.add_argument(
        "--again", metavar="TABLE", type=Path, help="begin with the test that killed it in an earlier table"
    )
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--doubt", action="store_true", help="run the mutants called harmless, and no others")
    parser.add_argument("--judged", action="store_true", help="print the table JUDGED and run nothing")
    options = parser.parse_args()
    if not hasattr(os, "fork"):
        parser.error("this command forks, which this operating system does not")
    out = options.out.resolve()
    options.again = options.again and options.again.resolve()

    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        root = Path(scratch).resolve()
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("minigrad", "tests"):
            shutil.copytree(ROOT / name, root / name, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", root)
        os.chdir(root)
        sys.path[:] = [str(root), *(p for p in sys.path if Path(p).resolve() not in (ROOT, ROOT / "tests"))]
        sys.dont_write_bytecode = True

        import pytest

        runner = Runner(options, root)
        tests = [f"tests/test_{name}.py" for name in TESTS]
        status = pytest.main(
            ["-s", "-o", "addopts=", "-p", "no:terminal", "-p", "no:cacheprovider", *tests], plugins=[runner]
        )
    if options.judged:
        return int(status)
    if runner.stale:
        print("stale:", *runner.stale, sep="\n    ")
    if options.list or not runner.mutants:
        return int(status) or int(bool(runner.stale))
    if options.doubt:
        refuted = [m for m in runner.mutants if m.result]
        print(f"{len(runner.mutants)} changes called harmless, {len(refuted)} of them refuted:")
        print(*(f"    {m.file} {m.function}: {m.change}\n        by {m.result}" for m in refuted), sep="\n")
        return 1 if refuted else 0
    out.write_text(table(runner.mutants), encoding="utf-8")
    alive = survivors(runner.mutants)
    print(f"{len(runner.mutants)} mutants, {len(alive)} survived: {out}")
    return 1 if alive or runner.stale else 0


if __name__ == "__main__":
    sys.exit(main())
