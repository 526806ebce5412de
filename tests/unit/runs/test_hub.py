"""Models on a Hub: pulled and pushed through the HTTP interface of a stand-in."""

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman.cli import main
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.interop.hub import download
from dragoman.interop.hub.connection import HubError
from dragoman.runs.folder import RunFolder
from dragoman.runs.hub.pull import RUN_FILES
from tests import fairseq_models
from tests.hub_stand_in import COMMIT, Answer, StandIn, connected, running
from tests.untrained_runs import PAIRS, finished_run

hub = pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
constants = importlib.import_module("huggingface_hub.constants")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content="),  # of the library about itself
    pytest.mark.filterwarnings("ignore:.*cut off at"),
]
NAME = "org/model"
TOKEN = "hf_secret"
WEIGHTS = "checkpoint_best.pt"
PATH = f"/{NAME}/resolve/{COMMIT}/{WEIGHTS}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fairseq")
    fairseq_models.write_folder(folder, fairseq_models.settings(learned_pos=True))
    return folder


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with connected(tmp_path / "cache", TOKEN, monkeypatch) as state:
        yield state


@pytest.fixture
def published(server: StandIn, model: Path) -> StandIn:
    """Publish a model with further files, which no import reads."""
    server.add_folder(NAME, model, **{"optimizer.bin": b"x" * 9000, "README.md": b"# card", "notes.md": b"x"})
    server.cards[NAME] = {"license": "cc-by-4.0"}
    return server


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that ends with a message of at most three lines, and return the message."""
    assert main.run(arguments, debug=False) == 2
    message = capsys.readouterr().err
    assert len(message.splitlines()) <= 3
    assert TOKEN not in message
    return message


def pull_command(out: Path, *options: str) -> list[str]:
    return ["pull", NAME, "--output-dir", str(out), *options]


def test_stand_in_answers_the_library(published: StandIn, model: Path, tmp_path: Path) -> None:
    """The judge of the stand-in is the library itself."""
    api = hub.HfApi(endpoint=published.url, token=TOKEN)
    info = api.model_info(NAME, files_metadata=True)
    assert {one.rfilename: one.size for one in info.siblings} == {
        name: len(content) for name, content in published.repositories[NAME].items()
    }
    path = hub.hf_hub_download(NAME, WEIGHTS, endpoint=published.url, local_dir=tmp_path / "files")
    assert Path(path).read_bytes() == (model / WEIGHTS).read_bytes()


def test_pull_gives_the_run_of_an_import(published: StandIn, model: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = dragoman.pull(NAME, tmp_path / "pulled", on_progress=lambda *numbers: seen.append(numbers))
    imported = dragoman.import_model(model, tmp_path / "imported")
    run = RunFolder(result.path)
    assert run.weights.read_bytes() == RunFolder(imported.path).weights.read_bytes()
    assert run.tokenizer.read_bytes() == RunFolder(imported.path).tokenizer.read_bytes()
    assert sorted(published.downloads()) == sorted([WEIGHTS, "dict.en.txt", "dict.de.txt"])
    assert published.downloads()[-1] == WEIGHTS
    assert seen[-1] == (sum(result.files.values()),) * 2
    assert result.imported is not None
    assert result.imported.lines() == imported.lines()
    origin = run.read_origin()
    assert (origin["url"], origin["license"]) == (f"{published.url}/{NAME}/tree/{COMMIT}", "cc-by-4.0")
    assert f"imported by dragoman from `{NAME}`" in run.read_model_card()
    assert not [one for one in (tmp_path / "cache").rglob("*") if one.is_file()]


def test_command_prints_the_self_check(published: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published.branches.add("v1/rc")
    assert main.run(pull_command(tmp_path / "run", "--revision", "v1/rc"), debug=False) == 0
    out = capsys.readouterr()
    assert f"commit {COMMIT}" in out.out
    assert "0 missing" in out.out
    assert not out.err
    assert f"/api/models/{NAME}/revision/v1%2Frc" in published.paths()
    assert main.run([*pull_command(tmp_path / "again"), "--json"], debug=False) == 0
    assert json.loads(capsys.readouterr().out)["import"]["tensors"]["used"] > 0


def test_interrupted_download_is_continued(published: StandIn, model: Path, tmp_path: Path) -> None:
    content = (model / WEIGHTS).read_bytes()
    half = len(content) // 2
    published.answers[PATH] = [Answer(200, {}, content[:half], claimed=len(content))]
    published.answers[PATH] += [Answer(503)] * download.ATTEMPTS
    with pytest.raises(HubError, match="error 503"):
        dragoman.pull(NAME, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    published.requests.clear()
    dragoman.pull(NAME, tmp_path / "run")
    assert published.downloads() == [WEIGHTS]
    assert published.requests[-1][2]["range"] == f"bytes={half}-"


def test_short_interruptions_go_unnoticed(published: StandIn, model: Path, tmp_path: Path) -> None:
    content = (model / WEIGHTS).read_bytes()
    published.answers[PATH] = [Answer(200, {}, content[:100], claimed=len(content)), Answer(502), Answer(429)]
    dragoman.pull(NAME, tmp_path / "run")
    assert published.downloads().count(WEIGHTS) == 4


def test_server_without_ranges_sends_the_whole_file(published: StandIn, model: Path, tmp_path: Path) -> None:
    published.ignores_ranges = True
    content = (model / WEIGHTS).read_bytes()
    published.answers[PATH] = [Answer(200, {}, content[:100], claimed=len(content))]
    dragoman.pull(NAME, tmp_path / "run")
    assert published.downloads().count(WEIGHTS) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401, {"X-Error-Code": "RepoNotFound"}), ("does not exist", "hf auth login")),
        (Answer(404, {"X-Error-Code": "RepoNotFound"}), ("does not exist", "hf auth login")),
        (Answer(404, {"X-Error-Code": "RevisionNotFound"}), ("has no revision 'main'", "--revision")),
        (Answer(403, {"X-Error-Code": "GatedRepo"}), ("is gated", f"/{NAME}", "hf auth login")),
        (
            Answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
            ("refuses the access token",),
        ),
        (Answer(403, {}, TOKEN.encode()), ("access is refused",)),
        (Answer(429), ("too many requests", "later")),
        (Answer(500), ("error 500", "later")),
        (Answer(302, {"Location": "ftp://elsewhere/"}), ("cannot be reached",)),
        (Answer(200, {}, b"<html>"), ("no description", "HF_ENDPOINT")),
        (Answer(200, {}, b"[]"), ("no description", "HF_ENDPOINT")),
        (Answer(200, {}, b'{"sha": "../.."}'), ("names no commit",)),
    ],
)
def test_refusals_give_one_message(
    answer: Answer, words: tuple[str, ...], published: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.answers[f"/api/models/{NAME}/revision/main"] = [answer]
    message = refused(pull_command(tmp_path / "run", "--revision", "main"), capsys)
    assert all(word in message for word in words), message
    assert list(tmp_path.glob("*")) == []


def test_gated_files_give_one_message(published: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The description of a gated model is public, its files are not."""
    published.answers[f"/{NAME}/resolve/{COMMIT}/dict.de.txt"] = [Answer(403, {"X-Error-Code": "GatedRepo"})]
    assert "is gated" in refused(pull_command(tmp_path / "run"), capsys)
    assert not (tmp_path / "run").exists()


def test_offline_mode_gives_one_message(
    published: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for arguments in (pull_command(tmp_path / "run"), ["push", str(tmp_path / "run"), NAME]):
        assert "HF_HUB_OFFLINE is set" in refused(arguments, capsys)
    assert published.requests == []


def test_missing_network_gives_one_message(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for address, words in (
        ("http://127.0.0.1:9", "cannot be reached"),
        ("huggingface.co", "is no address"),
        ("http://[", "is no address"),
    ):
        monkeypatch.setenv("HF_ENDPOINT", address)
        assert words in refused(pull_command(tmp_path / "run"), capsys)
        assert list(tmp_path.glob("*")) == []


@pytest.mark.parametrize("token", ["hf_secret\x01", "hf_secrét", "hf_ secret"])
def test_invalid_token_is_not_quoted(
    token: str, server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    message = refused(pull_command(tmp_path / "run"), capsys)
    assert "characters that no token has" in message
    assert "secr" not in message
    assert server.requests == []


def test_password_of_an_address_is_not_shown(
    published: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", published.url.replace("://", "://user:password@"))
    published.answers[f"/api/models/{NAME}"] = [Answer(401), Answer(403), Answer(200, {}, b"{}"), Answer(500)]
    for _ in range(4):
        assert "password" not in refused(pull_command(tmp_path / "run"), capsys)
    result = dragoman.pull(NAME, tmp_path / "run")
    assert RunFolder(result.path).read_origin()["url"] == f"{published.url}/{NAME}/tree/{COMMIT}"


def test_wrong_names_are_refused(server: StandIn, tmp_path: Path) -> None:
    for name in ("a/b/c", "../etc", "-x/y", "org/mo del", "", "org/model?x=1"):
        with pytest.raises(ConfigError, match="no name of a model"):
            dragoman.pull(name, tmp_path / "run")
    with pytest.raises(ConfigError, match="no revision"):
        dragoman.pull(NAME, tmp_path / "run", revision="")
    with pytest.raises(ConfigError, match="Did you mean fairseq"):
        dragoman.pull(NAME, tmp_path / "run", format="fairsec")
    assert server.requests == []


def test_existing_folder_is_refused_before_the_download(published: StandIn, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    with pytest.raises(RunError, match="never overwritten"):
        dragoman.pull(NAME, tmp_path / "run")
    assert published.requests == []


def test_repositories_without_a_model_are_refused(server: StandIn, tmp_path: Path) -> None:
    server.repositories[NAME] = {"config.json": b"{}", "flax_model.msgpack": b"x"}
    with pytest.raises(DataError, match=r"no model of a format that dragoman reads. It has config.json, flax_model"):
        dragoman.pull(NAME, tmp_path / "run")
    server.repositories[NAME] = {"a.gguf": b"GGUF"}
    with pytest.raises(ConfigError, match="does not ask for languages"):
        dragoman.pull(NAME, tmp_path / "run", source_language="en")
    server.repositories[NAME] = {"a.gguf": b"GGUF", "b.gguf": b"GGUF"}
    with pytest.raises(DataError, match=r"has several models. Name one of them with --file: a.gguf, b.gguf"):
        dragoman.pull(NAME, tmp_path / "run")
    with pytest.raises(DataError, match=r"Did you mean a\.gguf"):
        dragoman.pull(NAME, tmp_path / "run", file="A.gguf")
    with pytest.raises(DragomanError, match=r"a\.gguf"):
        dragoman.pull(NAME, tmp_path / "run", file="a.gguf")
    assert server.downloads() == ["a.gguf"]


def test_unknown_family_is_refused_before_its_weights(server: StandIn, tmp_path: Path) -> None:
    server.repositories[NAME] = {"config.json": b'{"model_type": "whisper"}', "model.safetensors": b"x" * 9000}
    with pytest.raises(ConfigError, match="whisper"):
        dragoman.pull(NAME, tmp_path / "run")
    assert server.downloads() == ["config.json"]


def test_model_larger_than_the_disk_is_refused(
    published: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="Free some space"):
        dragoman.pull(NAME, tmp_path / "run")
    assert published.downloads() == []


def test_token_is_not_sent_to_other_hosts(published: StandIn, model: Path, tmp_path: Path) -> None:
    """The Hub redirects downloads of large files to storage elsewhere."""
    with running() as storage:
        storage.answers["/signed"] = [Answer(200, {}, (model / WEIGHTS).read_bytes())]
        published.answers[PATH] = [Answer(302, {"Location": f"{storage.url}/signed?signature=1"})]
        dragoman.pull(NAME, tmp_path / "run")
    assert published.requests[-1][2]["authorization"] == f"Bearer {TOKEN}"
    assert [headers.get("authorization") for _, _, headers in storage.requests] == [None]


def test_other_content_than_listed_is_refused(published: StandIn, model: Path, tmp_path: Path) -> None:
    content = (model / WEIGHTS).read_bytes()
    published.answers[PATH] = [Answer(200, {}, bytes(len(content)))]
    with pytest.raises(DataError, match=r"checkpoint_best\.pt differs from its checksum"):
        dragoman.pull(NAME, tmp_path / "run")
    published.answers[PATH] = [Answer(200, {}, content + bytes(9000))]
    with pytest.raises(DataError, match="sends more than the"):
        dragoman.pull(NAME, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    dragoman.pull(NAME, tmp_path / "run")


def test_changed_file_in_the_cache_is_downloaded_again(published: StandIn, tmp_path: Path) -> None:
    published.answers[PATH] = [Answer(404)]
    with pytest.raises(HubError):
        dragoman.pull(NAME, tmp_path / "run")
    (tmp_path / "cache" / "hub" / "org--model" / COMMIT / "dict.de.txt").write_text("other 1\n")
    dragoman.pull(NAME, tmp_path / "run")
    assert published.downloads().count("dict.de.txt") == 2
    assert published.downloads().count("dict.en.txt") == 1


def test_dangerous_names_are_not_downloaded(published: StandIn, model: Path, tmp_path: Path) -> None:
    names = ("../dict.xx.txt", "/etc/dict.xx.txt", "..\\dict.xx.txt", "a/../dict.xx.txt", "C:dict.xx.txt", "dict\0.txt")
    published.repositories[NAME] |= dict.fromkeys(names, b"x")
    dragoman.pull(NAME, tmp_path / "run")
    assert sorted(published.downloads()) == sorted([WEIGHTS, "dict.en.txt", "dict.de.txt"])


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = finished_run(tmp_path / "run")
    folder.model_card.write_text("# run\n\nA translator.\n\n## Scores\n\n| test | BLEU | 31.20 |\n", encoding="utf-8")
    return folder


def test_pull_reads_the_files_of_a_run() -> None:
    names = {name for one in (*RUN_FILES.weights, *RUN_FILES.required, RUN_FILES.optional) for name in one}
    folder = RunFolder(Path())
    state = {folder.checkpoints, folder.metrics, folder.unfinished}
    members = {getattr(folder, name) for name in vars(RunFolder) if isinstance(getattr(folder, name), Path)}
    assert {Path(name) for name in names} == (members - state - {folder.path}) | {
        Path("encoder.onnx"),
        Path("prompt.onnx"),
    }


@pytest.mark.parametrize("revision", [None, "v2"])
def test_pushed_run_is_pulled_as_it_is(
    revision: str | None, server: StandIn, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--revision", revision] if revision else []
    assert main.run(["push", str(run.path), NAME, *options], debug=False) == 0
    out = capsys.readouterr()
    assert f"{server.url}/{NAME}: dragoman" in out.out
    assert TOKEN not in out.out + out.err
    assert [one["revision"] for one in server.commits] == [revision or "main"]
    card = server.repositories[NAME]["README.md"].decode()
    assert card.startswith(
        "---\nlibrary_name: dragoman\npipeline_tag: translation\ntags:\n- dragoman\n---\n\n# model\n"
    )
    assert "31.20" in card
    assert f"dragoman pull {NAME} --output-dir model" in card
    assert b"/home/somebody" not in b"".join(server.repositories[NAME].values())
    result = dragoman.pull(NAME, tmp_path / "pulled", revision=revision)
    assert result.imported is None
    texts = [source for source, _ in PAIRS]
    expected = [one.text for one in dragoman.load(run.path, dragoman.Translator).translate(texts)]
    assert [one.text for one in dragoman.load(result.path, dragoman.Translator).translate(texts)] == expected
    assert RunFolder(result.path).read_model_card().startswith("# model\n")
    with pytest.raises(ConfigError, match="source_language has no effect"):
        dragoman.pull(NAME, tmp_path / "again", source_language="en")


def test_exported_model_is_pushed_as_it_is(server: StandIn, run: RunFolder, tmp_path: Path) -> None:
    dragoman.export(run.path, tmp_path / "int8", compute_type="int8")
    result = dragoman.push(tmp_path / "int8", NAME)
    assert server.repositories[NAME]["model.safetensors"] == (tmp_path / "int8" / "model.safetensors").read_bytes()
    assert "optimizer" not in " ".join(result.files)
    with pytest.raises(RunError, match="Push the run that it comes from"):
        dragoman.push(tmp_path / "int8", NAME, format="ctranslate2")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "int8" / "scores.json").symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="symbolic link"):
        dragoman.push(tmp_path / "int8", NAME)
    assert len(server.commits) == 1


def test_other_formats_are_pushed(server: StandIn, run: RunFolder, tmp_path: Path) -> None:
    dragoman.push(run.path, NAME, format="ctranslate2", private=True)
    assert NAME in server.private
    assert {"model.bin", "config.json", "README.md"} <= server.repositories[NAME].keys()
    assert "library_name: ctranslate2" in server.repositories[NAME]["README.md"].decode()
    assert dragoman.pull(NAME, tmp_path / "pulled").format == "ctranslate2"


def test_pushed_import_names_its_license_and_origin(published: StandIn, tmp_path: Path) -> None:
    dragoman.pull(NAME, tmp_path / "run")
    first = dragoman.push(tmp_path / "run", "org/copy")
    card = published.repositories["org/copy"]["README.md"].decode()
    assert card.startswith(f"---\nlicense: cc-by-4.0\nbase_model: {NAME}\n")
    assert dragoman.push(tmp_path / "run", "org/copy") == first
    assert len(published.commits) == 1


def test_push_is_refused_before_anything_is_created(
    server: StandIn, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        ([str(run.path), "model"], "ORGANIZATION/MODEL"),
        ([str(run.path), NAME, "--format", "gguf"], "is only read"),
        ([str(run.path), NAME, "--format", "ctranslat"], "Did you mean ctranslate2"),
        ([str(tmp_path / "nowhere"), NAME], "is not a run folder"),
    ):
        assert words in refused(["push", *arguments], capsys)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    assert "needs an access token" in refused(["push", str(run.path), NAME], capsys)
    assert server.requests == []


def test_refused_push_gives_one_message(server: StandIn, run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers["/api/repos/create"] = [Answer(403, {}, json.dumps({"error": TOKEN}).encode())]
    assert "access is refused" in refused(["push", str(run.path), NAME], capsys)
    server.answers["/api/repos/create"] = [
        Answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
    ]
    assert "refuses the access token" in refused(["push", str(run.path), NAME], capsys)
    server.answers["/store"] = [Answer(403)]
    assert "access is refused" in refused(["push", str(run.path), NAME], capsys)
    server.answers[f"/{NAME}.git/info/lfs/objects/batch"] = [Answer(200, {}, b'{"objects": [{"oid": 1}]}')]
    assert "the upload failed" in refused(["push", str(run.path), NAME], capsys)
