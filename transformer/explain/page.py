"""One self-contained HTML file from a page's data: no request to anywhere, no script but ours."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from transformer.explain.data import CHAPTERS

SCRIPTS = ("core", "scales", "parts", "grid", "charts", "columns", "walk", *CHAPTERS, "start")
"""The files in ``assets/scripts``, in the order in which they are joined."""


def page_html(data: dict[str, Any]) -> str:
    """Return the page for this data.

    The data stands in a ``<script type="application/json">``, in which ``<`` is written as ``\\u003c``: no text of
    a user can end it.  The script puts texts into the page by ``textContent`` alone, and the policy in the page's
    head allows no other script than the one written here, and no request to anywhere (but to its own server, if it
    is served).

    Args:
        data: what :func:`transformer.explain.page_data` gives.

    Raises:
        ValueError: ``page.html`` lacks the place for one of its parts.
    """
    code = script()
    connect = "'self'" if data.get("served") else "'none'"
    policy = "; ".join(
        [
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            "img-src data:",
            f"script-src 'sha256-{digest(code)}'",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "policy": policy,
        "style": asset("page.css"),
        "chapters": "\n".join(asset(f"chapters/{name}.html") for name in CHAPTERS),
        "data": embedded_json(data),
        "script": code,
    }
    page = asset("page.html")
    for name, content in parts.items():
        before, mark, after = page.partition(f"<!--{name}-->")
        if not mark:
            raise ValueError(f"page.html lacks its place for {name}")
        page = before + content + after
    return page


def embedded_json(data: Any) -> str:
    """Return JSON that can stand inside a script element, whatever the texts in it.

    >>> embedded_json("</script><b>&")
    '"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"'
    """
    text = json_text(data)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def json_text(data: Any) -> str:
    """Return the data as JSON in ASCII, so that lone surrogates and all else survive any encoding."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


@cache
def asset(name: str) -> str:
    """Return a file of the page."""
    return files("transformer.explain").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return all scripts as one, in a scope of its own."""
    return '"use strict";\n{\n' + "\n".join(asset(f"scripts/{name}.js") for name in SCRIPTS) + "\n}\n"


def digest(text: str) -> str:
    """Return the SHA-256 of a script as the browser computes it for the page's policy."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
