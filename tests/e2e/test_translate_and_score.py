"""`dragoman translate` and `dragoman score` on a random model: input, output and errors."""

import gzip
import io
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman import load as dragoman_load
from dragoman.cli import main
from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig
from dragoman.inference import Constraint, Translator
from dragoman.runs import load as runs_load
from tests.fake_models import PrefixModel
from tests.untrained_runs import finished_run

LINES = ["two dogs", "", "a cat", "dogs and a cat"]


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """Translator that every run folder loads as."""
    pairs = [("two dogs and a cat", "zwei Hunde und eine Katze")]
    tokenizer = Tokenizer.train(lambda: pairs, CharacterConfig(shared=False))
    loaded = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=3.0), tokenizer)

    def load(path: Path, _kind: type, *, batch_tokens: int = 4096, **_options: object) -> Translator:
        assert path == Path("runs/en-de")
        loaded.batch_tokens = batch_tokens
        return loaded

    monkeypatch.setattr(runs_load, "load", load)
    return loaded


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def best(translator: Translator, lines: Sequence[str] = LINES, **options: object) -> list[str]:
    return [result.text for result in translator.translate(lines, **options)]


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=False)


def test_output_has_one_line_per_input_line(translator, source, capsys):
    assert run("translate", "runs/en-de", "--input", source) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n")
    assert out.split("\n")[:-1] == best(translator)
    assert out.split("\n")[1] == ""


def test_options_override_the_decoding_config_of_the_run(translator, source, capsys):
    translator.config = DecodingConfig(beam_size=2, length_penalty=1.7, max_length_offset=5)
    assert run("translate", "runs/en-de", "-i", source) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == best(translator)
    asked = {
        ("--beam-size", 4): {"beam_size": 4},
        ("--max-length-ratio", 0.5): {"max_length_ratio": 0.5},
        ("--length-penalty", 0.3): {"length_penalty": 0.3},
        ("--length-penalty-kind", "gnmt"): {"length_penalty_kind": "gnmt", "length_penalty": None},
    }
    for options, changed in asked.items():
        assert run("translate", "runs/en-de", "-i", source, "--format", "jsonl", *options) == 0
        printed = [json.loads(line)["translations"] for line in capsys.readouterr().out.splitlines()]
        found = translator.translate(LINES, translator.config.model_copy(update=changed))
        assert [[one["score"] for one in row] for row in printed] == [
            [one.hypothesis.score for one in row] for row in found
        ]


def test_mbr_changes_the_output_on_demand(translator, source, capsys):
    printed = {}
    for method in ("beam_search", "mbr"):
        assert run("translate", "runs/en-de", "-i", source, "--beam-size", 6, "--decoding", method) == 0
        printed[method] = capsys.readouterr().out.split("\n")[:-1]
    assert printed["beam_search"] == best(translator, beam_size=6)
    assert printed["mbr"] == best(translator, beam_size=6, method="mbr")
    translator.config = DecodingConfig(beam_size=6, method="mbr", mbr_temperature=5.0)
    assert run("translate", "runs/en-de", "-i", source) == 0
    chosen = capsys.readouterr().out.split("\n")[:-1]
    assert chosen == best(translator)
    assert chosen != printed["beam_search"]
    assert run("translate", "runs/en-de", "-i", source, "--decoding", "beam_search") == 0
    assert capsys.readouterr().out.split("\n")[:-1] == printed["beam_search"]


def test_standard_input_is_read_and_a_file_written_whole(translator, tmp_path, monkeypatch, capsys):
    text = "two dogs\r\n\r\na cat"  # without a line end after the last line
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    target = tmp_path / "target.txt"
    assert run("translate", "runs/en-de", "--output", target, "--beam", 1) == 0
    written = target.read_text(encoding="utf-8").split("\n")
    assert written == [*best(translator, ["two dogs", "", "a cat"], beam_size=1), ""]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "standard input: 2 x Windows line end" in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["target.txt"]


def test_compressed_files_are_read(translator, tmp_path, capsys):
    path = tmp_path / "source.txt.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert run("translate", "runs/en-de", "-i", path) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == best(translator)


def test_scores_and_several_translations_are_printed_on_demand(translator, source, capsys):
    assert run("translate", "runs/en-de", "-i", source, "--scores") == 0
    scored = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[2] for row in scored] == best(translator)
    assert all(float(log_prob) <= float(score) <= 0 for score, log_prob, _ in scored)
    assert run("translate", "runs/en-de", "-i", source, "--n-best", 3) == 0
    rows = [line.split(" ||| ") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["0", "0", "0", "1", "2", "2", "2", "3", "3", "3"]
    assert [row[1] for row in rows[::3][:1]] == best(translator, LINES[:1])


def test_json_lines_hold_everything(translator, source, capsys):
    assert run("translate", "runs/en-de", "-i", source, "--format", "jsonl", "--n-best", 2) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert [row["translations"][0]["text"] for row in rows] == best(translator)
    first = rows[0]["translations"][0]
    assert first["log_prob"] == pytest.approx(math.fsum(first["token_log_probs"]), abs=1e-5)
    assert first["score"] == pytest.approx(first["log_prob"] / len(first["token_log_probs"]), abs=1e-5)


def test_options_reach_the_search(translator, source, capsys):
    options = ["--length-penalty-kind", "gnmt", "--length-penalty", "2", "--min-length", "3", "--max-length", "5"]
    assert run("translate", "runs/en-de", "-i", source, *options, "--format", "jsonl", "--batch-tokens", 7) == 0
    assert translator.batch_tokens == 7
    for line in capsys.readouterr().out.splitlines():
        [found] = json.loads(line)["translations"]
        if found["tokens"]:
            assert 3 <= len(found["tokens"]) <= 5
            length = len(found["token_log_probs"])
            assert found["score"] == pytest.approx(found["log_prob"] / ((5 + length) / 6) ** 2, rel=1e-5)


def test_every_translation_begins_with_a_prefix(translator, source, capsys):
    assert run("translate", "runs/en-de", "--input", source, "--target-prefix", "eine") == 0
    found = capsys.readouterr().out.splitlines()
    assert found == best(translator, target_prefix="eine")
    assert [line.startswith("eine") for line in found] == [bool(line) for line in LINES]


def test_constraints_are_those_of_each_line(translator, source, tmp_path, capsys):
    file = tmp_path / "constraints.jsonl"
    rows = [["Meer"] if line else [] for line in LINES]
    file.write_text("".join(json.dumps(row) + "\n" if row else "\n" for row in rows), encoding="utf-8")
    assert run("translate", "runs/en-de", "--input", source, "--constraints", file) == 0
    found = capsys.readouterr().out.splitlines()
    assert found == best(translator, constraints=[list(map(Constraint, row)) for row in rows])
    assert ["Meer" in line for line in found] == [bool(row) for row in rows]


@pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")
def test_a_glossary_gives_terms(tmp_path, capsys):
    path = finished_run(tmp_path / "run").path  # the model has attention, which aligns terms
    lines, terms, file = ["The dog sees the sea.", "", "A cat."], tmp_path / "terms.tsv", tmp_path / "source.txt"
    terms.write_text("dog\tMeer\n", encoding="utf-8")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    translator = dragoman_load(path, Translator)
    for mode in ("hard", "soft"):
        assert run("translate", path, "--input", file, "--glossary", terms, "--glossary-mode", mode) == 0
        found = capsys.readouterr().out.splitlines()
        assert found == best(translator, lines, glossary={"dog": "Meer"}, glossary_mode=mode)
        assert mode == "soft" or ["Meer" in line for line in found] == [True, False, False]


@pytest.mark.filterwarnings("ignore:.*does not meet:dragoman.inference.TranslationWarning")
def test_malformed_markup_warns_on_standard_error(tmp_path):
    texts = "The dog\n<p>The dog<p>the sea\n<b>The</i> dog\n"
    command = [sys.executable, "-m", "dragoman", "translate", finished_run(tmp_path / "run").path, "--markup", "html"]
    done = subprocess.run(command, input=texts, capture_output=True, text=True, check=True)
    assert [line.count("<p>") for line in done.stdout.splitlines()] == [0, 2, 0]
    assert "line 3: places of tags are guesses: </i> ends no element; <b> has no end tag" in done.stderr
    assert "line 2: places" not in done.stderr


@pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")
def test_placeholders_are_kept_on_request(tmp_path, capsys):
    path = Path(__file__).parents[1] / "golden" / "run-1"
    texts = ["the small cat sleeps in the %s", "{name}: two dogs play"]
    file = tmp_path / "messages.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert run("translate", path, "--input", file, "--placeholders") == 0
    found = capsys.readouterr().out.splitlines()
    assert [one.count(name) for one, name in zip(found, ["%s", "{name}"], strict=True)] == [1, 1]
    assert run("translate", path, "--input", file, "--no-placeholders") == 0
    assert capsys.readouterr().out.splitlines() == best(dragoman_load(path, Translator), texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--glossary", "nowhere.tsv"], "nowhere.tsv"),
        (["--glossary-mode", "soft"], "--glossary-mode has no effect without --glossary"),
        (["--glossary", "terms.tsv", "--glossary-languages", "en"], "gives no two languages"),
        (["--n-best", "7"], "--n-best 7 is more than a beam of 5"),
        (["--length-penalty-kind", "none", "--length-penalty", "1"], "has no effect with --length-penalty-kind none"),
        (["--scores", "--format", "jsonl"], "--scores has no effect with --format jsonl"),
        (["--scores", "--n-best", "2"], "--scores has no effect with --n-best"),
        (["--input", "nowhere.txt"], "--input is given twice"),
        (["--min-length", "3000"], "--min-length 3000 is above"),
    ],
)
def test_invalid_options_give_one_message(translator, source, capsys, options, message):
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
    assert "ends after 1 line, but" in capsys.readouterr().err


def test_line_breaks_in_translations_become_spaces(translator, source, capsys, monkeypatch):
    decode = type(translator.tokenizer.target).decode
    monkeypatch.setattr(type(translator.tokenizer.target), "decode", lambda side, ids: "\n".join(decode(side, ids)))
    assert run("translate", "runs/en-de", "--input", source) == 0
    assert len(capsys.readouterr().out.split("\n")) == len(LINES) + 1


def test_texts_of_the_command_line_are_translated(translator, capsys):
    assert run("translate", "runs/en-de", "--text", "two dogs", "-t", "a\ncat") == 0
    assert capsys.readouterr().out.splitlines() == best(translator, ["two dogs", "a cat"])


def test_texts_and_an_input_exclude_each_other(translator, source, capsys):
    assert run("translate", "runs/en-de", "--text", "two dogs", "--input", source) == 2
    assert "--text and --input" in capsys.readouterr().err


def test_typed_texts_have_a_prompt_and_are_answered_at_once(translator, monkeypatch, capsys):
    class Typed(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Typed(io.BytesIO(b"two dogs\na cat\n")))
    assert run("translate", "runs/en-de") == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == best(translator, ["two dogs", "a cat"])
    assert captured.err == "dragoman: type a text and press Enter; Ctrl-D ends\n> > > "


def test_output_may_not_be_the_input(translator, source, capsys):
    before = source.read_bytes()
    assert run("translate", "runs/en-de", "--input", source, "--output", source) == 2
    assert "and would be replaced" in capsys.readouterr().err
    assert source.read_bytes() == before


def test_evaluate_writes_the_translations(translator, source, tmp_path, capsys):
    output = tmp_path / "output.txt"
    assert run("evaluate", "runs/en-de", "--source", source, "-r", source, "-m", "exact", "--output", output) == 0
    assert output.read_text(encoding="utf-8").splitlines() == best(translator)
