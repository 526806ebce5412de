"""TMX, XLIFF, PO and archives of two texts as parallel corpora."""

import gzip
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from translate.storage.tmx import tmxfile

from dragoman.data.readers.exchange_formats import ParallelPo, ParallelTmx, ParallelXliff, ParallelZip
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import ParallelCorpus, ParallelFiles, read_corpus
from dragoman.data.readers.recognize_format import recognize_pairs
from dragoman.errors import DataError
from tests.unit.data.documents.samples import TMX, XLIFF_1, XLIFF_2
from tests.unit.data.documents.test_po import PO


def write(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def pairs(corpus: ParallelCorpus) -> list[tuple[str, str]]:
    return [(one.source, one.target) for one in read_corpus(corpus)]


@pytest.mark.parametrize(("name", "encoding"), [("a.tmx", "utf-8"), ("b.tmx.gz", "utf-8-sig"), ("c.tmx", "utf-16")])
def test_tmx_gives_the_pairs_of_two_languages(name: str, encoding: str, tmp_path: Path) -> None:
    path = write(
        tmp_path, name, TMX.replace('encoding="UTF-8"', f'encoding="{encoding.removesuffix("-sig")}"'), encoding
    )
    assert recognize_pairs(path) == ParallelTmx(path=path)
    assert pairs(ParallelTmx(path=path)) == [
        ("Open the file.", "Öffnen Sie die Datei."),
        ("Click here.", "Clique aqui."),
    ]
    assert pairs(ParallelTmx(path=path, to_language="pt")) == [("Click here.", "Clique aqui.")]
    assert pairs(ParallelTmx(path=path, from_language="de", to_language="en")) == [
        ("Öffnen Sie die Datei.", "Open the file.")
    ]


def test_tmx_of_another_program_is_read(tmp_path: Path) -> None:
    memory = tmxfile()
    expected = [("One & two < three", "Um & dois < três"), ("“Quoted”", "«Citado»")]
    for source, target in expected:
        memory.addtranslation(source, "en", target, "pt")
    path = tmp_path / "x.tmx"
    memory.savefile(str(path))
    assert pairs(ParallelTmx(path=path)) == expected


def test_xliff_gives_reviewed_targets(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.xlf", XLIFF_1), write(tmp_path, "b.xliff", XLIFF_2)
    assert recognize_pairs(first) == ParallelXliff(path=first)
    assert pairs(ParallelXliff(path=first)) == [("Größe", "Tamanho")]
    assert pairs(ParallelXliff(path=first, unreviewed=True))[1:] == [('Old "text"', 'Texto "velho"')]
    assert pairs(ParallelXliff(path=second)) == [("Second one.", "Segundo um.")]
    assert pairs(ParallelXliff(path=(first, second))) == [("Größe", "Tamanho"), ("Second one.", "Segundo um.")]


def test_po_gives_translated_messages(tmp_path: Path) -> None:
    path = write(tmp_path, "pt.po", PO.replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%d\\nx"\nmsgstr[1] "%d xs"'))
    warnings = ReadWarnings()
    assert recognize_pairs(path) == ParallelPo(path=path)
    found = list(read_corpus(ParallelPo(path=path), warnings))
    assert [(one.source, one.target) for one in found] == [("Quit", "Sair"), ("%d file", "%d x"), ("%d files", "%d xs")]
    assert [one.line for one in found] == [20, 25, 25]
    assert warnings.messages() == []
    assert pairs(ParallelPo(path=path, unreviewed=True))[0] == ("Close %s", "Fechar %s")


def test_archives_have_two_texts(tmp_path: Path) -> None:
    path = tmp_path / "Books.txt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "About")
        archive.writestr("Books.en-pt.en", "one\ntwo\n")
        archive.writestr("Books.en-pt.pt", "um\ndois\n")
    assert recognize_pairs(path) == ParallelZip(path=path, from_language="en", to_language="pt")
    assert pairs(ParallelZip(path=path, from_language="pt", to_language="en")) == [("um", "one"), ("dois", "two")]
    with pytest.raises(DataError, match=r"has no two texts NAME\.en and NAME\.de"):
        pairs(ParallelZip(path=path, from_language="en", to_language="de"))


def test_braces_name_two_files(tmp_path: Path) -> None:
    for language, text in (("en", "one\n"), ("pt", "um\n")):
        write(tmp_path, f"train.{language}", text)
    corpus = recognize_pairs(tmp_path / "train.{en,pt}")
    assert corpus == ParallelFiles(source=tmp_path / "train.en", target=tmp_path / "train.pt")
    assert pairs(corpus) == [("one", "um")]


def test_a_large_memory_is_a_stream(tmp_path: Path) -> None:
    unit = '<tu><tuv xml:lang="en"><seg>{0}</seg></tuv><tuv xml:lang="pt"><seg>{0}</seg></tuv></tu>\n'
    start = '<tmx version="1.4"><header srclang="en"/><body>'
    units = "".join(unit.format(f"word {number} " * 60) for number in range(5_000))
    path = write(tmp_path, "large.tmx", f"{start}{units}</body></tmx>")
    tracemalloc.start()
    count = sum(1 for _ in read_corpus(ParallelTmx(path=path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 5_000
    assert peak < 3_000_000 < path.stat().st_size


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tmx", TMX[:-20], "is not well-formed XML"),
        ("a.tmx", TMX.replace("en-US", "*all*"), "Set from_language"),
        (
            "a.tmx",
            TMX.replace('"tmx14.dtd"', '"tmx14.dtd" [<!ENTITY % a SYSTEM "/etc/passwd">]'),
            "declares entities",
        ),
        ("a.xlf", "<xliff>" + "<file>" * 300, "more than 256 elements"),
        ("a.po", PO + 'msgid "x"\n', "msgstr is missing"),
        ("a.tmx", '<tmx><body><tu><tuv lang="en"><seg>' + "a" * 1_100_000, "characters. Split it"),
    ],
)
def test_damaged_files_give_one_message(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        pairs(recognize_pairs(write(tmp_path, name, text)))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.zip", "text")
    with pytest.raises(DataError, match="is not a ZIP archive"):
        pairs(ParallelZip(path=path, from_language="en", to_language="pt"))
