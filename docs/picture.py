"""Make the README's picture of the explain page: ``python docs/picture.py RUN``, with ``minigrad[browser]``.

It writes the page of that run, opens it in Chromium, and keeps what is seen of the chapter on scores and weights.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from transformer.__main__ import main

PICTURE = Path(__file__).parent / "explain.png"
TEXT = "The import statement finds a"


def draw(run: str) -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        file = Path(folder, "explain.html")
        code = main(["explain", "--out", run, "--text", TEXT, "--html", str(file)])
        if code:
            sys.exit(code)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]")
        page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        page.evaluate("document.getElementById('scores').scrollIntoView()")
        page.wait_for_timeout(500)  # for the bars to come to rest
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    draw(sys.argv[1])
