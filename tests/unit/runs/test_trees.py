"""Dependency trees in a run: checks of the configuration, and the tree of each text."""

import random
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, RunError
from dragoman.profiling.memory_and_time_estimate import model_cost
from dragoman.runs.config import parse_experiment, resolve_corpus_paths
from dragoman.runs.folder import RunFolder
from dragoman.runs.train_in_folder import train_and_score
from dragoman.tasks.factory import build_task
from dragoman.tasks.translation import build_stream
from tests.small_runs import write_corpus
from tests.trees import Heads, conllu, random_tree

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SMALL = {"d_model": 12, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 17}
SETTINGS = {
    "tokenizer": {"kind": "bpe", "vocab_size": 300},
    "model": {**SMALL, "positions": {"kind": "tree", "max_distance": 3}},
    "training": {
        "max_steps": 5,
        "validate_every": 5,
        "batch_tokens": 311,
    },
    "decoding": {"beam_size": 2},
    "metrics": [{"kind": "chrf"}],
}


def corpus(folder: Path) -> dict[str, str]:
    names = {"source": "train.en", "target": "train.de", "source_features": "train.conllu"}
    return {"kind": "files"} | {key: str(folder / name) for key, name in names.items()}


def settings_of(place: Path, **changed) -> dict:
    return merge(SETTINGS, {"data": {"train": corpus(place), "test": corpus(place / "test")}}) | changed


def tree_of(text: str) -> Heads:
    """The tree that a text has in these corpora."""
    return random_tree(random.Random(text), len(text.split()))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("trees")
    for folder, pairs, seed in ((place, 149, 1), (place / "test", 11, 2)):
        folder.mkdir(exist_ok=True)
        write_corpus(folder, pairs=pairs, seed=seed)
        texts = (folder / "train.en").read_text(encoding="utf-8").splitlines()
        trees = conllu([(text, tree_of(text)) for text in texts])
        (folder / "train.conllu").write_text(trees, encoding="utf-8")
    return place


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


def prepare_run(path: Path, settings):
    folder, experiment = RunFolder(path), parse_experiment(settings)
    folder.create()
    folder.write_config(experiment)
    return folder, experiment, build_task(experiment).prepare_data(folder, report=lambda _: None)


def complaint(tree) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_experiment(tree)
    [line] = str(raised.value).splitlines()
    return line


def test_every_set_needs_trees(place):
    for name in ("train", "valid", "test"):
        bare = {key: value for key, value in corpus(place).items() if key != "source_features"}
        data = {"train": corpus(place), "test": corpus(place), name: bare}
        message = complaint(SETTINGS | {"data": data})
        assert f"data.{name}.source_features is not given" in message
        assert "Give a CoNLL-U file" in message
    table = {"kind": "tsv", "path": "a.tsv"}
    assert "data.train.source_features is not given" in complaint(SETTINGS | {"data": {"train": table}})


@pytest.mark.parametrize(
    "other",
    [
        {"model": SMALL},
        {"model": {"kind": "recurrent", "d_model": 12}},
        {"task": "language_modeling", "data": {"kind": "pairs"}, "model": {"d_model": 12, "num_heads": 2}},
    ],
)
def test_trees_without_tree_positions_are_refused(place, other):
    common = {"tokenizer": {"kind": "bpe"}}
    message = complaint(merge({**common, "data": {"train": corpus(place)}}, other))
    assert "data.train.source_features = " in message
    assert "has no effect without model.positions.kind = tree" in message


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        ({"kind": "characters"}, "tokenizer.kind = characters does not support tree positions"),
        ({"kind": "words"}, "tokenizer.kind = words does not support tree positions"),
        ({"kind": "bpe", "whitespace": "keep"}, "tokenizer.whitespace = keep does not support tree positions"),
        ({"kind": "unigram", "normalization": "nfkc"}, "tokenizer.normalization = nfkc does not support tree"),
    ],
)
def test_tokens_must_mark_word_beginnings(place, tokenizer, reason):
    message = complaint(settings_of(place, tokenizer=tokenizer))
    assert reason in message
    assert ". Choose " in message


def test_path_of_trees_is_resolved():
    placed = resolve_corpus_paths(
        {"data": {"train": {"kind": "files", "source": "a", "source_features": "t"}}}, Path("/data")
    )
    assert placed["data"]["train"]["source_features"] == "/data/t"


def test_teacher_that_needs_trees_is_refused_without_them(place, tmp_path):
    plain = {name: str(place / f"train.{side}") for name, side in (("source", "en"), ("target", "de"))}
    without = {**SETTINGS, "model": SMALL, "data": {"train": {"kind": "files", **plain}}}
    settings = {"with": settings_of(place), "without": without}
    for name, tree in settings.items():
        folder, experiment, data = prepare_run(tmp_path / name, tree)
        train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)
    for student, teacher in (("with", "without"), ("without", "with")):
        loss = {"kind": "distillation", "teacher": str(tmp_path / teacher)}
        tree = merge(settings[student], {"training": {"loss": loss}})
        folder, experiment, data = prepare_run(tmp_path / f"{student} taught", tree)
        if student == "with":
            train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)
            assert folder.weights.is_file()
        else:
            with pytest.raises(ConfigError, match="needs the dependency tree of each source"):
                train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_every_text_has_its_tree(place, tmp_path, dropout):
    """This includes texts split from the training corpus, and BPE dropout."""
    settings = settings_of(place, tokenizer={"kind": "bpe", "vocab_size": 300, "dropout": dropout})
    _, experiment, data = prepare_run(tmp_path / "new", settings)
    sets = {"train": data.texts.train, "valid": data.texts.valid, "test": data.texts.test}
    assert data.source_features.keys() == sets.keys()
    for name, texts in sets.items():
        heads = [data.source_features[name].heads(row) for row in range(len(texts))]
        assert heads == [tree_of(source) for source, _ in texts]
    batch = next(build_stream(experiment, data))
    for row, heads in zip(batch.rows, batch.source_features.heads.tolist(), strict=True):
        tree = tree_of(data.texts.train.pair(int(data.train.origins[row]))[0])
        assert tuple(heads[: len(tree) + 1]) == (0, *tree)


@pytest.mark.filterwarnings("ignore::dragoman.inference.translation_result.TranslationWarning")  # it is hardly trained
def test_run_with_trees_is_trained_scored_and_loaded(place, tmp_path):
    folder, experiment, data = prepare_run(tmp_path / "run", settings_of(place))
    outcome = train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)
    assert outcome.steps == 5
    translator = dragoman.load(tmp_path / "run", device="cpu")
    pairs = list(data.texts.test)
    sources = [source for source, _ in pairs]
    outputs = translator.translate(sources, beam_size=2, source_features=[tree_of(source) for source in sources])
    from dragoman.evaluation import Chrf, corpus_score

    [score] = outcome.scores["test"]
    assert (
        corpus_score([output.text for output in outputs], [[target for _, target in pairs]], Chrf()).value
        == score.value
    )
    assert model_cost(translator.model).cache_bytes == 2 * 12 * 4


def test_changed_trees_are_refused(place, tmp_path):
    import json
    import shutil

    moved = Path(shutil.copytree(place, tmp_path / "moved"))
    folder, _, data = prepare_run(tmp_path / "run", settings_of(moved))
    corpora = [{"file": path, "sha256": digest} for path, digest in data.fingerprints.items()]
    folder.environment.write_text(json.dumps({"corpora": corpora}), encoding="utf-8")
    texts = (moved / "train.en").read_text(encoding="utf-8").splitlines()
    flat = conllu([(text, (0,) * len(text.split())) for text in texts])
    (moved / "train.conllu").write_text(flat, encoding="utf-8")
    with pytest.raises(RunError, match=r"train\.conllu: has changed since the run in .* started"):
        build_task(parse_experiment(settings_of(moved))).prepare_data(folder, report=lambda _: None)
