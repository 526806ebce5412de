"""`dragoman generate` and `dragoman score --perplexity` on a random model: input, output and errors."""

import io
import json
import math
import sys
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.inference import Generator
from dragoman.runs import load as runs_load
from tests.fake_models import PrefixModel, TextModel

PROMPTS = ["two dogs", "", "a cat"]
TEXTS = ["two dogs and a cat", "eine Katze\n\nund"]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Generator:
    """Generator that every run folder loads as."""
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig(whitespace="keep", byte_fallback=False))
    network = TextModel(PrefixModel(words=len(tokenizer.target) - 4, end_bias=1.0))
    loaded = Generator(network, tokenizer, context=97)

    def load(path: Path, _kind: type, *, batch_tokens: int = 4096, **_options: object) -> Generator:
        assert path == Path("runs/gpt")
        loaded.batch_tokens = batch_tokens
        return loaded

    monkeypatch.setattr(runs_load, "load", load)
    return loaded


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(PROMPTS) + "\n", encoding="utf-8")
    return path


def run(*arguments: object, verb: str = "generate") -> int:
    return main.run([verb, "runs/gpt", *(str(argument) for argument in arguments)], debug=False)


def perplexity(*arguments: object) -> int:
    return run("--perplexity", *arguments, verb="score")


def test_prompt_is_continued(generator, capsys):
    assert run("--prompt", "two dogs", "--max-new-tokens", 31) == 0
    [expected] = generator.generate(["two dogs"], max_new_tokens=31)
    assert capsys.readouterr().out == expected.text + "\n"
    assert run("--prompt", "two dogs", "--max-new-tokens", 31, "--echo") == 0
    assert capsys.readouterr().out == "two dogs" + expected.text + "\n"


def test_no_prompt_starts_from_the_begin_symbol(generator, capsys):
    assert run("--seed", 5, "--max-new-tokens", 31) == 0
    [expected] = generator.generate([""], SamplingConfig(seed=5), max_new_tokens=31)
    assert capsys.readouterr().out == expected.text + "\n"


@pytest.mark.parametrize("echo", [False, True])
def test_stream_prints_the_same_text(generator, capsys, echo):
    for seed in range(5):
        outputs = []
        for way in ("--stream", "--no-stream"):
            options = ["--stop", "at", "--seed", seed, way, *(["--echo"] if echo else [])]
            assert run("--prompt", "a c", "--max-new-tokens", 60, *options) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1]
        assert "at" not in outputs[0]


def test_terminal_receives_each_piece_at_once(generator, monkeypatch):
    class Terminal(io.StringIO):
        flushed = 0

        def isatty(self) -> bool:
            return True

        def flush(self) -> None:
            self.flushed += 1

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run("--prompt", "two dogs", "--seed", 3, "--min-length", 20) == 0
    pieces = list(generator.stream_text("two dogs", SamplingConfig(seed=3, min_length=20)))
    assert terminal.getvalue() == "".join(pieces) + "\n"
    assert terminal.flushed >= len(pieces) >= 20


def test_input_file_gives_one_text_per_prompt(generator, source, tmp_path, capsys):
    target = tmp_path / "texts.txt"
    assert (
        run("--input", source, "--output", target, "--max-new-tokens", 9, "--format", "jsonl", "--batch-tokens", 53)
        == 0
    )
    assert generator.batch_tokens == 53
    rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    expected = generator.generate(PROMPTS, max_new_tokens=9)
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert [row["prompt"] for row in rows] == PROMPTS
    assert [row["completions"][0]["text"] for row in rows] == [one.text for one in expected]
    assert [row["completions"][0]["finish_reason"] for row in rows] == [one.finish_reason for one in expected]
    best = rows[0]["completions"][0]
    assert best["log_prob"] == pytest.approx(math.fsum(best["token_log_probs"]), abs=1e-4)
    assert capsys.readouterr().out == ""


def test_prompts_are_read_from_standard_input(generator, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"two dogs\na cat")))
    assert run("-i", "-", "--max-new-tokens", 7, "--temperature", 0) == 0
    expected = generator.generate(["two dogs", "a cat"], SamplingConfig(temperature=0), max_new_tokens=7)
    assert capsys.readouterr().out == "".join(one.text + "\n" for one in expected)


def test_options_reach_sampling(generator, capsys):
    options = {
        "--temperature": 0.7,
        "--top-k": 11,
        "--top-p": 0.9,
        "--min-p": 0.01,
        "--typical-p": 0.95,
        "--repetition-penalty": 1.3,
        "--no-repeat-ngram": 3,
        "--min-length": 5,
        "--seed": 17,
    }
    settings = SamplingConfig(
        temperature=0.7,
        top_k=11,
        top_p=0.9,
        min_p=0.01,
        typical_p=0.95,
        repetition_penalty=1.3,
        no_repeat_ngram_size=3,
        min_length=5,
        seed=17,
    )
    given = [part for pair in options.items() for part in pair]
    assert run("--prompt", "a", "--n-best", 3, "--stop", "x", "--stop", "tz", "--format", "jsonl", *given) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [expected] = generator.generate_n_best(["a"], settings, num_samples=3, stop=["x", "tz"])
    assert [one["tokens"] for one in row["completions"]] == [list(one.tokens) for one in expected]


def test_beam_size_searches(generator, capsys):
    assert (
        run(
            "--prompt",
            "a",
            "--beam",
            5,
            "--n-best",
            2,
            "--max-new-tokens",
            9,
            "--length-penalty-kind",
            "none",
            "--format",
            "jsonl",
        )
        == 0
    )
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    settings = DecodingConfig(beam_size=5, n_best=2, length_penalty_kind="none", allow_unk=False)
    [expected] = generator.generate_n_best(["a"], settings, max_new_tokens=9)
    assert [one["text"] for one in row["completions"]] == [one.text for one in expected]
    assert [one["score"] for one in row["completions"]] == pytest.approx([one.hypothesis.score for one in expected])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", "a", "--input", "b"], "--prompt has no effect with --input"),
        (["--input", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--beam", "3", "--top-k", "5"], "--top-k has no effect with --beam"),
        (["--beam", "3", "--seed", "5"], "--seed has no effect with --beam"),
        (["--beam", "2", "--n-best", "3"], "--n-best 3 is more than a beam of 2"),
        (["--beam", "2", "--max-new-tokens", "97"], "choose 96 at most"),
        (["--length-penalty-kind", "none"], "--length-penalty-kind has no effect without --beam"),
        (["--length-penalty", "2"], "--length-penalty has no effect without --beam"),
        (["--temperature", "0", "--seed", "5"], "--seed has no effect with --temperature 0"),
        (["--temperature", "0", "--top-p", "0.5"], "--top-p has no effect with --temperature 0"),
        (["--temperature", "0", "--n-best", "2"], "--n-best 2: with --temperature 0 all samples are the same"),
        (["--top-p", "1.5"], "--top-p 1.5: must be at most 1"),
        (["--min-length", "300"], "--min-length 300 is above --max-new-tokens 256"),
        (["--stream", "--n-best", "2"], "--stream prints a single sampled text"),
        (["--stream", "--format", "jsonl"], "--stream prints a single sampled text"),
        (["--stream", "--beam", "2"], "--stream prints a single sampled text"),
        (["--stream", "--output", "text.txt"], "--stream prints a single sampled text"),
        (["--echo", "--format", "jsonl"], "--echo has no effect with --format jsonl"),
        (["--stop", ""], "--stop '': the tokenizer"),
    ],
)
def test_invalid_options_give_one_message(generator, capsys, options, message):
    assert run(*options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@pytest.mark.parametrize(
    ("documents", "texts"),
    [
        ("file", ["two dogs\n\n  a cat\nund\n"]),
        ("blank_line", ["two dogs", "  a cat\nund"]),
        ("line", ["two dogs", "  a cat", "und"]),
    ],
)
def test_perplexity_of_documents(generator, tmp_path, capsys, documents, texts):
    target = tmp_path / "text.txt"
    target.write_text("two dogs\n\n  a cat\nund\n", encoding="utf-8")
    options = [] if documents == "file" else ["--documents", documents]
    assert perplexity("--target", target, "--format", "jsonl", *options) == 0
    expected = generator.perplexity(texts)
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == expected.tokens
    assert found["bytes"] == expected.bytes
    assert found["perplexity"] == pytest.approx(expected.perplexity)
    assert found["nats_per_token"] == pytest.approx(math.log(expected.perplexity))
    assert found["bits_per_byte"] == pytest.approx(expected.bits_per_byte)
    assert perplexity("--target", target, *options) == 0
    line = capsys.readouterr().out
    assert line.startswith(f"perplexity {expected.perplexity:,.4f}: {expected.nats_per_token:.4f} nats per token")


def test_perplexity_with_overlapping_windows(generator, tmp_path, capsys):
    generator.context = 7
    target = tmp_path / "text.txt"
    target.write_text("two dogs and a cat", encoding="utf-8")
    assert perplexity("--target", target, "--overlap", 5, "--format", "jsonl") == 0
    expected = generator.perplexity(["two dogs and a cat\n"], overlap=5)
    assert json.loads(capsys.readouterr().out)["perplexity"] == pytest.approx(expected.perplexity)
    assert expected.nats != pytest.approx(generator.perplexity(["two dogs and a cat\n"]).nats)


def test_perplexity_of_continuations(generator, tmp_path, capsys):
    generator.pairs = True
    (tmp_path / "source").write_text("two dogs\na cat\n", encoding="utf-8")
    (tmp_path / "target").write_text("und\n\n", encoding="utf-8")
    files = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    assert perplexity(*files, "--format", "jsonl") == 0
    expected = generator.perplexity(["und", ""], prompts=["two dogs", "a cat"])
    found = json.loads(capsys.readouterr().out)
    assert (found["tokens"], found["bytes"]) == (5, 3)
    assert found["perplexity"] == pytest.approx(expected.perplexity)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--perplexity", "--length-penalty", "1"], "has no effect with --perplexity"),
        (["--perplexity", "--source", "a", "--documents", "line"], "--documents has no effect with --source"),
        (["--documents", "line", "--source", "a"], "--documents has no effect without --perplexity"),
        (["--overlap", "1", "--source", "a"], "--overlap has no effect without --perplexity"),
        ([], "--source is missing"),
        (["--perplexity"], "empty.txt"),
        (["--perplexity", "--source", "empty.txt"], "no text to measure perplexity on"),
        (["--perplexity", "--documents", "line"], "contains no text to measure perplexity on"),
    ],
)
def test_invalid_perplexity_options_give_one_message(generator, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("", encoding="utf-8")
    assert run("--target", "empty.txt", *options, verb="score") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
