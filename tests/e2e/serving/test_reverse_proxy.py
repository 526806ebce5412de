"""The server behind nginx and Caddy, with the files of `deploy`."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.running_server import running_server
from tests.untrained_runs import finished_run

DEPLOY = Path(__file__).parents[3] / "deploy"
BODY = {"q": "two dogs play .", "source": "en", "target": "de"}
Build = Callable[[Path, int, str], list[str]]
CERTIFICATE = (
    "req -x509 -newkey rsa:2048 -nodes -days 1 -keyout key.pem -out certificate.pem "
    "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
)
pytestmark = pytest.mark.slow


def _nginx(folder: Path, port: int, server: str) -> list[str]:
    """Write a configuration with the site of `deploy`, and return the command that runs it."""
    site = (DEPLOY / "nginx.conf").read_text()
    for old, new in (
        ("    listen [::]:443 ssl http2;\n", ""),
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/letsencrypt/live/mt.example.org/fullchain.pem", f"{folder}/certificate.pem"),
        ("/etc/letsencrypt/live/mt.example.org/privkey.pem", f"{folder}/key.pem"),
        ("127.0.0.1:8000", server),
        ("    server 127.0.0.1:8001;\n", ""),
    ):
        assert old in site
        site = site.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {paths} {site} }}"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, port: int, server: str) -> list[str]:
    """Write a configuration with the site of `deploy`, and return the command that runs it."""
    site = (DEPLOY / "Caddyfile").read_text()
    for old, new in (
        ("mt.example.org {", f"https://localhost:{port} {{\n\ttls {folder}/certificate.pem {folder}/key.pem"),
        ("127.0.0.1:8000 127.0.0.1:8001", server),
    ):
        assert old in site
        site = site.replace(old, new)
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


class Proxy:
    """Clients of a running proxy. Each test has an address of its own, and no client has that of the proxy."""

    def __init__(self, port: int, certificate: Path) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(certificate))
        self.client = 2

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "localhost", self._port, timeout=60, source_address=(f"127.0.0.{self.client}", 0), context=self._context
        )

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Return status and JSON of an answer; None for an answer of the proxy itself."""
        connection = self.connect()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, json.loads(text) if response.headers.get_content_type() == "application/json" else None


@contextmanager
def _run_proxy(build: Build, folder: Path, server: str) -> Iterator[Proxy]:
    """Run a proxy before the server at an address."""
    if shutil.which(build.__name__.removeprefix("_")) is None or shutil.which("openssl") is None:
        pytest.skip("needs the proxy and openssl")
    subprocess.run(f"openssl {CERTIFICATE}".split(), cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = build(folder, port, server)
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log)
    try:
        _wait_for(port, process, folder / "proxy.log")
        yield Proxy(port, folder / "certificate.pem")
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module", params=[_nginx, _caddy], ids=["nginx", "caddy"])
def running_proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    finished_run(folder / "run")
    with (
        running_server(folder, "en-de=run", "--set", "limits.requests_per_minute=5") as server,
        _run_proxy(request.param, folder, server.url.removeprefix("http://")) as proxy,
    ):
        yield proxy


@pytest.fixture
def proxy(running_proxy: Proxy) -> Proxy:
    running_proxy.client += 1
    return running_proxy


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(log.read_text())


def test_a_proxy_passes_on_what_the_public_may_see(proxy: Proxy):
    assert proxy.request("GET", "/health") == (200, {"status": "ok"})
    assert proxy.request("GET", "/metrics")[0] == 404
    assert proxy.request("GET", "/ready")[0] == 404
    status, answer = proxy.request("POST", "/translate", json.dumps(BODY).encode())
    assert (status, list(answer)) == (200, ["translatedText"])
    with suppress(OSError):  # the proxy may close the connection while the client sends
        assert proxy.request("POST", "/translate", b"a" * (21 * 1024**2))[0] == 413


def test_clients_cannot_choose_their_address(proxy: Proxy):
    body = json.dumps(BODY).encode()
    statuses = [
        proxy.request("POST", "/translate", body, **{"X-Forwarded-For": f"10.0.0.{number}"})[0] for number in range(7)
    ]
    assert statuses == [200] * 5 + [429] * 2


def test_addresses_that_the_server_names_have_the_scheme_of_the_proxy(proxy: Proxy):
    form = (
        b'--b\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
        b'--b\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntwo dogs .\r\n--b--\r\n'
    )
    status, answer = proxy.request(
        "POST", "/translate_file", form, **{"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert status == 200
    assert answer["translatedFileUrl"].startswith("https://localhost")


@pytest.mark.parametrize("build", [_nginx, _caddy])
def test_the_first_piece_of_a_stream_arrives_before_the_second_is_sent(build: Build, tmp_path: Path):
    first_has_arrived = threading.Event()
    in_time: list[bool] = []

    class Streamer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if self.path == "/stream":
                self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
                in_time.append(first_has_arrived.wait(timeout=60))
            self.wfile.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

        def log_message(self, *_: object) -> None: ...

    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Streamer)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        with _run_proxy(build, tmp_path, f"127.0.0.1:{upstream.server_port}") as proxy:
            connection = proxy.connect()
            connection.request("GET", "/stream")
            response = connection.getresponse()
            assert response.read(9) == b"data: 1\n\n"
            first_has_arrived.set()
            assert response.read() == b"data: 2\n\n"
            assert in_time == [True]
            connection.close()
    finally:
        first_has_arrived.set()
        upstream.shutdown()
        upstream.server_close()
