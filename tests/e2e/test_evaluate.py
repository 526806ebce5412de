"""`dragoman evaluate` and `dragoman compare` on files: scores, tables and errors."""

import gzip
import json
from types import SimpleNamespace
from typing import ClassVar

import pytest

from dragoman.cli.main import run
from dragoman.decoding.config import DecodingConfig
from dragoman.evaluation import Bleu, ExactMatch, corpus_score

REFERENCE = ["The cat sat on the mat.", "A dog barks at me.", "Hello there, my friend!"]
OUTPUT = ["The cat sat on a mat.", "A dog barks at me.", "hello there my friend!"]
WORSE = ["Cats sit on mats.", "A dog barks.", "Hello!"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name, lines in [("reference", REFERENCE), ("output", OUTPUT), ("worse", WORSE), ("short", OUTPUT[:2])]:
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def dragoman(*arguments: str) -> int:
    return run(list(arguments), debug=False)


def test_scores_are_printed_with_signatures(folder, capsys):
    assert dragoman("evaluate", "--hypothesis", "output", "--reference", "reference") == 0
    heading, bleu, chrf = capsys.readouterr().out.splitlines()
    expected = corpus_score(OUTPUT, [REFERENCE], Bleu())
    assert heading.split() == ["metric", "score", "signature"]
    assert bleu.split() == ["BLEU", f"{expected.value:.2f}", expected.signature]
    assert chrf.startswith("chrF2")


def test_metrics_are_accepted_regardless_of_case(folder, capsys):
    assert dragoman("evaluate", "--hypothesis", "output", "-r", "reference", "-m", "BLEU", "--tokenize", "Char") == 0
    assert "BLEU" in capsys.readouterr().out


def test_low_scores_are_noted(folder, capsys):
    (folder / "bad").write_text("x\n" * len(REFERENCE), encoding="utf-8")
    assert dragoman("evaluate", "--hypothesis", "output", "--reference", "reference") == 0
    assert "note" not in capsys.readouterr().err
    assert dragoman("evaluate", "--hypothesis", "bad", "--reference", "reference", "--json") == 0
    assert (
        "dragoman: note: the scores are not good enough for useful translations. BLEU is 0.00"
        in capsys.readouterr().err
    )
    assert dragoman("evaluate", "--hypothesis", "bad", "--reference", "reference", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_json_has_scores_and_sentences(folder, capsys):
    options = ["-m", "exact", "-m", "bleu", "-m", "exact", "--lowercase", "--tokenize", "none", "--sentence", "--json"]
    assert dragoman("evaluate", "--hypothesis", "output", "-r", "reference", "-r", "output", *options) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["metric"] for row in answer["scores"]] == ["exact", "BLEU"]
    assert answer["scores"][0]["score"] == 100.0
    assert "nrefs:2|case:lc|eff:no|tok:none" in answer["scores"][1]["signature"]
    assert [row["line"] for row in answer["sentences"]] == [1, 2, 3]
    assert answer["sentences"][2]["exact"] == 100.0


def test_sentence_scores_are_tab_separated_lines(folder, capsys):
    assert dragoman("evaluate", "--hypothesis", "output", "-r", "reference", "-m", "exact", "--sentence") == 0
    assert capsys.readouterr().out.splitlines()[:4] == ["line\texact", "1\t0.00", "2\t100.00", "3\t0.00"]


def test_compare_prints_scores_intervals_and_p_values(folder, capsys):
    options = ["--metric", "bleu", "--seed", "3", "--resamples", "101", "--trials", "103"]
    assert dragoman("compare", "--reference", "reference", "output", "worse", *options) == 0
    heading, baseline, worse, signature = capsys.readouterr().out.splitlines()[:4]
    assert "p bootstrap" in heading
    assert baseline.split()[0] == "output"
    assert baseline.split()[-1] == "baseline"
    assert worse.split()[0] == "worse"
    assert "bs:101|ar:103|seed:3" in signature


def test_compare_prints_json(folder, capsys):
    options = ["-m", "exact", "--resamples", "101", "--trials", "1009", "--json"]
    assert dragoman("compare", "-r", "reference", "output", "worse", "short", *options) == 2
    assert "short" in capsys.readouterr().err
    assert dragoman("compare", "-r", "reference", "output", "worse", *options) == 0
    baseline, worse = json.loads(capsys.readouterr().out)
    assert baseline["score"] == round(corpus_score(OUTPUT, [REFERENCE], ExactMatch()).value, 4)
    assert baseline["p_bootstrap"] is None
    assert worse["difference"] == pytest.approx(-100 / 3, abs=1e-4)
    assert worse["p_randomization"] == 1.0  # one sentence differs, so no swap reduces the difference


def test_line_ends_and_compression_do_not_change_scores(folder, capsys):
    (folder / "windows").write_bytes("\ufeff".encode() + "\r\n".join(REFERENCE).encode())
    (folder / "packed.gz").write_bytes(gzip.compress((folder / "reference").read_bytes()))
    assert dragoman("evaluate", "--hypothesis", "windows", "-r", "packed.gz", "-m", "exact", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scores"][0]["score"] == 100.0
    assert "windows: 2 x Windows line end" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--hypothesis", "short", "-r", "reference"], "reference: 3 sentences, but short has 2"),
        (["evaluate", "--hypothesis", "nowhere", "-r", "reference"], "nowhere: cannot be read"),
        (["evaluate", "--hypothesis", "empty", "-r", "reference"], "empty: is empty"),
        (["evaluate", "-r", "reference"], "evaluate needs translations"),
        (["evaluate", "run", "-r", "reference"], "Give --source FILE, or --pairs FILE with sources"),
        (["evaluate", "run"], "Give --source FILE and --reference FILE, or --pairs FILE with sources"),
        (["evaluate", "--hypothesis", "output"], "Give --reference FILE, or --pairs FILE with sources"),
        (["evaluate", "run", "columns.tsv"], "Give a file with both sides with --pairs columns.tsv."),
        (["evaluate", "run", "output"], "Give two files with --source and --reference, or a file with both sides"),
        (["evaluate", "--hypothesis", "columns.tsv", "-r", "reference"], "columns.tsv: 3 of the first 3 lines contain"),
        (["evaluate", "--hypothesis", "output", "-r", "columns.tsv"], "such as that of cut -f1 columns.tsv"),
        (
            ["evaluate", "--hypothesis", "output", "-r", "reference", "--beam", "3"],
            "--beam-size has no effect with --hypothesis",
        ),
        (
            ["evaluate", "--hypothesis", "output", "-r", "reference", "--decoding", "mbr"],
            "--decoding has no effect with --hypothesis",
        ),
        (["evaluate", "--hypothesis", "latin", "-r", "reference"], "latin:2: not UTF-8"),
        (["evaluate", "run", "--hypothesis", "output", "-r", "reference"], "not both"),
        (["evaluate", "--hypothesis", "output", "-r", "reference", "--tokenize", "moses"], "--tokenize 'moses'"),
        (
            ["evaluate", "--hypothesis", "output", "-r", "reference", "-m", "ter", "--tokenize", "none"],
            "only BLEU splits words",
        ),
        (["compare", "-r", "reference", "output"], "at least two systems"),
        (["compare", "-r", "reference", "output", "output"], "is given twice"),
        (["compare", "-r", "reference", "output", "short"], "reference: 3 sentences, but short has 2"),
    ],
)
def test_invalid_input_gives_one_message(folder, capsys, arguments, message):
    (folder / "empty").touch()
    (folder / "columns.tsv").write_text("a\tb\n" * len(REFERENCE), encoding="utf-8")
    (folder / "latin").write_bytes(b"plain\nd\xe9j\xe0\nplain\n")
    assert dragoman(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


def test_rouge_is_scored_by_its_variants(folder, capsys):
    options = ["-m", "rouge1", "-m", "rouge2", "-m", "rougeL", "--json"]
    assert dragoman("evaluate", "--hypothesis", "output", "-r", "reference", *options) == 0
    rows = json.loads(capsys.readouterr().out)["scores"]
    assert [row["metric"] for row in rows] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    # Of the first sentence 5 of 6 words; the others differ in case and punctuation alone.
    assert rows[0]["score"] == pytest.approx((100 * 5 / 6 + 100 + 100) / 3, abs=1e-3)


class Copying:
    """Translator that returns the outputs of the folder, and records its sources."""

    config = DecodingConfig()
    backend = None
    sources: ClassVar[list[str]] = []

    def translate(self, texts, _config, **_options):
        self.sources[:] = texts
        return [[SimpleNamespace(text=one)] for one in OUTPUT]


def test_test_set_in_one_file_equals_two_files(folder, capsys, monkeypatch):
    monkeypatch.setattr("dragoman.cli.evaluate.load_as", lambda *_, **__: Copying())
    monkeypatch.setattr("dragoman.inference.backends.protocol.describe_backend", lambda _: "Copying, device=cpu")
    rows = [f"Satz {number}\t{text}\n" for number, text in enumerate(REFERENCE)]
    (folder / "heldout.tsv").write_text("German\tEnglish\n" + "".join(rows), encoding="utf-8")
    expected = None
    for arguments in (
        ["--hypothesis", "output", "-r", "reference"],
        ["--hypothesis", "output", "--pairs", "heldout.tsv"],
        ["run", "--pairs", "heldout.tsv"],
        ["run", "--tsv", "heldout.tsv"],
    ):
        assert dragoman("evaluate", *arguments) == 0
        found = capsys.readouterr().out
        expected = expected or found
        assert found == expected
    assert dragoman("evaluate", "run", "--tsv", "heldout.tsv", "--perturb", "typos", "--json") == 0
    written = capsys.readouterr()
    facts = json.loads(written.out)
    assert (facts["run"], facts["perturb"], facts["decoding"]) == (
        "run",
        "typos",
        DecodingConfig().model_dump(mode="json"),
    )
    assert facts["model"].endswith("device=cpu")
    assert "decoding: beam_size 5, length_penalty 1.0, length_penalty_kind average; model: " in written.err
    assert dragoman("evaluate", "run", "--tsv", "heldout.tsv") == 0
    assert Copying.sources == ["Satz 0", "Satz 1", "Satz 2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--pairs", "reference"], "Give two text files with --source and --reference"),
        (["run", "--pairs", "heldout.tsv", "-r", "reference"], "--reference has no effect with --pairs"),
        (["run", "--source", "reference"], "--pairs FILE with sources and references"),
    ],
)
def test_wrong_test_sets_are_refused(arguments, message, folder, capsys):
    assert dragoman("evaluate", *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
