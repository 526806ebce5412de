"""Training of a run in one process: the files that it writes, and loading them."""

import inspect
import json
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.models.weight_storage import load_tensors, save_tensors
from dragoman.runs import train_in_folder
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load, load_torch_model
from dragoman.runs.model_card import write_environment
from dragoman.runs.train import train
from dragoman.runs.train_in_folder import _corpora_fingerprint, run_worker, train_and_score
from dragoman.tasks.factory import build_task
from dragoman.tasks.translation import build_stream
from dragoman.training import distributed, precision
from dragoman.training.config import TranslationTrainingConfig
from dragoman.training.distributed import WorkerGroup, worker_message
from dragoman.training.launch import WorkerRank
from dragoman.training.trainer import InterruptionError
from tests.small_runs import hashes, write_corpus

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SETTINGS = {
    "tokenizer": {"kind": "words"},
    "model": {"d_model": 12, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 17},
    "training": {
        "max_steps": 9,
        "validate_every": 4,
        "batch_tokens": 211,
    },
    "decoding": {"beam_size": 2},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder with a corpus, held-out texts and a finished run."""
    place = tmp_path_factory.mktemp("fit")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        for name, seed, pairs in (("valid", 2, 13), ("test", 3, 11)):
            (place / name).mkdir()
            write_corpus(place / name, seed=seed, pairs=pairs)
        write_corpus(place, pairs=149)
        with (place / "train.en").open("a") as source, (place / "train.de").open("a") as target:
            source.write((place / "test" / "train.en").read_text().splitlines()[0] + "\n")  # a leak
            target.write("ein Hund\n")
        fit_in(place / "run", settings_of(place))
    return place


@pytest.fixture
def copy(place, tmp_path, monkeypatch):
    """Copy of the finished run."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return RunFolder(shutil.copytree(place / "run", tmp_path / "copy"))


def settings_of(place, **data):
    def corpus(folder):
        return {"kind": "files", "source": str(folder / "train.en"), "target": str(folder / "train.de")}

    corpora = {"train": corpus(place), "valid": corpus(place / "valid"), "test": corpus(place / "test")}
    return merge(SETTINGS, {"data": corpora | data})


def fit_in(path, settings, *, interrupted=lambda: False):
    folder, experiment = RunFolder(path), parse_experiment(settings)
    if not folder.config.exists():
        folder.create()
        folder.write_config(experiment)
    data = prepare_data(experiment, folder)
    return train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=interrupted)


def prepare_data(experiment, folder):
    return build_task(experiment).prepare_data(folder, report=lambda _: None)


def test_scores_have_signatures(place):
    scores = json.loads((place / "run" / "scores.json").read_text(encoding="utf-8"))
    assert scores["steps"] == 9
    assert scores["weights"] in ("last", "best", "average of the last 3")
    assert list(scores["scores"]) == ["valid", "test"]
    assert [score["metric"] for score in scores["scores"]["test"]] == ["BLEU", "chrF2"]
    assert "version:" in scores["scores"]["test"][0]["signature"]


@pytest.mark.parametrize("able", [True, False])
def test_slow_bfloat16_gives_a_warning(place, tmp_path, monkeypatch, recwarn, able):
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda device: able)
    fit_in(tmp_path / "run", merge(settings_of(place), {"training": {"precision": "bfloat16"}}))
    told = [str(one.message) for one in recwarn if "no bfloat16 instructions" in str(one.message)]
    assert len(told) == (0 if able else 1)


def test_bfloat16_layers_are_recomputed_in_bfloat16(place, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda device: True)
    wide = {"model": {"d_model": 64, "d_ff": 71}, "training": {"precision": "bfloat16", "max_steps": 3}}
    weights = []
    for recompute in (False, True):
        changed = {"training": {"gradient_checkpointing": recompute}}
        folder = fit_in(tmp_path / str(recompute), merge(merge(settings_of(place), wide), changed)).path
        weights.append(load_file(folder / "model.safetensors"))
    assert all(torch.allclose(tensor, weights[1][name], atol=1e-5) for name, tensor in weights[0].items())


def test_environment_names_the_workers_of_the_last_training(tmp_path):
    folder, data = RunFolder(tmp_path), SimpleNamespace(tokenizer=SimpleNamespace(fingerprint="1a"), fingerprints={})
    for workers in (1, 2):
        write_environment(folder, data, seed=workers, device=CPU, num_workers=workers)
        assert folder.read_environment()["num_workers"] == workers
    assert folder.read_environment()["seed"] == 1


def test_model_card_describes_the_run_without_paths(place):
    card = (place / "run" / "README.md").read_text(encoding="utf-8")
    for part in (
        "# run",
        "| test | BLEU |",
        r"nrefs:1\|case:mixed",
        "13 for validation, 11 for testing",
        "- `train.en` sha256 ",
        "- removed as leak: 1",
        "1 encoder and 1 decoder layers, width 12/17, 2 heads",
        "Trained for 9 steps",
        "Decoding: beam_size 2, length_penalty 1.0, length_penalty_kind average.",
        "Settings: seed 1, learning rate ",
        "selected on the validation set",
        "dragoman translate run --input",
    ):
        assert part in card
    assert str(place) not in card  # not in the notes about leaks either
    assert str(place) not in (place / "run" / "environment.json").read_text(encoding="utf-8")


def test_model_card_reports_kept_leaks(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    fit_in(tmp_path / "run", settings_of(place, cleaning={"remove_leaks": False}))
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "- kept as leak: 1" in card
    assert "removed as leak" not in card


def test_best_candidate_is_selected(place):
    last_line = (place / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    chosen = json.loads(last_line)
    assert chosen["event"] == "selection"
    best = max(scores["bleu"] for scores in chosen["candidates"].values())
    assert chosen["candidates"][chosen["selected"]]["bleu"] == best


@pytest.mark.filterwarnings("ignore::dragoman.inference.translation_result.TranslationWarning")  # it is hardly trained
def test_trained_run_is_loaded_and_translates(place):
    translator = dragoman.load(place / "run", device="cpu")
    texts = ["two dogs", "", "a man sleeps ."]
    translations = translator.translate(texts, beam_size=2)
    assert len(translations) == 3
    assert translations[1].text == ""
    assert translations == load(str(place / "run")).translate(texts, beam_size=2)


def test_interrupted_training_continues_bit_for_bit(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    last_line = (place / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    candidates = len(json.loads(last_line)["candidates"])
    # The question is asked after every step, after every candidate, and before each set is scored.
    for asked, step in [(3, 3), (6 + 1, 9), (candidates + 1, 9), (candidates + 2, 9)]:
        answers = iter([*[False] * (asked - 1), True])
        with pytest.raises(InterruptionError, match=f"stopped after step {step}"):
            fit_in(tmp_path / "run", settings_of(place), interrupted=lambda answers=answers: next(answers))
        assert not (tmp_path / "run" / "model.safetensors").exists()
    fit_in(tmp_path / "run", settings_of(place))
    whole, broken = hashes(place / "run"), hashes(tmp_path / "run")
    assert whole.keys() == broken.keys()
    with_times = {"metrics.jsonl", "README.md", "scores.json"}
    differing = {name for name in whole if whole[name] != broken[name] and not name.endswith("progress.json")}
    assert differing <= with_times


def test_unfinished_run_is_not_loaded(copy):
    copy.weights.unlink()
    with pytest.raises(RunError, match=f"has not ended. Continue it with: dragoman train --resume {copy.path}"):
        load(copy.path)


def test_folder_without_a_run_is_not_loaded(tmp_path):
    with pytest.raises(RunError, match="is not a run folder"):
        load(tmp_path / "nowhere")


def test_weights_of_another_shape_are_refused(copy):
    tensors = load_tensors(copy.weights)
    save_tensors(copy.weights, {name: tensor[:-1] for name, tensor in tensors.items()})
    with pytest.raises(RunError, match=r"model\.safetensors: has another shape"):
        load_torch_model(copy.path)


def test_missing_tokenizer_is_named(copy):
    copy.tokenizer.unlink()
    with pytest.raises(DataError, match=r"tokenizer\.json: cannot be read"):
        load(copy.path)


def test_unavailable_device_is_refused(copy):
    with pytest.raises(ConfigError, match="cuda:99"):
        load(copy.path, device="cuda:99")


def test_changed_corpus_is_refused_and_a_moved_one_is_not(place, copy, tmp_path):
    moved = shutil.copytree(place, tmp_path / "moved", ignore=shutil.ignore_patterns("run", "cache"))
    prepare_data(parse_experiment(settings_of(moved)), copy)
    write_corpus(moved / "valid", seed=99, pairs=13)
    with pytest.raises(RunError, match=r"valid/train\.en: has changed since the run in .* started"):
        prepare_data(parse_experiment(settings_of(moved)), copy)


def test_worker_with_other_corpora_is_refused(place, copy, monkeypatch):
    """The main worker, which waits in a collective operation, reads the reason from the store."""
    reasons: dict[str, str] = {}
    group = WorkerGroup(rank=1, world_size=2, store=SimpleNamespace(set=reasons.__setitem__))
    data = prepare_data(parse_experiment(settings_of(place)), copy)
    message = worker_message(copy.path, CPU) | {"corpora": _corpora_fingerprint(data)}
    monkeypatch.setattr(distributed, "join_workers", lambda _: nullcontext((group, message)))
    monkeypatch.setattr(train_in_folder, "prepare_state", raise_reached)
    with pytest.raises(ReachedError):  # with the same corpora
        run_worker(WorkerRank(1, 2, 1))
    message["corpora"] = message["corpora"][::-1]
    with pytest.raises(RunError, match="A corpus has changed since the main worker read it"):
        run_worker(WorkerRank(1, 2, 1))
    assert reasons["failure/1"].startswith("A corpus has changed")


class ReachedError(Exception):
    """Start of the steps of a training."""


def raise_reached(*_, **__):
    raise ReachedError


def test_lines_of_a_batch_are_named(place, tmp_path):
    folder = RunFolder(tmp_path / "new")
    folder.create()
    data = prepare_data(parse_experiment(settings_of(place)), folder)
    line = data.texts.train.line(int(data.train.origins[7]))
    assert data.describe_rows([7]) == f"lines {line} of the training corpus"
    assert data.describe_rows(range(6)).count(",") == 5


@pytest.mark.parametrize(
    ("setting", "message"), [("max_source_length", "data.max_source_length = 1"), ("max_target_length", "")]
)
def test_length_limits_without_pairs_are_refused(place, tmp_path, setting, message):
    folder = RunFolder(tmp_path / "new")
    folder.create()
    settings = settings_of(place, **{setting: 1})
    with pytest.raises(DataError, match=f"training pairs are longer than .*{message}"):
        prepare_data(parse_experiment(settings), folder)


def test_long_validation_pairs_are_left_out_of_the_loss(place, tmp_path):
    folder = RunFolder(tmp_path / "new")
    folder.create()
    model = {"model": {"positions": {"kind": "learned", "max_length": 9}}}
    experiment = parse_experiment(merge(settings_of(place, max_source_length=8, max_target_length=8), model))
    folder.write_config(experiment)
    data = prepare_data(experiment, folder)
    assert 0 < len(data.valid) < 13
    assert max(data.valid.source.lengths.max(), data.valid.target.lengths.max()) <= 8
    note = f"{13 - len(data.valid)} validation pairs are longer than 8 tokens"
    assert sum(one.startswith(note) for one in data.notes) == 1
    outcome = train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)
    assert outcome.steps == 9


def test_bpe_dropout_tokenizes_every_epoch_anew(place, tmp_path):
    folder = RunFolder(tmp_path / "new")
    folder.create()
    tokenizer = {"tokenizer": {"kind": "bpe", "vocab_size": 320, "dropout": 0.3}}
    experiment = parse_experiment(merge(settings_of(place), tokenizer))
    stream = build_stream(experiment, prepare_data(experiment, folder))
    widths = []
    for epoch in range(2):
        stream.seek({"epoch": epoch, "batch": 0})
        widths.append(sum(int(next(stream).source_lengths.sum()) for _ in range(stream.batches_per_epoch())))
    assert widths[0] != widths[1]


def test_train_has_one_keyword_per_training_setting(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    parameters = inspect.signature(train).parameters
    for name, field in TranslationTrainingConfig.model_fields.items():
        assert parameters[name].default == field.get_default()
    result = train(settings_of(place), output_dir=tmp_path / "run", device="cpu", max_steps=2, label_smoothing=0.2)
    assert result.steps == 2
    assert RunFolder(tmp_path / "run").read_config().training.label_smoothing == 0.2
    with pytest.raises(TypeError, match="'max_step'"):
        train(settings_of(place), output_dir=tmp_path / "other", max_step=2)
    assert not (tmp_path / "other").exists()
