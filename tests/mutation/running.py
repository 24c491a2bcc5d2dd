"""Running the tests against mutants, each in a process of its own."""

import argparse
import ast
import cProfile
import functools
import gc
import os
import signal
import sys
import tempfile
import time
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .harmless import EQUIVALENT
from .mutants import Entry, Mutant, helpers_of, key_of, mutants_of
from .report import judged, killers, stale
from .targets import ALONG, ENGINE, PROGRAMS, RULES, TESTS_OF_THE_ENGINE


@dataclass
class Runner:
    """A pytest plugin that takes the place of the test loop."""

    options: argparse.Namespace
    root: Path  # of the copy
    mutants: list[Mutant] = field(default_factory=list)
    executed: dict[Any, list[int]] = field(default_factory=dict)  # key of a function → items that execute it
    seconds: list[float] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # entries of the tables that don't fit the code any more
    killers: dict[Entry, str] = field(default_factory=dict)  # by an earlier run

    def pytest_configure(self, config: Any) -> None:
        """Choose what Hypothesis does, before the tests are imported: a failure is enough, nothing is shrunk."""
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutation",
            derandomize=True,
            deadline=None,
            max_examples=20,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = session.items
        self.living = self.find_living()
        self.collect_mutants()
        if self.options.judged:
            print(judged(self.mutants))
            return True
        if self.options.list:
            for m in self.mutants:
                print(f"{m.file}:{m.line} {m.function}: {m.change}")
            print(len(self.mutants), "mutants")
            return True
        self.trace()
        self.run_all()
        return True

    def find_living(self) -> dict[Any, list[types.FunctionType]]:
        """Return the functions of the copied package, by the key of their code."""
        found: dict[Any, list[types.FunctionType]] = {}
        root = str(self.root / "minigrad")
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType) and thing.__code__.co_filename.startswith(root):
                found.setdefault(key_of(thing.__code__), []).append(thing)
        return found

    def collect_mutants(self) -> None:
        files = sorted({str(p.relative_to(self.root)) for glob in RULES for p in self.root.glob(glob)})
        files += [file for file in (*ENGINE, *ALONG) if file not in files]
        sources = {file: (self.root / file).read_text(encoding="utf-8") for file in files}
        helpers = helpers_of({file: ast.parse(source) for file, source in sources.items()})
        files = [file for file in files if any(part in file for part in (self.options.only or "").split(","))]
        for file in files:
            self.mutants += mutants_of(self.root, file, sources[file], helpers, self.living)
        self.stale = stale(sources, files, self.mutants)
        self.mutants = self.mutants[:: self.options.every][: self.options.limit]
        if self.options.doubt:
            self.mutants = [m for m in self.mutants if m.entry in EQUIVALENT]
        if self.options.again is not None:
            self.killers = killers(self.options.again.read_text(encoding="utf-8"))

    def trace(self) -> None:
        """Run all tests once, unchanged: which executes which function, and how long it takes."""
        from tqdm import tqdm

        keys = {id(f.__code__): key for key, functions in self.living.items() for f in functions}
        wanted = {m.key for m in self.mutants}
        keys = {i: key for i, key in keys.items() if key in wanted}
        broken = []
        for number, item in enumerate(tqdm(self.items, desc="tests, unchanged", mininterval=1)):
            if "test_programs" in item.nodeid:  # long ones, which execute nearly everything: for the engine only
                self.seconds.append(3.0)
                if any(oracle in item.nodeid for oracle in PROGRAMS):
                    for key in {m.key for m in self.mutants if m.file in ENGINE}:
                        self.executed.setdefault(key, []).append(number)
                continue
            forget()
            profile = cProfile.Profile(builtins=False)
            start = time.perf_counter()
            profile.enable()
            passed = self.run(item)
            profile.disable()
            self.seconds.append(time.perf_counter() - start)
            if not passed:
                broken.append(item.nodeid)
                continue
            for key in {keys[id(entry.code)] for entry in profile.getstats() if id(entry.code) in keys}:
                self.executed.setdefault(key, []).append(number)
        broken += self.control()
        if broken:
            print("these tests fail without any change and are left out:", *broken, sep="\n    ")

    def control(self) -> list[str]:
        """Run in a child, with nothing changed, every test that is to judge mutants: none may fail there."""
        wanted = sorted({number for numbers in self.executed.values() for number in numbers})
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                for number in wanted:
                    os.write(write, f"{number} {self.run(self.items[number]):d}\n".encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            passed = {int(number) for number, good in (line.split() for line in lines) if good == "1"}
        os.wait()
        for key, numbers in self.executed.items():
            self.executed[key] = [number for number in numbers if number in passed]
        return [self.items[number].nodeid for number in wanted if number not in passed]

    def run(self, item: Any) -> bool:
        """Run one test, with warnings as errors, and return whether it passed (or was skipped).

        Without pytest's report of a failure: writing that takes longer than the test.
        """
        if not item._request:
            item._initrequest()
        state = item.session._setupstate
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    state.setup(item)
                    item.runtest()
                finally:
                    state.teardown_exact(None)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return type(error).__name__ == "Skipped"
        finally:
            item._request = False
            item.funcargs = None
        return True

    def child(self, mutant: Mutant, report: int) -> None:
        """In a forked process: change the function, and run the tests that execute it until one fails.

        What it begins and how it ends goes to the file ``report``: a pipe would be full after some hundred tests.
        """
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        for function in self.living[mutant.key]:
            function.__code__ = mutant.code.replace(  # type: ignore[union-attr]
                co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname
            )
        forget()
        items = self.executed.get(mutant.key, [])
        if mutant.file in ENGINE:  # executed by nearly every test: these are the ones about it
            items = [i for i in items if not self.beside(self.items[i].nodeid)]
        before = self.killers.get(mutant.entry, "").partition("::")[2]  # by its name: it may have moved

        def order(i: int) -> tuple[Any, ...]:
            first = self.items[i].nodeid.partition("::")[2] != before
            return first, self.seconds[i] > 1, self.rank(i, mutant), self.seconds[i]

        for number in sorted(items, key=order):
            os.write(report, f"? {self.items[number].nodeid}\n".encode())
            limit = 20 + 10 * self.seconds[number]  # of processor time, for others may be busy
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, 20 * limit)  # where it only waits
            if not self.run(self.items[number]):
                os.write(report, f"! {self.items[number].nodeid}\n".encode())
                return
        os.write(report, b"survived\n")

    def beside(self, nodeid: str) -> bool:
        """Whether a test is one of the hundreds that hold one operation each to differences at first order."""
        return any(name in nodeid for name in ("test_every_", "test_first_order", "test_kernel_equals"))

    def rank(self, number: int, mutant: Mutant) -> int:
        """Return 0 for tests that are about the function by their name or file, and higher for others."""
        nodeid = self.items[number].nodeid
        if mutant.file in ENGINE:
            return int(not any(f"test_{name}.py" in nodeid for name in TESTS_OF_THE_ENGINE))
        name = mutant.function.split(",")[0].strip("_").removesuffix("_backward").split("_gradient")[0]
        return 0 if f"[{name}" in nodeid or f"-{name}" in nodeid else 1 if "test_gradients" in nodeid else 2

    def run_all(self) -> None:
        from tqdm import tqdm

        gc.collect()
        gc.freeze()  # what a child never touches is never copied
        bar = tqdm(total=len(self.mutants), desc="mutants", mininterval=1)
        pending = list(self.mutants[::-1])
        running: dict[int, tuple[Mutant, IO[bytes], float]] = {}
        while pending or running:
            while pending and len(running) < self.options.jobs:
                mutant = pending.pop()
                if mutant.reason is not None and not self.options.doubt:
                    bar.update()
                    continue
                report = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the child has ended)
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        self.child(mutant, report.fileno())
                        status = 0
                    finally:
                        os._exit(status)
                running[child] = mutant, report, time.perf_counter()
            if not running:
                continue
            child, status = os.wait()
            mutant, report, start = running.pop(child)
            with report:
                report.seek(0)
                said = report.read().decode("utf-8", errors="replace").strip().split("\n")
            mutant.seconds = time.perf_counter() - start
            last = said[-1]
            if last.startswith("!"):
                mutant.result = last[2:]
            elif last.startswith("?"):
                how = "never ended" if os.WIFSIGNALED(status) else "ended the process"
                mutant.result = f"{last[2:]} ({how})"
            else:  # every test passed, or none began
                bar.write(f"survived: {mutant.file}:{mutant.line} {mutant.function}: {mutant.change}")
            bar.update()
        bar.close()


def forget() -> None:
    """Have what is worked out once and kept be worked out anew: it was by the code before a change."""
    for name, module in sys.modules.items():
        if name.startswith("minigrad"):
            for thing in vars(module).values():
                if isinstance(thing, functools._lru_cache_wrapper):
                    thing.cache_clear()
    for operation in sys.modules["minigrad.op"].registry.values():
        operation.plans.clear()
        operation.pair_plans[:] = [None] * len(operation.pair_plans)
