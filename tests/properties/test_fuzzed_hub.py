"""Any answer of a Hub gives a run or an error of dragoman, and writes nothing but the cache."""

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.errors import DragomanError
from dragoman.interop.hub.file_patterns import choose_files, is_safe
from dragoman.interop.recognize_format import PARTNERS
from tests import fairseq_models
from tests.hub_stand_in import COMMIT, Answer, StandIn, connected
from tests.properties.test_fuzzed_files import EDITS, TREE_EDITS, edit_bytes, edit_tree
from tests.property_settings import FULL

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
NAME, TOKEN = "org/model", "hf_secret"
CASES = 2000 if FULL else 20
FUZZING = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
STATUSES = st.sampled_from([200, 200, 200, 204, 206, 301, 302, 304, 307, 400, 401, 403, 404, 416, 418, 429, 500, 503])
VALUES = (
    *("", "0", "-1", "99999999999999", "bytes 0-1/2", "bytes 5-9/*", "bytes x", "gzip", "br", "chunked", "GatedRepo"),
    *("EntryNotFound", "file:///etc/passwd", "http://[", "//127.0.0.1:9/x", "/elsewhere", "\x7f"),
)
NAMES = ("Location", "Content-Range", "Content-Encoding", "Content-Length", "X-Error-Code", "ETag")
HEADERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    fairseq_models.write_folder(tmp_path / "model", fairseq_models.settings())
    with connected(tmp_path / "place" / "cache", TOKEN, monkeypatch) as state:
        state.add_folder(NAME, tmp_path / "model")
        yield state


def check(server: StandIn, folder: Path) -> None:
    """Pull a model; nothing but the run and the cache is written."""
    out = folder / "place" / "run"
    try:
        dragoman.pull(NAME, out)
    except DragomanError as error:
        assert len(str(error).splitlines()) <= 3, error  # noqa: PT017
        assert TOKEN not in str(error)  # noqa: PT017
        assert not out.exists()
    shutil.rmtree(out, ignore_errors=True)
    assert {one.name for one in (folder / "place").iterdir()} <= {"cache"}
    assert {one.name for one in folder.iterdir()} <= {"model", "place"}
    shutil.rmtree(folder / "place" / "cache", ignore_errors=True)
    (folder / "place").mkdir(exist_ok=True)
    server.answers.clear()
    server.requests.clear()


@FUZZING
@given(edits=TREE_EDITS)
def check_descriptions(server: StandIn, folder: Path, path: str, edits: Any) -> None:
    tree = edit_tree(deepcopy(server.describe(NAME)), edits)
    try:
        content = json.dumps(tree).encode()
    except (TypeError, ValueError):
        return
    server.answers[path] = [Answer(200, {}, content)]
    check(server, folder)


@pytest.mark.slow
def test_any_description_is_read_or_refused(server: StandIn, tmp_path: Path) -> None:
    check_descriptions(server, tmp_path, f"/api/models/{NAME}")


@FUZZING
@given(status=STATUSES, headers=HEADERS, edits=EDITS)
def check_answers(server: StandIn, folder: Path, file: str | None, status: Any, headers: Any, edits: Any) -> None:
    path = f"/api/models/{NAME}" if file is None else f"/{NAME}/resolve/{COMMIT}/{file}"
    content = json.dumps(server.describe(NAME)).encode() if file is None else server.repositories[NAME][file]
    server.answers[path] = [Answer(status, headers, edit_bytes(content, edits))]
    check(server, folder)


@pytest.mark.slow
@pytest.mark.parametrize("file", [None, "checkpoint_best.pt", "dict.en.txt"])
def test_any_answer_is_read_or_refused(file: str | None, server: StandIn, tmp_path: Path) -> None:
    check_answers(server, tmp_path, file)


@given(st.text(max_size=30) | st.from_regex(r"[./\\a:]{1,12}", fullmatch=True))
def test_safe_names_stay_below_their_folder(name: str) -> None:
    if is_safe(name):
        folder = Path("/root/of/files")
        path = Path(*folder.parts, *name.split("/"))
        assert ".." not in path.parts
        assert path.resolve().is_relative_to(folder)
        assert path != folder


@given(
    st.sets(
        st.from_regex(
            r"(model|config|dict\.en|vocab)?(-1)?\.(json|txt|bin|pt|gguf|spm|npz|safetensors)", fullmatch=True
        )
    )
)
def test_chosen_files_exist_once(names: set[str]) -> None:
    try:
        chosen = choose_files({name: one.files for name, one in PARTNERS.items()}, names, where=NAME)
    except DragomanError:
        return
    assert set(chosen.all) <= names
    assert len(set(chosen.all)) == len(chosen.all)
    assert chosen.weights
