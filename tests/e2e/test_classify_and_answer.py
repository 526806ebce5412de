"""`dragoman classify` and `dragoman answer` on random models: input, output and errors."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from dragoman.cli import main
from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.qa import WindowConfig
from dragoman.data.tokenizers import CharacterConfig, Tokenizer, WordConfig
from dragoman.inference import AnswerConfig, Classifier, QuestionAnswerer, Tagger, Translator
from dragoman.models.task_heads import SpanLogits, answer_mask
from dragoman.runs import load as runs_load
from tests.fake_models import PrefixModel

LINES = ["two dogs", "", "a cat", "dogs and a cat"]
LABELS = Labels(("bad", "good", "so"))
CONTEXT = "two dogs and a cat\nsleep by the sea"


class Table(nn.Module):
    """Logits of labels, or of begin and end, by tokens alone."""

    def __init__(self, vocabulary: int, width: int, *, whole: bool = False) -> None:
        super().__init__()
        self.logits = 3 * torch.randn(vocabulary, width, generator=torch.Generator().manual_seed(7))
        self.whole = whole

    def forward(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor | SpanLogits:
        found = self.logits[tokens]
        if segments is not None:
            hidden = ~answer_mask(lengths, segments)
            return SpanLogits(*found.masked_fill(hidden[..., None], torch.finfo(found.dtype).min).unbind(-1))
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        return (found * real[..., None]).sum(1) / lengths[:, None] if self.whole else found


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What each run folder loads as, by its name."""
    both = Tokenizer.train(lambda: [("two dogs and a cat", CONTEXT)], CharacterConfig())
    words = Tokenizer.train(lambda: [("two dogs and a cat", CONTEXT)], WordConfig()).source
    side = both.source
    layout = WindowConfig(max_length=20, max_question_length=4, stride=3)
    loaded: dict[str, object] = {
        "sentiment": Classifier(Table(len(side), 3, whole=True), side, LABELS),
        "tags": Tagger(Table(len(side), 3), side, LABELS),
        "answers": QuestionAnswerer(
            Table(len(words), 2), words, windows=layout, config=AnswerConfig(max_answer_length=3)
        ),
        "en-de": Translator(PrefixModel(words=len(side) - 4, end_bias=3.0), both),
    }

    def load(path: Path, _kind: object, *, batch_tokens: int = 4096, **_options: object) -> object:
        found = loaded[path.name]
        found.batch_tokens = batch_tokens
        return found

    monkeypatch.setattr(runs_load, "load", load)
    return loaded


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": "who", "context": CONTEXT}, {"question": "where", "context": "by the sea", "id": 3}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main.run([str(argument) for argument in arguments], debug=False)


def test_classify_prints_label_and_probability_per_line(runs, source, capsys):
    assert run("classify", "runs/sentiment", "--input", source, "--batch-tokens", 31) == 0
    found = runs["sentiment"].classify(LINES)
    assert capsys.readouterr().out.splitlines() == [f"{one.label}\t{one.probability:.6f}" for one in found]
    assert runs["sentiment"].batch_tokens == 31
    assert len({one.probability for one in found}) > 1


def test_all_prints_every_label(runs, source, capsys):
    assert run("classify", "runs/sentiment", "-i", source, "--all") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert all(set(row[::2]) == set(LABELS.names) for row in rows)
    assert all([float(one) for one in row[1::2]] == sorted(map(float, row[1::2]), reverse=True) for row in rows)


def test_classify_reads_streams_and_writes_files(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))
    assert run("classify", "runs/sentiment") == 0
    printed = capsys.readouterr().out
    packed, out = tmp_path / "source.gz", tmp_path / "labels.txt"
    packed.write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert run("classify", "runs/sentiment", "-i", packed, "-o", out) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text(encoding="utf-8") == printed
    assert len(printed.splitlines()) == len(LINES)


def test_classify_prints_json_lines(runs, source, capsys):
    assert run("classify", "runs/sentiment", "-i", source, "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    assert all(row["probabilities"][row["label"]] == row["probability"] for row in rows)


def test_tagger_prints_one_line_per_word(runs, source, capsys):
    assert run("classify", "runs/tags", "-i", source) == 0
    found = runs["tags"].tag([line.split() for line in LINES])
    expected = [[f"{tag.word}\t{tag.label}\t{tag.probability:.6f}" for tag in tags] + [""] for tags in found]
    assert capsys.readouterr().out.splitlines() == [line for lines in expected for line in lines]
    assert [[tag.word for tag in tags] for tags in found] == [line.split() for line in LINES]
    assert run("classify", "runs/tags", "-i", source, "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[one["word"] for one in row["words"]] for row in rows] == [line.split() for line in LINES]


def test_answer_is_printed(runs, tmp_path, capsys):
    assert run("answer", "runs/answers", "--question", "who", "--context", CONTEXT) == 0
    printed = capsys.readouterr().out
    expected = runs["answers"].answer("who", CONTEXT)
    assert printed == " ".join(expected.text.split()) + "\n"
    path = tmp_path / "context.txt"
    path.write_text(CONTEXT + "\n", encoding="utf-8")
    assert run("answer", "runs/answers", "-q", "who", "-c", path) == 0
    assert capsys.readouterr().out == printed


def test_answer_reads_the_context_from_standard_input(runs, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTEXT.encode())))
    assert run("answer", "runs/answers", "-q", "who", "-c", "-", "--format", "jsonl") == 0
    [answer] = json.loads(capsys.readouterr().out)["answers"]
    assert answer["text"] == CONTEXT[answer["start"] : answer["end"]]


def test_answers_keep_the_order_of_the_questions(runs, questions, capsys):
    assert run("answer", "runs/answers", "-i", questions) == 0
    expected = runs["answers"].answer_batch([("who", CONTEXT), ("where", "by the sea")])
    assert capsys.readouterr().out.splitlines() == [" ".join(some[0].text.split()) for some in expected]
    assert run("answer", "runs/answers", "-i", questions, "--format", "jsonl") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2]
    assert [row["answers"][0]["start"] for row in rows] == [some[0].start for some in expected]


def test_n_best_answers_are_numbered(runs, questions, capsys):
    assert run("answer", "runs/answers", "-i", questions, "--n-best", 3, "--max-answer-length", 1) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    for number, probability, start, end, text in rows:
        context = CONTEXT if number == "1" else "by the sea"
        assert context[int(start) : int(end)] == text
        assert len(text.split()) == 1
        assert 0 <= float(probability) <= 1


def test_no_answer_prints_an_empty_line(runs, capsys):
    assert run("answer", "runs/answers", "-q", "who", "-c", CONTEXT, "--no-answer-threshold", "-1000") == 0
    assert capsys.readouterr().out == "\n"
    assert run("answer", "runs/answers", "-q", "who", "-c", CONTEXT, "--no-answer-threshold", "1000") == 0
    assert capsys.readouterr().out != "\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify", "runs/tags", "--all"], "--all has no effect on a run that labels words"),
        (["classify", "runs/sentiment", "-i", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["answer", "runs/answers"], "answer needs --question TEXT and --context FILE, or --input FILE"),
        (["answer", "runs/answers", "-q", "who"], "answer needs --question TEXT and --context"),
        (["answer", "runs/answers", "-q", "who", "-i", "x"], "not both. Leave one out"),
        (["answer", "runs/answers", "-q", "who", "-c", "nowhere.txt"], "--context nowhere.txt: there is no such file"),
    ],
)
def test_invalid_options_give_one_message(runs, arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a cat\n")))
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1]", "holds a JSON list, not an object"),
        ('{"question": "who", "text": "a"}', "no field 'context'"),
        ('{"question": 1, "context": "a"}', "field 'question' holds int, not a text"),
        ("{", "not valid JSON"),
    ],
)
def test_invalid_line_is_named_and_keeps_the_output(runs, row, message, tmp_path, capsys):
    source, out = tmp_path / "questions.jsonl", tmp_path / "answers.txt"
    source.write_text(json.dumps({"question": "who", "context": CONTEXT}) + f"\n{row}\n", encoding="utf-8")
    out.write_text("from before\n", encoding="utf-8")
    assert run("answer", "runs/answers", "-i", source, "-o", out) == 2
    assert f"{source}:2: {message}" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == "from before\n"
