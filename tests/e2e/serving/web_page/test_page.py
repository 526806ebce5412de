"""The page as a whole: keys, phones, dark colors, and what axe-core finds."""

from pathlib import Path

import pytest

from dragoman.serving.access.api_keys import add_key
from tests.running_server import running_server

api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[3] / "golden" / "run-1"
PHONE = {"width": 390, "height": 844}
TABS = ("translate", "files", "beam", "complete", "classify", "answer")
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def fill(page, tab):
    """Make the page show something in a tab."""
    if tab == "answer":
        page.fill("#context", "two dogs play .")
        page.fill("#question", "dogs")
        page.wait_for_selector("#answers button")
        return
    field = {"translate": "#source", "beam": "#searched", "complete": "#prompt", "classify": "#classified"}.get(tab)
    if field is None:
        page.set_input_files("#file", [{"name": f"{LONG}.txt", "mimeType": "text/plain", "buffer": b"two dogs play"}])
        page.wait_for_selector(".jobs a")
        return
    page.fill(field, f"two dogs play {LONG}" if tab in ("translate", "classify") else "two dogs")
    if tab == "translate":
        page.locator("#translation [role=button]").nth(1).click()
        page.wait_for_selector(".attended b, .attended:not(:has(b)):text('single')")
        page.wait_for_selector(".popover li button")
    elif tab == "complete":
        page.locator(".settings summary").click()
        page.fill("#setting-max_new_tokens", "5")
        page.get_by_role("button", name="Continue", exact=True).click()
        api.expect(page.locator("#complete-status")).to_contain_text("per second")
    else:
        page.wait_for_selector(".candidate" if tab == "beam" else "#labels dt")


def test_tabs_of_all_models_are_shown(open_page):
    page = open_page()
    names = ["Translate", "Files", "Beam search", "Complete", "Classify", "Answer"]
    assert page.locator("[role=tab]").all_text_contents() == names


def test_key_is_asked_for_and_kept_in_the_session_only(open_page, tmp_path):
    key = add_key(tmp_path / "keys", "anna")
    with running_server(tmp_path, f"en-de={GOLDEN}", "--api-keys", "keys") as running:
        page = open_page(url=running.url, wait_for="#key-form:visible")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        api.expect(page.locator("#key-error")).to_contain_text("Invalid API key")
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=tab]")
        assert page.locator("[role=tab]").all_text_contents() == ["Translate", "Files", "Beam search"]  # no other model
        page.fill("#source", "two dogs play")
        page.locator("#translation [role=button]").first.wait_for()
        page.click("#tab-files")
        page.set_input_files("#file", [{"name": "a.txt", "mimeType": "text/plain", "buffer": b"two dogs play"}])
        page.wait_for_selector(".jobs a")
        assert page.evaluate("JSON.stringify(localStorage)").find(key) < 0
        assert key not in page.url


@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_no_violation(open_page, tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = open_page(tab, bypass_csp=True)

    def violations():
        found = axe.Axe().run(page, options=RULES).response["violations"]
        return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]

    assert violations() == []
    fill(page, tab)
    assert violations() == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert violations() == []


@pytest.mark.parametrize("tab", TABS)
def test_phone_does_not_scroll_sideways(open_page, tab):
    page = open_page(tab, viewport=PHONE, is_mobile=True, has_touch=True)
    fill(page, tab)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_dark_colors_follow_the_system_and_the_button(open_page):
    page = open_page(color_scheme="dark")
    color = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(color)
    button = page.get_by_role("button", name="Dark colors")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = page.evaluate(color)
    assert light != dark
    page.reload()
    assert page.evaluate(color) == light


def test_right_to_left_text_is_shown_from_the_right(open_page):
    page = open_page()
    page.fill("#source", "שלום עולם")
    page.wait_for_selector("#translation [role=button], #translate-error:not(:empty)")
    for selector in ("#source", "#mirror"):
        assert page.eval_on_selector(selector, "(one) => getComputedStyle(one).direction") == "rtl"
