"""Requests drawn from the server's own description, valid and invalid, and damaged ones: no internal error, no leak.

Each interface gets 200 drawn requests, and each address 50 damaged ones; with DRAGOMAN_TESTS=full 50 times as many.
"""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.property_settings import FULL
from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_encoder, finished_language_model, finished_run

schemathesis = pytest.importorskip("schemathesis", reason="draws requests from a description")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
REQUESTS = 10_000 if FULL else 200
INTERFACES = ("LibreTranslate", "DeepL", "Immersive Translate", "OpenAI", "Native", "Operation")
LEAK = re.compile(r"Traceback|site-packages|File \"|\.py\b|/tmp/|/home/|/root/|<[\w.]+ object at 0x")
SETTINGS = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],
}
KNOWN = {
    "source": ["en", "auto"],
    "source_lang": ["EN", "auto"],
    "target": ["de", "fr"],
    "target_lang": ["DE", "FR"],
    "model": ["story", "talk", "vectors", "mood", "words", "reader", "en-de"],
    "messages": [[{"role": "user", "content": "dogs"}]],
    "prompt": ["two dogs", ["a", "b"]],
    "type": ["target"],
}
"""Values of parameters that are known to the server; others are drawn too."""
TURNS = {"user": {"prefix": "a", "suffix": " "}, "assistant": {"prefix": "t", "suffix": " "}}
VALID = {
    "/translate": b'{"q": ["two dogs"], "source": "en", "target": "de", "format": "html", "alternatives": 1}',
    "/detect": b'{"q": "two dogs"}',
    "/v2/translate": b'{"text": ["<p>two</p>"], "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"]}',
    "/v2/glossaries": b'{"name": "a", "source_lang": "en", "target_lang": "de", "entries": "a\\tb\\nc\\td"}',
    "/v3/glossaries": b'{"name": "a", "dictionaries": [{"source_lang": "en", "target_lang": "de", "entries": "\\tb"}]}',
    "/v1/completions": b'{"model": "story", "prompt": ["a", "b"], "stream": true, "seed": 3, "stop": ["a"]}',
    "/v1/chat/completions": b'{"model": "talk", "messages": [{"role": "user", "content": "dogs"}], "max_tokens": 5}',
    "/v1/embeddings": b'{"input": ["two dogs", "a"], "encoding_format": "base64"}',
    "/api/translate": b'{"texts": ["two dogs"], "source": "en", "target": "de", "n_best": 2, "target_prefix": "zwei", '
    b'"glossary": {"entries": [["two", "zwei|zwo", "drei"], ["dogs", ""]], "mode": "soft"}}',
    "/api/alternatives": b'{"text": "two dogs", "source": "en", "target": "de", "count": 3}',
    "/api/explain": b'{"text": "two dogs", "source": "en", "target": "de", "beam_tree": true}',
    "/api/generate": b'{"prompts": ["two dogs"], "num_samples": 2, "temperature": 0.5, "stream": true}',
    "/api/tag": b'{"sentences": [["two", "dogs"]]}',
    "/api/answer": b'{"question": "two", "context": "two dogs", "n_best": 2}',
    "/api/score": b'{"texts": ["zwei"], "sources": ["two"]}',
    "/imme": b'{"source_lang": "auto", "target_lang": "de", "text_list": ["two dogs", "the sea"]}',
}
"""Bodies that are damaged."""


@pytest.fixture(scope="module")
def small_server(tmp_path_factory) -> Iterator[RunningServer]:
    """A server with models of all kinds, and limits that keep requests short."""
    folder = tmp_path_factory.mktemp("fuzzed")
    short = {"decoding": {"max_length": 9}}  # random models end no output
    finished_run(folder / "en-de", short)
    finished_run(folder / "de-fr", short)
    finished_language_model(folder / "story", {"data": {"context_length": 64}})
    finished_language_model(folder / "talk", {"chat_template": TURNS, "data": {"context_length": 64}})
    encoders = {"vectors": "masked_lm", "mood": "classification", "words": "tagging", "reader": "question_answering"}
    for name, task in encoders.items():
        finished_encoder(folder / name, task)
    limits = "limits={max_characters: 200, max_new_tokens: 16, max_body: 65536}"
    models = ("en-de=en-de", "de-fr=de-fr", "story", "talk", *encoders)
    with running_server(folder, *models, "--set", limits) as running:
        yield running


def test_all_interfaces_are_fuzzed(small_server: RunningServer):
    operations = [one for path in small_server.get("/openapi.json")["paths"].values() for one in path.values()]
    assert {tag for one in operations for tag in one["tags"]} == set(INTERFACES)


def check_answer(response: requests.Response, statuses: Counter[int]) -> None:
    statuses[response.status_code] += 1
    assert response.status_code < 500 or response.status_code == 503, response.text
    assert LEAK.search(response.text) is None, response.text
    assert "x-request-id" in response.headers


@pytest.mark.parametrize("interface", INTERFACES)
def test_drawn_requests_get_described_answers(small_server: RunningServer, interface):
    from schemathesis.specs.openapi import checks

    schema = schemathesis.openapi.from_url(f"{small_server.url}/openapi.json").include(tag=interface)
    kinds = [kind for found in schema.get_all_operations() for kind in operation_strategies(found.ok())]
    described = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.response_headers_conformance,
        checks.negative_data_rejection,
    ]
    statuses: Counter[int] = Counter()
    for kind in kinds:

        @settings(max_examples=max(1, REQUESTS // len(kinds)), **SETTINGS)
        @given(kind)
        def answer(case):
            response = case.call(timeout=120)
            check_answer(response, statuses)
            case.validate_response(response, checks=described)

        answer()
    assert small_server.get("/health") == {"status": "ok"}
    print(f"{interface}: {statuses.total()} requests, {dict(statuses)}")


def operation_strategies(operation) -> list[st.SearchStrategy]:
    """Return the strategies of an operation: requests that it describes, the same with known values, invalid ones."""
    modes = schemathesis.GenerationMode
    described = operation.as_strategy(generation_mode=modes.POSITIVE)
    if not operation.body and not operation.query and not operation.path_parameters:
        return [described]
    kinds = [described, known_values(described)]
    return [*kinds, operation.as_strategy(generation_mode=modes.NEGATIVE)] if operation.body else kinds


@st.composite
def known_values(draw, cases):
    """Draw a request, most of whose languages and models are known."""
    case = draw(cases)
    for container in (case.body, case.query):
        if isinstance(container, dict):
            container |= {
                name: draw(st.sampled_from(values))
                for name, values in KNOWN.items()
                if name in container and draw(st.integers(0, 4))
            }
    return case


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """Draw a body in which bytes are replaced, removed and added."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(result)))
        removed = draw(st.integers(0, 5))
        added = draw(
            st.binary(max_size=6) | st.sampled_from([b"null", b"{", b"[", b'"', b"1e999", b"\\ud800", b"\\u0000"])
        )
        result[place : place + removed] = added
    return bytes(result)


@pytest.mark.parametrize("path", VALID)
def test_damaged_bodies_get_a_message(small_server: RunningServer, path):
    kinds = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=q", "a/b", "\xe9"]
    statuses: Counter[int] = Counter()
    session = requests.Session()

    @settings(max_examples=REQUESTS // 4, **SETTINGS)
    @given(body=damaged(VALID[path]), kind=st.sampled_from(kinds[:1] * 8 + kinds[1:]))
    def answer(body, kind):
        headers = {"Content-Type": kind.encode("latin-1")}
        response = session.post(small_server.url + path, data=body, headers=headers, timeout=120)
        check_answer(response, statuses)
        if not response.headers["Content-Type"].startswith("text/event-stream"):
            assert isinstance(response.json(), dict | list)

    answer()
    assert small_server.get("/health") == {"status": "ok"}
    print(f"{path}: {statuses.total()} requests, {dict(statuses)}")
