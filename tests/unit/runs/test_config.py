"""Experiment configuration: merging, completion and the checks that its sections fit together."""

import re
from pathlib import Path

import pytest

from dragoman.config_keys import keys_of
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.runs.config import (
    apply_overrides,
    apply_preset,
    corpus_settings,
    lengthen,
    merge_settings,
    nest,
    parse_experiment,
    read_experiment,
    read_settings,
    resolve_corpus_paths,
)
from dragoman.runs.folder import RunFolder
from dragoman.runs.train import train
from dragoman.tasks.config import TASK_CONFIGS
from dragoman.training.checkpoint import Progress
from dragoman.yaml_files import to_yaml
from tests.small_tasks import config_of

DATA = {"train": {"kind": "files", "source": "a.en", "target": "a.de"}}
NAMES = (*TASK_CONFIGS, "pairs")


def complaint(tree) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_experiment(tree, where="recipe.yaml")
    [line] = str(raised.value).splitlines()
    assert line.startswith("recipe.yaml: ")
    return line.removeprefix("recipe.yaml: ")


def of_task(task, **changed):
    return config_of(task, Path("data")) | changed


def test_assignments_override_file_and_file_overrides_preset(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("preset: tiny\nmodel: {d_model: 64}\ntraining: {seed: 3}\n", encoding="utf-8")
    tree = apply_preset(read_settings(file, ["training.seed=5"]))
    assert "preset" not in tree
    assert tree["model"]["d_model"] == 64
    assert tree["model"]["d_ff"] == 256
    assert tree["training"]["seed"] == 5
    assert read_settings(None, ["preset=base"]) == {"preset": "base"}


def test_another_kind_replaces_the_settings_of_the_preset():
    tree = {"preset": "tiny", "data": DATA, "training": {"schedule": {"kind": "constant"}}}
    assert parse_experiment(tree).training.schedule.warmup == 0


def test_corpus_paths_are_resolved_against_a_folder():
    tree = {
        "data": {
            "train": {"kind": "files", "source": "a.en", "target": "/elsewhere/a.de"},
            "valid": {"kind": "tsv", "path": "v.tsv"},
            "valid_size": None,
        },
        "model": {"d_model": 8},
    }
    placed = resolve_corpus_paths(tree, Path("/data"))
    assert placed["data"]["train"] == {"kind": "files", "source": "/data/a.en", "target": "/elsewhere/a.de"}
    assert placed["data"]["valid"]["path"] == "/data/v.tsv"
    assert placed["data"]["valid_size"] is None
    assert placed["model"] == {"d_model": 8}
    assert resolve_corpus_paths({"data": 3}, Path("/data")) == {"data": 3}


def test_data_dir_is_for_paths_in_the_configuration(tmp_path):
    """Other paths are relative to the current folder."""
    with pytest.raises(DragomanError) as raised:
        train({"preset": "nano"}, source="no.en", target="no.de", data_dir="elsewhere", output_dir=tmp_path / "run")
    assert str(raised.value).startswith("no.en")
    with pytest.raises(DragomanError) as raised:
        train({"preset": "nano", "data": DATA}, data_dir="elsewhere", output_dir=tmp_path / "run")
    assert str(raised.value).startswith("elsewhere/a.en")


@pytest.mark.parametrize("name", NAMES)
def test_corpus_paths_of_every_task_are_resolved(name):
    placed = resolve_corpus_paths(config_of(name, Path("data")), Path("/there"))
    paths = [value for key, value in placed["data"]["train"].items() if key in ("source", "target", "path")]
    assert paths
    assert all(path.startswith("/there/data/") for path in paths)


@pytest.mark.parametrize("name", NAMES)
def test_written_configuration_is_read_back(tmp_path, name):
    experiment = parse_experiment(config_of(name, Path("data")))
    text = to_yaml(experiment.model_dump(mode="json"))
    assert text.startswith(f"task: {experiment.task}\n")
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert read_experiment(tmp_path / "config.yaml") == experiment


def test_default_task_is_translation():
    assert parse_experiment({"data": DATA}).task == "translation"
    assert parse_experiment({"data": DATA}) == parse_experiment({"task": "translation", "data": DATA})


def test_language_modeling_defaults_to_text_with_whitespace():
    experiment = parse_experiment(of_task("language_modeling", tokenizer={"kind": "bpe", "vocab_size": 300}))
    assert experiment.data.kind == "text"
    assert experiment.tokenizer.whitespace == "keep"
    collapsed = parse_experiment(of_task("language_modeling", tokenizer={"kind": "bpe", "whitespace": "collapse"}))
    assert collapsed.tokenizer.whitespace == "collapse"
    assert parse_experiment(of_task("pairs")).tokenizer.whitespace == "collapse"  # words cannot keep it
    assert parse_experiment(of_task("masked_lm")).tokenizer.whitespace == "collapse"


def test_kind_as_text_has_the_defaults_of_the_task():
    short, long = (of_task("language_modeling", tokenizer=kind) for kind in ("unigram", {"kind": "unigram"}))
    assert parse_experiment(short) == parse_experiment(long)
    assert parse_experiment(short).tokenizer.whitespace == "keep"
    asked = of_task("question_answering") | {"model": "encoder_only"}
    assert parse_experiment(asked).model.num_segments == 2


def test_question_answering_defaults_to_two_segments():
    assert parse_experiment(of_task("question_answering", model={"d_model": 8, "num_heads": 2})).model.num_segments == 2
    assert parse_experiment({key: value for key, value in of_task("question_answering").items() if key != "model"})
    assert complaint(of_task("question_answering", model={"num_segments": 1})) == (
        "model.num_segments = 1 does not distinguish question and context. Set model.num_segments=2."
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "data: is required"),
        (
            {"data": DATA, "model": {"num_heads": 3}},
            "model.num_heads = 3 does not divide model.d_model = 512",
        ),
        (
            {"data": DATA, "tokenizer": {"shared": False}},
            "model.tie_embeddings = all needs a shared vocabulary",
        ),
        (
            {"data": DATA, "model": {"positions": {"kind": "learned", "max_length": 200}}},
            "model.positions.max_length = 200 is shorter than the longest example of 257 tokens",
        ),
        ({"data": DATA, "decoding": {"n_best": 2}}, "decoding.n_best = 2 has no effect in training"),
        ({"data": DATA, "metrics": []}, "metrics"),
        ({"data": DATA, "modle": {}}, "modle: no such key. Did you mean model?"),
        ({"data": DATA | {"valid": DATA["train"], "valid_size": 3}}, "valid_size"),
        (
            {"data": DATA, "model": {"kind": "decoder_only"}},
            "model.kind = 'decoder_only': no such kind. Known: encoder_decoder, recur",
        ),
    ],
)
def test_inconsistent_settings_are_refused_in_one_line(tree, message):
    assert message in complaint(tree)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"task": "translating"}, "task = 'translating' does not exist. Did you mean translation?"),
        (
            {"task": "x"},
            "task = 'x' does not exist. Known: translation, language_modeling, masked_lm, classification, "
            "tagging, question_answering.",
        ),
        ({"task": ["translation"]}, "task = ['translation'] does not exist. Did you mean translation?"),
        (
            of_task("language_modeling", metrics=[]),
            "metrics: no such key. It belongs to task translation, and this is task language_modeling.",
        ),
        (
            of_task("translation", masking={}),
            "masking: no such key. It belongs to task masked_lm, and this is task translation.",
        ),
        (
            of_task("tagging", training={"validation_beam_size": 2}),
            "training.validation_beam_size: no such key. It belongs to task translation, and this is task tagging.",
        ),
        (
            of_task("classification", head={"poling": "mean"}),
            "head.poling: no such key. Did you mean head.pooling?",
        ),
        (
            of_task("tagging", head={"pooling": "mean"}),
            "head.pooling: no such key. It belongs to task classification, and this is task tagging.",
        ),
        (
            of_task("classification", modle={}),
            "modle: no such key. Did you mean model?",
        ),
        (
            of_task("classification", model={"kind": "encoder_decoder"}),
            "model.kind = 'encoder_decoder': no such kind",
        ),
        (
            of_task("classification", model={"kind": "decoder_only"}),
            "head.pooling = first sees only the first token",
        ),
        (
            of_task("tagging", tokenizer={"kind": "characters", "shared": False}),
            "tokenizer.shared = false: the model has one vocabulary",
        ),
        (
            of_task("masked_lm", tokenizer={"dropout": 0.1}),
            "tokenizer.dropout = 0.1 has no effect",
        ),
        (
            of_task("language_modeling", model={"positions": {"kind": "learned", "max_length": 18}}),
            "model.positions.max_length = 18 is shorter than a context of 19 tokens",
        ),
        (
            of_task("classification", model={"attention": {"pattern": {"kind": "linformer", "max_length": 100}}}),
            "model.attention.pattern.max_length = 100 is shorter than the longest text of 256 tokens",
        ),
        (
            of_task("question_answering", model={"positions": {"kind": "learned", "max_length": 18}}),
            "model.positions.max_length = 18 is shorter than the longest window of 19 tokens",
        ),
        (of_task("question_answering", answers={"n_best": 2}), "answers.n_best = 2 has no effect in training"),
    ],
)
def test_settings_of_other_tasks_are_refused_in_one_line(tree, message):
    assert message in complaint(tree)


def test_bpe_dropout_needs_pairs():
    tokenizer = {"kind": "bpe", "dropout": 0.1}
    assert parse_experiment(of_task("pairs", tokenizer=tokenizer)).tokenizer.dropout == 0.1
    assert "tokenizer.dropout" in complaint(of_task("language_modeling", tokenizer=tokenizer))


def test_learned_positions_must_fit_the_longest_example():
    model = {"positions": {"kind": "learned", "max_length": 257}}
    assert parse_experiment({"data": DATA, "model": model}).data.max_source_length == 256
    pairs = of_task("pairs")
    pairs["data"] |= {"max_source_length": 5, "max_target_length": 7}
    assert (
        parse_experiment(pairs | {"model": {"positions": {"kind": "learned", "max_length": 13}}}).data.context_length
        == 13
    )
    assert "a context of 13 tokens" in complaint(
        pairs | {"model": {"positions": {"kind": "learned", "max_length": 12}}}
    )


LIBRARY_LANGUAGE = re.compile(
    r"function-|tagged-union|union\[|[Ii]nput should|[Vv]alue error|[Aa]ssertion|a valid \w+|unable to parse|<class"
)


@pytest.mark.parametrize("task", TASK_CONFIGS)
@pytest.mark.parametrize("value", ["x", -1, [{}], {"kind": "x"}, float("nan")], ids=str)
def test_messages_have_no_words_of_the_library(task, value):
    for key in keys_of(TASK_CONFIGS[task]):
        message = error_of(merge({"task": task}, nest(key, value)))
        assert not LIBRARY_LANGUAGE.search(message), f"{key}: {message}"
        assert f"task {task}, and this is task {task}" not in message
        assert len(message.splitlines()) <= 3


def error_of(tree) -> str:
    try:
        parse_experiment(tree)
    except ConfigError as error:
        return str(error)
    return ""


def test_key_of_a_kind_inside_another_kind_names_the_outer_kind():
    with pytest.raises(ConfigError, match=r"It belongs to model\.kind recurrent, and this is model\.kind encoder_dec"):
        parse_experiment({"model": {"attention": {"rank": 3}}})


@pytest.mark.parametrize(
    ("below", "given", "expected"),
    [
        ({"max_steps": 6000}, {"max_epochs": 2}, {"max_epochs": 2}),
        ({"max_epochs": 30, "max_steps": None}, {"max_steps": 9}, {"max_steps": 9}),
        ({"max_epochs": 30}, {"max_steps": 9, "max_epochs": 4}, {"max_steps": 9, "max_epochs": 4}),
        ({"max_epochs": 30}, {"patience": 3}, {"max_epochs": 30, "patience": 3}),
    ],
)
def test_length_in_other_units_is_replaced(below, given, expected):
    """A default limit in steps would end a training of the requested number of epochs early, and the reverse."""
    tree = merge_settings({"training": {"seed": 5, **below}}, {"training": given})
    assert tree == {"training": {"seed": 5, **expected}}
    dotted = {f"training.{key}": value for key, value in given.items()}
    assert apply_overrides({"training": {"seed": 5, **below}}, dotted) == tree


@pytest.fixture
def ended(tmp_path) -> RunFolder:
    """Folder with the checkpoint of step 60, in epoch 4, after two validations without improvement."""
    checkpoint = tmp_path / "run" / "checkpoints" / "000000060"
    checkpoint.mkdir(parents=True)
    progress = Progress(step=60, position={"epoch": 4, "batch": 1}, stale_validations=2)
    (checkpoint / "progress.json").write_text(progress.model_dump_json(), encoding="utf-8")
    return RunFolder(tmp_path / "run")


def lengthened(folder, **changes):
    training = {"max_steps": 60, "patience": 2, "schedule": {"kind": "cosine"}}
    experiment = parse_experiment({"preset": "nano", "data": DATA, "training": training})
    longer = lengthen(folder, experiment, {"training": changes}).training
    assert longer.schedule == experiment.training.schedule
    return longer.max_steps, longer.max_epochs, longer.patience


def test_run_is_lengthened_in_steps_or_epochs(ended):
    assert lengthened(ended, max_steps=61, patience=3) == (61, None, 3)
    assert lengthened(ended, max_epochs=5, patience=None) == (None, 5, None)
    assert lengthened(ended, max_epochs=9, max_steps=99, patience=None) == (99, 9, None)


def test_unfinished_run_is_ended_at_its_last_checkpoint(ended):
    assert lengthened(ended, max_steps=60) == (60, None, 2)
    with pytest.raises(ConfigError, match=r"Give a larger number, or --max-steps 60 to end the training here\.$"):
        lengthened(ended, max_steps=59, patience=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_steps": 60, "patience": None}, r"training\.max_steps = 60: .*run has reached it after 60 steps"),
        ({"max_epochs": 4, "patience": None}, r"training\.max_epochs = 4: .* Give a larger number"),
        ({"max_steps": 99}, r"training\.patience = 2: .* reached it"),
        ({"seed": 2}, r"training\.seed: --resume can change the length .* \(training\.max_epochs, training\.max_st"),
    ],
)
def test_run_cannot_be_lengthened_so(ended, changes, message):
    ended.weights.touch()
    with pytest.raises(ConfigError, match=message):
        lengthened(ended, **changes)


def test_lengthening_changes_no_other_section(ended):
    experiment = parse_experiment({"preset": "nano", "data": DATA})
    for changes in ({"model": {"d_model": 64}}, {"training": 3}):
        with pytest.raises(ConfigError, match="--resume can change the length of the training alone"):
            lengthen(ended, experiment, changes)


def test_run_without_checkpoints_cannot_be_lengthened(tmp_path):
    with pytest.raises(RunError, match=r"has no checkpoint yet.*Leave the new length out"):
        lengthened(RunFolder(tmp_path), max_steps=99)


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ({"source": "pairs.tsv"}, "--source pairs.tsv is one side of a corpus. Give --target too, .* or --pairs for"),
        (
            {"valid_target": "v.de"},
            "--valid-target v.de is one side .* Give --valid-source too, .* or --valid-pairs for",
        ),
    ],
)
def test_missing_side_is_named_with_its_value(corpora, message):
    with pytest.raises(ConfigError, match=message):
        corpus_settings(corpora)


def test_wrong_file_of_validation_pairs_names_its_options(tmp_path):
    (tmp_path / "valid.en").write_text("two dogs\n", encoding="utf-8")
    with pytest.raises(DataError, match="Give two text files with --valid-source and --valid-target"):
        corpus_settings({"valid_pairs": tmp_path / "valid.en"})
