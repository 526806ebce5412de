"""Encodings that files declare: those of texts are read, and others are one clear error."""

import codecs
from pathlib import Path

import pytest

import dragoman
from dragoman.data.documents.document import UnitTranslation
from dragoman.data.documents.recognize import open_document
from dragoman.data.terminology.glossary_files import parse_glossary
from dragoman.errors import DataError
from tests.small_runs import dragoman as dragoman_command

RUN = Path(__file__).parents[3] / "golden" / "run-1"
FILES = {
    "a.po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\nmsgid "a dog"\nmsgstr ""\n',
    "a.html": "<meta charset='{}'><p>a dog</p>",
    "a.xhtml": "<?xml version='1.0' encoding='{}'?><html><p>a dog</p></html>",
    "a.xlf": "<?xml version='1.0' encoding='{}'?><xliff version='1.2'><file><body><trans-unit id='1'>"
    "<source>a dog</source></trans-unit></body></file></xliff>",
    "a.tmx": "<?xml version='1.0' encoding='{}'?><tmx><body><tu><tuv xml:lang='en'><seg>a dog</seg></tuv></tu></body>"
    "</tmx>",
    "a.resx": "<?xml version='1.0' encoding='{}'?><root><data name='a'><value>a dog</value></data></root>",
    "a.ts": "<?xml version='1.0' encoding='{}'?><TS><context><message><source>a dog</source><translation/></message>"
    "</context></TS>",
}
NO_TEXT = ["punycode", "idna", "base64", "rot13", "hex", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7"]
NO_TEXT += ["zlib", "cp037", "klingon", "x" * 300]
TEXT = {"koi8-r": "собака", "shift_jis": "犬", "gb18030": "狗", "cp1250": "psí", "iso-8859-15": "œ", "euc-kr": "개"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", NO_TEXT)
def test_other_codecs_are_refused(name: str, encoding: str) -> None:
    with pytest.raises(DataError, match="is unknown, or no encoding of texts"):
        open_document(FILES[name].format(encoding).encode(), name=name, source_language="en", target_language="de")


@pytest.mark.parametrize("encoding", NO_TEXT)
def test_other_codecs_of_glossaries_are_refused(encoding: str) -> None:
    content = f"<?xml version='1.0' encoding='{encoding}'?><martif/>".encode()
    with pytest.raises(DataError, match="is unknown, or no encoding of texts"):
        parse_glossary(content, "tbx")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("encoding", "text"), TEXT.items())
def test_encodings_of_texts_are_read_and_written(name: str, encoding: str, text: str) -> None:
    content = FILES[name].format(encoding).replace("a dog", text).encode(encoding)
    document = open_document(content, name=name, source_language="en", target_language="de")
    assert [unit.source for unit in document.units] == [text]
    written = document.fill([UnitTranslation(text=text * 2)])
    assert text * 2 in codecs.decode(written, encoding)


def test_a_declaration_of_utf_16_in_ascii_is_utf_8() -> None:
    for name in FILES:
        document = open_document(
            FILES[name].format("utf-16").encode(), name=name, source_language="en", target_language="de"
        )
        assert [unit.source for unit in document.units] == ["a dog"]


@pytest.mark.parametrize(("name", "encoding"), [("a.po", "punycode"), ("a.html", "idna"), ("a.xlf", "utf-7")])
def test_the_command_ends_with_one_message(tmp_path: Path, name: str, encoding: str) -> None:
    (tmp_path / name).write_text(FILES[name].format(encoding), encoding="utf-8")
    done = dragoman_command("translate", RUN, "--file", tmp_path / name, "--output", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert f"encoding '{encoding}' is unknown, or no encoding of texts" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_the_python_interface_raises_the_same_error() -> None:
    translator = dragoman.load(RUN, dragoman.Translator)
    with pytest.raises(DataError, match="no encoding of texts"):
        dragoman.translate_file(translator, FILES["a.po"].format("punycode").encode(), name="a.po")
