"""What a run has found, as a table in Markdown; and what of the tables here no longer fits the code."""

import ast
from collections import Counter

from .harmless import EQUIVALENT, JUDGED
from .mutants import Entry, Mutant
from .targets import ALONG, ENGINE, EXTRA


def stale(sources: dict[str, str], files: list[str], mutants: list[Mutant]) -> list[str]:
    """Return what the tables of this module say of ``files`` that is not so, or not known to be so, any more."""
    found = []
    made = {m.entry: m for m in mutants}
    short = {file.removeprefix("minigrad/") for file in files}
    for file, names in (*ENGINE.items(), *ALONG.items()):
        if file in files:
            defined = {n.name for n in ast.walk(ast.parse(sources[file])) if isinstance(n, ast.FunctionDef)}
            found += [f"ENGINE or ALONG: {file} has no function {name}" for name in names if name not in defined]
    for file, name, before, _ in EXTRA:
        if file in files and before not in sources[file]:
            found.append(f"EXTRA: {file} has no {before!r}, in {name}")
    changed: dict[tuple[str, str], list[str]] = {}
    for entry in EQUIVALENT:
        if entry[0] not in short:
            continue
        if entry not in made:
            found.append(f"HARMLESS: there is no such change: {entry[0]} {entry[1]}: {entry[2]}")
        elif JUDGED.get(entry[:2]) != made[entry].digest:
            changed.setdefault(entry[:2], []).append(entry[2])
    for (file, name), changes in changed.items():
        found.append(
            f"JUDGED: {name} in {file} is not what it was when {len(changes)} changes were found harmless: "
            "read them again, then see --judged"
        )
    return found


def judged(mutants: list[Mutant]) -> str:
    """Return the table JUDGED for the code as it is."""
    rows = sorted({(m.entry[0], m.entry[1], m.digest) for m in mutants if m.entry in EQUIVALENT})
    lines = [f'    ("{file}", "{function}"): "{code}",' for file, function, code in rows]
    return "\n".join(["JUDGED = {", *lines, "}"])


def survivors(mutants: list[Mutant]) -> list[Mutant]:
    return [m for m in mutants if m.reason is None and not m.result]


def table(mutants: list[Mutant]) -> str:
    """Return the report in Markdown: a summary, what survived, what is equivalent and why, and every mutant."""
    equivalent = [m for m in mutants if m.reason is not None]
    alive = survivors(mutants)
    killed = [m for m in mutants if m.reason is None and m.result]
    rate = 100 * len(killed) / max(1, len(killed) + len(alive))

    def row(m: Mutant, last: str) -> str:
        cells = [f"{m.file}:{m.line}", m.function, f"`{m.change}`", last]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    header = ["| where | function | change | {} |", "| --- | --- | --- | --- |"]
    summary = (
        f"{len(mutants)} mutants: {len(killed)} killed, {len(alive)} survived, {len(equivalent)} equivalent.  "
    )
    lines = ["# Mutants", "", f"{summary}Kill rate {rate:.1f} % of those that are not equivalent.", ""]
    counts: dict[str, Counter[str]] = {}
    for m in mutants:
        state = "equivalent" if m.reason is not None else "killed" if m.result else "survived"
        counts.setdefault(m.file, Counter())[state] += 1
    lines += ["| file | killed | survived | equivalent |", "| --- | --- | --- | --- |"]
    lines += [f"| {f} | {c['killed']} | {c['survived']} | {c['equivalent']} |" for f, c in counts.items()]
    if alive:
        lines += ["", "## Survived", "", header[0].format(""), header[1], *(row(m, "") for m in alive)]
    if equivalent:
        lines += ["", "## Equivalent", "", header[0].format("why it is no mistake"), header[1]]
        lines += [row(m, m.reason or "") for m in equivalent]
    lines += ["", "## Killed", "", header[0].format("by"), header[1], *(row(m, m.result) for m in killed)]
    return "\n".join(lines) + "\n"


def killers(report: str) -> dict[Entry, str]:
    """Return which test killed which mutant, from the last part of a report that table() made."""
    found = {}
    for line in report.partition("## Killed")[2].splitlines():
        cells = [cell.replace("\\|", "|") for cell in line.removeprefix("| ").removesuffix(" |").split(" | ")]
        if len(cells) == 4 and cells[2].startswith("`"):
            file = cells[0].partition(":")[0].removeprefix("minigrad/")
            found[file, cells[1], cells[2][1:-1]] = (
                cells[3].removesuffix(" (never ended)").removesuffix(" (ended the process)")
            )
    return found
