"""Clients next to each other: shares of stored files, wrong keys, parameters of other programs, and the log."""

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import requests

from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman
from tests.untrained_runs import finished_run

TEXT = "two dogs play ."
BODY = {"q": TEXT, "source": "en", "target": "de"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("neighbors")
    finished_run(made / "run")
    return made


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    return {
        name: dragoman("serve", "--add-key", name, "--api-keys", "keys", cwd=folder).stdout.strip()
        for name in ("anna", "berta")
    }


@pytest.fixture(scope="module")
def with_keys(folder: Path, keys: dict[str, str]):
    with running_server(
        folder, "en-de=run", "--api-keys", "keys", "--set", "limits.wrong_keys_per_minute=5"
    ) as running:
        yield running


def upload(server: RunningServer, key: str, content: str = TEXT) -> dict[str, str]:
    response = requests.post(
        server.url + "/v2/document",
        data={"source_lang": "EN", "target_lang": "DE"},
        files={"file": ("a.txt", content.encode())},
        headers={"Authorization": f"DeepL-Auth-Key {key}"},
        timeout=60,
    )
    assert response.status_code == 200, response.text
    return response.json()


def status_of(server: RunningServer, handle: dict[str, str], key: str) -> requests.Response:
    return requests.post(
        f"{server.url}/v2/document/{handle['document_id']}",
        data={"document_key": handle["document_key"]},
        headers={"Authorization": f"DeepL-Auth-Key {key}"},
        timeout=60,
    )


def test_files_of_one_client_delete_no_file_of_another(with_keys: RunningServer, keys):
    first = upload(with_keys, keys["anna"])
    many = [upload(with_keys, keys["berta"])]
    while status_of(with_keys, many[0], keys["berta"]).json()["status"] != "done":
        time.sleep(0.05)
    many += [upload(with_keys, keys["berta"]) for _ in range(104)]
    assert status_of(with_keys, first, keys["anna"]).json()["status"] == "done"
    oldest = status_of(with_keys, many[0], keys["berta"])
    assert oldest.status_code == 404, oldest.text
    assert status_of(with_keys, many[-1], keys["berta"]).status_code == 200


@pytest.mark.parametrize("where", ["header", "query", "json", "form"])
def test_a_key_of_deepl_may_be_a_parameter(with_keys: RunningServer, keys, where: str):
    body = {"text": [TEXT], "source_lang": "EN", "target_lang": "DE"}
    key, url = keys["anna"], with_keys.url + "/v2/translate"
    answers = {
        "header": lambda: requests.post(url, json=body, headers={"Authorization": f"DeepL-Auth-Key {key}"}, timeout=60),
        "query": lambda: requests.get(url, params={**body, "auth_key": key}, timeout=60),
        "json": lambda: requests.post(url, json={**body, "auth_key": key}, timeout=60),
        "form": lambda: requests.post(url, data={**body, "auth_key": key}, timeout=60),
    }
    response = answers[where]()
    assert (response.status_code, len(response.json()["translations"])) == (200, 1)
    assert key not in with_keys.log.read_text(encoding="utf-8")


def test_a_file_may_be_sent_with_a_key_of_its_form(with_keys: RunningServer, keys):
    data = {"source_lang": "EN", "target_lang": "DE", "auth_key": keys["anna"]}
    response = requests.post(
        with_keys.url + "/v2/document", data=data, files={"file": ("a.txt", b"two dogs")}, timeout=60
    )
    assert response.status_code == 200


def test_many_wrong_keys_get_429_and_a_right_one_passes(with_keys: RunningServer, keys):
    statuses = [with_keys.post("/translate", BODY | {"api_key": f"wrong {number}"})[0] for number in range(9)]
    assert statuses[:2] == [403, 403]
    assert statuses[-1] == 429
    assert with_keys.post("/translate", BODY | {"api_key": keys["anna"]})[0] == 200


def test_parameters_of_libretranslate(server: RunningServer):
    expected = server.post("/translate", BODY)
    assert expected[0] == 200
    assert server.post("/translate", BODY | {"secret": "abc"}) == expected
    assert server.get(f"/translate?{urlencode(BODY)}") == expected[1]
    assert server.get("/spec")["info"]["title"] == "dragoman"


def test_context_of_deepl_is_ignored_with_a_note(server: RunningServer):
    body = {"text": [TEXT], "source_lang": "EN", "target_lang": "DE"}
    plain = requests.post(server.url + "/v2/translate", json=body, timeout=60)
    noted = requests.post(server.url + "/v2/translate", json=body | {"context": "a letter"}, timeout=60)
    assert noted.json() == plain.json()
    assert "x-ignored-parameters" not in plain.headers
    assert noted.headers["x-ignored-parameters"] == "context"


def test_the_address_of_a_translated_file_is_encoded(server: RunningServer):
    name = "déjà vu? #1 100%.txt"
    answer = requests.post(
        server.url + "/translate_file",
        data={"source": "en", "target": "de"},
        files={"file": (name, TEXT.encode())},
        timeout=60,
    )
    assert answer.status_code == 200
    url = answer.json()["translatedFileUrl"]
    assert url.endswith(quote(name, safe=""))
    found = requests.get(url, timeout=60)
    assert (found.status_code, bool(found.text)) == (200, True)
    assert int(answer.headers["x-texts-to-review"]) >= 0


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["at once", "body later"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_that_offers_http_2_keeps_its_body(server: RunningServer, pause: float, chunked: bool):
    content = json.dumps(BODY).encode()
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(content)
    head = (
        b"POST /translate HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nContent-Type: application/json\r\n" + framing
    )
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content) if chunked else content
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        for _ in range(2):  # the connection goes on with the next request
            connection.sendall(head + b"\r\n\r\n")
            time.sleep(pause)
            connection.sendall(body)
            assert _read_answer(connection) == server.post("/translate", BODY)[1]


def _read_answer(connection: socket.socket) -> object:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return json.loads(body)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_with_http_2_translates(server: RunningServer):
    options = ["--silent", "--http2", "--max-time", "60", "--json", json.dumps(BODY)]
    run = subprocess.run(["curl", *options, server.url + "/translate"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == server.post("/translate", BODY)[1]


def test_paths_without_a_route_are_not_logged(server: RunningServer):
    secret = "DOCUMENTKEY0123456789"
    assert requests.get(f"{server.url}/download-file/{secret}?api_key={secret}", timeout=60).status_code == 404
    assert requests.get(f"{server.url}/download_file/{secret}.{secret}.txt", timeout=60).status_code == 404
    server.get("/health")
    assert secret not in server.log.read_text(encoding="utf-8")


def test_warnings_are_records_of_the_log_without_texts(server: RunningServer):
    body = {"texts": ["two dogs Wunderwörtlein ."], "source": "en", "target": "de", "max_length": 1}
    assert server.post("/api/translate", body)[0] == 200
    # Another server of this folder begins the log anew, which leaves zeros in the file.
    lines = server.log.read_text(encoding="utf-8").replace("\0", "").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("{"))
    assert [line for line in lines[begin:] if not line.startswith("{")] == []
    records = [json.loads(line) for line in lines[begin:]]
    assert "Wunderwörtlein" not in str(records)
    assert any(one["level"] == "warning" and one.get("texts") for one in records)


def test_an_unknown_text_encoding_is_no_internal_error(server: RunningServer):
    for name, content in (("a.html", b'<meta charset="idna"><p>two dogs</p>'), ("a.po", b'msgid ""\nmsgstr "x"\n')):
        answer = requests.post(
            server.url + "/translate_file",
            data={"source": "en", "target": "de"},
            files={"file": (name, content)},
            timeout=60,
        )
        if answer.status_code == 500:  # and then the log says why
            assert any("File " in one.get("error", "") for one in server.records())
