"""Classifiers and question answerers of transformers, imported, used and written back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.errors import ConfigError, DataError
from dragoman.interop.huggingface.partner import read
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.self_check import loaded_network

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
from tests.huggingface_encoders import write_bert, write_distilbert, write_roberta  # noqa: E402  # needs transformers
from tests.huggingface_models import sentences  # noqa: E402

LABELS = ["sad", "so-so", "glad"]
STEMS = {"Bert": write_bert, "Roberta": write_roberta, "DistilBert": write_distilbert}


def write_classifier(folder: Path, stem: str) -> Any:
    """Write a classifier of three labels."""
    model = STEMS[stem](folder, f"{stem}ForSequenceClassification")
    model.config.update({"id2label": dict(enumerate(LABELS)), "problem_type": "single_label_classification"})
    names = {"Bert": "classifier", "Roberta": "classifier.out_proj", "DistilBert": "classifier"}
    old = model.get_submodule(names[stem])
    new = torch.nn.Linear(old.in_features, len(LABELS))
    torch.nn.init.normal_(new.weight, generator=torch.Generator().manual_seed(3))
    model.set_submodule(names[stem], new)
    model.save_pretrained(folder)
    return model.eval()


@pytest.mark.parametrize("stem", STEMS)
def test_classifiers_label_texts_as_transformers_does(tmp_path: Path, stem: str) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    source.mkdir()
    theirs = write_classifier(source, stem)
    result = dragoman.import_model(source, run)
    assert result.task == "classification"
    assert result.logits is not None
    assert result.logits.max_difference < 1e-4
    classifier = dragoman.load(run, dragoman.Classifier)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(source)
    for text in sentences(20, seed=5):
        with torch.inference_mode():
            ids = tokenizer(text, truncation=False, return_tensors="pt")
            logits = theirs(ids["input_ids"], attention_mask=ids["attention_mask"]).logits[0]
        labeled = classifier.classify(text)
        assert labeled.label == LABELS[int(logits.argmax())]
        expected = dict(zip(LABELS, logits.softmax(-1).tolist(), strict=True))
        assert dict(labeled.probabilities) == pytest.approx(expected, abs=1e-4)
    back = tmp_path / "back"
    dragoman.export(run, back, format="huggingface")
    check_files_come_back(source, back, f"{stem}ForSequenceClassification")
    assert json.loads((back / "config.json").read_text())["id2label"]["2"] == "glad"


@pytest.mark.parametrize("stem", STEMS)
def test_question_answerers_find_the_spans_of_transformers(tmp_path: Path, stem: str) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    source.mkdir()
    theirs = STEMS[stem](source, f"{stem}ForQuestionAnswering")
    result = dragoman.import_model(source, run)
    assert result.task == "question_answering"
    assert result.logits is not None
    assert result.logits.max_difference < 1e-4
    answerer = dragoman.load(run, dragoman.QuestionAnswerer)
    model = read(source, ImportOptions())
    ours: Any = loaded_network(model)
    order = torch.from_numpy(model.origin.orders["source"].foreign_ids)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(source)
    for question, context in zip(sentences(8, seed=5), sentences(8, seed=7), strict=True):
        pair = tokenizer(question[:30], context[:40], truncation=False, return_token_type_ids=True)
        ids = torch.tensor([pair["input_ids"]])
        segments = torch.tensor([pair["token_type_ids"]])
        kinds = {"token_type_ids": segments} if stem == "Bert" else {}
        with torch.inference_mode():
            expected = theirs(ids, **kinds)
        starts = [2, *model.tokenizer.source.encode(question[:30]), *[3] * model.windows.separators]
        rows = torch.tensor([[*starts, *model.tokenizer.source.encode(context[:40]), 3]])
        assert torch.equal(order[rows], ids)
        places = torch.arange(rows.shape[1])[None] >= len(starts)
        with torch.inference_mode():
            logits = ours(rows, torch.tensor([rows.shape[1]]), places.long())
        answered = slice(len(starts), -1)
        for side, found in zip((expected.start_logits, expected.end_logits), logits, strict=True):
            assert torch.allclose(found[0, answered], side[0, answered], atol=1e-4)
        assert answerer.answer(question[:30], context[:40]).text in context
    back = tmp_path / "back"
    dragoman.export(run, back, format="huggingface")
    check_files_come_back(source, back, f"{stem}ForQuestionAnswering")


def check_files_come_back(source: Path, back: Path, name: str) -> None:
    before, after = load_file(source / "model.safetensors"), load_file(back / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())
    again, first = (getattr(transformers, name).from_pretrained(folder) for folder in (back, source))
    ids = torch.tensor([[5, 7, 11, 13]])
    for ours, theirs in zip(again(ids).to_tuple(), first(ids).to_tuple(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"problem_type": "multi_label_classification"}, ConfigError, "one of several labels per text"),
        ({"problem_type": "regression"}, ConfigError, "one of several labels per text"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, DataError, "does not name 3 different labels"),
        ({"id2label": {"0": "a", "1": "b"}}, DataError, "does not name 3 different labels"),
        ({"id2label": {"0": "a", "1": "b\t", "2": "c"}}, DataError, "contains a tab"),
    ],
)
def test_heads_without_counterpart_are_refused(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    write_classifier(tmp_path, "Bert")
    tree = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**tree, **changes}), encoding="utf-8")
    with pytest.raises(error, match=message):
        read(tmp_path, ImportOptions())


def test_heads_can_be_left_out(tmp_path: Path) -> None:
    write_classifier(tmp_path, "Bert")
    model = read(tmp_path, ImportOptions(allow_unused=("classifier.weight", "classifier.bias")))
    assert (model.task, model.head) == ("masked_lm", None)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    write_classifier(tmp_path, "Bert")
    tree = json.loads((tmp_path / "config.json").read_text())
    del tree["id2label"]
    (tmp_path / "config.json").write_text(json.dumps(tree), encoding="utf-8")
    model = read(tmp_path, ImportOptions())
    assert model.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
