"""Operation of the server: keys, limits, signals, reloading, the log, and metrics."""

import signal
import socket
import threading
import time

import pytest

from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman
from tests.untrained_runs import finished_run

BODY = {"q": "two dogs play .", "source": "en", "target": "de"}


@pytest.fixture
def folder(tmp_path):
    finished_run(tmp_path / "run")
    return tmp_path


def test_health_and_readiness(server: RunningServer):
    assert server.get("/health") == {"status": "ok"}
    assert server.get("/ready") == {"status": "ok"}


def test_metrics_count_requests_tokens_and_steps(server: RunningServer):
    server.post("/translate", BODY)
    server.post("/translate", BODY | {"source": "none"})
    label = '{model_name="en-de"}'
    values = dict(line.rsplit(" ", 1) for line in _metrics(server).splitlines() if not line.startswith("#"))
    assert {name: values[f"dragoman:{name}{label}"] for name in ("num_requests_running", "num_requests_waiting")} == {
        "num_requests_running": "0.0",
        "num_requests_waiting": "0.0",
    }
    requests = float(values[f"dragoman:request_queue_time_seconds_count{label}"])
    assert requests == float(values[f"dragoman:time_to_first_token_seconds_count{label}"]) >= 1
    assert float(values[f"dragoman:prompt_tokens_total{label}"]) >= 4
    assert float(values[f"dragoman:batch_size_sum{label}"]) >= requests
    both = '{interface="LibreTranslate",model_name="en-de"}'
    assert float(values[f"dragoman:e2e_request_latency_seconds_count{both}"]) >= 1
    assert float(values['dragoman:http_responses_total{interface="LibreTranslate",status="400"}']) >= 1


def test_keys(folder):
    made = dragoman("serve", "--add-key", "anna", "--api-keys", "keys", cwd=folder)
    assert (made.returncode, made.stderr) == (0, "")
    key = made.stdout.strip()
    assert key not in (folder / "keys").read_text()
    again = dragoman("serve", "--add-key", "anna", "--api-keys", "keys", cwd=folder)
    assert (again.returncode, again.stdout) == (2, "")
    with running_server(folder, "en-de=run", "--api-keys", "keys") as server:
        assert server.post("/translate", BODY)[0] == 403
        assert server.post("/translate", BODY | {"api_key": key[:-1]})[0] == 403
        assert server.post("/translate", BODY | {"api_key": key})[0] == 200
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # as the plugin of OmegaT, with a key in its URL
        assert server.post(f"/translate?api_key={key}", b"q=a&source=en&target=de", **form)[0] == 200
        assert key not in server.log.read_text()
        assert BODY["q"] not in server.log.read_text()


@pytest.mark.parametrize(
    ("setting", "body", "status"),
    [
        ("limits.max_characters=5", BODY, 400),
        ("limits.max_texts=1", BODY | {"q": ["a", "b"]}, 400),
        ("limits.max_body=1024", BODY | {"q": "a" * 1024}, 413),
        ("limits.timeout=0.000001", BODY, 503),
    ],
)
def test_limits(folder, setting, body, status):
    with running_server(folder, "en-de=run", "--set", setting) as server:
        assert server.post("/translate", body)[0] == status
        assert server.get("/health") == {"status": "ok"}


def test_a_client_with_too_many_requests_is_told_when_to_come_back(folder):
    with running_server(folder, "en-de=run", "--set", "limits.requests_per_minute=2") as server:
        assert [server.post("/translate", BODY)[0] for _ in range(3)] == [200, 200, 429]


def test_a_slow_body_is_given_up(folder):
    with running_server(folder, "en-de=run", "--set", "limits.body_timeout=0.2") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_signal_lets_requests_complete(folder):
    with running_server(folder, "en-de=run") as server:
        body = BODY | {"q": [f"{BODY['q']} {number}" for number in range(400)]}
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(server.post("/translate", body)[0]))
        thread.start()
        while not server.get("/health") or "running 1.0" not in _metrics(server):
            time.sleep(0.005)
        assert server.stop() == 128 + signal.SIGTERM
        thread.join()
        assert found == [200]


def _metrics(server: RunningServer) -> str:
    from urllib.request import urlopen

    with urlopen(server.url + "/metrics", timeout=30) as response:
        return response.read().decode()


def test_a_changed_run_folder_is_loaded_again(folder):
    with running_server(folder, "en-de=run", "--set", "reload_interval=0.1") as server:
        before = server.post("/translate", BODY)
        finished_run(folder / "new", {"model": {"d_model": 24}})
        (folder / "run").rename(folder / "old")
        (folder / "new").rename(folder / "run")
        expected = dragoman("translate", "run", "--text", BODY["q"], cwd=folder).stdout.rstrip("\n")
        deadline = time.monotonic() + 120
        while (after := server.post("/translate", BODY)) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert after == (200, {"translatedText": expected})


def test_an_address_in_use_is_an_error(server: RunningServer, models):
    port = server.url.rpartition(":")[2]
    second = dragoman("serve", "en-de=en-de", "--port", port, cwd=models)
    assert second.returncode == 2
    assert "Address already in use" in second.stderr


def test_a_model_of_unknown_languages_is_an_error(tmp_path):
    finished_run(tmp_path / "run", {"data": {"train": {"source": "/home/a.txt", "target": "/home/b.txt"}}})
    second = dragoman("serve", "run", "--port", 0, cwd=tmp_path)
    assert second.returncode == 2
    assert "does not say which languages it translates" in second.stderr


def test_settings_come_from_file_environment_and_options(folder, monkeypatch):
    (folder / "server.yaml").write_text("models: [en-de=run]\nlimits: {max_texts: 1, max_characters: 7}\n")
    monkeypatch.setenv("DRAGOMAN_SERVE_LIMITS__MAX_TEXTS", "2")
    with running_server(folder, "--config", "server.yaml") as server:
        assert server.post("/translate", BODY | {"q": ["a", "a"]})[0] == 200
        assert server.post("/translate", BODY | {"q": ["a", "a", "a"]})[0] == 400
        assert server.post("/translate", BODY | {"q": "a" * 8})[0] == 400
    monkeypatch.setenv("DRAGOMAN_SERVE_PORT", "many")
    wrong = dragoman("serve", "en-de=run", cwd=folder)
    assert wrong.returncode == 2
    assert "port" in wrong.stderr
    (folder / "wrong.yaml").write_text("model: en-de=run\n")
    wrong = dragoman("serve", "--config", "wrong.yaml", cwd=folder)
    assert wrong.stderr == "dragoman: wrong.yaml: model: no such key. Did you mean models?\n"


def test_requests_are_logged_with_their_id(server: RunningServer):
    server.post("/translate", BODY, **{"X-Request-Id": "my-own.1"})
    deadline = time.monotonic() + 120
    while not (found := [one for one in server.records() if one.get("request_id") == "my-own.1"]):
        assert time.monotonic() < deadline
    assert (found[0]["path"], found[0]["status"]) == ("/translate", 200)


def test_the_demo_is_served_where_no_model_is_named(tmp_path):
    none = dragoman("serve", cwd=tmp_path)
    assert none.returncode == 2
    assert f"No model is named, and {tmp_path / 'runs'} has no demo." in none.stderr
    finished_run(tmp_path / "runs" / "demo-en-pt_BR")
    (tmp_path / "runs" / "demo-en-de").mkdir()  # its training has not completed
    with running_server(tmp_path) as server:
        assert [(one["code"], one["targets"]) for one in server.get("/languages")] == [("en", ["pt_BR"])]
        assert server.post("/translate", BODY | {"target": "pt-BR"})[0] == 200
        assert "serving runs/demo-en-pt_BR. Name others" in server.log.read_text()


def test_run_with_any_name_is_served_in_its_recorded_languages(tmp_path):
    finished_run(tmp_path / "mine", {"source_language": "pt", "target_language": "nl"})
    finished_run(tmp_path / "older")
    with running_server(tmp_path, "mine", "older") as server:
        pairs = {one["code"]: one["targets"] for one in server.get("/languages")}
        assert "nl" in pairs["pt"]
        assert "de" in pairs["en"]
