"""The tabs for files, completion, classification and the beam search."""

import re

import pytest

api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.slow

PAIR = {"source": "en", "target": "de"}


def test_text_is_completed_token_by_token(open_page, page_server):
    page = open_page("complete")
    page.fill("#prompt", "two dogs")
    page.locator(".settings summary").click()
    page.fill("#setting-max_new_tokens", "9")
    page.fill("#setting-temperature", "0")
    page.get_by_role("button", name="Continue", exact=True).click()
    api.expect(page.locator("#complete-status")).to_contain_text("per second")
    body = {"prompts": "two dogs", "max_new_tokens": 9, "temperature": 0}
    _, answer = page_server.post("/api/generate", body)
    [found] = answer["results"][0]["completions"]
    assert page.locator("#completed").text_content() == "two dogs" + found["text"]
    assert page.locator("#completed .new").count() > 1
    assert page.locator("#completed-text").text_content() == found["text"]
    page.get_by_role("button", name="Continue from here").click()
    assert page.input_value("#prompt") == page.locator("#completed").text_content()


def test_completion_is_stopped(open_page):
    page = open_page("complete")
    page.route("**/api/generate", lambda route: None)  # never answered
    page.fill("#prompt", "two dogs")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Stop").click()
    assert page.locator("#complete-status").text_content() == "Stopped"
    assert page.get_by_role("button", name="Continue", exact=True).is_visible()


def test_labels_have_their_probabilities(open_page, page_server):
    page = open_page("classify")
    page.fill("#classified", "two dogs play .")
    page.locator("#labels dt").first.wait_for()
    _, answer = page_server.post("/api/classify", {"texts": "two dogs play ."})
    best = answer["results"][0]
    assert page.locator("#labels dt").first.text_content() == best["label"]
    assert page.locator("#labels dd").nth(1).text_content() == f"{best['probability']:.0%}".replace("%", " %")
    page.fill("#classified", "")
    assert page.locator("#labels dt").count() == 0


def test_answers_are_marked_in_their_text(open_page, page_server):
    page = open_page("answer")
    text = "\U0001f600 two dogs play . a cat sits by the sea"  # a character that is two in JavaScript
    page.fill("#context", text)
    page.fill("#question", "a cat")
    page.locator("#answers button").first.wait_for()
    _, answer = page_server.post("/api/answer", {"question": "a cat", "context": text, "n_best": 3})
    for number, one in enumerate(answer["answers"]):
        button = page.locator("#answers button").nth(number)
        button.click()
        assert button.text_content().startswith(one["text"])
        assert page.locator("#context-mirror mark").text_content() == one["text"] == text[one["start"] : one["end"]]
    assert page.locator("#answer-text").text_content() == answer["answers"][0]["text"]


def test_file_is_translated_and_saved(open_page, page_server, tmp_path):
    page = open_page("files")
    (tmp_path / "notes.txt").write_text("two dogs play\na man sleeps\n", encoding="utf-8")
    (tmp_path / "page.pdf").write_bytes(b"%PDF-1.7")
    page.set_input_files("#file", [tmp_path / "notes.txt", tmp_path / "page.pdf"])
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the translation of notes.txt").click()
    assert saved.value.suggested_filename.endswith(".txt")
    _, answer = page_server.post("/translate", {"q": "two dogs play\na man sleeps\n", **PAIR})
    assert saved.value.path().read_text(encoding="utf-8") == answer["translatedText"]
    page.locator(".jobs .error", has_text="not supported").wait_for()


def test_beam_tree_shows_every_candidate(open_page, page_server):
    page = open_page("beam")
    page.fill("#searched", "two dogs play")
    page.wait_for_selector(".candidate")
    _, answer = page_server.post("/api/explain", {"text": "two dogs play", **PAIR, "beam_tree": True, "beam_size": 4})
    beam = answer["beam"]
    assert page.locator(".step").count() == len(beam["steps"])
    assert page.locator(".candidate").count() == sum(map(len, beam["steps"]))
    assert page.locator(".candidate.best").count() == len(beam["best_path"])
    assert page.locator(".tree path").count() == sum(map(len, beam["steps"][1:]))
    assert page.locator("#beam-readout strong").text_content() == answer["translation"]


def test_error_removes_the_tree_of_another_text(open_page):
    page = open_page("beam")
    page.fill("#searched", "two dogs play")
    page.wait_for_selector(".candidate")
    page.route("**/api/explain", lambda route: route.fulfill(status=503, json={"error": {"message": "Too busy."}}))
    page.fill("#searched", "a man sleeps")
    api.expect(page.locator("#beam-error")).to_have_text("Too busy.")
    assert page.locator("#tree-card").is_hidden()
    assert page.locator("#beam-status").text_content() == ""


def test_arrow_keys_move_through_the_beam_tree(open_page):
    page = open_page("beam")
    page.fill("#searched", "two dogs play")
    page.wait_for_selector(".candidate")
    page.locator(".candidate.best").last.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert re.search(r"Step \d+: −\d", page.locator("#beam-readout").text_content())
    assert page.locator(".candidate.lit").count() > 0
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.classList.contains('candidate')")


def test_arrow_keys_move_through_the_tabs(open_page):
    page = open_page()
    page.locator("[role=tab][aria-selected=true]").focus()
    shown = []
    for _ in range(page.locator("[role=tab]").count()):
        shown.append(page.locator("[role=tabpanel]:visible").get_attribute("id"))
        page.keyboard.press("ArrowRight")
    assert shown == [f"panel-{name}" for name in ("translate", "files", "beam", "complete", "classify", "answer")]


def test_formats_are_folded_and_texts_to_review_are_counted(open_page, tmp_path):
    page = open_page("files")
    assert not page.locator("#formats").is_visible()
    page.get_by_text(re.compile(r"^[0-9]+ formats$")).click()
    api.expect(page.locator("#formats")).to_contain_text("docx")
    answer = {"translatedFileUrl": "http://a/download_file/b"}
    page.route("**/translate_file", lambda route: route.fulfill(json=answer, headers={"x-texts-to-review": "3"}))
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"two dogs"})
    page.locator(".jobs li", has_text="3 texts to review").wait_for()
