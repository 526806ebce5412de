"""Tree positions on the command line: training, use and missing trees."""

import json
import random
import sys
from pathlib import Path

import pytest

from dragoman.cli import main
from tests.small_runs import small_options, write_corpus
from tests.trees import conllu, random_tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::dragoman.inference.translation_result.TranslationWarning"),
]

MODEL = ("--set", "model.positions.kind=tree", "--set", "model.positions.max_distance=3")
FILES = ("--source", "train.en", "--target", "train.de")
TREES = ("--set", "data.train.source_features=train.conllu")


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=False)


def write_trees(folder: Path, *, seed: int) -> None:
    generator = random.Random(seed)
    texts = (folder / "train.en").read_text(encoding="utf-8").splitlines()
    trees = conllu([(text, random_tree(generator, len(text.split()))) for text in texts])
    (folder / "train.conllu").write_text(trees, encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Folder with a corpus, its trees, and a run that was trained on them."""
    place = tmp_path_factory.mktemp("trees")
    write_corpus(place, pairs=149)
    write_trees(place, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        small = small_options(tokenizer__vocab_size=300, training__max_steps=5)
        assert run("train", *FILES, "--out", "run", "--device", "cpu", *small, *TREES, *MODEL) == 0
    return place


@pytest.fixture(autouse=True)
def inside(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def texts(tmp_path) -> tuple[Path, Path]:
    """Three lines, one of them empty, and their trees."""
    source, trees = tmp_path / "source.txt", tmp_path / "source.conllu"
    source.write_text("two dogs play .\n\na small man sleeps .\n", encoding="utf-8")
    trees.write_text(conllu([("two dogs play .", (2, 3, 0, 3)), ("a small man sleeps .", (3, 3, 4, 0, 4))]))
    return source, trees


def test_trees_change_translations_and_scores(place, texts, tmp_path, capsys):
    source, trees = texts
    asked = ("translate", "run", "--input", source, "--beam", 2, "--scores")
    assert run(*asked, "--source-features", trees) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")]
    assert len(rows) == 4
    assert rows[1] == ["0.000000", "0.000000", ""]
    flat = tmp_path / "flat.conllu"
    flat.write_text(conllu([("two dogs play .", (0,) * 4), ("a small man sleeps .", (0,) * 5)]), encoding="utf-8")
    assert run(*asked, "--source-features", flat) == 0
    others = [line.split("\t") for line in capsys.readouterr().out.split("\n")]
    assert [row[0] != other[0] for row, other in zip(rows[:3], others[:3], strict=True)] == [True, False, True]
    assert run("score", "run", "--source", source, "--target", source, "--source-features", trees) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    written = tmp_path / "written.txt"
    written.write_text("".join(f"{row[-1]}\n" for row in rows[:3]), encoding="utf-8")
    evaluated = ("evaluate", "run", "--source", source, "--reference", written, "--beam", 2, "--source-features", trees)
    assert run(*evaluated, "--metric", "exact") == 0
    assert "100.00" in capsys.readouterr().out
    assert run(*evaluated, "--perturb", "typos") == 2
    assert "--perturb has no effect with --source-features" in capsys.readouterr().err
    assert run("bench", "run") == 2
    assert "has tree positions, which the benchmark does not support" in capsys.readouterr().err


def test_standard_input_has_trees(texts, monkeypatch, capsys):
    source, trees = texts
    assert run("translate", "run", "--input", source, "--source-features", trees) == 0
    expected = capsys.readouterr().out
    with source.open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert run("translate", "run", "--source-features", trees) == 0
    assert capsys.readouterr().out == expected


def test_inspect_reads_trees(texts, tmp_path, capsys):
    source, trees = texts
    given = [part for text in source.read_text(encoding="utf-8").splitlines() if text for part in ("--text", text)]
    assert run("inspect", "run", *given, "--json", tmp_path / "numbers.json", "--source-features", trees) == 0
    first, second = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["systems"][0]["sentences"]
    assert first["source_text"] == "two dogs play ."
    for rows in second["weights"]["encoder"][0][0]:
        assert sum(rows) == pytest.approx(1.0, abs=1e-5)
    best = [second["beam"]["steps"][step][at] for step, at in enumerate(second["beam"]["best_path"])]
    assert sum(one["log_prob"] for one in best) == pytest.approx(
        sum(step["log_prob"] for step in second["predictions"][: len(best)]), abs=1e-3
    )
    capsys.readouterr()
    assert run("inspect", "run", *given, "--json", tmp_path / "none.json") == 2
    assert "needs the dependency heads of each text" in capsys.readouterr().err


def test_missing_trees_give_one_message(texts, capsys):
    source, trees = texts
    for asked in (
        ("translate", "run", "--input", source),
        ("score", "run", "--source", source, "--target", source),
        ("evaluate", "run", "--source", source, "--reference", source),
    ):
        assert run(*asked) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        [message] = [line for line in captured.err.splitlines() if line.startswith("dragoman: ")]
        assert "tree positions and needs the dependency heads of each text" in message
        assert "--source-features" in message
    assert run("score", "run", "--target", source, "--perplexity", "--source-features", trees) == 2
    assert "--source-features has no effect with --perplexity" in capsys.readouterr().err


def test_trees_of_another_text_are_refused(texts, tmp_path, capsys):
    source, _ = texts
    trees = tmp_path / "other.conllu"
    trees.write_text(conllu([("two dogs play .", (2, 3, 0, 3)), ("a man sleeps .", (2, 3, 0, 3))]), encoding="utf-8")
    assert run("translate", "run", "--input", source, "--source-features", trees) == 2
    assert f"{trees}:8: a tree of 4 words, but {source}:3 has 5 between spaces" in capsys.readouterr().err
    trees.write_text(conllu([("two dogs play .", (2, 3, 0, 3))]), encoding="utf-8")
    assert run("translate", "run", "--input", source, "--source-features", trees) == 2
    assert f"{trees}: ends after 1 sentence, but {source}:3 has words too" in capsys.readouterr().err
    trees.write_text(conllu([("two dogs play .", (2, 3, 0, 3))] * 3), encoding="utf-8")
    source.write_text("two dogs play .\n\ntwo dogs play .\n", encoding="utf-8")
    assert run("translate", "run", "--input", source, "--source-features", trees) == 2
    assert f"{trees}:14: a sentence beyond the 2 lines of {source} with words" in capsys.readouterr().err


def test_training_without_trees_is_refused(capsys):
    assert run("train", *FILES, "--out", "new", *small_options(), *MODEL) == 2
    message = capsys.readouterr().err
    assert "data.train.source_features is not given: model.positions.kind = tree needs the dependency tree" in message
    assert run("train", *FILES, "--out", "new", *small_options(), *TREES) == 2
    message = capsys.readouterr().err
    assert "data.train.source_features = train.conllu has no effect without model.positions.kind = tree" in message
    assert not Path("new").exists()


def test_info_describes_tree_positions(capsys):
    assert run("info", "run") == 0
    assert "tree positions" in capsys.readouterr().out
