"""Files that the server translates are those of `dragoman translate --file`."""

import random
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


def translated(server: RunningServer, name: str, content: bytes, target: str, *, source: str = "en") -> bytes:
    parts = {"source": source, "target": target}
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


def test_the_language_of_a_file_is_detected(file_server: RunningServer) -> None:
    english = b"The cat sleeps in the house by the sea.\n\nTwo dogs play with the ball.\n"
    german = "Die Katze schläft in dem Haus am Meer.\n".encode()
    detected = translated(file_server, "a.txt", english, "de", source="auto")
    assert detected == translated(file_server, "a.txt", english, "de") != english
    assert translated(file_server, "a.txt", german, "de", source="auto") == german


INLINE = ["<b>{}</b>", "<a href='x?a=1&b=2'>{}</a>", '<span class="c">{}</span>', "<em><i>{}</i></em>", "{}<br>", "{}"]
BLOCK = ["<p>{}</p>", "<ul><li>{}<li>{}</ul>", "<h2>{}</h2>{}", "{}", "<table><tr><td>{}</td><td>{}</td></table>"]
ODD = [
    "<code>f(x)</code>",
    "<img src=a.png>",
    "%s",
    "{name}",
    "7.5",
    "&amp;",
    "<!-- a cat -->",
    "¶",
    "<kbd>X</kbd>",
    "(c)",
]


def html_text(generator: random.Random) -> str:
    def phrase() -> str:
        if generator.random() < 0.15:
            return f"{generator.choice(ODD)} – {generator.choice(ODD)}"
        words = " ".join(generator.choices(["two", "dogs", "a", "cat", "sits", "by", "the", "sea"], k=3))
        part = generator.choice(INLINE).format(words)
        return f"{part} {generator.choice(ODD)}" if generator.random() < 0.4 else part

    def sentence() -> str:
        return " ".join(phrase() for _ in range(generator.randint(1, 3))) + generator.choice([".", "!", "", ""])

    blocks = (generator.choice(BLOCK) for _ in range(generator.randint(1, 3)))
    return "".join(block.format(sentence(), sentence()) for block in blocks)


def test_html_is_the_same_from_server_text_and_file(file_server: RunningServer, tmp_path: Path) -> None:
    generator = random.Random(7)
    texts = list(dict.fromkeys(html_text(generator) for _ in range(300)))
    run = file_server.log.parent / "en-de"
    answers: list[str] = []
    for start in range(0, len(texts), 50):
        body = {"q": texts[start : start + 50], "source": "en", "target": "de", "format": "html"}
        answers += file_server.post("/translate", body)[1]["translatedText"]
    (tmp_path / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
    control = ["--markup", "html", "--placeholders", "--split", "sentences", "--language", "en"]
    ended = dragoman("translate", run, "--input", tmp_path / "texts", *control, cwd=tmp_path, timeout=300)
    assert ended.stdout.splitlines() == answers
    (tmp_path / "page.html").write_text("\n<hr>\n".join(texts), encoding="utf-8")
    files = ["--file", tmp_path / "page.html", "--source-language", "en", "--output", tmp_path / "de.html"]
    ended = dragoman("translate", run, *files, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "de.html").read_text(encoding="utf-8").split("\n<hr>\n") == answers
