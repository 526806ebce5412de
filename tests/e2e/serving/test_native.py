"""The native interface: the records of the command line, and what only it can say."""

import json
import math
from urllib.request import Request, urlopen

import numpy as np
import pytest

from dragoman import load
from dragoman.inference import Embedder, Generator
from tests.running_server import RunningServer
from tests.small_runs import dragoman

TEXTS = ["two dogs play .", "a cat sits by the sea", "", "the sea"]
PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def records(models) -> list[list[dict[str, object]]]:
    """Two translations of each text, by the command line."""
    (models / "texts").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    lines = dragoman(
        "translate", "en-de", "--input", "texts", "--n-best", 2, "--beam-size", 4, "--format", "jsonl", cwd=models
    ).stdout.splitlines()
    return [json.loads(line)["translations"] for line in lines]


def test_models_are_listed(server: RunningServer):
    models = {one["name"]: one for one in server.get("/api/models")["models"]}
    assert {name: one["kind"] for name, one in models.items()} == {
        "en-de": "translator",
        "de-fr": "translator",
        "story": "generator",
        "mood": "classifier",
        "words": "tagger",
        "reader": "question_answerer",
        "vectors": "embedder",
    }
    assert models["en-de"]["pairs"] == [["en", "de"]]
    assert models["mood"]["labels"] == ["good", "bad"]


def test_translations_are_the_records_of_the_command_line(server: RunningServer, records):
    body = {"texts": TEXTS, **PAIR, "n_best": 2, "beam_size": 4}
    status, answer = server.post("/api/translate", body)
    assert status == 200
    assert [one["translations"] for one in answer["results"]] == records
    assert {tuple(one["models"]) for one in answer["results"]} == {("en-de",)}


def test_a_language_between_two_models_is_named_by_its_models(server: RunningServer):
    _, answer = server.post("/api/translate", {"texts": "two dogs play .", "source": "en", "target": "fr"})
    assert answer["results"][0]["models"] == ["en-de", "de-fr"]


def test_a_prefix_begins_the_translation(server: RunningServer):
    _, answer = server.post("/api/translate", {"texts": TEXTS[0], **PAIR, "target_prefix": "eine Katze"})
    [found] = answer["results"][0]["translations"]
    assert found["text"].startswith("eine Katze")
    assert found["token_log_probs"][:2] == [0, 0]
    _, through_german = server.post(
        "/api/translate", {"texts": TEXTS[0], "source": "en", "target": "fr", "target_prefix": "eine"}
    )
    assert through_german["results"][0]["translations"][0]["text"].startswith("eine")


def test_a_translation_meets_the_constraints(server: RunningServer):
    constraints = ["Meer", {"forms": ["Katze", "Hunde"], "kind": "once"}]
    status, answer = server.post("/api/translate", {"texts": TEXTS[0], **PAIR, "constraints": constraints})
    assert status == 200, answer
    [found] = answer["results"][0]["translations"]
    assert "Meer" in found["text"].split()
    assert found["text"].split().count("Katze") + found["text"].split().count("Hunde") == 1
    assert "unmet" not in found


def test_malformed_markup_is_reported(server: RunningServer):
    texts = [f"<p>{TEXTS[0]}</p><p>{TEXTS[1]}", f"<b>{TEXTS[0]}"]
    status, answer = server.post("/api/translate", {"texts": texts, **PAIR, "format": "html"})
    assert status == 200, answer
    assert [one["markup_problems"] for one in answer["results"]] == [[], ["<b> has no end tag"]]


def test_alternatives_continue_the_prefix_by_each_token(server: RunningServer):
    body = {"text": TEXTS[0], **PAIR, "target_prefix": "zwei", "count": 3}
    status, answer = server.post("/api/alternatives", body)
    assert status == 200
    found = answer["alternatives"]
    assert len({one["token"] for one in found}) == 3
    assert found == sorted(found, key=lambda one: -one["probability"])
    for one in found:
        assert one["translation"]["tokens"][:2] == ["▁zwei", one["token"]][: len(one["translation"]["tokens"])]


def test_an_explanation_has_the_attention_of_words_and_the_beam(server: RunningServer):
    status, answer = server.post("/api/explain", {"text": TEXTS[0], **PAIR, "beam_tree": True, "beam_size": 2})
    assert status == 200
    assert answer["source_words"] == ["two", "dogs", "play", "."]
    assert [len(row) for row in answer["attention"]] == [4] * len(answer["target_words"])
    assert all(0 <= weight <= 1 for row in answer["attention"] for weight in row)
    assert answer["tokens"][-1]["token"] == "<eos>"  # a symbol, not a password
    for token in answer["tokens"]:
        if token["rank"] < len(token["alternatives"]):
            shown = token["alternatives"][token["rank"]]
            assert shown == {
                "token": token["token"],
                "probability": pytest.approx(math.exp(token["log_prob"]), rel=1e-4),
            }
    beam = answer["beam"]
    path = [beam["steps"][step][place]["token"] for step, place in enumerate(beam["best_path"])]
    assert path == [one["token"] for one in answer["tokens"]][: len(path)]


def test_a_given_translation_is_explained(server: RunningServer):
    _, answer = server.post("/api/explain", {"text": TEXTS[0], **PAIR, "translation": "zwei Hunde"})
    assert answer["translation"] == "zwei Hunde"
    assert [one["text"] for one in answer["target_words"]] == ["zwei", "Hunde"]
    assert answer["beam"] is None


def test_classifications_are_the_records_of_the_command_line(server: RunningServer, models):
    (models / "reviews").write_text("a cat\ntwo dogs\n", encoding="utf-8")
    lines = dragoman("classify", "mood", "--input", "reviews", "--format", "jsonl", cwd=models).stdout.splitlines()
    _, answer = server.post("/api/classify", {"texts": ["a cat", "two dogs"]})
    expected = [json.loads(line) for line in lines]
    assert answer["results"] == [{name: one[name] for name in answer["results"][0]} for one in expected]


def test_scores_are_those_of_the_command_line(server: RunningServer, models):
    (models / "pair.en").write_text("two dogs play .\n", encoding="utf-8")
    (models / "pair.de").write_text("zwei Hunde\n", encoding="utf-8")
    line = dragoman(
        "score", "en-de", "--source", "pair.en", "--target", "pair.de", "--format", "jsonl", cwd=models
    ).stdout
    _, answer = server.post("/api/score", {"texts": "zwei Hunde", "sources": "two dogs play .", "model": "en-de"})
    expected = json.loads(line)
    assert answer["results"] == [{name: expected[name] for name in answer["results"][0]}]


def test_tags_are_the_records_of_the_command_line(server: RunningServer, models):
    (models / "sentences").write_text("two dogs play .\n", encoding="utf-8")
    line = dragoman("classify", "words", "--input", "sentences", "--format", "jsonl", cwd=models).stdout
    _, answer = server.post("/api/tag", {"sentences": [["two", "dogs", "play", "."]]})
    assert answer["results"][0]["words"] == json.loads(line)["words"]


def test_answers_are_those_of_the_command_line(server: RunningServer, models):
    question = {"question": "two dogs", "context": "a cat sits by the sea"}
    (models / "questions.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    line = dragoman(
        "answer", "reader", "--input", "questions.jsonl", "--n-best", 2, "--format", "jsonl", cwd=models
    ).stdout
    _, answer = server.post("/api/answer", {**question, "n_best": 2})
    assert answer["answers"] == json.loads(line)["answers"]


def test_vectors_are_those_of_python(server: RunningServer, models):
    texts = ["two dogs", "a cat"]
    _, answer = server.post("/api/embed", {"texts": texts})
    expected = load(models / "vectors", Embedder).embed(texts)
    np.testing.assert_allclose(answer["vectors"], expected, atol=1e-5)


SAMPLED = {"prompts": ["two dogs", "a cat"], "num_samples": 2, "seed": 5, "max_new_tokens": 9, "temperature": 1.5}


def test_completions_are_those_of_python(server: RunningServer, models):
    _, answer = server.post("/api/generate", SAMPLED)
    options = {name: SAMPLED[name] for name in ("num_samples", "seed", "max_new_tokens", "temperature")}
    expected = load(models / "story", Generator).generate_n_best(SAMPLED["prompts"], **options)
    assert [one["completions"] for one in answer["results"]] == [[one.to_dict() for one in row] for row in expected]


def test_streamed_completions_are_the_whole_ones(server: RunningServer):
    _, whole = server.post("/api/generate", SAMPLED)
    body = json.dumps({**SAMPLED, "stream": True}).encode()
    request = Request(f"{server.url}/api/generate", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix(b"data: ")) for line in response if line.strip()]
    texts: dict[int, str] = {}
    for one in events:
        texts[one["number"]] = texts.get(one["number"], "") + one["text"]
    completions = [one for result in whole["results"] for one in result["completions"]]
    assert [texts[number] for number in range(4)] == [one["text"] for one in completions]
    last = {one["number"]: one["completion"] for one in events if one["completion"] is not None}
    assert [last[number] for number in range(4)] == completions


@pytest.mark.parametrize(
    ("path", "body", "status", "parameter"),
    [
        ("translate", {"texts": "a", **PAIR, "beam": 3}, 400, "beam"),
        ("translate", {"texts": "a", "source": "en", "target": "xx"}, 400, "target"),
        ("translate", {"texts": "a", **PAIR, "model": "story"}, 400, "target"),
        ("translate", {"texts": "<b>a</b>", **PAIR, "format": "html", "target_prefix": "x"}, 400, "target_prefix"),
        ("translate", {"texts": "<b>a</b>", **PAIR, "format": "html", "constraints": ["x"]}, 400, "constraints"),
        ("translate", {"texts": "a", **PAIR, "constraints": [{"forms": "x", "bonus": 1.0}]}, 400, "constraints"),
        ("translate", {"texts": "a", **PAIR, "context": "x"}, 400, "context"),
        ("classify", {"texts": "a", "model": "en-de"}, 400, "model"),
        ("classify", {"texts": "a", "model": "nothing"}, 404, "model"),
        ("score", {"texts": "a", "source": "en"}, 400, "sources"),
        ("generate", {"prompts": []}, 400, "prompts"),
        ("generate", {"prompts": "a", "max_new_tokens": 10**6}, 400, "max_new_tokens"),
        ("explain", {"text": "a" * 2000, **PAIR}, 400, "text"),
    ],
)
def test_a_request_that_cannot_be_answered_names_the_parameter(server: RunningServer, path, body, status, parameter):
    found, answer = server.post(f"/api/{path}", body)
    assert (found, answer["error"]["parameter"]) == (status, parameter)
