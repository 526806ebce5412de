"""The tab "Translate": typing, words, alternatives and the keyboard."""

import math
import re

import pytest

api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.slow

PAIR = {"source": "en", "target": "de"}
MARKS = "all => all.map((one) => [one.textContent, Number(one.style.getPropertyValue('--weight'))])"
SHARES = "all => all.map((one) => 1 - one.style.getPropertyValue('--doubt-share'))"
FAINT = 0.03
"""Attention below which a word is not marked."""
TEXT = "the small cat sleeps in the house"
TRANSLATION = "die kleine Katze schläft in dem Haus"


def words(page):
    return page.locator("#translation [role=button]")


def translated(page, text=TEXT):
    """Type a text, and wait for its translation."""
    page.locator("#source").press_sequentially(text)
    words(page).first.wait_for()
    return page.locator("#translation").text_content()


def test_translation_appears_while_typing(open_page, page_server):
    page = open_page()
    assert translated(page) == TRANSLATION
    _, answer = page_server.post("/api/translate", {"texts": TEXT, **PAIR})
    assert answer["results"][0]["translations"][0]["text"] == TRANSLATION
    assert page.locator("#translation-text").text_content() == TRANSLATION  # for screen readers
    assert page.locator("#translation").get_attribute("lang") == "de"
    page.get_by_role("button", name="Clear").click()
    assert words(page).count() == 0


def test_sentences_are_translated_once(open_page):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if "api/translate" in one.url else None)
    first, second = "the small cat sleeps", "a man sees two dogs"
    page.fill("#source", first)
    words(page).first.wait_for()
    page.fill("#source", f"{first}\n\n  {second}\n")
    api.expect(page.locator("#translation")).to_contain_text("Hunde")
    assert [body["texts"] for body in bodies] == [[first], [second]]
    assert re.fullmatch(r"\S.*\S\n\n  \S.*\S\n", page.locator("#translation").text_content())


def test_abbreviations_end_no_sentence_and_short_words_do(open_page):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if "api/translate" in one.url else None)
    page.fill("#source", "The small cat sees Dr. House in the house. The cat is big. A man, e.g. Two Dogs, sleeps.")
    words(page).first.wait_for()
    expected = ["The small cat sees Dr. House in the house.", "The cat is big.", "A man, e.g. Two Dogs, sleeps."]
    assert [body["texts"] for body in bodies] == [expected]


def test_placeholders_are_asked_for_where_the_models_can_write_them(open_page, page_server):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if "api/translate" in one.url else None)
    page.fill("#source", TEXT)
    words(page).first.wait_for()
    answer = page_server.get("/api/models")
    able = [one["protects_placeholders"] for one in answer["models"] if one["kind"] == "translator"]
    assert [body["placeholders"] for body in bodies] == [all(able)]


def test_long_text_is_translated_in_parts(open_page):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if "api/translate" in one.url else None)
    text = "".join(f"two dogs play and {name} sleeps\n" for name in map(str, range(100)))
    page.fill("#source", text)
    last = page.locator("#translation").get_by_role("button").nth(500)
    last.wait_for()
    sizes = [sum(map(len, body["texts"])) for body in bodies]
    assert len(sizes) == 2
    assert max(sizes) <= 1500
    assert page.locator("#translation").text_content().count("\n") == 100


def test_chosen_target_outlives_a_wrong_detection(open_page):
    page = open_page()
    answers = iter(["en", "de", "en"])
    page.route("**/detect", lambda route: route.fulfill(json=[{"language": next(answers), "confidence": 99}]))
    target = page.locator("#translate-languages").get_by_label("Target language")
    shown = []
    for name in ("English", "German", "English"):
        page.fill("#source", f"two dogs play {len(shown)}")
        page.locator("#translate-languages option", has_text=f"{name} (detected)").wait_for(state="attached")
        shown.append(target.input_value())
    assert shown == ["de", "fr", "de"]


def test_word_of_a_pivoted_translation_names_the_text_between(open_page):
    page = open_page()
    page.locator("#translate-languages").get_by_label("Target language").select_option("fr")
    page.fill("#source", TEXT)
    words(page).first.click()
    api.expect(page.locator(".attended")).to_contain_text(f"in “{TRANSLATION}”, from which this was translated")
    assert page.locator("#mirror mark").count() == 0


def test_overtaken_request_is_aborted(open_page):
    page = open_page()
    held, aborted = [], []
    page.on("requestfailed", lambda one: aborted.append(one.post_data_json["texts"]))
    page.route("**/api/translate", lambda route: held.append(route) if not held else route.continue_())
    page.fill("#source", "two dogs play")
    api.expect(page.locator("#output-pane")).to_have_attribute("aria-busy", "true")
    while not held:
        page.wait_for_timeout(10)
    page.fill("#source", TEXT)
    words(page).first.wait_for()
    assert aborted == [["two dogs play"]]
    assert page.locator("#translation").text_content() == TRANSLATION
    assert page.locator("#translate-error").text_content() == ""


def test_word_shows_what_it_attended_to(open_page, page_server):
    page = open_page()
    translated(page)
    page.get_by_role("button", name="Katze", exact=True).click()
    page.wait_for_selector(".attended b")
    _, explained = page_server.post("/api/explain", {"text": TEXT, "translation": TRANSLATION, **PAIR})
    names = explained["source_words"]
    row = explained["attention"][[one["text"] for one in explained["target_words"]].index("Katze")]
    assert page.locator(".attended b").first.text_content() == names[row.index(max(row))]
    expected = {name: weight**0.5 for name, weight in zip(names, row, strict=True) if weight >= FAINT}
    assert dict(page.eval_on_selector_all("#mirror mark", MARKS)) == pytest.approx(expected, abs=1e-3)
    assert page.locator("#mirror").text_content().startswith(TEXT)
    page.keyboard.press("Escape")
    assert page.locator("#mirror mark").count() == 0


def test_picked_continuation_replaces_the_translation(open_page):
    page = open_page()
    translated(page)
    page.get_by_role("button", name="Katze", exact=True).click()
    other = page.locator(".popover li button:not([aria-current])").first
    next_word = other.locator("strong").text_content()
    other.click()
    shown = page.locator("#translation").text_content()
    assert shown.startswith(f"die kleine {next_word}")
    assert shown != TRANSLATION
    assert page.locator("#translation .changed").count() > 0
    page.locator("#others-list").get_by_role("button", name=TRANSLATION, exact=True).click()
    assert page.locator("#translation").text_content() == TRANSLATION


def test_uncertain_words_are_shaded(open_page, page_server):
    page = open_page()
    translated(page)
    _, answer = page_server.post("/api/translate", {"texts": TEXT, **PAIR, "beam_size": 5})
    expected = sum(answer["results"][0]["translations"][0]["token_log_probs"][:-1])
    shares = page.eval_on_selector_all("#translation [role=button]", SHARES)
    assert sum(map(math.log, shares)) == pytest.approx(expected, abs=0.01)
    shaded = "getComputedStyle(document.querySelector('#translation [role=button]')).backgroundColor"
    before = page.evaluate(shaded)
    page.get_by_label("Mark uncertain words").uncheck()
    assert page.evaluate(shaded) != before


def test_keyboard_alone_picks_a_continuation(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.id") == "source":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(TEXT)
    words(page).first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # after the button Clear
    assert page.evaluate("document.activeElement.textContent") == "die"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".popover li button:focus")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Katze"
    page.keyboard.press("Enter")
    page.wait_for_selector(".popover li button:focus")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#translation").text_content() != TRANSLATION
    assert page.evaluate("document.activeElement.classList.contains('changed')")


def test_error_is_shown_where_it_happens(open_page):
    page = open_page()
    page.route("**/api/translate", lambda route: route.abort())
    page.fill("#source", TEXT)
    api.expect(page.locator("#translate-error")).to_contain_text("The server does not answer")
    page.unroute("**/api/translate")
    page.fill("#source", f"{TEXT} ")
    words(page).first.wait_for()
    assert page.locator("#translate-error").text_content() == ""


def test_glossary_changes_the_translation_and_marks_its_terms(open_page):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.post_data_json) if "api/translate" in one.url else None)
    assert translated(page) == TRANSLATION
    page.locator("#glossary-details summary").click()
    page.fill("#glossary", "cat = Hund|Hunde\nhouse\tMann\nsma")
    api.expect(page.locator("#translation")).to_contain_text("Mann")
    assert bodies[-1]["glossary"] == {"entries": [["cat", "Hund|Hunde"], ["house", "Mann"]]}
    assert page.locator("#glossary-count").text_content() == "2 terms"
    assert page.locator("#mirror mark").all_text_contents() == ["cat", "house"]
    assert {"Mann"} < set(page.locator("#translation .term").all_text_contents()) < {"Hund", "Hunde", "Mann"}
    words(page).first.click()  # attention has the marks while a word is open
    page.locator("#mirror mark").nth(2).wait_for(state="attached")
    page.keyboard.press("Escape")
    assert page.locator("#mirror mark").all_text_contents() == ["cat", "house"]
    page.reload()
    api.expect(page.get_by_label("One term and its translation")).to_have_value("cat = Hund|Hunde\nhouse\tMann\nsma")


def test_warning_names_its_sentence(open_page):
    page = open_page()
    page.route("**/api/translate", lambda route: route.fulfill(json=copied(route.fetch().json())))
    page.fill("#source", "the small cat sleeps")
    api.expect(page.locator("#translate-status")).to_have_text("All words are those of the source.")
    page.fill("#source", f"the small cat sleeps\n{TEXT} and in {TEXT}")
    api.expect(page.locator("#translate-status")).to_have_text(
        "the small cat sleeps – All words are those of the source."
    )


def copied(answer):
    """Return an answer whose translations have a warning."""
    for result in answer["results"]:
        for one in result["translations"]:
            one["quality"]["warnings"] = [{"kind": "copied", "message": "All words are those of the source."}]
            one["truncated"] = False
    return answer


def test_unmet_terms_are_named(open_page):
    page = open_page()
    translated(page)
    page.locator("#glossary-details summary").click()
    page.route("**/api/translate", lambda route: route.fulfill(json=without_terms(route.fetch().json())))
    page.fill("#glossary", "cat = Hund")
    api.expect(page.locator("#translate-status")).to_have_text("Without the translation of “cat”.")
    page.unroute("**/api/translate")
    page.fill("#glossary", "cat = Mann")
    api.expect(page.locator("#translation .term")).to_have_text("Mann")
    page.fill("#glossary", "cat = 猫")  # the model cannot write it
    api.expect(page.locator("#translate-status")).to_have_text("Without the translation of “cat”.")


def without_terms(answer):
    """Return an answer whose translations lack its terms."""
    for result in answer["results"]:
        for one in result["translations"]:
            one |= {"text": TRANSLATION, "tokens": [], "token_log_probs": []}
    return answer


def test_error_disappears_when_the_text_changes(open_page):
    page = open_page()
    page.route("**/api/translate", lambda route: route.fulfill(status=503, json={"error": {"message": "Too busy."}}))
    page.fill("#source", TEXT)
    api.expect(page.locator("#translate-error")).to_have_text("Too busy.")
    page.unroute("**/api/translate")
    page.route("**/api/translate", lambda route: None)  # an answer that takes long
    page.locator("#source").press_sequentially("s")
    assert page.locator("#translate-error").text_content() == ""


def test_characters_and_their_limit_are_shown(open_page):
    page = open_page()
    bodies = []
    page.on("request", lambda one: bodies.append(one.url) if "api/translate" in one.url else None)
    page.fill("#source", "two dogs")
    api.expect(page.locator("#characters")).to_have_text("8 of 50,000 characters")
    words(page).first.wait_for()
    sent = len(bodies)
    page.fill("#source", "a" * 50_001)
    api.expect(page.locator("#characters")).to_have_text("50,001 of 50,000 characters")
    api.expect(page.locator("#characters")).to_have_class(re.compile("error"))
    page.wait_for_timeout(400)
    assert (len(bodies), words(page).count()) == (sent, 0)


def answer_of(*texts):
    """Return an answer of the server with these translations of one text, of two tokens for each word."""
    translations = [
        {"text": text, "tokens": text.split(), "token_log_probs": [math.log(0.45)] * (len(text.split()) + 1)}
        for text in texts
    ]
    return {"results": [{"translations": translations, "terms": []}]}


def test_equal_translations_are_listed_once(open_page):
    page = open_page()
    answer = answer_of("die Katze", "die Katze", "das Haus", "das Haus ", "die Hunde")
    page.route("**/api/translate", lambda route: route.fulfill(json=answer))
    page.fill("#source", TEXT)
    page.locator("#others-list li").first.wait_for()
    assert [one.strip() for one in page.locator("#others-list li").all_text_contents()] == ["das Haus", "die Hunde"]


def test_alternatives_have_the_probabilities_of_whole_words(open_page):
    """The second token of a word counts, as it does for the word that is shown."""
    page = open_page()
    tokens = ["ster", "ling"]

    def translation(text, tokens, log_probs):
        return {"text": text, "tokens": tokens, "token_log_probs": [*log_probs, 0.0]}

    shown = translation("sterling", tokens, [math.log(0.9), math.log(0.5)])
    answer = {"results": [{"translations": [shown], "terms": []}]}
    page.route("**/api/translate", lambda route: route.fulfill(json=answer))
    other = {"probability": 0.1, "translation": translation("pound", ["pound"], [0.0])}
    same = {"probability": 0.9, "translation": translation("sterling", tokens, [0.0, math.log(0.5)])}
    page.route("**/api/alternatives", lambda route: route.fulfill(json={"alternatives": [same, other]}))
    page.fill("#source", TEXT)
    words(page).first.click()
    shares = page.locator(".popover .choices .share")
    api.expect(shares).to_have_text(["45 %", "10 %"])
    assert page.locator(".popover [aria-current=true]").count() == 1
    page.keyboard.press("Escape")
    page.unroute("**/api/alternatives")
    page.route("**/api/alternatives", lambda route: route.fulfill(json={"alternatives": [same]}))
    words(page).first.click()
    api.expect(page.locator(".popover .error").first).to_have_text("The model knows no other word here.")


def test_phone_shows_the_name_of_the_detected_language(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    page.locator("#translate-languages select").first.select_option("")
    page.route("**/detect", lambda route: route.fulfill(json=[{"language": "en", "confidence": 90}]))
    page.fill("#source", TEXT)
    page.locator("#translate-languages option", has_text="English (detected)").wait_for(state="attached")
    widths = "all => all.map((one) => [one.scrollWidth, one.clientWidth])"
    for needed, given in page.locator("#translate-languages select").evaluate_all(widths):
        assert needed <= given
