"""Answers of the interface of DeepL against schemas: those of its documentation, and its published OpenAPI description.

The schemas here are stricter than the published ones: every field is required or known to be optional. The description
(https://github.com/DeepLcom/openapi) is not part of the project; DRAGOMAN_DEEPL_OPENAPI names its JSON file.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.property_settings import FULL
from tests.running_server import RunningServer

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
CODE = {"type": "string", "pattern": "^[A-Z]{2,3}(-[A-Z0-9]+)*$"}


def record(required, **optional):
    return {
        "type": "object",
        "required": list(required),
        "properties": required | optional,
        "additionalProperties": False,
    }


def rows(schema):
    return {"type": "array", "items": schema}


TRANSLATION = {"detected_source_language": CODE, "text": TEXT}
MODEL = {"enum": ["quality_optimized", "latency_optimized"]}
USAGE = record({"character_count": COUNT, "character_limit": COUNT})
STATUS = {"enum": ["queued", "translating", "done", "error"]}
HANDLE = record(
    {
        "document_id": {"type": "string", "pattern": "^[0-9A-F]{32}$"},
        "document_key": {"type": "string", "pattern": "^[0-9A-F]{64}$"},
    }
)
DOCUMENT = record(
    {"document_id": TEXT, "status": STATUS}, seconds_remaining=COUNT, billed_characters=COUNT, error_message=TEXT
)
ERROR = record({"message": TEXT})
CALL = {"text": ["<p>two dogs</p>", "the sea"], "target_lang": "DE"}


@pytest.mark.parametrize(
    ("asked", "further"),
    [
        ({}, {}),
        ({"show_billed_characters": True}, {"billed_characters": COUNT}),
        ({"model_type": "prefer_quality_optimized"}, {"model_type_used": MODEL}),
        ({"tag_handling": "xml"}, {"tag_handling_version": {"enum": ["v1", "v2"]}}),
    ],
)
def test_translations_have_the_fields_that_are_asked_for(server: RunningServer, asked, further):
    status, answer = server.post("/v2/translate", CALL | asked)
    assert status == 200
    translations = rows(record(TRANSLATION | further)) | {"minItems": 2, "maxItems": 2}
    jsonschema.validate(answer, record({"translations": translations}))


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("/v2/languages", rows(record({"language": CODE, "name": TEXT}))),
        ("/v2/languages?type=source", rows(record({"language": CODE, "name": TEXT}))),
        (
            "/v2/languages?type=target",
            rows(record({"language": CODE, "name": TEXT, "supports_formality": {"type": "boolean"}})),
        ),
        ("/v2/usage", USAGE),
        (
            "/v2/glossary-language-pairs",
            record({"supported_languages": rows(record({"source_lang": TEXT, "target_lang": TEXT}))}),
        ),
    ],
)
def test_lists_have_all_fields(server: RunningServer, path, schema):
    jsonschema.validate(server.get(path), schema)


def test_documents_have_a_handle_and_a_status(server: RunningServer):
    files = {"file": ("a.txt", b"two dogs play .")}
    handle = requests.post(f"{server.url}/v2/document", {"target_lang": "DE"}, files=files, timeout=60).json()
    jsonschema.validate(handle, HANDLE)
    path = f"/v2/document/{handle['document_id']}"
    key = {"document_key": handle["document_key"]}
    deadline = time.monotonic() + 120
    while (status := server.post(path, key)[1]["status"]) != "done" and time.monotonic() < deadline:
        jsonschema.validate(server.post(path, key)[1], DOCUMENT)
    assert status == "done"
    done = server.post(path, key)[1]
    jsonschema.validate(done, DOCUMENT)
    assert done["billed_characters"] == len("two dogs play .")
    result = requests.post(f"{server.url}{path}/result", json=key, timeout=60)
    assert (result.status_code, result.headers["Content-Type"]) == (200, "application/octet-stream")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/translate", {"text": []}, 400),
        ("/v2/translate", CALL | {"glossary_id": "1"}, 400),
        ("/v2/translate", b"{", 400),
        ("/v2/document/1", {"document_key": "1"}, 404),
        ("/v2/glossaries", {}, 400),
        ("/v3/glossaries", {}, 400),
        ("/v3/style_rules", {}, 404),
        ("/v2/usage/1", {}, 404),
    ],
)
def test_errors_have_a_message(server: RunningServer, path, body, status):
    found, answer = server.post(path, body)
    assert found == status
    jsonschema.validate(answer, ERROR)


@pytest.fixture(scope="module")
def published() -> dict:
    """The published description."""
    path = os.environ.get("DRAGOMAN_DEEPL_OPENAPI")
    if not path:
        pytest.skip("DRAGOMAN_DEEPL_OPENAPI does not name the published description of DeepL")
    description = json.loads(Path(path).read_text(encoding="utf-8"))
    for part in (description["components"], *(description["paths"][path][kind] for path, kind in OPERATIONS.items())):
        close_answers(part.get("responses", {}))
    close_answers({name: part for name, part in description["components"]["schemas"].items() if "Response" in name})
    return description


def close_answers(tree) -> None:
    """Allow described fields only in answers."""
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        close_answers(part)
    if isinstance(tree, dict) and tree.get("type") == "object" and "properties" in tree:
        tree["additionalProperties"] = False


PLAIN = ("text", "file", "show_billed_characters", "model_type", "split_sentences")
"""Parameters that every server has, in whatever combination."""
GLOSSARY = {"name": "a", "source_lang": "EN", "entries": "dog\tHund", "entries_format": "tsv"}
OPERATIONS = {
    "/v2/translate": "post",
    "/v2/document": "post",
    "/v2/document/{document_id}": "post",
    "/v2/document/{document_id}/result": "post",
    "/v2/languages": "get",
    "/v2/usage": "get",
    "/v2/glossary-language-pairs": "get",
    "/v2/glossaries": "post",
    "/v2/glossaries/{glossary_id}": "get",
    "/v2/glossaries/{glossary_id}/entries": "get",
    "/v3/glossaries": "post",
    "/v3/glossaries/{glossary_id}": "patch",
    "/v3/glossaries/{glossary_id}/dictionaries": "put",
    "/v3/glossaries/{glossary_id}/entries": "get",
}


@pytest.mark.slow
@pytest.mark.parametrize("path", OPERATIONS)
def test_answers_are_those_of_the_published_description(server: RunningServer, published, path):
    """Draw valid requests from the description, with languages of the server, and check the answers by it."""
    schemathesis = pytest.importorskip("schemathesis", reason="draws requests from a description")
    from schemathesis.specs.openapi import checks

    schema = schemathesis.openapi.from_dict(published)
    schema.config.update(base_url=server.url)
    operation = schema[path][OPERATIONS[path].upper()]
    statuses: Counter[int] = Counter()
    described = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.response_headers_conformance,
    ]

    @settings(
        max_examples=2000 if FULL else 100,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(), target=st.sampled_from(["DE", "FR", "JA"]), is_plain=st.booleans())
    def answer(case, target, is_plain):
        if isinstance(case.body, dict) and "entries" in case.body:
            case.body |= GLOSSARY | {"target_lang": target} if is_plain else {}
        elif isinstance(case.body, dict) and "target_lang" in case.body:
            if is_plain:
                case.body = {name: value for name, value in case.body.items() if name in PLAIN}
            case.body |= {"target_lang": target, "source_lang": "EN"}
            if "file" in case.body:
                case.body["filename"] = "a.txt"
        response = case.call(timeout=120)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=described)

    answer()
    print(f"{path}: {dict(statuses)}")
