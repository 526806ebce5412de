"""The web page in headless Chromium, on a server with a small trained translator."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser import chromium, launched
from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_encoder, finished_language_model, finished_run

GOLDEN = Path(__file__).parents[3] / "golden" / "run-1"
TIMEOUT = 20_000
"""Milliseconds that a test waits for the page."""


@pytest.fixture(scope="session")
def page_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("page")
    finished_run(folder / "de-fr")
    finished_language_model(folder / "story")
    finished_encoder(folder / "mood", "classification")
    finished_encoder(folder / "reader", "question_answering")
    with running_server(folder, f"en-de={GOLDEN}", "de-fr=de-fr", "story", "mood", "reader") as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by Playwright, for one module: while it runs, other tests could not use asyncio."""
    program = chromium()
    if program is None:
        pytest.skip("Chromium or Playwright is not installed")
    with launched(program) as one:
        yield one


@pytest.fixture
def open_page(browser, page_server):
    """Return a function that opens the page; the test fails if a page had errors or called another host."""
    contexts, problems = [], []

    def open_(tab: str = "translate", *, url: str = page_server.url, wait_for: str = "[role=tab]", **options):
        context = browser.new_context(reduced_motion="reduce", **options)
        context.set_default_timeout(TIMEOUT)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if _is_problem(message) else None)
        page.on("request", lambda one: problems.append(one.url) if _is_elsewhere(one.url, url) else None)
        page.goto(f"{url}/#{tab}")
        page.wait_for_selector(wait_for)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


def _is_problem(message) -> bool:
    """Return whether a line of the console is an error; that a request is refused is none of the page."""
    return message.type in ("error", "warning") and not message.text.startswith("Failed to load resource")


def _is_elsewhere(requested: str, url: str) -> bool:
    return urlsplit(requested).netloc != urlsplit(url).netloc and not requested.startswith(("data:", "blob:"))
