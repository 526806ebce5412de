"""Models with document context, trained and used through the command: pronouns agree with the noun before them."""

import json
import warnings
from pathlib import Path

import deepl
import pytest

import dragoman as package
from dragoman.errors import ConfigError
from tests.document_corpora import PRONOUNS, write_documents
from tests.running_server import running_server
from tests.small_runs import dragoman, small_options

pytestmark = pytest.mark.slow

FILES = ("--source", "train.en", "--target", "train.de", "--valid-source", "valid.en", "--valid-target", "valid.de")
SMALL = {
    "tokenizer.vocab_size": 420,
    "data.cleaning.remove_duplicates": "false",
    "data.cleaning.remove_leaks": "false",
    "model.d_model": 48,
    "model.num_heads": 4,
    "model.encoder_layers": 2,
    "model.decoder_layers": 1,
    "model.d_ff": 96,
    "training.batch_tokens": 900,
    "training.max_steps": 400,
    "training.validate_every": 200,
    "training.optimizer.learning_rate": 0.005,
    "training.validate_bleu": "false",
}


def train(folder: Path, name: str, **settings: object) -> Path:
    options = SMALL | {key.replace("__", "."): value for key, value in settings.items()}
    given = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
    answer = dragoman("train", *FILES, "--out", name, *given, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return folder / name


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    for seed, (name, count) in enumerate({"train": 1500, "valid": 40, "test": 60}.items()):
        write_documents(folder, name, count=count, seed=seed)
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["source", "source-and-target"])
def run(corpus, request) -> Path:
    """Run that reads one sentence before each; the second one also writes its translation."""
    name = f"run-{request.param}".lower()
    return train(corpus, name, data__context__target=str(request.param).lower())


def test_pronouns_agree_with_the_sentence_before(run, corpus):
    expected = (corpus / "test.de").read_text(encoding="utf-8").splitlines()
    rows = [row for row, line in enumerate(expected) if line.startswith(PRONOUNS)]
    right = {}
    for context in ("previous", "none"):
        answer = dragoman("translate", run, "--input", "test.en", "--context", context, cwd=corpus)
        assert answer.returncode == 0, answer.stderr
        found = answer.stdout.splitlines()
        assert [bool(line) for line in found] == [bool(line) for line in expected]
        right[context] = sum(found[row].split()[0] == expected[row].split()[0] for row in rows) / len(rows)
    assert right["previous"] > 0.9
    assert right["none"] < 0.6


def test_context_of_python_stream_and_evaluation_is_the_same(run, corpus):
    texts = (corpus / "test.en").read_text(encoding="utf-8").splitlines()[:30]
    translator = package.load(str(run), package.Translator)
    previous = translator.translate(texts, context="previous")
    given = [[texts[row - 1]] if row and texts[row - 1] else [] for row in range(len(texts))]
    assert [one.text for one in translator.translate(texts, context=given)] == [one.text for one in previous]
    stream = translator.translate_stream(iter(texts), context="previous", chunk=4)
    assert [one.text for one in stream] == [one.text for one in previous]
    for one in previous:
        assert not any(character >= "\ue000" for character in one.text)
    answer = dragoman(
        "evaluate", run, "--source", "test.en", "--reference", "test.de", "--context", "previous", cwd=corpus
    )
    assert answer.returncode == 0, answer.stderr
    assert float(answer.stdout.split("BLEU")[1].split()[0]) > 90


def test_n_best_have_tokens_and_scores_of_the_sentence(run, corpus):
    answer = dragoman(
        *("translate", run, "--text", "the dog is here .", "--text", "it is small .", "--context", "previous"),
        *("--n-best", 4, "--beam-size", 4, "--format", "jsonl"),
        cwd=corpus,
    )
    assert answer.returncode == 0, answer.stderr
    translations = json.loads(answer.stdout.splitlines()[1])["translations"]
    assert translations[0]["text"] == "er ist klein ."
    assert len({one["text"] for one in translations}) == len(translations)
    for one in translations:
        assert len(one["token_log_probs"]) == len(one["tokens"]) + one["finished"]
        assert one["log_prob"] == pytest.approx(sum(one["token_log_probs"]), abs=1e-4)


def test_paragraphs_of_a_file_have_context_by_default(run, corpus):
    page = "<html><body><p>the cat is here .</p><p>it is old .</p></body></html>"
    (corpus / "page.html").write_text(page, encoding="utf-8")
    for options, expected in (((), "sie ist alt ."), (("--context", "none"), None)):
        answer = dragoman("translate", run, "--file", "page.html", "--output", "page.de.html", *options, cwd=corpus)
        assert answer.returncode == 0, answer.stderr
        text = (corpus / "page.de.html").read_text(encoding="utf-8")
        assert "die Katze ist hier ." in text
        assert expected is None or expected in text


def test_constraints_and_prefixes_are_those_of_the_sentence(run):
    translator = package.load(str(run), package.Translator)
    text, context = "it is small .", ["the dog is here ."]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package.TranslationWarning)
        found = translator.translate(text, context=context, constraints=[package.Constraint("Hund")])
    assert ("Hund" in found.text) != ("Hund" in found[0].unmet)
    if "true" in run.name:
        with pytest.raises(ConfigError, match="target_prefix"):
            translator.translate(text, context=context, target_prefix="es")
        with pytest.raises(ConfigError, match="also writes the translation"):
            translator.score([text], ["er ist klein ."], context=context)
    else:
        assert translator.translate(text, context=context, target_prefix="es").text.startswith("es ")
        right, wrong = translator.score([text] * 2, ["er ist klein .", "sie ist klein ."], context=context)
        assert right.log_prob > wrong.log_prob + 1


def test_server_reads_the_context_of_clients(run, corpus):
    with running_server(corpus, f"en-de={run.name}") as server:
        client = deepl.DeepLClient("any", server_url=server.url)
        for context, expected in (("The sun shines. the dog is here .", "er"), ("the cat is here .", "sie")):
            options = {"source_lang": "EN", "target_lang": "DE", "context": context}
            assert client.translate_text("it is small .", **options).text == f"{expected} ist klein ."
            body = {"texts": "it is small .", "source": "en", "target": "de", "context": context}
            _, answer = server.post("/api/translate", body)
            assert answer["results"][0]["translations"][0]["text"] == f"{expected} ist klein ."


def test_prepared_corpus_has_context(corpus):
    options = ("--set", "tokenizer.vocab_size=420", "--set", "data.context.source_sentences=1")
    keep = ("--set", "data.cleaning.remove_duplicates=false", "--set", "data.cleaning.remove_leaks=false")
    answer = dragoman("data", "prepare", *FILES, "--out", "ready", *options, *keep, cwd=corpus)
    assert answer.returncode == 0, answer.stderr
    steps = small_options(training__max_steps=3)
    weights = []
    for name, source in (("ids", ("--prepared", "ready")), ("texts", (*FILES, *options, *keep))):
        answer = dragoman("train", *source, "--out", f"small-{name}", *steps, cwd=corpus)
        assert answer.returncode == 0, answer.stderr
        weights.append((corpus / f"small-{name}" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    other = ("--set", "data.context.source_sentences=2")
    answer = dragoman("train", "--prepared", "ready", "--out", "other", *steps, *other, cwd=corpus)
    assert answer.returncode == 2
    assert "was prepared with" in answer.stderr
    answer = dragoman("translate", "small-ids", "--text", "it is red .", "--context", "previous", cwd=corpus)
    assert answer.returncode == 0, answer.stderr


def test_context_that_a_model_does_not_read_is_refused(corpus):
    answer = dragoman("train", *FILES, "--out", "plain", *small_options(training__max_steps=3), cwd=corpus)
    assert answer.returncode == 0, answer.stderr
    for command in (
        ("translate", "plain", "--text", "it is red ."),
        ("evaluate", "plain", "--source", "test.en", "--reference", "test.de"),
    ):
        answer = dragoman(*command, "--context", "previous", cwd=corpus)
        assert answer.returncode == 2
        assert "this model reads single sentences" in answer.stderr
