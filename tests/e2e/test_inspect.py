"""`dragoman inspect` on the command line, and its report in a browser: the report shows the numbers of the model."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.browser import browser, chromium
from tests.small_runs import dragoman

pytestmark = pytest.mark.slow

RUN = Path(__file__).parents[1] / "golden" / "run-1"
TEXTS = (
    "the small cat sleeps in the house",
    "a man sees two dogs",
    "two dogs play",
    "a man sleeps and a dog plays",
    "the man sees the small house",
)
LONG = " ".join(" ".join(TEXTS).split() * 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a report and its numbers from one command."""
    folder = tmp_path_factory.mktemp("inspect")
    texts = [part for text in TEXTS for part in ("--text", text)]
    answer = dragoman("inspect", RUN, *texts, "--out", "page.html", "--json", "numbers.json", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == "dragoman: page.html: written. Open it in a browser.\n"
    return folder


@pytest.fixture(scope="module")
def numbers(folder):
    return json.loads((folder / "numbers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shown(folder):
    """Open the report in a browser."""
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    with browser(program) as one:
        one.open(folder / "page.html")
        yield one
        assert one.errors == []
        assert [url for url in one.requests if not url.startswith("file:")] == []


def sentence(numbers, number=0):
    return numbers["systems"][0]["sentences"][number]


def test_report_is_one_file_that_loads_nothing(folder):
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href)\s*=|url\(|@import|fetch\(|XMLHttpRequest|https?://""", text) == []


def test_report_contains_the_numbers(folder, numbers):
    text = (folder / "page.html").read_text(encoding="utf-8")
    held = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.S)[1])
    for packed, listed in zip(held["systems"][0]["sentences"], numbers["systems"][0]["sentences"], strict=True):
        assert packed["target"] == listed["target"]
        for kind, weights in listed["weights"].items():
            raw = np.frombuffer(base64.b64decode(packed["weights"][kind]["data"]), dtype="<u2") / 65535
            unpacked = raw.reshape(packed["weights"][kind]["shape"])
            np.testing.assert_allclose(unpacked, np.array(weights), atol=1.1e-5)
            np.testing.assert_allclose(np.array(weights).sum(axis=-1), 1.0, atol=1e-4)


def test_numbers_are_those_of_the_run(numbers):
    first = sentence(numbers)
    assert first["source_text"] == TEXTS[0]
    assert first["target_text"] == "die kleine Katze schläft in dem Haus"
    assert first["log_prob"] == pytest.approx(-0.0537262, abs=1e-4)  # stored with the run
    assert sum(one["log_prob"] for one in first["predictions"]) == pytest.approx(first["log_prob"])
    assert all(one["alternatives"][0][1] >= one["alternatives"][1][1] for one in first["predictions"])


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 1)])
def test_hovering_over_the_map_shows_the_weight(shown, numbers, layer, head):
    first = sentence(numbers)
    shown.point_at(f"document.querySelector('#heads [data-value=\"{head}\"]')", press=True)
    for row, column in [(0, 0), (4, 2), (len(first["target"]) - 1, len(first["source"]) - 1)]:
        place = shown.value(f"dragoman.map.cellCenter({row}, {column})")
        shown.point_at("document.querySelector('#map')", x=place["x"], y=place["y"])
        weight = first["weights"]["cross"][layer][head][row][column]
        told = shown.text("#attention-readout")
        assert told.endswith(f": {weight:.4f}") or abs(float(told.split()[-1]) - weight) < 1e-4


def test_attention_kinds_are_selected_by_buttons(shown, numbers):
    for kind in ("encoder", "masked", "cross"):
        shown.point_at(f"document.querySelector('#kinds [data-value=\"{kind}\"]')", press=True)
        place = shown.value("dragoman.map.cellCenter(2, 1)")
        shown.point_at("document.querySelector('#map')", x=place["x"], y=place["y"])
        mean = np.mean([rows[2][1] for rows in sentence(numbers)["weights"][kind][0]])
        shown.value("dragoman.change({head: 'mean'})")
        shown.point_at("document.querySelector('#map')", x=place["x"] + 1, y=place["y"])
        assert abs(float(shown.text("#attention-readout").split()[-1]) - mean) < 2e-4


def test_hovering_over_a_token_shades_its_attention(shown, numbers):
    shown.value("dragoman.change({kind: 'cross', layer: 0, head: 1})")
    shown.point_at("document.querySelector('#target').children[3]")
    weights = sentence(numbers)["weights"]["cross"][0][1][3]
    told = shown.value("[...document.querySelector('#source').children].map((chip) => Number(chip.dataset.weight))")
    np.testing.assert_allclose(told, weights, atol=1e-4)
    prediction = sentence(numbers)["predictions"][3]
    assert f"{np.exp(prediction['log_prob']):.4f}" in shown.text("#prediction-readout")


def test_hovering_over_a_link_shows_its_words(shown, numbers):
    first = sentence(numbers)
    method = first["alignments"][0]
    at, to = method["links"][0]
    place = shown.value(f"dragoman.links.cellCenter({to}, {at})")
    shown.point_at("document.querySelector('#links')", x=place["x"], y=place["y"])
    told = shown.text("#alignment-readout")
    assert told.startswith(f"{first['target_words']['texts'][to]} is linked to {first['source_words']['texts'][at]}:")


def test_every_head_has_its_statistics(shown, numbers):
    for name in ("entropy", "on_eos"):
        shown.point_at(f"document.querySelector('#statistic [data-value=\"{name}\"]')", press=True)
        for row in sentence(numbers)["statistics"]:
            selector = f'#tables [data-kind="{row["kind"]}"][data-layer="{row["layer"]}"][data-head="{row["head"]}"]'
            assert float(shown.text(selector)) == pytest.approx(row[name], abs=0.006)


def test_sentence_and_theme_are_switched(shown, numbers):
    shown.point_at("document.querySelector('#sentences').children[1]", press=True)
    chips = shown.value("[...document.querySelector('#source').children].length")
    assert chips == len(sentence(numbers, 1)["source"])
    before = shown.value("getComputedStyle(document.body).backgroundColor")
    shown.point_at("document.querySelector('#theme')", press=True)
    assert shown.value("getComputedStyle(document.body).backgroundColor") != before
    shown.point_at("document.querySelector('#theme')", press=True)
    shown.point_at("document.querySelector('#sentences').children[0]", press=True)


def test_beam_search_is_shown_step_by_step(shown, numbers):
    tree = sentence(numbers)["beam"]
    way = [tree["steps"][step][place]["token"] for step, place in enumerate(tree["best_path"])]
    assert way == sentence(numbers)["target"]
    last = len(tree["steps"])
    assert shown.text("#beam-position") == f"step {last} of {last}"
    shown.point_at("document.querySelector('#beam-previous')", press=True)
    assert shown.text("#beam-position") == f"step {last - 1} of {last}"
    middle = last // 2  # point_at scrolls to the middle of the canvas
    for place, one in enumerate(tree["steps"][middle][:3]):
        where = shown.value(f"dragoman.beam.nodeCenter({middle}, {place})")
        shown.point_at("document.querySelector('#tree')", x=where["x"], y=where["y"])
        told = shown.text("#beam-readout")
        assert f"{one['log_prob']:.4f}, total {one['total']:.4f} nats" in told
        assert one["outcome"] in told
    rows = shown.value("[...document.querySelectorAll('#beam-table tr')].length")
    assert rows == 1 + len(tree["finished"])
    assert f"{tree['best_score']:.4f}" in shown.text("#beam-table tr.best")


def test_report_fits_a_phone(folder, shown):
    shown.open(folder / "page.html", width=390, height=844)
    assert shown.value("document.documentElement.scrollWidth") <= 390


def test_two_runs_are_shown_side_by_side(tmp_path):
    options = ["--text", TEXTS[1], "--out", "page.html", "--json", "numbers.json"]
    answer = dragoman("inspect", RUN, RUN, *options, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    told = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))
    one = told["systems"][0]["sentences"][0]
    assert [round(value, 4) for row in told["cross_scores"][0] for value in row] == [round(one["log_prob"], 4)] * 4
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    with browser(program) as shown:
        shown.open(tmp_path / "page.html", width=390)
        assert shown.value("document.documentElement.scrollWidth") <= 390
        assert shown.text("#columns").count(one["target_text"]) == 3  # in both columns and in the table
        shown.value("dragoman.change({kind: 'cross', layer: 0, head: 1})")
        place = shown.value("dragoman.sideBySide.maps()[1].cellCenter(2, 1)")
        shown.point_at("document.querySelectorAll('#columns canvas')[1]", x=place["x"], y=place["y"])
        told_there = shown.value("document.querySelectorAll('#columns .readout')[1].textContent")
        assert abs(float(told_there.split()[-1]) - one["weights"]["cross"][0][1][2][1]) < 1e-4
        assert shown.errors == []


MEASURE = """(() => {
  const map = document.querySelector('#map'), box = map.getBoundingClientRect(), begun = performance.now();
  for (let n = 0; n < 50; n++) {
    const place = dragoman.map.cellCenter(n, 2 * n);
    map.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + place.x, clientY: box.top + place.y }));
  }
  const hovered = (performance.now() - begun) / 50, again = performance.now();
  for (const kind of ['encoder', 'masked', 'cross']) dragoman.change({ kind, head: 1 });
  return [hovered, (performance.now() - again) / 3];
})()"""


def test_long_texts_stay_responsive(tmp_path):
    """Hovering takes at most 0.1 seconds, and changing the map 1 second."""
    options = ["--text", LONG, "--target", LONG, "--out", "page.html", "--json", "numbers.json"]
    answer = dragoman("inspect", RUN, *options, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    told = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["systems"][0]["sentences"][0]
    assert min(len(told["source"]), len(told["target"])) > 160
    assert list(told["attributions"]) == ["gradient × input"]
    assert "left out" in told["attributions"]["gradient × input"]["note"]
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    with browser(program) as shown:
        shown.open(tmp_path / "page.html")
        hovered, changed = shown.value(MEASURE)
        assert hovered < 100
        assert changed < 1000
        assert shown.value("document.querySelectorAll('*').length") < 2500
        place = shown.value("dragoman.map.cellCenter(150, 130)")
        shown.point_at("document.querySelector('#map')", x=place["x"], y=place["y"])
        expected = told["weights"]["cross"][0][1][150][130]
        assert abs(float(shown.text("#attention-readout").split()[-1]) - expected) < 1e-4
        assert shown.errors == []


def test_given_translation_with_two_runs(tmp_path):
    options = ["--text", "two dogs", "--target", "zwei Hunde", RUN, "--json", "numbers.json"]
    answer = dragoman("inspect", RUN, *options, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    systems = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["systems"]
    assert [one["sentences"][0]["target_text"] for one in systems] == ["zwei Hunde"] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "a"], "No output is given"),
        (["--text", " ", "--out", "x.html"], "empty text"),
        (["--text", "a", "--target", "b", "--target", "c", "--out", "x.html"], "1 text but 2 targets"),
        (["--text", "a " * 700, "--out", "x.html"], "are explained at once"),
    ],
)
def test_invalid_options_are_refused(options, message, tmp_path):
    answer = dragoman("inspect", RUN, *options, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_png_writes_every_figure(tmp_path):
    answer = dragoman("inspect", RUN, "--text", "two dogs play", "--png", "figures", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    names = {path.name.removeprefix("run-1-1-") for path in (tmp_path / "figures").iterdir()}
    assert {"encoder.png", "cross.png", "alignment-leave-one-out.png", "heads-cross.png"} <= names
    assert "attribution-gradient-times-input.png" in names
