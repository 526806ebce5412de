"""Clients that leave, send too much or too slowly, servers that are killed, and models replaced under load."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_run

BODY = {"q": "two dogs play .", "source": "en", "target": "de"}
LONG = BODY | {"q": ["two dogs play . a cat sits by the sea " * 8] * 150, "alternatives": 4}
"""Takes a second of processor time with the smallest model."""
MIB = 2**20


@pytest.fixture
def folder(tmp_path):
    finished_run(tmp_path / "run")
    return tmp_path


@pytest.fixture(scope="module")
def impatient(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Server that waits half a second for the parts of a request."""
    (folder := tmp_path_factory.mktemp("impatient")).joinpath("runs").symlink_to(models)
    with running_server(folder, "en-de=runs/en-de", "runs/story", "--set", "limits.body_timeout=0.5") as running:
        yield running


@contextmanager
def connection(server: RunningServer) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as one:
        yield one


def wait_for(condition: Callable[[], bool], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_closed(one: socket.socket) -> bool:
    """Read what the server sends, and return whether it has closed the connection."""
    one.settimeout(0.05)
    try:
        return not one.recv(4096)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def peak_memory(server: RunningServer) -> float:
    """Return the greatest memory of the server so far, in MiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def is_idle(server: RunningServer) -> bool:
    found = server.metrics()
    running = [value for name, value in found.items() if "num_requests" in name or "http_requests_running" in name]
    return len(running) > 2 and not any(running)


def generated_tokens(server: RunningServer) -> float:
    return server.metrics()['dragoman:generation_tokens_total{model_name="en-de"}']


@pytest.mark.parametrize("part", [b"", b"G", b"GET /health HTTP/1.1\r\nA: b"], ids=["nothing", "method", "headers"])
def test_a_head_that_does_not_end_is_given_up(impatient: RunningServer, part: bytes):
    with connection(impatient) as one:
        one.sendall(part)
        begin = time.monotonic()
        while not is_closed(one):
            assert time.monotonic() < begin + 60
            if part:
                one.sendall(b"b")


@pytest.mark.parametrize("line", [b"a: " + b"b" * 100 + b"\r\n", b"c" * 1000], ids=["lines", "one line"])
def test_headers_without_end_take_no_memory(server: RunningServer, line: bytes):
    before = peak_memory(server)
    with connection(server) as one, pytest.raises(ConnectionError):
        one.sendall(b"GET /health HTTP/1.1\r\nx: " + line * (50 * MIB // len(line)))
    assert peak_memory(server) < before + 20
    assert server.get("/health") == {"status": "ok"}


def test_idle_connections_are_closed_and_delay_nobody(impatient: RunningServer):
    host, port = impatient.url.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port)), timeout=30) for _ in range(300)]
    try:
        assert impatient.post("/translate", BODY)[0] == 200
        for one in idle:
            wait_for(lambda one=one: is_closed(one))
    finally:
        for one in idle:
            one.close()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of the server from /proc")
@pytest.mark.parametrize("framing", ["Content-Length: 52428800", "Transfer-Encoding: chunked"])
def test_a_large_body_is_refused_at_once_and_not_kept(server: RunningServer, framing: str):
    before, received = peak_memory(server), b""
    part = b"a" * MIB
    with connection(server) as one:
        one.sendall(f"POST /translate HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
        for _ in range(50):
            one.sendall(part if "Length" in framing else f"{MIB:x}\r\n".encode() + part + b"\r\n")
            if not received:
                one.settimeout(0.2)
                with suppress(TimeoutError):
                    received = one.recv(100)
                one.settimeout(30)
        assert received.startswith(b"HTTP/1.1 413 ")
    assert peak_memory(server) < before + 20


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"q": "a"', b"[]", b"\xff\xfe", b'{"q": "\xff", "source": "en", "target": "de"}', b"[" * 9999]
)
@pytest.mark.parametrize(("path", "shape"), [("/translate", "error"), ("/v2/translate", "message")])
def test_a_malformed_body_is_an_error_of_the_client(server: RunningServer, path: str, shape: str, body: bytes):
    status, answer = server.post(path, body)
    assert status == 400
    assert isinstance(answer[shape], str)


def test_work_ends_when_its_client_leaves(server: RunningServer):
    content = json.dumps(LONG).encode()
    begin = generated_tokens(server)
    assert server.post("/translate", content)[0] == 200
    whole = generated_tokens(server) - begin
    begin += whole
    with connection(server) as one:
        one.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        wait_for(lambda: server.metrics()['dragoman:num_requests_running{model_name="en-de"}'] > 0)
    wait_for(lambda: is_idle(server))
    assert generated_tokens(server) - begin < whole
    wait_for(lambda: any(one.get("status") == 499 for one in server.records()))


@pytest.mark.slow
def test_a_killed_server_starts_again_on_its_port(folder):
    with running_server(folder, "en-de=run") as first, connection(first) as open_connection:
        open_connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert open_connection.recv(100)
        expected = first.post("/translate", BODY)
        first.process.kill()
        first.process.wait()
        with running_server(folder, "en-de=run", port=first.url.rpartition(":")[2]) as second:
            assert second.post("/translate", BODY) == expected


@contextmanager
def load(server: RunningServer, *, threads: int = 8) -> Iterator[list[tuple[int, object]]]:
    """Send requests until the end of the block, or until the server refuses connections; the list has the answers."""
    answers, stop = list[tuple[int, object]](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                answers.append(server.post("/translate", BODY))
            except (URLError, ConnectionError):  # not accepted: the server ends
                return

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(ask) for _ in range(threads)]
        try:
            yield answers
        finally:
            stop.set()
        for one in running:
            one.result()


@pytest.mark.slow
def test_a_model_replaced_under_load_drops_no_request(folder):
    finished_run(folder / "new", {"model": {"d_model": 24}})
    with (
        running_server(folder, "en-de=new") as other,
        running_server(folder, "en-de=run", "--set", "reload_interval=0.1") as server,
    ):
        old, new = server.post("/translate", BODY), other.post("/translate", BODY)
        with load(server) as answers:
            wait_for(lambda: old in answers)
            (folder / "run").rename(folder / "old")
            without_run = len(answers) + 100
            wait_for(lambda: len(answers) > without_run)
            (folder / "new").rename(folder / "run")
            wait_for(lambda: new in answers)
            replaced = len(answers) + 100
            wait_for(lambda: len(answers) > replaced)
    assert {json.dumps(one) for one in answers} == {json.dumps(one) for one in (old, new)}
    assert all(one == new for one in answers[replaced:])


@pytest.mark.slow
def test_a_signal_under_load_completes_what_was_accepted(folder):
    with running_server(folder, "en-de=run") as server:
        with load(server) as answers:
            wait_for(lambda: len(answers) > 100)
            server.stop()
        statuses = [status for status, _ in answers]
        assert set(statuses) <= {200, 503}
        answered = [one for one in server.records() if one.get("path") == "/translate" and one["status"] == 200]
        assert statuses.count(200) == len(answered)
