"""What MkDocs calls as it builds the site: pages that are made, and links that lead to the right place.

The pages in ``docs/`` are written for whoever reads them in the repository, too: they link to files of the
repository.  On the site, a file of the packages is a page with its source, a lesson a page with its cells.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for place in (ROOT, HERE):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

import api  # noqa: E402
import tables  # noqa: E402
from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402

import minigrad  # noqa: E402
from examples import notebooks  # noqa: E402

WHOLE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages as they stand."""

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme's plugin for offline use would fetch."""


def sources() -> list[Path]:
    """Return the files of the packages, relative to the repository."""
    found = [path for package in ("minigrad", "transformer") for path in (ROOT / package).rglob("*.py")]
    return sorted(path.relative_to(ROOT) for path in found)


def place_of(path: str) -> str | None:
    """Return the page of the site that a file of the repository is on, or None."""
    if path in WHOLE:
        return WHOLE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in ("examples", "examples/README.md"):
        return "lessons/index.md"
    if re.fullmatch(r"examples/\d\d_\w+\.py", path):
        return f"lessons/{Path(path).stem}.md"
    if (ROOT / path).is_dir() and path.split("/")[0] in ("minigrad", "transformer"):
        return "source/index.md"
    if path.endswith(".py") and path.split("/")[0] in ("minigrad", "transformer"):
        return f"source/{path}.md"
    return None


def home_of(page: str) -> str:
    """Return the file of the repository that a page was made from: what its links are relative to."""
    for path, place in WHOLE.items():
        if page == place:
            return path
    if page.startswith("lessons/"):
        return "examples/README.md"
    return f"docs/{page}"


def with_links(text: str, page: str) -> str:
    """Return the Markdown of a page with links to files of the repository as links to pages of the site."""
    folder = posixpath.dirname(home_of(page))

    def replaced(match: re.Match[str]) -> str:
        label, target, anchor = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        place = place_of(path)
        if place is None:
            return match[0] if not (ROOT / path).exists() else f"{label.removeprefix('!').strip('[]')} (`{path}`)"
        return f"{label}({posixpath.relpath(place, posixpath.dirname(page) or '.')}{anchor or ''})"

    return re.sub(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)", replaced, text)


def lesson(path: Path) -> str:
    """Return a lesson as a page."""
    parts = []
    for kind, text in notebooks.cells(path.read_text(encoding="utf-8")):
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
    parts.append(f"*This page is the file `examples/{path.name}`: run it with `python examples/{path.name}`.*")
    return "\n\n".join(parts)


def source(path: Path) -> str:
    """Return a source file as a page."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return (
        f"---\nhide: [navigation, toc]\n---\n\n# {path.as_posix()}\n\n" + f'```python linenums="1"\n{text}\n```\n'
    )


def source_index() -> str:
    """Return the list of all source files, each with the first line of its docstring."""
    lines = ["# The source", "Every file of the two packages, with the first line of what it says of itself."]
    folder = ""
    for path in sources():
        if path.parent.as_posix() != folder:
            folder = path.parent.as_posix()
            lines += ["", f"## {folder}", "", "| file | what it is |", "|---|---|"]
        match = re.match(r'"""(.+?)(?:"""|$)', (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        about = tables.cell(match[1]) if match else ""
        lines.append(f"| [{path.name}]({path.as_posix()}.md) | {about} |")
    return "\n".join(lines) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in WHOLE.items()}
    made["index.md"] = "---\nhide: [navigation]\n---\n\n" + made["index.md"]
    made["rules.md"] = tables.rules_page()
    made["conventions.md"] = tables.conventions_page()
    made |= api.pages()
    made["lessons/index.md"] = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    made |= {f"lessons/{path.stem}.md": lesson(path) for path in notebooks.LESSONS}
    made["source/index.md"] = source_index()
    made |= {f"source/{path.as_posix()}.md": source(path) for path in sources()}
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the right place; a source page has none."""
    place = page.file.src_uri
    return markdown if place.startswith(("source/", "api/")) else with_links(markdown, place)


def on_config(config: MkDocsConfig) -> Any:
    """Put the version into the title, and each lesson into the navigation."""
    config.site_name = f"minigrad {minigrad.__version__}"
    for section in config.nav or []:
        if "Lessons" in section:
            section["Lessons"] += [f"lessons/{path.stem}.md" for path in notebooks.LESSONS]
    return config


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Have a page fetch nothing: what the theme's offline search takes from the network is in this site."""
    return output.replace(
        SHIM, posixpath.relpath("offline-search.js", posixpath.dirname(page.file.dest_uri) or ".")
    )


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same for the page that is shown when there is none."""
    return output.replace(SHIM, "/offline-search.js")
