"""Languages of a run: recorded, told by file names, or recognized in the corpus."""

import gzip

import pytest
import torch
import yaml

from dragoman.errors import ConfigError
from dragoman.runs.auto_config import auto_configure
from dragoman.runs.config import parse_experiment
from dragoman.runs.corpus_languages import language_of_file, recognize_language, recorded_languages
from tests.small_runs import write_corpus

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("train.en", "en"),
        ("a/train.pt_BR.gz", "pt-BR"),
        ("train.src", None),
        ("en", None),
        ("x.de.zst", "de"),
        (3, None),
    ],
)
def test_language_of_a_file_is_its_ending(name, code):
    assert language_of_file(name) == code


def test_automatic_configuration_records_file_endings(tmp_path):
    source, target = write_corpus(tmp_path, pairs=211)
    tree = {"data": {"train": {"kind": "files", "source": str(source), "target": str(target)}}}
    experiment, choices = auto_configure(tree, device=CPU)
    assert (experiment.source_language, experiment.target_language) == ("en", "de")
    assert {"source_language": "the ending of train.en"}.items() <= {one.key: one.reason for one in choices}.items()
    named, _ = auto_configure(tree | {"source_language": "nl"}, device=CPU)
    assert (named.source_language, named.target_language) == ("nl", "de")


def test_languages_of_other_files_are_recognized_in_texts(tmp_path, shared_data):
    lines = [
        gzip.decompress((shared_data / f"tatoeba/fra-eng/dev.{code}.gz").read_bytes()).decode().splitlines()[:300]
        for code in ("fr", "en")
    ]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(*lines, strict=True)), encoding="utf-8")
    tree = {"data": {"train": {"kind": "tsv", "path": str(tmp_path / "pairs.tsv")}}}
    experiment, _ = auto_configure(tree, device=CPU)
    assert (experiment.source_language, experiment.target_language) == ("fr", "en")
    assert recognize_language(iter(lines[0])) == "fr"


def test_recorded_languages_precede_those_of_the_corpus():
    corpus = {"train": {"kind": "files", "source": "a/train.en", "target": "a/train.fr"}}
    assert recorded_languages({"data": corpus}) == ("en", "fr")
    assert recorded_languages({"data": corpus, "source_language": "de"}) == ("de", "fr")
    assert recorded_languages({}) == (None, None)


def test_run_of_tagged_corpora_has_no_other_languages(tmp_path):
    source, target = write_corpus(tmp_path, pairs=11)
    train = {"kind": "files", "source": str(source), "target": str(target), "target_language": "de"}
    with pytest.raises(ConfigError, match="data names languages of its corpora"):
        parse_experiment({"data": {"train": train, "valid": train}, "source_language": "en"})


def test_white_space_of_targets_is_kept(tmp_path):
    """French texts have no-break spaces before punctuation marks, which the model is to write."""
    source, target = write_corpus(tmp_path, pairs=211)
    plain = target.read_text(encoding="utf-8").splitlines()
    tree = {"data": {"train": {"kind": "files", "source": str(source), "target": str(target)}}}
    assert auto_configure(tree, device=CPU)[0].tokenizer.whitespace == "collapse"
    spaced = [f"{line}\u202f!" if number % 9 == 0 else line for number, line in enumerate(plain)]
    target.write_text("".join(f"{line}\n" for line in spaced), encoding="utf-8")
    experiment, choices = auto_configure(tree, device=CPU)
    assert experiment.tokenizer.whitespace == "keep"
    assert "11 % of the targets" in next(one.reason for one in choices if one.key == "tokenizer.whitespace")
    given, _ = auto_configure(tree | {"tokenizer": {"whitespace": "collapse"}}, device=CPU)
    assert given.tokenizer.whitespace == "collapse"
    assert yaml.safe_dump(experiment.model_dump(mode="json"))
