"""What the tests of the explain page start from: runs, made once, and a browser."""

import shutil

import pytest

from transformer.explain import Material, Subject, page_data, page_html

from .explain_pages import SENTENCE, data_of, write_page
from .explain_run import make_run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("explain") / "run")


@pytest.fixture(scope="session")
def bpe_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("explain") / "bpe", kind="bpe")


@pytest.fixture(scope="session")
def subject(run):
    return Subject(Material(run), SENTENCE, sample_tokens=4)


@pytest.fixture(scope="session")
def data(subject):
    """The data as a reader of the page has it: written into the page, and read back out of it."""
    return data_of(page_html(page_data(subject)))


@pytest.fixture(scope="session")
def browser():
    """Return Chromium; without it, or without Playwright, the tests that ask for it are skipped."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install minigrad[browser]"
    )
    with playwright.sync_playwright() as play:
        found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
        path = next((name for name in found if name), None)
        try:
            browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"Chromium can't be started: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(data, tmp_path_factory):
    """Return where the page of a module's ``data`` is, for a browser."""
    return write_page(data, tmp_path_factory.mktemp("page"))
