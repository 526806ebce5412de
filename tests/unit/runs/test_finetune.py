"""A translator that begins with another: its tokenizer and weights, a longer vocabulary, a teacher."""

from pathlib import Path

import pytest
import torch

from dragoman.config import merge
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.readers import Example
from dragoman.data.tokenizers import Words
from dragoman.data.tokenizers.tokenizer import Pairs
from dragoman.errors import ConfigError, RunError
from dragoman.models.weights import load_tensors, weights
from dragoman.runs.config import to_experiment
from dragoman.runs.finetune import complete_start
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import with_start
from dragoman.tasks.initialization import begin_network, first_tokenizer, first_weights, teachers_of
from dragoman.training.config import Epochs
from tests.finished_runs import finished_run
from tests.small_runs import write_corpus

CPU = torch.device("cpu")
NEW = [("two dolphins play .", "zwei Delfine spielen ."), ("a dolphin", "ein Delfin")]


@pytest.fixture
def begun(tmp_path) -> RunFolder:
    return finished_run(tmp_path / "begun")


def tree_from(begun: RunFolder, **changed: object) -> dict:
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return with_start(merge({"start": str(begun.path), "data": {"train": corpus}}, changed))


def texts(tmp_path: Path) -> Pairs:
    store = TextStore.build(tmp_path / "texts", [Example(*pair, line) for line, pair in enumerate(NEW, start=1)])
    return store.pairs


def test_tokenizer_network_and_weights_are_those_of_the_run(begun, tmp_path):
    experiment = to_experiment(tree_from(begun))
    assert experiment.model == begun.read_config().model
    tokenizer = first_tokenizer(experiment, texts(tmp_path))
    assert tokenizer.fingerprint == begun.read_tokenizer().fingerprint
    found = first_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    model = begin_network(experiment, tokenizer, found, device=CPU)
    torch.testing.assert_close(weights(model), load_tensors(begun.weights), atol=0, rtol=0)


def test_a_run_with_checkpoints_has_weights_of_its_own(begun, tmp_path):
    experiment = to_experiment(tree_from(begun))
    (tmp_path / "new" / "checkpoints" / "000000003").mkdir(parents=True)
    assert first_weights(experiment, begun.read_tokenizer(), RunFolder(tmp_path / "new")) is None


def test_new_entries_get_rows_and_old_ones_keep_theirs(begun, tmp_path):
    experiment = to_experiment(tree_from(begun, extend_vocabulary=3))
    tokenizer, before = first_tokenizer(experiment, texts(tmp_path)), begun.read_tokenizer()
    new = tokenizer.source.segmentation.pieces[len(before.source) :]
    assert len(new) == 3
    found = first_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    begin_network(experiment, tokenizer, found, device=CPU)  # everything fits
    old = load_tensors(begun.weights)
    grown = {name for name in old if found[name].shape != old[name].shape}
    assert grown == {"source_embedding.tokens.weight", "unembedding.bias"}  # the one table is tied to all others
    for name in grown:
        torch.testing.assert_close(found[name][: len(before.source)], old[name], atol=0, rtol=0)
        rows = [old[name][before.source.spell(piece)].mean(dim=0) for piece in new]
        torch.testing.assert_close(found[name][len(before.source) :], torch.stack(rows))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokenizer": {"kind": "characters"}}, "tokenizer: is that of the run in"),
        ({"tokenizer": {"casing": "lower"}}, "tokenizer: is that of the run in"),
    ],
)
def test_another_tokenizer_is_refused(begun, tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message):
        first_tokenizer(to_experiment(tree_from(begun, **changed)), texts(tmp_path))


def test_another_network_is_refused(begun, tmp_path):
    experiment = to_experiment(tree_from(begun, model={"size": 24}))
    with pytest.raises(ConfigError, match=r"model.size = 24, but the run in .* has 12"):
        first_weights(experiment, begun.read_tokenizer(), RunFolder(tmp_path / "new"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"training": {"adapters": {"rank": 3}}}, "training.adapters is about a network that was trained before"),
        ({"extend_vocabulary": 7}, "extend_vocabulary = 7 is about a network that was trained before"),
    ],
)
def test_what_needs_a_start_says_so(changed, message):
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    with pytest.raises(ConfigError, match=message):
        to_experiment(merge({"data": {"train": corpus}}, changed))


def test_new_entries_would_learn_nothing_beside_adapters(begun):
    with pytest.raises(ConfigError, match=r"new entries would learn nothing beside training.adapters"):
        to_experiment(tree_from(begun, extend_vocabulary=7, training={"adapters": {}}))


def test_a_run_of_another_task_or_without_an_end_is_refused(begun, tmp_path):
    begun.weights.unlink()
    with pytest.raises(RunError, match="its training has not ended"):
        tree_from(begun)
    story = RunFolder(tmp_path / "story")
    story.begin()
    data = {"train": {"kind": "text", "path": "story.txt"}}
    story.write_config(to_experiment({"task": "language_modelling", "preset": "gpt-nano", "data": data}))
    with pytest.raises(RunError, match="is a run of task language_modelling; begin with one of task translation"):
        tree_from(story)


def taught_by(teacher: RunFolder, **changed: object) -> dict:
    objective = {"kind": "word_distillation", "teacher": str(teacher.path)}
    corpus = {"kind": "files", "source": "new.en", "target": "new.de"}
    return with_start(merge({"training": {"objective": objective}, "data": {"train": corpus}}, changed))


def test_a_student_takes_the_teacher_s_tokenizer_and_not_its_network(begun, tmp_path):
    experiment = to_experiment(taught_by(begun, model={"size": 24, "heads": 2}))
    assert experiment.tokenizer == Words()
    tokenizer = first_tokenizer(experiment, texts(tmp_path))
    assert tokenizer.fingerprint == begun.read_tokenizer().fingerprint
    [teacher] = teachers_of(experiment, tokenizer, device=CPU)
    assert not teacher.training
    torch.testing.assert_close(weights(teacher), load_tensors(begun.weights), atol=0, rtol=0)
    assert first_weights(experiment, tokenizer, RunFolder(tmp_path / "new")) is None


def test_a_teacher_of_other_words_is_refused(begun, tmp_path):
    experiment = to_experiment(tree_from(begun, extend_vocabulary=3))
    longer = first_tokenizer(experiment, texts(tmp_path))
    with pytest.raises(ConfigError, match="has another tokenizer than this run"):
        teachers_of(to_experiment(taught_by(begun)), longer, device=CPU)
    beside = {"training": {"objective": {"beside": [str(begun.path)]}}}
    assert len(teachers_of(to_experiment(taught_by(begun, **beside)), begun.read_tokenizer(), device=CPU)) == 2


def test_a_teacher_of_fewer_places_than_the_longest_example_is_refused_before_anything_is_learnt(tmp_path):
    few = {"positions": {"kind": "learned", "length": 40}}
    limits = {"longest_source": 39, "longest_target": 39}
    teacher = finished_run(tmp_path / "short", {"model": few, "data": limits})
    known = to_experiment(taught_by(teacher, model=few, data=limits))
    assert len(teachers_of(known, teacher.read_tokenizer(), device=CPU)) == 1
    longer = to_experiment(taught_by(teacher, data={"longest_source": 30, "longest_target": 100}))
    with pytest.raises(ConfigError, match=r"short knows 40 places .*, fewer than the longest example of 101 tokens"):
        teachers_of(longer, teacher.read_tokenizer(), device=CPU)


def test_what_is_not_said_is_chosen_or_as_in_the_run(begun, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, target = write_corpus(tmp_path)
    data = {"train": {"kind": "files", "source": str(source), "target": str(target)}}
    tree = {"start": str(begun.path), "data": data, "training": {"seed": 7}}
    experiment, choices = complete_start(tree)
    before = begun.read_config()
    assert experiment.training.seed == 7
    assert experiment.model == before.model
    assert experiment.metrics == before.metrics
    assert experiment.training.optimiser.learning_rate == pytest.approx(before.training.optimiser.learning_rate / 5)
    assert experiment.training.schedule.kind == "linear"
    assert isinstance(experiment.training.length, Epochs)
    assert {choice.key for choice in choices} == {
        "training.length",
        "training.optimiser.learning_rate",
        "training.schedule",
    }
    adapted, choices = complete_start(merge(tree, {"training": {"adapters": {"rank": 3}, "length": {"count": 2}}}))
    assert adapted.training.optimiser == before.training.optimiser
    assert adapted.training.length == Epochs(count=2)
    assert [choice.key for choice in choices] == ["training.schedule"]
