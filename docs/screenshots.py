"""Write the pictures of the web page of `dragoman serve` in `docs/images`.

    python docs/screenshots.py http://127.0.0.1:8000
    python docs/screenshots.py http://127.0.0.1:8000 --only serve-glossary-light

The server needs translators from English to German and to Portuguese, a language model and a classifier. Playwright
drives Chromium.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
SOURCE = "two dogs are playing in the snow . a man in a red shirt is climbing a wall ."
MESSAGE = "The house is big and the car is red. Please enter at most {max} characters."
TERMS = "house = residência|residências\ncar = viatura\n"
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


def glossary(page: Page) -> None:
    """Translate a text with a glossary and a placeholder."""
    choose_languages(page, "translate", target="pt")
    page.fill("#source", MESSAGE)
    page.locator("#glossary-details summary").click()
    page.fill("#glossary", TERMS)
    page.locator("#translation .term", has_text="residência").wait_for()
    page.wait_for_load_state("networkidle")


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


def choose_languages(page: Page, tab: str, *, target: str = "de") -> None:
    """Choose English and the target language."""
    page.select_option(f"#{tab}-languages [aria-label='Source language']", "en")
    page.select_option(f"#{tab}-languages [aria-label='Target language']", target)


PICTURES: dict[str, tuple[Callable[[Page], None], str, dict[str, Any], Scheme]] = {
    "serve-light": (translate, "translate", DESKTOP, "light"),
    "serve-dark": (translate, "translate", DESKTOP, "dark"),
    "serve-glossary-light": (glossary, "translate", DESKTOP, "light"),
    "serve-beam-light": (beam, "beam", DESKTOP, "light"),
    "serve-complete-dark": (complete, "complete", DESKTOP, "dark"),
    "serve-phone-light": (translate, "translate", PHONE, "light"),
    "serve-phone-dark": (classify, "classify", PHONE, "dark"),
}
"""By picture: the function that prepares the page, its tab, the window and the colors."""


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
    parser.add_argument("--only", choices=PICTURES, help="write this picture only")
    given = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        for name, (show, tab, window, scheme) in PICTURES.items():
            if given.only not in (None, name):
                continue
            with opened(browser, f"{given.url}/#{tab}", {**window, "color_scheme": scheme}) as page:
                show(page)
                page.wait_for_timeout(300)
                page.screenshot(path=IMAGES / f"{name}.png")
                print(f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
