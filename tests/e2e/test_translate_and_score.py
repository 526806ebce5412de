"""`dragoman translate` and `dragoman score`: what they read, print and refuse. The run is a random network."""

import gzip
import io
import json
import math
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.data.tokenizers import Characters, Tokenizer
from dragoman.decoding import Average, Gnmt, LengthLimit, MinimumBayesRisk, SearchSettings
from dragoman.inference import Translator
from tests.fakes import PrefixNetwork

LINES = ["two dogs", "", "a cat", "dogs and a cat"]


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """What every run folder loads as."""
    pairs = [("two dogs and a cat", "zwei Hunde und eine Katze")]
    tokenizer = Tokenizer.train(lambda: pairs, Characters(shared=False))
    loaded = Translator(PrefixNetwork(words=len(tokenizer.target) - 4, end_bias=3.0), tokenizer)

    def load(path: Path, *, device: str | None, compute: str, batch_tokens: int, beside: Sequence[Path]) -> Translator:
        assert path == Path("runs/en-de")
        loaded.batch_tokens = batch_tokens
        return loaded

    monkeypatch.setitem(sys.modules, "dragoman.runs.load", types.SimpleNamespace(load=load))
    return loaded


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=False)


def test_as_many_lines_come_out_as_went_in(translator, source, capsys):
    assert run("translate", "runs/en-de", "--input", source) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n")
    assert out.split("\n")[:-1] == translator.translate(LINES)
    assert out.split("\n")[1] == ""


def test_the_search_is_the_run_s_but_for_what_is_asked(translator, source, capsys):
    translator.settings = SearchSettings(beam=2, normalisation=Average(alpha=1.7), maximum_length=LengthLimit(offset=5))
    assert run("translate", "runs/en-de", "-i", source) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == translator.translate(LINES)
    asked = {
        ("--beam", 4): {"beam": 4},
        ("--max-length-factor", 0.5): {"maximum_length": LengthLimit(factor=0.5, offset=5)},
        ("--length-penalty", 0.3): {"normalisation": Average(alpha=0.3)},
        ("--normalisation", "gnmt"): {"normalisation": Gnmt()},
    }
    for options, changed in asked.items():
        assert run("translate", "runs/en-de", "-i", source, "--format", "jsonl", *options) == 0
        printed = [json.loads(line)["translations"] for line in capsys.readouterr().out.splitlines()]
        found = translator.hypotheses(LINES, translator.settings.model_copy(update=changed))
        assert [[one["score"] for one in row] for row in printed] == [
            [one.hypothesis.score for one in row] for row in found
        ]


def test_what_agrees_best_with_the_beam_is_given_out_on_demand(translator, source, capsys):
    risk = MinimumBayesRisk(temperature=5.0)
    printed = {}
    for name in ("likeliest", "minimum-bayes-risk"):
        assert run("translate", "runs/en-de", "-i", source, "--beam", 6, "--choice", name) == 0
        printed[name] = capsys.readouterr().out.split("\n")[:-1]
    assert printed["likeliest"] == translator.translate(LINES, beam=6)
    assert printed["minimum-bayes-risk"] == translator.translate(LINES, beam=6, choice=MinimumBayesRisk())
    assert printed["minimum-bayes-risk"] != printed["likeliest"]
    translator.settings = SearchSettings(beam=6, choice=risk)
    assert run("translate", "runs/en-de", "-i", source) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == translator.translate(LINES, choice=risk)
    assert run("translate", "runs/en-de", "-i", source, "--choice", "likeliest") == 0
    assert capsys.readouterr().out.split("\n")[:-1] == printed["likeliest"]


def test_standard_input_is_read_and_a_file_written_whole(translator, tmp_path, monkeypatch, capsys):
    text = "two dogs\r\n\r\na cat"  # without a line end after the last line
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    target = tmp_path / "target.txt"
    assert run("translate", "runs/en-de", "--output", target, "--beam", 1) == 0
    written = target.read_text(encoding="utf-8").split("\n")
    assert written == [*translator.translate(["two dogs", "", "a cat"], beam=1), ""]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "standard input: 2 x Windows line end" in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["target.txt"]


def test_compressed_files_are_read(translator, tmp_path, capsys):
    path = tmp_path / "source.txt.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert run("translate", "runs/en-de", "-i", path) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == translator.translate(LINES)


def test_scores_and_several_translations_are_printed_on_demand(translator, source, capsys):
    assert run("translate", "runs/en-de", "-i", source, "--scores") == 0
    scored = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[2] for row in scored] == translator.translate(LINES)
    assert all(float(log_prob) <= float(score) <= 0 for score, log_prob, _ in scored)
    assert run("translate", "runs/en-de", "-i", source, "--n-best", 3) == 0
    rows = [line.split(" ||| ") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["0", "0", "0", "1", "2", "2", "2", "3", "3", "3"]
    assert [row[1] for row in rows[::3][:1]] == translator.translate(LINES[:1])


def test_json_lines_hold_everything(translator, source, capsys):
    assert run("translate", "runs/en-de", "-i", source, "--format", "jsonl", "--n-best", 2) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert [row["translations"][0]["text"] for row in rows] == translator.translate(LINES)
    best = rows[0]["translations"][0]
    assert best["log_prob"] == pytest.approx(math.fsum(best["token_log_probs"]), abs=1e-5)
    assert best["score"] == pytest.approx(best["log_prob"] / len(best["token_log_probs"]), abs=1e-5)


def test_options_reach_the_search(translator, source, capsys):
    options = ["--normalisation", "gnmt", "--length-penalty", "2", "--min-length", "3", "--max-length", "5"]
    assert run("translate", "runs/en-de", "-i", source, *options, "--format", "jsonl", "--batch-tokens", 7) == 0
    assert translator.batch_tokens == 7
    for line in capsys.readouterr().out.splitlines():
        [found] = json.loads(line)["translations"]
        if found["tokens"]:
            assert 3 <= len(found["tokens"]) <= 5
            length = len(found["token_log_probs"])
            assert found["score"] == pytest.approx(found["log_prob"] / ((5 + length) / 6) ** 2, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "7"], "best = 7 is more than a beam of 5 can return"),
        (["--normalisation", "raw", "--length-penalty", "1"], "--length-penalty has no effect"),
        (["--scores", "--format", "jsonl"], "--scores has no effect with --format jsonl"),
        (["--scores", "--n-best", "2"], "--scores has no effect with --n-best"),
        (["--input", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--min-length", "3000"], "minimum_length = 3000 is above"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(translator, source, capsys, options, message):
    assert run("translate", "runs/en-de", "--input", source, *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_a_bad_line_leaves_the_output_as_it_was(translator, tmp_path, capsys):
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_bytes(b"two dogs\n\xff\xfea cat\n")
    target.write_text("from before\n", encoding="utf-8")
    assert run("translate", "runs/en-de", "-i", source, "-o", target) == 2
    assert f"{source}:2: not UTF-8" in capsys.readouterr().err
    assert target.read_text(encoding="utf-8") == "from before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.txt", "target.txt"]


def test_a_hundred_thousand_words_are_refused(translator, tmp_path, capsys):
    source = tmp_path / "source.txt"
    source.write_text("a cat\n" + "cat " * 100_000, encoding="utf-8")
    assert run("translate", "runs/en-de", "-i", source) == 2
    assert "line 2: " in capsys.readouterr().err


def test_a_device_is_written_to_and_not_replaced(translator, source):
    assert run("translate", "runs/en-de", "-i", source, "-o", "/dev/null") == 0
    assert not Path("/dev/null").is_file()


def test_scores_of_given_translations(translator, source, tmp_path, capsys):
    target = tmp_path / "target.txt"
    outputs = ["zwei Hunde", "", "eine Katze", "Hunde"]
    target.write_text("\n".join(outputs) + "\n", encoding="utf-8")
    assert run("score", "runs/en-de", "--source", source, "--target", target) == 0
    captured = capsys.readouterr()
    rows = [[float(number) for number in line.split("\t")] for line in captured.out.splitlines()]
    expected = translator.score(LINES, outputs)
    assert [row[0] for row in rows] == pytest.approx([one.log_prob for one in expected], abs=1e-5)
    assert [row[1] for row in rows] == pytest.approx([one.score for one in expected], abs=1e-5)
    tokens = sum(one.length for one in expected)
    perplexity = math.exp(-sum(one.log_prob for one in expected) / tokens)
    assert f"4 lines, {tokens} tokens" in captured.err
    assert f"perplexity {perplexity:,.4f}" in captured.err


def test_scores_as_json_lines(translator, source, tmp_path, capsys):
    assert run("score", "runs/en-de", "--source", source, "--target", source, "--format", "jsonl") == 0
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        assert row["tokens"] == len(row["token_log_probs"])
        assert row["log_prob"] == pytest.approx(math.fsum(row["token_log_probs"]), abs=1e-4)


def test_files_of_unequal_length_cannot_be_scored(translator, source, tmp_path, capsys):
    target = tmp_path / "target.txt"
    target.write_text("zwei Hunde\n", encoding="utf-8")
    assert run("score", "runs/en-de", "--source", source, "--target", target) == 2
    assert "ends after 1 lines, but" in capsys.readouterr().err


def test_a_translation_with_the_end_of_a_line_in_it_stays_in_its_own(translator, source, capsys, monkeypatch):
    decode = type(translator.tokenizer.target).decode
    monkeypatch.setattr(type(translator.tokenizer.target), "decode", lambda side, ids: "\n".join(decode(side, ids)))
    assert run("translate", "runs/en-de", "--input", source) == 0
    assert len(capsys.readouterr().out.split("\n")) == len(LINES) + 1
