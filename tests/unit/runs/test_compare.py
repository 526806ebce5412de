"""Comparison of runs."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import dragoman
from dragoman.cli import main
from dragoman.runs.compare import (
    RunScore,
    RunSummary,
    _corpus_fingerprint,
    comparable_scores,
    find_score,
    read_model_summary,
    summarize_run,
)
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import summarize_model
from tests.small_tasks import config_of, write_texts

GOLDEN = Path(__file__).parents[2] / "golden" / "run-1"


def facts(name: str, *scores: RunScore) -> RunSummary:
    return RunSummary(name, "translation", "encoder_decoder", 7, 0.5, "last", 1.0, 9, 99, "tokens", 12.0, scores)


def score(value: float, signature: str = "a", metric: str = "BLEU", name: str = "valid") -> RunScore:
    return RunScore(name, metric, value, signature, higher_is_better=metric != "TER")


def test_summary_has_the_facts_of_the_folder():
    found = summarize_run(GOLDEN)
    scores = json.loads((GOLDEN / "scores.json").read_text(encoding="utf-8"))
    assert (found.task, found.model, found.steps) == ("translation", "encoder_decoder", scores["steps"])
    assert found.minutes == pytest.approx(scores["seconds"] / 60)
    assert [one.metric for one in found.scores] == [one["metric"] for one in scores["scores"]["valid"]]
    assert found.tokens_per_second is None  # its metrics were not kept
    assert json.loads(json.dumps(asdict(found)))["parameters"] == found.parameters > 0


def test_unfinished_run_has_its_last_losses(tmp_path, capsys):
    folder = shutil.copytree(GOLDEN, tmp_path / "run")
    for name in ("scores.json", "model.safetensors"):
        (folder / name).unlink()
    log = {"event": "log", "epoch": 0, "tokens_per_second": 11.0}
    events = [
        log | {"step": 5, "loss": 4.5, "seconds": 30.0},
        {"event": "validation", "step": 5, "scores": {"loss": 4.25, "bleu": 1.0}, "seconds": 40.0},
        log | {"step": 10, "loss": 3.5, "seconds": 90.0},
    ]
    lines = [json.dumps(event) for event in events]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, lines[0][:30]]), encoding="utf-8")
    summary = summarize_run(folder)
    assert (summary.steps, summary.minutes, summary.train_loss, summary.valid_loss) == (10, 1.5, 3.5, 4.25)
    assert main.run(["compare", str(folder), str(GOLDEN)], debug=False) == 0
    rows = {line.split("  ")[0].strip(): line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "3.500" in rows["last train loss"]
    assert "4.250" in rows["last valid loss"]


def test_scores_are_compared_by_signature():
    one = facts("one", score(1.0), score(2.0, name="test"), score(3.0, "b"))
    other = facts("other", score(4.0), score(5.0, metric="TER"))
    keys = [score.key for score in comparable_scores([one, other])]
    assert keys == [
        ("valid", "BLEU", "a", ""),
        ("valid", "BLEU", "b", ""),
        ("valid", "TER", "a", ""),
        ("test", "BLEU", "a", ""),
    ]
    found = [[find_score(run, key) for run in (one, other)] for key in keys]
    assert [[None if cell is None else cell.value for cell in row] for row in found] == [
        [1.0, 4.0],
        [3.0, None],
        [None, 5.0],
        [2.0, None],
    ]


def test_scores_on_other_texts_are_not_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name, digest in (("one", "a"), ("same", "a"), ("other", "b")):
        shutil.copytree(GOLDEN, tmp_path / name)
        corpora = [{"file": file, "sha256": digest + file} for file in ("train.en", "train.de")]
        (tmp_path / name / "environment.json").write_text(json.dumps({"seed": 1, "corpora": corpora}), encoding="utf-8")
    of = {name: {one.texts for one in summarize_run(tmp_path / name).scores} for name in ("one", "same", "other")}
    assert of["one"] == of["same"] != of["other"]
    twice = json.dumps({"corpora": 2 * corpora})
    (tmp_path / "same" / "environment.json").write_text(twice, encoding="utf-8")
    assert {one.texts for one in summarize_run(tmp_path / "same").scores} == {""}, "files of one name are ambiguous"
    assert main.run(["compare", str(tmp_path / "one"), str(tmp_path / "other")], debug=False) == 0
    rows = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("valid: BLEU (1)")]
    assert [row.startswith("valid: BLEU (1) of other texts") for row in rows] == [False, True]


def test_default_split_equals_the_same_share_given(tmp_path):
    of = []
    for name, size, seed in (("default", "null", 1), ("given", "0.1", 2), ("smaller", "0.05", 1)):
        folder = tmp_path / name
        folder.mkdir()
        config = f"task: language_modeling\ndata:\n  train: {{kind: text, path: a.txt}}\n  valid_size: {size}\n"
        (folder / "config.yaml").write_text(f"format_version: 1\n{config}", encoding="utf-8")
        facts = {"seed": seed, "corpora": [{"file": "a.txt", "sha256": "a"}]}
        (folder / "environment.json").write_text(json.dumps(facts), encoding="utf-8")
        of.append(_corpus_fingerprint("valid", RunFolder(folder)))
    assert of[0] == of[1] != of[2]


def test_best_score_is_bold():
    from dragoman.cli.compare import _mark_best

    def marked(*scores):
        return [(cell.plain, cell.style) for cell in _mark_best(scores)]

    assert marked(score(1.0), None, score(4.0)) == [("1.00", ""), ("", ""), ("4.00", "bold")]
    assert marked(score(1.0, metric="TER"), score(4.0, metric="TER"))[0] == ("1.00", "bold")
    assert marked(score(1.0), None) == [("1.00", ""), ("", "")]


def test_compare_prints_one_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(GOLDEN, tmp_path / "again")
    assert main.run(["compare", str(GOLDEN), str(tmp_path / "again")], debug=False) == 0
    out = capsys.readouterr().out
    for part in ("task", "MFLOP per token", "parameters", "valid: BLEU (1)", "(1) nrefs:1|case:mixed|eff:no"):
        assert out.count(part) == 1
    assert main.run(["compare", str(GOLDEN), str(tmp_path / "again"), "--json"], debug=False) == 0
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [str(GOLDEN), str(tmp_path / "again")]


def test_compare_shows_the_settings_that_differ(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(GOLDEN, tmp_path / "other")
    config = tmp_path / "other" / "config.yaml"
    written = config.read_text(encoding="utf-8")
    assert "  seed: 1\n" in written
    config.write_text(written.replace("  seed: 1\n", "  seed: 907\n"), encoding="utf-8")
    assert main.run(["compare", str(GOLDEN), str(tmp_path / "other")], debug=False) == 0
    _, _, settings = capsys.readouterr().out.partition("settings that differ")
    assert [line.split() for line in settings.splitlines()[2:]] == [["training.seed", "1", "907"]]


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        (["nowhere"], "nowhere: is not a run folder. Give run folders only"),
        ([str(GOLDEN), str(GOLDEN)], "is given twice"),
        ([str(GOLDEN.parent)], "is not a run folder"),
        (
            [str(GOLDEN), "--seed", "3"],
            "Leave them out, or give such files",
        ),
    ],
)
def test_compare_errors(systems, message, capsys):
    assert main.run(["compare", *systems], debug=False) == 2
    assert message in capsys.readouterr().err


def test_compare_refuses_a_run_by_another_path(tmp_path, capsys):
    (tmp_path / "again").symlink_to(GOLDEN)
    assert main.run(["compare", str(GOLDEN), str(tmp_path / "again")], debug=False) == 2
    assert f"again: is {GOLDEN} by another path" in capsys.readouterr().err


def test_compare_notes_runs_of_different_tasks(tmp_path, capsys):
    write_texts(tmp_path)
    dragoman.train(config_of("classification", tmp_path), output_dir=tmp_path / "classifier", max_steps=1)
    assert main.run(["compare", str(GOLDEN), str(tmp_path / "classifier")], debug=False) == 0
    err = capsys.readouterr().err
    assert "note: scores of different tasks are not comparable: translation, classification" in err


def test_info_and_compare_read_a_finished_run_without_pytorch(tmp_path):
    write_texts(tmp_path)
    for name in ("one", "other"):
        dragoman.train(config_of("translation", tmp_path), output_dir=tmp_path / name, max_steps=2)
    folder = RunFolder(tmp_path / "one")
    stored, built = read_model_summary(folder), summarize_model(folder)
    assert stored == built
    program = (
        "import sys; from dragoman.cli.main import run;"
        "codes = [run(verb, debug=True) for verb in (['info', 'one'], ['compare', 'one', 'other'],"
        "['compare', 'train.en', 'train.de', '--reference', 'train.de', '--metric', 'exact'])];"
        "print(codes, 'torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[0, 0, 0] False", answer.stderr
    assert built.description in answer.stdout
