"""Numbers with their nouns and units."""

import pytest

from dragoman.cli import main
from dragoman.cli.score import _score_lines
from dragoman.decoding import Hypothesis
from dragoman.evaluation import Score
from dragoman.number_words import counted, singular, with_prefix
from tests.untrained_runs import finished_run


def test_number_with_its_noun():
    assert counted(1, "pairs") == "1 pair"
    assert counted(0, "pairs") == "0 pairs"
    assert counted(1234, "target tokens") == "1,234 target tokens"
    assert counted(1, "pairs are longer", "pair is longer") == "1 pair is longer"


@pytest.mark.parametrize(
    ("many", "one"),
    [("entries", "entry"), ("batches", "batch"), ("boxes", "box"), ("losses", "loss"), ("sizes", "size")],
)
def test_singular_of_regular_plurals(many, one):
    assert singular(many) == one


def test_quantity_with_the_prefix_of_its_size():
    assert [with_prefix(value, "FLOP") for value in (0, 7, 1500, 2.7e6, 3.1e15, 4e22)] == [
        "0.0 FLOP",
        "7.0 FLOP",
        "1.5 kFLOP",
        "2.7 MFLOP",
        "3.1 PFLOP",
        "40000.0 EFLOP",
    ]


def test_messages_have_no_plural_of_one_and_no_negative_zero(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    finished_run(tmp_path / "run")
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("two dogs\n", encoding="utf-8")
    assert main.run(["score", "run", "--source", "a.en", "--target", "a.de"], debug=True) == 0
    assert capfd.readouterr().err.startswith("dragoman: 1 line, ")
    (tmp_path / "two.de").write_text("two\ndogs\n", encoding="utf-8")
    assert main.run(["evaluate", "--hypothesis", "two.de", "--reference", "a.de"], debug=False) == 2
    assert "1 sentence" in (message := capfd.readouterr().err)
    assert "1 sentences" not in message
    assert f"{Score('loss', -0.001, '', '', higher_is_better=False)!r}" == "Score(loss = 0.00)"
    certain, totals = Hypothesis((2,), -0.0, -0.0, (-0.0,), finished=True), {"lines": 0, "tokens": 0, "log_prob": 0.0}
    assert list(_score_lines(iter([certain]), totals, "text")) == ["0.000000\t0.000000"]
