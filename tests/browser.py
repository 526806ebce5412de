"""Headless Chromium, driven by Playwright, which is optional: tests skip without it, and without the browser."""

import importlib.util
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_running: list[Any] = []
"""The browser that runs, if one does."""


def chromium() -> str | None:
    """Return the path of the browser; None where it or Playwright is not installed."""
    if importlib.util.find_spec("playwright") is None:
        return None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def launched(program: str) -> Iterator[Any]:
    """Start a browser of Playwright that closes at the end of the block; within another such block, return its browser.

    While it runs, `asyncio.run` does not work in this thread.
    """
    from playwright.sync_api import sync_playwright

    if _running:
        yield _running[0]
        return
    with sync_playwright() as playwright:
        _running.append(playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]))
        try:
            yield _running[0]
        finally:
            _running.pop().close()


class Browser:
    """One page of one browser, which shows files."""

    def __init__(self, launched_browser: Any) -> None:
        self._browser = launched_browser
        self._page: Any = None
        self.errors: list[str] = []
        """What went wrong in the page."""
        self.requests: list[str] = []
        """What the page fetched."""

    def open(self, page: Path, *, width: int = 1180, height: int = 900, dark: bool = False, scale: float = 1.0) -> None:
        """Load a file in a window of the given size."""
        self.close()
        self._page = self._browser.new_page(
            viewport={"width": width, "height": height},
            device_scale_factor=scale,
            color_scheme="dark" if dark else "light",
        )
        self._page.on("pageerror", lambda error: self.errors.append(str(error)))
        self._page.on("console", self._note)
        self._page.on("request", lambda request: self.requests.append(request.url))
        self._page.goto(page.resolve().as_uri())

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page. Raises AssertionError with its error."""
        from playwright.sync_api import Error

        try:
            return self._page.evaluate(expression)
        except Error as error:
            raise AssertionError(error.message) from error

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)}).textContent"))

    def point(self, x: float, y: float, *, press: bool = False) -> None:
        """Move the mouse to window coordinates in pixels and click."""
        self._page.mouse.move(x, y)
        if press:
            self._page.mouse.down()
            self._page.mouse.up()

    def point_at(self, element: str, *, x: float | None = None, y: float | None = None, press: bool = False) -> None:
        """Move the mouse to the element that a JavaScript expression returns, and click on it."""
        box = self.value(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center', inline: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        left, top, width, height = box
        self.point(left + (width / 2 if x is None else x), top + (height / 2 if y is None else y), press=press)

    def close(self) -> None:
        if self._page is not None:
            self._page.context.close()

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    """Start a browser that closes at the end of the block."""
    with launched(program) as one:
        shown = Browser(one)
        try:
            yield shown
        finally:
            shown.close()
