"""Representations of models and results in a terminal and in a notebook, and their async methods."""

import asyncio
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import dragoman
from dragoman.data.datasets.labeled import Labels
from dragoman.evaluation import Bleu, corpus_score
from dragoman.models.task_heads import SpanLogits
from tests.untrained_runs import finished_language_model, finished_run

pytestmark = [
    pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning"),
    pytest.mark.filterwarnings("ignore:PyTorch runs"),
]


class Models(NamedTuple):
    """One model of every kind."""

    translator: dragoman.Translator
    generator: dragoman.Generator
    classifier: dragoman.Classifier
    tagger: dragoman.Tagger
    answerer: dragoman.QuestionAnswerer


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("runs")
    finished_run(folder / "translator")
    finished_language_model(folder / "writer")
    translator = dragoman.load(folder / "translator", dragoman.Translator, device="cpu")
    side, labels = translator.tokenizer.source, Labels(("<good>", "bad"))

    def words(tokens: Tensor, _lengths: Tensor) -> Tensor:
        return torch.zeros(*tokens.shape, 2)

    def texts(tokens: Tensor, _lengths: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 2)

    def spans(tokens: Tensor, _lengths: Tensor, _segments: Tensor) -> SpanLogits:
        return SpanLogits(torch.zeros(tokens.shape), torch.zeros(tokens.shape))

    return Models(
        translator,
        dragoman.load(folder / "writer", dragoman.Generator, device="cpu"),
        dragoman.Classifier(texts, side, labels),
        dragoman.Tagger(words, side, labels),
        dragoman.QuestionAnswerer(spans, side),
    )


def test_models_describe_themselves(models):
    translator, generator, *others = map(repr, models)
    assert translator.startswith("Translator(")
    assert "device=cpu, vocabulary=" in translator
    assert "beam_size=5" in translator
    assert generator.startswith("Generator(")
    assert "context=23" in generator
    assert others == [
        "Classifier(device=cpu, labels=[<good>, bad], max_length=512)",
        "Tagger(device=cpu, labels=[<good>, bad], max_length=512)",
        "QuestionAnswerer(device=cpu, max_length=384)",
    ]


def test_results_are_short_in_a_terminal(models):
    assert repr(models.classifier.classify("a cat")) == "Classification(label='<good>', probability=0.5000, labels=2)"
    assert repr(models.tagger.tag([["cat"]])) == "[[Tag(word='cat', label='<good>', probability=0.5000)]]"
    answer = models.answerer.answer("a cat", "a cat")
    assert repr(answer).startswith(f"Answer(text={answer.text!r}, start={answer.start}, end={answer.end}, probability=")
    score = corpus_score(["a"], [["a"]], Bleu())
    assert repr(score).startswith("Score(BLEU = ")
    result = dragoman.TrainingResult(Path("runs/x"), "last", {"valid": [score]}, 61.0, 1000, 5000)
    assert repr(result) == f"TrainingResult('runs/x', steps=1000, valid: BLEU {score.value:.2f})"


def test_dictionaries_are_the_documented_records(models):
    """The table of records names the keys of each, in order."""
    page = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*) \| (?:`line`, )?(.*) \|$", page.partition("## JSON records")[2], re.MULTILINE)
    documented = [re.findall(r"`(\w+)`", fields) for _, fields in rows]
    translator, generator, classifier, tagger, answerer = models
    found = [
        translator.translate("a cat").to_dict(),
        {"prompt": "", "completions": [generator.generate("a cat", max_new_tokens=3).to_dict()]},
        classifier.classify("a cat").to_dict(),
        {"words": [one.to_dict() for one in tagger.tag([["cat"]])[0]]},
        {"answers": [answerer.answer("a cat", "a cat").to_dict()]},
        translator.score(["a cat"], ["a"])[0].to_dict(),
        generator.perplexity(["a cat"]).to_dict(),
    ]
    assert json.loads(json.dumps(found)) == found
    assert documented[: len(found)] == [list(_keys(one)) for one in found]


def _keys(record: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of a record, and those of the objects in its list."""
    for key, value in record.items():
        yield key
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from value[0]


def test_model_is_refused_in_a_fork(models, monkeypatch):
    translator, generator, classifier, tagger, answerer = models
    monkeypatch.setattr(os, "getpid", lambda: 1)
    calls: list[Callable[[], Any]] = [
        lambda: translator.translate("a"),
        lambda: translator.score(["a"], ["a"]),
        lambda: asyncio.run(translator.translate_async("a")),
        lambda: list(translator.translate_stream(["a"])),
        lambda: generator.generate("a", max_new_tokens=2),
        lambda: list(generator.stream_text("a", max_new_tokens=2)),
        lambda: generator.score(["a"]),
        lambda: classifier.classify("a"),
        lambda: tagger.tag([["a"]]),
        lambda: answerer.answer("a", "a cat"),
    ]
    for call in calls:
        with pytest.raises(dragoman.RunError, match="was loaded before this process was forked"):
            call()


def test_results_are_tables_in_a_notebook(models):
    score = corpus_score(["a"], [["a"]], Bleu())
    shown: list[Any] = [
        models.translator.translate("a cat", n_best=2),
        models.generator.generate("a cat", max_new_tokens=3),
        models.classifier.classify("a cat"),
        models.answerer.answer("a cat", "a cat"),
        score,
        dragoman.TrainingResult(Path("runs/<x>"), "last", {"valid": [score]}, 61.0, 1000, 5000),
    ]
    tables = [one._repr_html_() for one in shown]
    for table in tables:
        assert table.count("<table>") == table.count("</table>") == 1
    assert tables[0].count("<tr>") == 3
    assert "&lt;good&gt;" in tables[2]
    assert "runs/&lt;x&gt;: 1,000 steps" in tables[5]
    assert score.signature in tables[5]


def test_async_methods_equal_the_others(models):
    translator, generator, classifier, tagger, answerer = models

    async def run() -> list[Any]:
        return await asyncio.gather(
            translator.translate_async("two dogs play ."),
            translator.translate_async(["two dogs", "a cat"], beam_size=2),
            translator.score_async(["two dogs"], ["zwei Hunde"]),
            generator.generate_async("two", max_new_tokens=5, temperature=0.5),
            generator.generate_async(["two", "a"], max_new_tokens=5, temperature=0.5),
            generator.score_async(["two dogs"]),
            classifier.classify_async("two dogs"),
            tagger.tag_async([["two", "dogs"]]),
            answerer.answer_async("a cat", "a cat"),
        )

    async def stream() -> list[str]:
        return [piece async for piece in generator.stream_text_async("two", max_new_tokens=9)]

    assert asyncio.run(run()) == [
        translator.translate("two dogs play ."),
        translator.translate(["two dogs", "a cat"], beam_size=2),
        translator.score(["two dogs"], ["zwei Hunde"]),
        generator.generate("two", max_new_tokens=5, temperature=0.5),
        generator.generate(["two", "a"], max_new_tokens=5, temperature=0.5),
        generator.score(["two dogs"]),
        classifier.classify("two dogs"),
        tagger.tag([["two", "dogs"]]),
        answerer.answer("a cat", "a cat"),
    ]
    assert asyncio.run(stream()) == list(generator.stream_text("two", max_new_tokens=9))


@pytest.mark.parametrize("kind", Models._fields)
def test_each_use_of_a_model_has_an_async_method(models, kind):
    model = type(getattr(models, kind))
    for name in ("translate", "generate", "chat", "score", "classify", "tag", "answer"):
        assert hasattr(model, name) == hasattr(model, f"{name}_async")
        if hasattr(model, name):
            assert inspect.iscoroutinefunction(getattr(model, f"{name}_async"))
