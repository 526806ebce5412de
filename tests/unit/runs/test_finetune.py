"""Fine-tuning: tokenizer and weights of the initial run, vocabulary extension, teachers."""

from pathlib import Path

import pytest
import torch

from dragoman.config_trees import merge
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import WordConfig
from dragoman.data.tokenizers.tokenizer_pair import Pairs
from dragoman.errors import ConfigError, RunError
from dragoman.models.weight_storage import get_weights, load_tensors
from dragoman.runs.config import parse_experiment
from dragoman.runs.export import export
from dragoman.runs.finetune import apply_init_from, auto_configure_finetuning
from dragoman.runs.folder import RunFolder
from dragoman.tasks.initial_weights import build_initial_model, initial_tokenizer, initial_weights, load_teachers
from dragoman.tasks.task import read_weights
from tests.small_runs import write_corpus
from tests.untrained_runs import finished_run

CPU = torch.device("cpu")
NEW = [("two dolphins play .", "zwei Delfine spielen ."), ("a dolphin", "ein Delfin")]


@pytest.fixture
def initial(tmp_path) -> RunFolder:
    return finished_run(tmp_path / "initial")


def tree_from(initial: RunFolder, **changed: object) -> dict:
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return apply_init_from(merge({"init_from": str(initial.path), "data": {"train": corpus}}, changed))


def texts(tmp_path: Path) -> Pairs:
    store = TextStore.build(tmp_path / "texts", [Example(*pair, line) for line, pair in enumerate(NEW, start=1)])
    return lambda: iter(store)


def test_tokenizer_model_and_weights_are_inherited(initial, tmp_path):
    experiment = parse_experiment(tree_from(initial))
    assert experiment.model == initial.read_config().model
    tokenizer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    assert tokenizer.fingerprint == initial.read_tokenizer().fingerprint
    found = initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    model = build_initial_model(experiment, tokenizer, found, device=CPU)
    torch.testing.assert_close(get_weights(model), load_tensors(initial.weights), atol=0, rtol=0)


def test_run_with_checkpoints_inherits_no_weights(initial, tmp_path):
    experiment = parse_experiment(tree_from(initial))
    (tmp_path / "new" / "checkpoints" / "000000003").mkdir(parents=True)
    assert initial_weights(experiment, initial.read_tokenizer(), RunFolder(tmp_path / "new")) is None


def test_new_vocabulary_entries_get_mean_rows(initial, tmp_path):
    experiment = parse_experiment(tree_from(initial, extend_vocabulary=3))
    tokenizer, before = initial_tokenizer(experiment, texts(tmp_path), RunFolder), initial.read_tokenizer()
    new = tokenizer.source.model.vocab[len(before.source) :]
    assert len(new) == 3
    found = initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    build_initial_model(experiment, tokenizer, found, device=CPU)  # everything fits
    old = load_tensors(initial.weights)
    grown = {name for name in old if found[name].shape != old[name].shape}
    assert grown == {"source_embedding.tokens.weight", "unembedding.bias"}  # the one table is tied to all others
    for name in grown:
        torch.testing.assert_close(found[name][: len(before.source)], old[name], atol=0, rtol=0)
        rows = [old[name][before.source.encode_word(piece)].mean(dim=0) for piece in new]
        torch.testing.assert_close(found[name][len(before.source) :], torch.stack(rows))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokenizer": {"kind": "characters"}}, "tokenizer: differs from the tokenizer of"),
        ({"tokenizer": {"casing": "lower"}}, "tokenizer: differs from the tokenizer of"),
    ],
)
def test_another_tokenizer_is_refused(initial, tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message):
        initial_tokenizer(parse_experiment(tree_from(initial, **changed)), texts(tmp_path), RunFolder)


def test_another_model_is_refused(initial, tmp_path):
    experiment = parse_experiment(tree_from(initial, model={"d_model": 24}))
    with pytest.raises(ConfigError, match=r"model.d_model = 24, but the run in .* has 12"):
        initial_weights(experiment, initial.read_tokenizer(), RunFolder(tmp_path / "new"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"training": {"lora": {"rank": 3}}}, "training.lora extends the model of another run"),
        ({"extend_vocabulary": 7}, "extend_vocabulary = 7 extends the model of another run"),
    ],
)
def test_settings_that_need_an_initial_run_are_refused(changed, message):
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    with pytest.raises(ConfigError, match=message):
        parse_experiment(merge({"data": {"train": corpus}}, changed))


def test_vocabulary_extension_with_lora_is_refused(initial):
    with pytest.raises(ConfigError, match=r"new entries need a trained embedding"):
        parse_experiment(tree_from(initial, extend_vocabulary=7, training={"lora": {}}))


def test_unsuitable_initial_run_is_refused(initial, tmp_path):
    initial.weights.unlink()
    with pytest.raises(RunError, match="the training has not ended"):
        tree_from(initial)
    story = RunFolder(tmp_path / "story")
    story.create()
    data = {"train": {"kind": "text", "path": "story.txt"}}
    story.write_config(parse_experiment({"task": "language_modeling", "preset": "gpt-nano", "data": data}))
    with pytest.raises(RunError, match="is a run of task language_modeling"):
        tree_from(story)


def taught_by(teacher: RunFolder, **changed: object) -> dict:
    loss = {"kind": "distillation", "teacher": str(teacher.path)}
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return apply_init_from(merge({"training": {"loss": loss}, "data": {"train": corpus}}, changed))


def test_student_inherits_only_the_tokenizer(initial, tmp_path):
    experiment = parse_experiment(taught_by(initial, model={"d_model": 24, "num_heads": 2}))
    assert experiment.tokenizer == WordConfig()
    tokenizer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    assert tokenizer.fingerprint == initial.read_tokenizer().fingerprint
    [teacher] = load_teachers(experiment, tokenizer, RunFolder, device=CPU)
    assert not teacher.training
    torch.testing.assert_close(get_weights(teacher), load_tensors(initial.weights), atol=0, rtol=0)
    assert initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new")) is None


def test_teacher_with_another_tokenizer_is_refused(initial, tmp_path):
    experiment = parse_experiment(tree_from(initial, extend_vocabulary=3))
    longer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    with pytest.raises(ConfigError, match="has another tokenizer than this run"):
        load_teachers(parse_experiment(taught_by(initial)), longer, RunFolder, device=CPU)
    extra = {"training": {"loss": {"extra_teachers": [str(initial.path)]}}}
    assert (
        len(
            load_teachers(
                parse_experiment(taught_by(initial, **extra)), initial.read_tokenizer(), RunFolder, device=CPU
            )
        )
        == 2
    )


def test_teacher_with_too_few_positions_is_refused(tmp_path):
    few = {"positions": {"kind": "learned", "max_length": 40}}
    limits = {"max_source_length": 39, "max_target_length": 39}
    teacher = finished_run(tmp_path / "short", {"model": few, "data": limits})
    known = parse_experiment(taught_by(teacher, model=few, data=limits))
    assert len(load_teachers(known, teacher.read_tokenizer(), RunFolder, device=CPU)) == 1
    longer = parse_experiment(taught_by(teacher, data={"max_source_length": 30, "max_target_length": 100}))
    with pytest.raises(ConfigError, match=r"short has 40 positions .*, and the longest example has 101 tokens"):
        load_teachers(longer, teacher.read_tokenizer(), RunFolder, device=CPU)


def test_settings_are_inherited_or_chosen(initial, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, target = write_corpus(tmp_path)
    data = {"train": {"kind": "files", "source": str(source), "target": str(target)}}
    tree = {"init_from": str(initial.path), "data": data, "training": {"seed": 7}}
    experiment, choices = auto_configure_finetuning(tree)
    before = initial.read_config()
    assert experiment.training.seed == 7
    assert experiment.model == before.model
    assert experiment.metrics == before.metrics
    assert experiment.training.optimizer.learning_rate == pytest.approx(before.training.optimizer.learning_rate / 5)
    assert experiment.training.schedule.kind == "linear"
    assert experiment.training.max_epochs is not None
    assert experiment.training.max_steps is None, "the length of the initial run is not inherited"
    longest, _ = auto_configure_finetuning(merge(tree, {"training": {"max_steps": 10**6}}))
    assert (longest.training.max_epochs, longest.training.max_steps) == (None, 10**6)
    assert {choice.key for choice in choices} == {
        "training.max_epochs",
        "training.optimizer.learning_rate",
        "training.schedule",
    }
    adapted, choices = auto_configure_finetuning(merge(tree, {"training": {"lora": {"rank": 3}, "max_epochs": 2}}))
    assert adapted.training.optimizer == before.training.optimizer
    assert adapted.training.max_epochs == 2
    assert [choice.key for choice in choices] == ["training.schedule"]


def test_weights_of_an_int8_export_are_those_of_the_run_up_to_rounding(tmp_path):
    initial = finished_run(tmp_path / "initial")
    export(initial.path, tmp_path / "export", compute_type="int8")
    weights, found = (read_weights(RunFolder(tmp_path / name)) for name in ("initial", "export"))
    assert weights.keys() == found.keys()
    for name, weight in weights.items():
        step = weight.abs().amax(dim=-1, keepdim=True) / 127
        assert ((found[name] - weight).abs() <= step).all(), name
