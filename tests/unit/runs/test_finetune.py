"""A translator that begins with another: its tokenizer and weights, a longer vocabulary, a teacher."""

from pathlib import Path

import pytest
import torch

from dragoman.config import merge
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import WordConfig
from dragoman.data.tokenizers.tokenizer import Pairs
from dragoman.errors import ConfigError, RunError
from dragoman.models.weights import get_weights, load_tensors
from dragoman.runs.config import parse_experiment
from dragoman.runs.finetune import apply_init_from, auto_configure_finetuning
from dragoman.runs.folder import RunFolder
from dragoman.tasks.initialization import build_initial_model, initial_tokenizer, initial_weights, load_teachers
from tests.small_runs import write_corpus
from tests.untrained_runs import finished_run

CPU = torch.device("cpu")
NEW = [("two dolphins play .", "zwei Delfine spielen ."), ("a dolphin", "ein Delfin")]


@pytest.fixture
def begun(tmp_path) -> RunFolder:
    return finished_run(tmp_path / "begun")


def tree_from(begun: RunFolder, **changed: object) -> dict:
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return apply_init_from(merge({"init_from": str(begun.path), "data": {"train": corpus}}, changed))


def texts(tmp_path: Path) -> Pairs:
    store = TextStore.build(tmp_path / "texts", [Example(*pair, line) for line, pair in enumerate(NEW, start=1)])
    return store.pairs


def test_tokenizer_network_and_weights_are_those_of_the_run(begun, tmp_path):
    experiment = parse_experiment(tree_from(begun))
    assert experiment.model == begun.read_config().model
    tokenizer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    assert tokenizer.fingerprint == begun.read_tokenizer().fingerprint
    found = initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    model = build_initial_model(experiment, tokenizer, found, device=CPU)
    torch.testing.assert_close(get_weights(model), load_tensors(begun.weights), atol=0, rtol=0)


def test_a_run_with_checkpoints_has_weights_of_its_own(begun, tmp_path):
    experiment = parse_experiment(tree_from(begun))
    (tmp_path / "new" / "checkpoints" / "000000003").mkdir(parents=True)
    assert initial_weights(experiment, begun.read_tokenizer(), RunFolder(tmp_path / "new")) is None


def test_new_entries_get_rows_and_old_ones_keep_theirs(begun, tmp_path):
    experiment = parse_experiment(tree_from(begun, extend_vocabulary=3))
    tokenizer, before = initial_tokenizer(experiment, texts(tmp_path), RunFolder), begun.read_tokenizer()
    new = tokenizer.source.model.vocab[len(before.source) :]
    assert len(new) == 3
    found = initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    build_initial_model(experiment, tokenizer, found, device=CPU)  # everything fits
    old = load_tensors(begun.weights)
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
def test_another_tokenizer_is_refused(begun, tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message):
        initial_tokenizer(parse_experiment(tree_from(begun, **changed)), texts(tmp_path), RunFolder)


def test_another_network_is_refused(begun, tmp_path):
    experiment = parse_experiment(tree_from(begun, model={"d_model": 24}))
    with pytest.raises(ConfigError, match=r"model.d_model = 24, but the run in .* has 12"):
        initial_weights(experiment, begun.read_tokenizer(), RunFolder(tmp_path / "new"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"training": {"lora": {"rank": 3}}}, "training.lora extends the model of another run"),
        ({"extend_vocabulary": 7}, "extend_vocabulary = 7 extends the model of another run"),
    ],
)
def test_what_needs_a_start_says_so(changed, message):
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    with pytest.raises(ConfigError, match=message):
        parse_experiment(merge({"data": {"train": corpus}}, changed))


def test_new_entries_would_learn_nothing_beside_adapters(begun):
    with pytest.raises(ConfigError, match=r"new entries need a trained embedding"):
        parse_experiment(tree_from(begun, extend_vocabulary=7, training={"lora": {}}))


def test_a_run_of_another_task_or_without_an_end_is_refused(begun, tmp_path):
    begun.weights.unlink()
    with pytest.raises(RunError, match="the training has not ended"):
        tree_from(begun)
    story = RunFolder(tmp_path / "story")
    story.create()
    data = {"train": {"kind": "text", "path": "story.txt"}}
    story.write_config(parse_experiment({"task": "language_modeling", "preset": "gpt-nano", "data": data}))
    with pytest.raises(RunError, match="is a run of task language_modeling. Initialize from a run of task translation"):
        tree_from(story)


def taught_by(teacher: RunFolder, **changed: object) -> dict:
    objective = {"kind": "distillation", "teacher": str(teacher.path)}
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return apply_init_from(merge({"training": {"loss": objective}, "data": {"train": corpus}}, changed))


def test_a_student_takes_the_teacher_s_tokenizer_and_not_its_network(begun, tmp_path):
    experiment = parse_experiment(taught_by(begun, model={"d_model": 24, "num_heads": 2}))
    assert experiment.tokenizer == WordConfig()
    tokenizer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    assert tokenizer.fingerprint == begun.read_tokenizer().fingerprint
    [teacher] = load_teachers(experiment, tokenizer, RunFolder, device=CPU)
    assert not teacher.training
    torch.testing.assert_close(get_weights(teacher), load_tensors(begun.weights), atol=0, rtol=0)
    assert initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new")) is None


def test_a_teacher_of_other_words_is_refused(begun, tmp_path):
    experiment = parse_experiment(tree_from(begun, extend_vocabulary=3))
    longer = initial_tokenizer(experiment, texts(tmp_path), RunFolder)
    with pytest.raises(ConfigError, match="has another tokenizer than this run"):
        load_teachers(parse_experiment(taught_by(begun)), longer, RunFolder, device=CPU)
    beside = {"training": {"loss": {"extra_teachers": [str(begun.path)]}}}
    assert (
        len(load_teachers(parse_experiment(taught_by(begun, **beside)), begun.read_tokenizer(), RunFolder, device=CPU))
        == 2
    )


def test_a_teacher_of_fewer_places_than_the_longest_example_is_refused_before_anything_is_learnt(tmp_path):
    few = {"positions": {"kind": "learned", "max_length": 40}}
    limits = {"max_source_length": 39, "max_target_length": 39}
    teacher = finished_run(tmp_path / "short", {"model": few, "data": limits})
    known = parse_experiment(taught_by(teacher, model=few, data=limits))
    assert len(load_teachers(known, teacher.read_tokenizer(), RunFolder, device=CPU)) == 1
    longer = parse_experiment(taught_by(teacher, data={"max_source_length": 30, "max_target_length": 100}))
    with pytest.raises(ConfigError, match=r"short has 40 positions .*, and the longest example has 101 tokens"):
        load_teachers(longer, teacher.read_tokenizer(), RunFolder, device=CPU)


def test_what_is_not_said_is_chosen_or_as_in_the_run(begun, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, target = write_corpus(tmp_path)
    data = {"train": {"kind": "files", "source": str(source), "target": str(target)}}
    tree = {"init_from": str(begun.path), "data": data, "training": {"seed": 7}}
    experiment, choices = auto_configure_finetuning(tree)
    before = begun.read_config()
    assert experiment.training.seed == 7
    assert experiment.model == before.model
    assert experiment.metrics == before.metrics
    assert experiment.training.optimizer.learning_rate == pytest.approx(before.training.optimizer.learning_rate / 5)
    assert experiment.training.schedule.kind == "linear"
    assert experiment.training.max_epochs is not None
    assert {choice.key for choice in choices} == {
        "training.max_epochs",
        "training.optimizer.learning_rate",
        "training.schedule",
    }
    adapted, choices = auto_configure_finetuning(merge(tree, {"training": {"lora": {"rank": 3}, "max_epochs": 2}}))
    assert adapted.training.optimizer == before.training.optimizer
    assert adapted.training.max_epochs == 2
    assert [choice.key for choice in choices] == ["training.schedule"]
