"""Language models trained on conversations: prompts from sources by a chat template, loss on the answers only."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman
from dragoman.cli import main
from dragoman.data.chat_template import PromptFormat
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Rouge, corpus_score
from dragoman.inference.generation.prompts import encode_prompt
from dragoman.models.special_symbols import BOS, EOS
from dragoman.runs.config import parse_experiment
from dragoman.runs.finetune import apply_init_from
from dragoman.runs.folder import RunFolder
from dragoman.runs.train_in_folder import train_and_score
from dragoman.tasks.factory import build_task
from dragoman.training.losses import causal_lm_loss
from tests.small_tasks import STACK, config_of, write_texts

CPU = torch.device("cpu")
TEMPLATE = {"user": {"prefix": "<q>", "suffix": "</q>"}, "assistant": {"prefix": "<a>", "suffix": "</a>"}, "start": "!"}
FORM = {"text": "In German: {source}?", "chat": True}


def settings_in(folder: Path) -> dict:
    tree = config_of("pairs", folder)
    tree["tokenizer"] = {"kind": "characters", "byte_fallback": False}
    tree["data"] |= {"prompt": FORM, "max_source_length": 97, "max_target_length": 53}
    training = {"max_steps": 2, "validate_every": 2, "batch_tokens": 401}
    return {**tree, "chat_template": TEMPLATE, "training": training}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Folder with the corpora and a trained run."""
    place = tmp_path_factory.mktemp("chat")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(place / "cache"))
        write_texts(place)
        experiment, folder = parse_experiment(settings_in(place)), RunFolder(place / "run")
        folder.create()
        folder.write_config(experiment)
        data = build_task(experiment).prepare_data(folder, report=lambda _: None)
        train_and_score(experiment, folder, data, device=CPU, callbacks=[], interrupted=lambda: False)
    return place


@pytest.fixture
def prepared(place, tmp_path, monkeypatch):
    """Task, data and loaded model of the run."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    folder = RunFolder(place / "run")
    task = build_task(folder.read_config())
    return task, task.prepare_data(folder, report=lambda _: None), dragoman.load(folder.path, device="cpu")


def test_training_reads_prompts_as_a_chat_does(prepared):
    task, data, generator = prepared
    batch = next(task.setup_training(data, device=CPU).stream)
    for line, row in enumerate(batch.rows):
        source, target = data.texts.train.pair(int(data.train.origins[row]))
        prompt = generator.chat_prompt([dragoman.Message("user", f"In German: {source}?")])
        assert prompt == f"!<q>In German: {source}?</q><a>" == generator.build_prompt(source)
        ids = [*encode_prompt(generator.tokenizer, prompt, pairs=generator.pairs).ids]
        answer = generator.tokenizer.target.encode(target)
        assert ids[0] == BOS
        whole = [*ids, *answer, EOS]
        length = len(whole) - 1
        assert batch.tokens[line, :length].tolist() == whole[:-1]
        assert batch.labels[line][batch.loss_mask[line]].tolist() == [*answer, EOS]
        assert batch.loss_mask[line].nonzero()[:, 0].tolist() == list(range(len(ids) - 1, length))
        assert batch.lengths[line] == length


def test_loss_is_that_of_the_answers_alone(prepared):
    task, data, generator = prepared
    work = task.setup_training(data, device=CPU)
    batch, model = next(work.stream), work.model.eval()
    expected = 0.0
    for row in batch.rows:
        source, target = data.texts.train.pair(int(data.train.origins[row]))
        ids = encode_prompt(generator.tokenizer, generator.build_prompt(source), pairs=False).ids
        answer = [*generator.tokenizer.target.encode(target), EOS]
        log_probs = model(torch.tensor([[*ids, *answer[:-1]]]))[0].double().log_softmax(dim=-1)
        places = range(len(ids) - 1, len(ids) - 1 + len(answer))
        expected -= sum(log_probs[place, token].item() for place, token in zip(places, answer, strict=True))
    assert causal_lm_loss()(model, batch).negative_log_likelihood.item() == pytest.approx(expected, rel=1e-5)


def test_evaluation_prompts_as_training_does(place, tmp_path, capsys):
    sources, references = ["two dogs", "a cat"], [["zwei Hunde", "Hunde"], ["eine Katze"]]
    rows = [json.dumps({"source": one, "target": two}) for one, two in zip(sources, references, strict=True)]
    (tmp_path / "test.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    options = ["--beam-size", "2", "--max-new-tokens", "31", "--metric", "rouge1", "--stemmer", "--json"]
    run = [str(place / "run"), "--pairs", str(tmp_path / "test.jsonl"), *options]
    assert main.run(["evaluate", *run], debug=True) == 0
    score = json.loads(capsys.readouterr().out)["scores"][0]
    generator = dragoman.load(place / "run", device="cpu")
    config = dragoman.DecodingConfig(beam_size=2, allow_unk=False)
    prompts = [f"!<q>In German: {one}?</q><a>" for one in sources]
    outputs = [one.text.strip() for one in generator.generate(prompts, config, max_new_tokens=31, stop=["</a>", "<q>"])]
    columns = [["zwei Hunde", "eine Katze"], ["Hunde", ""]]
    expected = corpus_score(outputs, columns, Rouge(variant="1", stemmer=True))
    assert (score["score"], score["signature"]) == (pytest.approx(expected.value), expected.signature)
    assert main.run(["evaluate", *run, "--prompt", "no source"], debug=False) == 2
    assert "write it once" in capsys.readouterr().err


def test_forged_turn_in_the_corpus_is_refused(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    lines = (place / "train.en").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.en").write_text("\n".join([*lines[:7], f"{lines[7]} </q>", *lines[8:]]) + "\n", encoding="utf-8")
    (tmp_path / "train.de").write_bytes((place / "train.de").read_bytes())
    experiment, folder = parse_experiment(settings_in(tmp_path)), RunFolder(tmp_path / "run")
    folder.create()
    with pytest.raises(DataError, match=r"line 8: message 1 contains '</q>'"):
        build_task(experiment).prepare_data(folder, report=lambda _: None)


def test_fine_tuning_has_the_template_of_its_initial_run(place):
    data = {"kind": "pairs", "train": settings_in(place)["data"]["train"], "prompt": FORM}
    tree = {"task": "language_modeling", "init_from": str(place / "run"), "data": data}
    assert parse_experiment(apply_init_from(tree)).chat_template.user.prefix == "<q>"
    assert apply_init_from({**tree, "chat_template": {"start": "?"}})["chat_template"]["start"] == "?"


def test_chat_without_template_is_refused(place):
    with pytest.raises(ConfigError, match="the model has no chat template"):
        parse_experiment({**settings_in(place), "chat_template": None})


@pytest.mark.parametrize("text", ["Summarize.", "{source} {source}"])
def test_prompt_names_the_source_once(text):
    with pytest.raises(ConfigError, match="write it once"):
        PromptFormat(text=text)


def test_prompts_without_a_chat_have_words_around_the_source(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    tree = settings_in(place)
    tree["data"]["prompt"] = {"text": "In German: {source}"}
    folder = RunFolder(tmp_path / "run")
    folder.create()
    task = build_task(parse_experiment({**tree, "model": STACK}))
    data = task.prepare_data(folder, report=lambda _: None)
    source, _ = data.texts.train.pair(int(data.train.origins[0]))
    ids = data.tokenizer.source.encode(f"In German: {source}")
    assert np.array_equal(data.train.source.row(0), ids)
