"""Every task from its corpus to inference: files of the run, resuming, loading."""

import json
import shutil

import pytest
import torch
import yaml

import dragoman
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.evaluation import Baseline, Score
from dragoman.inference import Classifier, Embedder, Generator, QuestionAnswerer, Tagger, Translator
from dragoman.models.weight_storage import load_tensors
from dragoman.profiling.memory_and_time_estimate import count_parameters, model_cost
from dragoman.runs.compare import summarize_run
from dragoman.runs.config import parse_experiment
from dragoman.runs.finetune import apply_init_from
from dragoman.runs.folder import RunFolder
from dragoman.runs.inspect import InspectionRequest, inspect_run
from dragoman.runs.load import LOADED_AS
from dragoman.runs.model_card import TrainingResult
from dragoman.runs.train_in_folder import train_and_score
from dragoman.tasks.config import TASK_CONFIGS
from dragoman.tasks.factory import build_task
from dragoman.tasks.translation import TranslationTask
from dragoman.training.trainer import InterruptionError
from tests.small_runs import WORDS, hashes
from tests.small_tasks import TEXT, config_of, write_texts

CPU = torch.device("cpu")
NAMES = (*TASK_CONFIGS, "pairs")
SCORES = {
    "translation": ["BLEU", "chrF2"],
    "language_modeling": ["loss", "perplexity", "bits/character"],
    "pairs": ["loss", "perplexity"],
    "masked_lm": ["loss", "perplexity", "accuracy"],
    "classification": ["accuracy", "macro-F1"],
    "tagging": ["accuracy", "macro-F1"],
    "question_answering": ["EM", "F1"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder with a corpus for every task, and a finished run of each by its name."""
    place = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        write_texts(place)
        for name in NAMES:
            fit_in(place / name, config_of(name, place))
    return place


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


def fit_in(path, settings, *, interrupted=lambda: False):
    folder, experiment = RunFolder(path), parse_experiment(settings)
    if not folder.config.exists():
        folder.create()
        folder.write_config(experiment)
    data = build_task(experiment).prepare_data(folder, report=lambda _: None)
    return train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=interrupted)


@pytest.mark.parametrize("name", NAMES)
def test_files_of_a_run(place, name):
    folder = RunFolder(place / name)
    assert folder.read_config() == parse_experiment(config_of(name, place))
    scores = json.loads(folder.scores.read_text(encoding="utf-8"))
    assert scores["steps"] == 9
    assert scores["tokens"] > 9
    assert [score["metric"] for score in scores["scores"]["valid"]] == SCORES[name]
    assert all(score["signature"] for score in scores["scores"]["valid"])
    card = folder.model_card.read_text(encoding="utf-8")
    words = build_task(folder.read_config()).description
    for part in (
        f"# {name}",
        f" {words.noun} trained",
        " for training",
        "## Model",
        words.command.replace("RUN", name),
    ):
        assert part in card
    loaded = LOADED_AS.get("language_modeling" if name == "pairs" else name)
    assert (loaded is None) == (words.python_usage is None)
    assert loaded is None or f'dragoman.load("{name}", dragoman.{loaded[0]}).' in card
    assert str(place) not in card
    assert folder.labels.exists() == (name in ("classification", "tagging"))


@pytest.mark.parametrize("name", NAMES)
def test_small_corpora_and_low_scores_are_noted(place, name):
    folder = RunFolder(place / name)
    task = build_task(folder.read_config())
    notes = task.prepare_data(folder, report=lambda _: None).notes
    assert " for training are few: " in notes[0]
    assert task.description.advice.remedy in notes[0]
    card = folder.model_card.read_text(encoding="utf-8")
    assert f"- {notes[0]}" in card
    scores = {
        part: [Score(**{**one, "baseline": one["baseline"] and Baseline(**one["baseline"])}) for one in found]
        for part, found in folder.read_scores()["scores"].items()
    }
    steps, improving = folder.read_scores()["steps"], "Train longer, because" in card
    result = TrainingResult(folder.path, "last", scores, 1.0, steps=steps, tokens=99, improving=improving)
    note = result.low_score_note
    assert (note is not None) == (f"useful {task.description.noun}. " in card)
    assert (note is None) or f"**{note.replace(str(folder.path), name)}**" in card
    if name in ("translation", "language_modeling", "masked_lm"):
        assert note is not None


def test_large_corpus_gets_no_advice():
    advice = TranslationTask.description.advice
    assert advice.notes(advice.enough, "pairs") == ()
    assert "9,999 pairs for training are few" in advice.notes(9_999, "pairs")[0]


@pytest.mark.parametrize("name", NAMES)
def test_resumed_training_equals_uninterrupted(place, tmp_path, name):
    for asked in (3, 2, 4):  # steps, and validations after the last
        answers = iter([*[False] * (asked - 1), True])
        with pytest.raises(InterruptionError):
            fit_in(tmp_path / name, config_of(name, place), interrupted=lambda answers=answers: next(answers))
    fit_in(tmp_path / name, config_of(name, place))
    whole, broken = hashes(place / name), hashes(tmp_path / name)
    assert whole.keys() == broken.keys()
    differing = {name for name in whole if whole[name] != broken[name] and not name.endswith("progress.json")}
    assert differing <= {"metrics.jsonl", "README.md", "scores.json"}


@pytest.mark.parametrize(
    ("name", "changed", "plain"),
    [
        (
            "classification",
            {"tokenizer": {"kind": "bpe", "vocab_size": 61, "byte_fallback": False, "dropout": 0.3}},
            {"tokenizer": {"dropout": 0.0}},
        ),
        (
            "question_answering",
            {"data": {"windows": {"max_length": 29, "training_length": 12}}},
            {"data": {"windows": {"training_length": None}}},
        ),
    ],
    ids=["BPE dropout", "cropped windows"],
)
def test_resumed_training_with_examples_of_an_epoch(place, tmp_path, name, changed, plain):
    settings = merge(config_of(name, place), changed)
    for folder, tree in (("whole", settings), ("plain", merge(settings, plain))):
        fit_in(tmp_path / folder, tree)
    answers = iter([False, False, True])
    with pytest.raises(InterruptionError):
        fit_in(tmp_path / "broken", settings, interrupted=lambda: next(answers))
    fit_in(tmp_path / "broken", settings)
    whole, broken, without = (hashes(tmp_path / name)["model.safetensors"] for name in ("whole", "broken", "plain"))
    assert whole == broken != without


@pytest.mark.parametrize("name", NAMES)
def test_costs_of_a_run(place, tmp_path, name):
    folder = RunFolder(place / name)
    task = build_task(folder.read_config())
    network = task.build_model(folder, device=CPU).eval()
    inventory = model_cost(network)
    assert inventory.parameters == count_parameters(network)
    assert sum(tensor.numel() for tensor in load_tensors(folder.weights).values()) == inventory.parameters
    facts = summarize_run(folder.path)
    assert facts.parameters == inventory.parameters
    assert facts.gflops_per_token > 0
    assert facts.tokens_per_second > 0


@pytest.mark.filterwarnings("ignore::dragoman.inference.translation_result.TranslationWarning")  # it is hardly trained
def test_load_returns_the_object_of_the_task(place):
    loaded = {name: dragoman.load(place / name, device="cpu") for name in NAMES}
    kinds = {"translation": Translator, "language_modeling": Generator, "pairs": Generator, "masked_lm": Embedder}
    kinds |= {"classification": Classifier, "tagging": Tagger, "question_answering": QuestionAnswerer}
    assert {name: type(one) for name, one in loaded.items()} == kinds
    assert len(loaded["translation"].translate([TEXT])) == 1
    assert loaded["language_modeling"].generate([TEXT], max_new_tokens=7)[0].prompt == TEXT
    assert loaded["pairs"].generate([TEXT], max_new_tokens=7)[0].prompt == TEXT
    assert loaded["masked_lm"].embed(TEXT).shape == (loaded["masked_lm"].size,)
    assert loaded["classification"].classify([TEXT])[0].label in ("dogs", "others")
    assert [tag.word for tag in loaded["tagging"].tag([TEXT.split()])[0]] == TEXT.split()
    assert loaded["question_answering"].answer("after two", TEXT).text in TEXT


def test_masked_language_model_is_not_inspected(place):
    with pytest.raises(DataError, match="embeds texts"):
        inspect_run(place / "masked_lm", InspectionRequest([TEXT]))


def test_recorded_accuracy_equals_that_of_the_classifier(place):
    """The loaded classifier reaches the recorded accuracy."""
    scores = json.loads((place / "classification" / "scores.json").read_text(encoding="utf-8"))["scores"]["valid"]
    folder = RunFolder(place / "classification")
    data = build_task(folder.read_config()).prepare_data(folder, report=lambda _: None)
    texts, labels = zip(*((one.text, one.label) for one in data.splits.valid), strict=True)
    found = dragoman.load(folder.path, device="cpu").classify(texts)
    right = sum(one.label == label for one, label in zip(found, labels, strict=True))
    assert scores[0]["value"] == pytest.approx(100 * right / len(labels))


def test_recorded_loss_equals_that_of_the_generator(place):
    scores = json.loads((place / "pairs" / "scores.json").read_text(encoding="utf-8"))["scores"]["valid"]
    folder = RunFolder(place / "pairs")
    data = build_task(folder.read_config()).prepare_data(folder, report=lambda _: None)
    prompts, continuations = zip(*data.texts.valid, strict=True)
    found = dragoman.load(folder.path, device="cpu").perplexity(continuations, prompts=prompts)
    assert scores[0]["value"] == pytest.approx(found.nats_per_token, rel=1e-5)


def test_loss_of_text_covers_every_token(place):
    folder = RunFolder(place / "language_modeling")
    data = build_task(folder.read_config()).prepare_data(folder, report=lambda _: None)
    [loss, _, bits] = json.loads(folder.scores.read_text(encoding="utf-8"))["scores"]["valid"]
    characters = len("".join(data.documents["valid"].texts()))
    tokens = characters + 1  # one token per character, and the end symbol
    assert f"tokens:{tokens}|" in loss["signature"]
    assert f"characters:{characters}" in bits["signature"]
    assert bits["value"] == pytest.approx(loss["value"] * tokens / characters / torch.tensor(2.0).log().item())


def test_model_card_of_a_language_model_has_a_sample(place):
    for name in ("language_modeling", "pairs"):
        card = (place / name / "README.md").read_text(encoding="utf-8")
        sample = card.split("## Sample\n\n")[1].split("\n\n## Use")[0]
        assert sample.strip()
        assert all(line.startswith("    ") for line in sample.split("\n"))
    assert "## Sample" not in (place / "translation" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_batch_are_named(place, name):
    folder = RunFolder(place / name)
    task = build_task(folder.read_config())
    work = task.setup_training(task.prepare_data(folder, report=lambda _: None), device=CPU)
    sentence = work.describe_rows([int(row) for row in next(work.stream).rows])
    assert sentence.split()[-1] in ("corpus", "text", "on")
    assert any(character.isdigit() for character in sentence)


class TestInitFrom:
    """Training from the tokenizer and the weights of another run."""

    @pytest.mark.parametrize("name", ["classification", "tagging", "question_answering"])
    def test_backbone_has_the_initial_weights(self, place, tmp_path, name):
        settings = apply_init_from(self.initialized(name, place))
        experiment = parse_experiment(settings)
        start = RunFolder(place / "masked_lm")
        initial_model = start.read_config().model
        assert experiment.model.d_model == initial_model.d_model
        folder = RunFolder(tmp_path / "run")
        folder.create()
        task = build_task(experiment)
        data = task.prepare_data(folder, report=lambda _: None)
        assert data.tokenizer.fingerprint == start.read_tokenizer().fingerprint
        own = dict(task.setup_training(data, device=CPU).model.named_parameters())
        initial = load_tensors(start.weights)
        shared = {key: tensor for key, tensor in own.items() if key.removeprefix("backbone.") in initial}
        assert len(shared) > 10
        assert all(torch.equal(tensor, initial[key.removeprefix("backbone.")]) for key, tensor in shared.items())

    def test_decoder_resumes_without_the_initial_run(self, place, tmp_path):
        settings = merge(
            self.initialized("classification", place),
            {"init_from": str(place / "language_modeling"), "head": {"pooling": "last"}},
        )
        settings = apply_init_from(settings)
        assert settings["model"]["kind"] == "decoder_only"
        answers = iter([False, True])
        with pytest.raises(InterruptionError):
            fit_in(tmp_path / "run", settings, interrupted=lambda: next(answers))
        fit_in(tmp_path / "run", merge(settings, {"init_from": str(tmp_path / "gone")}))
        assert dragoman.load(tmp_path / "run").classify([TEXT])[0].label in ("dogs", "others")

    def test_given_settings_override_inherited_ones(self, place):
        settings = merge(self.initialized("classification", place), {"model": {"dropout": {"residual": 0.5}}})
        tree = apply_init_from({**settings, "preset": "bert-tiny"})
        model = parse_experiment(tree).model
        assert (model.d_model, model.dropout.residual) == (12, 0.5)
        assert parse_experiment(tree).training.schedule.kind == "cosine"  # from the preset
        plain = config_of("classification", place)
        assert apply_init_from(plain) == plain

    def test_another_model_is_refused(self, place, tmp_path):
        settings = merge(apply_init_from(self.initialized("classification", place)), {"model": {"num_layers": 2}})
        with pytest.raises(ConfigError, match=r"model.num_layers = 2, but the run in .* has 1"):
            fit_in(tmp_path / "run", settings)

    def test_another_tokenizer_is_refused(self, place, tmp_path):
        settings = merge(apply_init_from(self.initialized("classification", place)), {"tokenizer": {"vocab_size": 77}})
        with pytest.raises(ConfigError, match="tokenizer: differs from the tokenizer of"):
            fit_in(tmp_path / "run", settings)

    def test_bpe_dropout_is_not_inherited(self, place, tmp_path):
        start = RunFolder(shutil.copytree(place / "language_modeling", tmp_path / "start"))
        tree = yaml.safe_load(start.config.read_text(encoding="utf-8"))
        tokenizer = {"kind": "bpe", "dropout": 0.1, "vocab_size": 300}
        start.config.write_text(yaml.safe_dump(tree | {"tokenizer": tokenizer}), encoding="utf-8")
        pairs = {"kind": "pairs", "train": {"kind": "tsv", "path": "pairs.tsv"}}
        tree = yaml.safe_load(start.config.read_text(encoding="utf-8"))
        start.config.write_text(yaml.safe_dump(tree | {"data": pairs}), encoding="utf-8")
        assert start.read_config().tokenizer.dropout == 0.1
        taken = apply_init_from(self.initialized("tagging", place) | {"init_from": str(start.path)})
        assert parse_experiment(taken).tokenizer.dropout == 0

    def test_unsuitable_initial_run_is_refused(self, place, tmp_path):
        settings = self.initialized("classification", place)
        for start, message in (("translation", "is a run of task translation"), ("nowhere", "is not a run folder")):
            with pytest.raises(RunError, match=message):
                apply_init_from({**settings, "init_from": str(place / start)})

    def initialized(self, name, place):
        settings = config_of(name, place)
        start = {"init_from": str(place / "masked_lm")}
        return {key: value for key, value in settings.items() if key not in ("model", "tokenizer")} | start


def test_changed_corpus_is_refused(place, tmp_path):
    write_texts(tmp_path)
    for name in ("language_modeling", "classification", "tagging", "question_answering"):
        folder = RunFolder(place / name)
        task = build_task(parse_experiment(config_of(name, tmp_path)))
        task.prepare_data(folder, report=lambda _: None)  # the same text in another folder
        with parse_experiment(config_of(name, tmp_path)).data.train.path.open("a", encoding="utf-8") as file:
            file.write("\n")
        with pytest.raises(RunError, match="has changed since the run in"):
            task.prepare_data(folder, report=lambda _: None)


def test_unknown_labels_count_as_errors(place, tmp_path):
    (tmp_path / "valid.txt").write_text("cats two cats\ndogs two dogs\n", encoding="utf-8")
    valid = {"data": {"valid": {"kind": "lines", "path": str(tmp_path / "valid.txt")}}}
    settings = merge(config_of("classification", place), valid)
    outcome = fit_in(tmp_path / "run", settings)
    assert outcome.scores["valid"][0].value <= 50
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "1 validation texts have a label without training examples and count as errors" in card
    (tmp_path / "valid.txt").write_text("cats two cats\n", encoding="utf-8")
    with pytest.raises(DataError, match="is left for validation"):
        fit_in(tmp_path / "other", settings)


def test_window_beyond_the_batch_budget_is_refused(place, tmp_path):
    settings = merge(config_of("language_modeling", place), {"training": {"batch_tokens": 7}})
    with pytest.raises(
        ConfigError, match=r"training.batch_tokens = 7 holds no window of data.context_length = 19 tokens"
    ):
        fit_in(tmp_path / "run", settings)


def test_corpus_consists_of_known_words():
    assert set(TEXT.split()) <= set(WORDS)
