"""Files that the server translates are those of `dragoman translate --file`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from dragoman.data.documents.recognize import ENDINGS
from dragoman.data.tokenizers import BpeConfig
from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman
from tests.unit.data.documents.samples import SAMPLES
from tests.untrained_runs import finished_run

PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "_Two dogs"
msgstr ""

msgid "The _cat"
msgstr ""

#, c-format
msgid "%d dog plays"
msgid_plural "%d dogs play"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
msgid "a cat"
msgstr "ein Hund"

msgid "%s – %s"
msgstr ""

msgid "two <b>dogs</b> %s"
msgstr ""
"""
HTML = '<html lang="en"><title>two dogs</title><p title="a cat">a cat <b>sits</b> {name}</p><p>%s</p></html>'
FILES = {
    "menu.po": PO,
    "page.html": HTML,
    "texts.txt": "two dogs\n\na cat sits\n",
    "film.srt": "1\n00:00:01,000 --> 00:00:02,000\ntwo dogs\n",
    **{name: text for name, text in SAMPLES.values() if Path(name).suffix in ENDINGS and name != "a.tbx"},
}


@pytest.fixture(scope="module")
def file_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("files")
    for name in ("en-de", "de-fr"):
        finished_run(folder / name, {"decoding": {"max_length": 19}}, vocabulary=BpeConfig(vocab_size=300))
    with running_server(folder, "en-de=en-de", "de-fr=de-fr") as running:
        yield running


def translated(server: RunningServer, name: str, content: bytes, target: str) -> bytes:
    parts = {"source": "en", "target": target}
    answer = requests.post(server.url + "/translate_file", data=parts, files={"file": (name, content)}, timeout=120)
    return requests.get(answer.json()["translatedFileUrl"], timeout=60).content


@pytest.mark.parametrize("name", FILES)
def test_server_translates_a_file_as_the_command_does(file_server: RunningServer, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    run, output = file_server.log.parent / "en-de", tmp_path / f"de-{name}"
    languages = ["--source-language", "en", "--target-language", "de"]
    ended = dragoman("translate", run, "--file", tmp_path / name, "--output", output, *languages, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert translated(file_server, name, (tmp_path / name).read_bytes(), "de") == output.read_bytes()


def test_pivoted_files_keep_placeholders_and_menu_mnemonics(file_server: RunningServer) -> None:
    content = translated(file_server, "menu.po", PO.encode(), "fr").decode()
    assert content.count("%s – %s") == 2
    texts = [line.removeprefix("msgstr ") for line in content.splitlines() if line.startswith("msgstr ")]
    assert [text.count("_") for text in texts[1:3]] == [1, 1]
    assert "fuzzy" in content
