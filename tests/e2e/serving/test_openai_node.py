"""The interface of OpenAI, with its client for Node.js as it is published."""

import json
from pathlib import Path

import pytest

import dragoman
from tests.node_packages import node_folder, run_node
from tests.running_server import running_server
from tests.untrained_runs import finished_encoder, finished_language_model

pytestmark = pytest.mark.slow
TURNS = {"user": {"prefix": "a", "suffix": " "}, "assistant": {"prefix": "t", "suffix": " "}}
SAMPLED = {"temperature": 1.5, "seed": 7, "max_new_tokens": 19}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folder of runs: a language model, one with a chat template, and an embedder."""
    folder = tmp_path_factory.mktemp("openai")
    finished_language_model(folder / "story", {"data": {"context_length": 64}})
    finished_language_model(folder / "talk", {"chat_template": TURNS, "data": {"context_length": 64}})
    finished_encoder(folder / "vectors", "masked_lm")
    return folder


@pytest.fixture(scope="module")
def found(folder, tmp_path_factory):
    """Return all answers of the client."""
    scripts = node_folder(Path(__file__).parent / "node", tmp_path_factory.mktemp("node") / "scripts")
    with running_server(folder, "story", "talk", "vectors") as server:
        return json.loads(run_node("openai.mjs", server.url, cwd=scripts))


def test_models_are_listed(found):
    assert {one["id"] for one in found["models"]} == {"story", "talk", "vectors"}


def test_completions_are_those_of_the_generator(found, folder):
    generator = dragoman.load(folder / "story", dragoman.Generator)
    rows = generator.generate_n_best(["two dogs", "a cat"], num_samples=2, **SAMPLED)
    assert [one["text"] for one in found["completion"]["choices"]] == [one.text for row in rows for one in row]


def test_streams_are_the_same(found):
    for choice in found["completion"]["choices"]:
        pieces = [one for piece in found["completion_pieces"] for one in piece["choices"]]
        assert "".join(one["text"] for one in pieces if one["index"] == choice["index"]) == choice["text"]
    answer = found["chat"]["choices"][0]["message"]["content"]
    pieces = [one for piece in found["chat_pieces"] for one in piece["choices"]]
    assert "".join(one["delta"].get("content", "") for one in pieces) == answer == found["chat_helper"]
    for name in ("completion", "chat"):
        assert found[f"{name}_pieces"][-1]["usage"] == found[name]["usage"]


def test_embeddings_are_those_of_the_embedder(found, folder):
    expected = dragoman.load(folder / "vectors", dragoman.Embedder).embed(["two dogs", "a cat sits"])
    assert [one["embedding"] for one in found["embeddings"]["data"]] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "kind", "status", "message"),
    [
        ("model", "NotFoundError", 404, "There is no model gpt"),
        ("parameter", "BadRequestError", 400, "presence_penalty: this server supports 0 only"),
        ("stream", "BadRequestError", 400, "temperature"),
        ("template", "BadRequestError", 400, "without a chat template"),
        ("address", "NotFoundError", 404, "Not Found: POST /v1/responses"),
        ("image", "NotFoundError", 404, "Not Found: POST /v1/images/generations"),
    ],
)
def test_errors_have_the_class_and_message_of_the_client(found, name, kind, status, message):
    error = found["errors"][name]
    assert (error["kind"], error["status"]) == (kind, status)
    assert message in error["message"]
