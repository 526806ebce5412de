"""`dragoman data glossary`: inflections of terms from a corpus."""

import json
from pathlib import Path

import pytest

from dragoman.cli import main

PAIRS = [("the red jacket", "die rote Jacke"), ("red jackets", "rote Jacken"), ("two jackets", "zwei Jacken")] * 2


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for side, name in enumerate(("train.en", "train.de")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    Path("terms.tsv").write_text("jacket\tJacke\nMac\t\n", encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> int:
    return main.run(["data", "glossary", *arguments], debug=False)


def test_forms_of_a_corpus_are_added(files, capsys):
    corpus = ("--source", "train.en", "--target", "train.de")
    assert run("terms.tsv", *corpus, "--output", "forms.tsv", "--json") == 0
    expected = "source\ttarget\tforbidden\tcase\tnote\njacket|jackets\tJacke|Jacken\t\tsmart\t\nMac\t\t\tsmart\t\n"
    assert Path("forms.tsv").read_text(encoding="utf-8") == expected
    assert json.loads(capsys.readouterr().out) == {"path": "forms.tsv", "terms": 2, "forms": 5, "added": 2}


def test_errors_write_nothing(files, capsys):
    assert run("terms.tsv", "--output", "forms.tsv") == 2
    assert "Give --source and --target" in capsys.readouterr().err
    assert run("terms.tsv", "--source", "train.en", "--output", "forms.tsv") == 2
    assert run("missing.tsv", "--source", "train.en", "--target", "train.de", "--output", "forms.tsv") == 2
    assert not Path("forms.tsv").exists()
