"""Stand-in of a Hugging Face Hub: the part of its HTTP interface that huggingface_hub asks for models.

https://huggingface.co/docs/hub/api; `test_stand_in_answers_the_library` checks it with the library itself.
"""

import base64
import hashlib
import importlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

import pytest

from dragoman.interop.hub import download

LARGE = 4096
"""Bytes from which a file is stored as a large one, with a SHA-256."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Answer:
    """Answer to a request, in place of that of the stand-in."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    claimed: int | None = None
    """Bytes that the header claims; the connection closes after the body."""
    hangs: threading.Event | None = None
    """Event after which the connection closes."""


@dataclass(repr=False)  # the files are too long for a message
class StandIn:
    """Repositories, requests and special answers of a server."""

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    """Repositories that exist for a token only."""
    branches: set[str] = field(default_factory=lambda: {"main"})
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers, in lower case, of each request."""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """Special answers by path, each for one request."""
    commits: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    """Large files by SHA-256, before the commit that names them."""
    ignores_ranges: bool = False

    def __repr__(self) -> str:
        return f"StandIn({self.url!r})"

    @contextmanager
    def hang(self, path: str, answer: Answer) -> Iterator[None]:
        """Give an answer whose connection stays open until the block ends."""
        answer.hangs = threading.Event()
        self.answers[path] = [answer]
        try:
            yield
        finally:
            answer.hangs.set()

    def paths(self, method: str = "GET") -> list[str]:
        """Return the paths that were asked for."""
        return [urlparse(path).path for one, path, _ in self.requests if one == method]

    def downloads(self) -> list[str]:
        """Return the names of the files that were asked for."""
        return [path.partition(f"/resolve/{COMMIT}/")[2] for path in self.paths() if "/resolve/" in path]

    def add_folder(self, name: str, folder: Path, **extra: bytes) -> None:
        """Add a repository with the files of a folder, and further ones."""
        files = {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        self.repositories[name] = files | extra

    def describe(self, name: str) -> dict[str, Any]:
        """Return the description of a model."""
        siblings = []
        for file, content in self.repositories[name].items():
            one: dict[str, Any] = {"rfilename": file, "size": len(content), "blobId": git_checksum(content)}
            if len(content) >= LARGE:
                one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append(one)
        card = self.cards.get(name, {})
        return {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "cardData": card, "tags": []}


def git_checksum(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def running() -> Iterator[StandIn]:
    """Run a stand-in on a free port of this machine."""
    state = StandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def connected(cache: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Run a stand-in as the Hub of this process."""
    with running() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.url)
        monkeypatch.setenv("DRAGOMAN_CACHE", str(cache))
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(download, "WAIT", 0)
        yield state


class _Handler(BaseHTTPRequestHandler):
    state: StandIn

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        address = urlparse(self.path)
        path = unquote(address.path)
        self.state.requests.append(
            (self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        )
        if special := self.state.answers.get(path):
            self._send(special.pop(0))
        else:
            self._send(self._answer(path, parse_qs(address.query), body))

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(answer.body) if answer.claimed is None else answer.claimed))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        if answer.hangs is not None:
            answer.hangs.wait(60)
        self.close_connection = True

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> Answer:
        if path.startswith("/api/models/"):
            return self._model(path.removeprefix("/api/models/"), body)
        if path == "/api/repos/create":
            tree = json.loads(body)
            name = f"{tree['organization']}/{tree['name']}" if "organization" in tree else tree["name"]
            exists = name in self.state.repositories
            self.state.repositories.setdefault(name, {})
            if tree.get("private") or tree.get("visibility") == "private":
                self.state.private.add(name)
            return _json({"url": f"{self.state.url}/{name}"}, 409 if exists else 200)
        if path == "/api/validate-yaml":
            return _json({"errors": [], "warnings": []})
        if path == "/api/whoami-v2":
            return _json({"name": "org", "type": "user"})
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = {"upload": {"href": f"{self.state.url}/store", "header": {}}}
            return _json({"objects": [one | {"actions": actions} for one in objects]})
        if path == "/store":
            self.state.objects[hashlib.sha256(body).hexdigest()] = body
            return Answer()
        if "/resolve/" in path:
            return self._file(*path.strip("/").split("/resolve/"))
        return _error(404, "EntryNotFound")

    def _is_hidden(self, name: str) -> bool:
        return name not in self.state.repositories or (
            name in self.state.private and "Authorization" not in self.headers
        )

    def _model(self, path: str, body: bytes) -> Answer:
        name, _, rest = (path + "/").partition("/revision/") if "/revision/" in path else (path, "", "")
        for verb in ("/preupload/", "/commit/", "/branch/", "/tree/"):
            if verb in path:
                name, _, revision = path.partition(verb)
                return self._write(verb.strip("/"), name, revision, body)
        if self._is_hidden(name):
            return _error(401, "RepoNotFound")
        if rest.strip("/") not in ("", COMMIT, *self.state.branches):
            return _error(404, "RevisionNotFound")
        return _json(self.state.describe(name))

    def _write(self, verb: str, name: str, revision: str, body: bytes) -> Answer:
        files = self.state.repositories.get(name)
        if files is None or (verb != "tree" and "Authorization" not in self.headers):
            return _error(401, "RepoNotFound")
        if verb == "tree":
            siblings = self.state.describe(name)["siblings"]
            return _json(
                [
                    {"type": "file", "path": one["rfilename"], "size": one["size"], "oid": one["blobId"]}
                    for one in siblings
                ]
            )
        if verb == "branch":
            self.state.branches.add(revision)
            return _json({})
        if verb == "preupload":
            given = json.loads(body)["files"]
            return _json({"files": [_upload_mode(one, files.get(one["path"])) for one in given]})
        lines = [json.loads(line) for line in body.splitlines()]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.state.objects[value["oid"]]
        self.state.commits.append({"name": name, "revision": revision, "lines": lines})
        return _json({"commitOid": COMMIT, "commitUrl": f"{self.state.url}/{name}/commit/{COMMIT}"})

    def _file(self, name: str, path: str) -> Answer:
        file = path.partition("/")[2]
        if self._is_hidden(name):
            return _error(401, "RepoNotFound")
        content = self.state.repositories[name].get(file)
        if content is None:
            return _error(404, "EntryNotFound")
        checksum = hashlib.sha256(content).hexdigest() if len(content) >= LARGE else git_checksum(content)
        headers = {"ETag": f'"{checksum}"', "X-Repo-Commit": COMMIT}
        given = self.headers.get("Range")
        if given and not self.state.ignores_ranges:
            start = int(given.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return Answer(206, headers, content[start:])
        return Answer(200, headers, content)


def _upload_mode(file: dict[str, Any], existing: bytes | None) -> dict[str, Any]:
    """Return how a file is uploaded, and the checksum of the file that it replaces."""
    mode: dict[str, Any] = {"path": file["path"], "shouldIgnore": False}
    mode["uploadMode"] = "lfs" if file["size"] >= LARGE else "regular"
    if existing is not None:
        large = len(existing) >= LARGE
        mode["oid"] = hashlib.sha256(existing).hexdigest() if large else git_checksum(existing)
    return mode


def _json(tree: Any, status: int = 200) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(tree).encode())


def _error(status: int, code: str) -> Answer:
    return Answer(status, {"X-Error-Code": code}, b'{"error": "no"}')
