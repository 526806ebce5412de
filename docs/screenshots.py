"""Write the pictures of the web page of `dragoman serve` in `docs/images`.

    python docs/screenshots.py http://127.0.0.1:8000

The server needs a translator from English to German, a language model and a classifier. Playwright drives Chromium.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
SOURCE = "two dogs are playing in the snow . a man in a red shirt is climbing a wall ."
PROMPT = "The lighthouse keeper lit the lamp every evening because"
QUESTION = "Who was the first president of the United States ?"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1100, "height": 640}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 760},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
Scheme = Literal["light", "dark"]


def translate(page: Page) -> None:
    """Translate two sentences, and open a word."""
    choose_languages(page, "translate")
    page.fill("#source", SOURCE)
    page.locator("#translation [role=button]", has_text="klettert").click()
    page.wait_for_selector(".popover li")
    page.wait_for_selector(".attended b")


def beam(page: Page) -> None:
    """Search a translation, and select a pruned candidate."""
    choose_languages(page, "beam")
    page.fill("#searched", SOURCE.partition(" . ")[2])
    page.wait_for_selector(".candidate")
    page.locator(".step").nth(6).locator(".candidate").nth(2).focus()


def complete(page: Page) -> None:
    """Complete a text, always the same one."""
    page.fill("#prompt", PROMPT)
    page.locator(".settings summary").click()
    page.fill("#setting-max_new_tokens", "60")
    page.fill("#setting-seed", "1")
    page.locator(".settings summary").click()
    page.click("#complete")
    page.wait_for_selector("#complete-status:not(:empty)", timeout=60_000)


def classify(page: Page) -> None:
    """Classify a question."""
    page.fill("#classified", QUESTION)
    page.wait_for_selector("#labels dt")


def choose_languages(page: Page, tab: str) -> None:
    """Choose English to German."""
    page.select_option(f"#{tab}-languages [aria-label='Source language']", "en")
    page.select_option(f"#{tab}-languages [aria-label='Target language']", "de")


PICTURES: dict[str, tuple[Callable[[Page], None], dict[str, Any], Scheme]] = {
    "serve-light": (translate, DESKTOP, "light"),
    "serve-dark": (translate, DESKTOP, "dark"),
    "serve-beam-light": (beam, DESKTOP, "light"),
    "serve-complete-dark": (complete, DESKTOP, "dark"),
    "serve-phone-light": (translate, PHONE, "light"),
    "serve-phone-dark": (classify, PHONE, "dark"),
}
"""What each picture shows, in which window and which colors."""


@contextmanager
def opened(browser: Browser, url: str, options: dict[str, Any]) -> Iterator[Page]:
    """Open the page without motion."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("[role=tab]")
    yield page
    context.close()


def main() -> None:
    """Take all pictures of a running server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="address of the server")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="path of the browser")
    given = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        for name, (show, window, scheme) in PICTURES.items():
            with opened(browser, f"{given.url}/#{show.__name__}", {**window, "color_scheme": scheme}) as page:
                show(page)
                page.wait_for_timeout(300)
                page.screenshot(path=IMAGES / f"{name}.png")
                print(f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
