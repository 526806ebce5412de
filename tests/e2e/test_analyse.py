"""`dragoman analyse` on the command line, and its report in a browser, for a run and a file of outputs."""

import json
from pathlib import Path

import pytest

from tests.browser import browser, chromium
from tests.small_runs import dragoman

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCE, REFERENCE = GOLDEN / "expected-1" / "source.txt", GOLDEN / "expected-1" / "target.txt"
TEST_SET = ["--source", SOURCE, "--reference", REFERENCE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("analyse")
    (folder / "echo.de").write_bytes(SOURCE.read_bytes())
    systems = [GOLDEN / "run-1", "echo.de"]
    files = ["--train", REFERENCE, "--out", "page.html", "--json", "numbers.json"]
    answer = dragoman("analyse", *systems, *TEST_SET, *files, "--worst", 3, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(scope="module")
def numbers(folder):
    return json.loads((folder / "numbers.json").read_text(encoding="utf-8"))


def test_both_systems_are_analyzed(numbers):
    run, echo = numbers["systems"]
    assert [one["name"] for one in (run, echo)] == ["run-1", "echo.de"]
    assert run["overall"]["bleu"] > 30 > echo["overall"]["bleu"]
    assert echo["errors"]["copied"] == [0, 1, 2, 4]
    assert run["by_frequency"][0]["in_references"] == 0  # all reference words are training words
    assert numbers["signature"].startswith("BLEU|nrefs:1|")
    first, second = numbers["differences"]
    assert first["bleu"] is None
    assert second["bleu"] == pytest.approx(echo["overall"]["bleu"] - run["overall"]["bleu"])
    assert 0 < second["p_randomization"] <= 1


def test_worst_sentences_of_a_run_have_attention(numbers):
    run, echo = numbers["systems"]
    with_attention = [one["attention"] for one in run["worst"] if one["source"]]
    assert with_attention
    for one in with_attention:
        assert len(one["weights"][0]) == len(one["target"])
        assert all(sum(row) == pytest.approx(1.0, abs=1e-4) for row in one["weights"][0])
    assert all("attention" not in one for one in echo["worst"])


def test_report_shows_the_numbers(folder, numbers):
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    with browser(program) as shown:
        shown.open(folder / "page.html", width=390, height=844, dark=True)
        assert shown.errors == []
        assert f"{numbers['systems'][0]['overall']['bleu']:.1f}" in shown.text("#overall")
        assert f"{numbers['differences'][1]['bleu']:.1f}" in shown.text("#overall")
        assert "4: 1, 2, 3, 5" in shown.text("#errors")
        assert shown.value("document.querySelectorAll('#worst canvas').length") > 0
        shown.point_at("document.querySelector('#systems').children[1]", press=True)
        assert numbers["systems"][1]["worst"][0]["reference"] in shown.text("#worst")
        assert shown.value("document.documentElement.scrollWidth") <= 390
        assert [url for url in shown.requests if not url.startswith("file:")] == []


def test_injected_scripts_do_not_run(folder, tmp_path):
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    inserted = """<script>window.injected = 1</script><script src="injected.js"></script>
        <script src="data:text/javascript,window.injected=1"></script><img src="x.png" onerror="window.injected = 1">
        <svg onload="window.injected = 1"></svg><p id="styled" style="color: rgb(1, 2, 3)">text</p>
        <iframe srcdoc="<script>parent.injected = 1</script>"></iframe><base href="https://example.com/"><main>"""
    page = (folder / "page.html").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(page.replace("<main>", inserted, 1), encoding="utf-8")
    (tmp_path / "injected.js").write_text("window.injected = 1", encoding="utf-8")
    with browser(program) as shown:
        shown.open(tmp_path / "page.html")
        assert shown.value("typeof window.injected") == "undefined"
        assert shown.value("getComputedStyle(document.querySelector('#styled')).color") != "rgb(1, 2, 3)"
        assert shown.value("document.querySelectorAll('#worst canvas').length") > 0  # its own script runs
        assert shown.value("document.baseURI").startswith("file:")
        assert len([one for one in shown.errors if "Content Security Policy" in one]) >= 5
        with pytest.raises(AssertionError, match="TrustedHTML"):
            shown.value("document.body.innerHTML = '<p>'")


def test_unwritable_output_is_refused_before_the_work(tmp_path):
    answer = dragoman("analyse", GOLDEN / "no-such-run", *TEST_SET, "--out", "nowhere/page.html", cwd=tmp_path)
    assert answer.returncode == 2
    assert "nowhere/page.html: cannot be written" in answer.stderr


def test_missing_output_is_refused(tmp_path):
    answer = dragoman("analyse", REFERENCE, *TEST_SET, cwd=tmp_path)
    assert answer.returncode == 2
    assert "No output is given" in answer.stderr


def test_options_for_runs_are_refused_for_files(tmp_path):
    answer = dragoman("analyse", REFERENCE, *TEST_SET, "--json", "n.json", "--beam", 2, cwd=tmp_path)
    assert answer.returncode == 2
    assert "--beam-size has no effect without a run" in answer.stderr
