"""`dragoman translate --file` as a process: the output is read by another program, and an error writes nothing."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import odf.opendocument
import openpyxl
import polib
import pptx
import pysubs2
import pytest
from bs4 import BeautifulSoup
from lxml import etree
from markdown_it import MarkdownIt
from odf import teletype, text

from tests import office_samples
from tests.small_runs import dragoman
from tests.unit.data.documents.samples import SAMPLES, XLIFF_1
from tests.unit.data.documents.test_po import PO
from tests.untrained_runs import finished_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "en-pt"
    finished_run(folder)
    return folder


def test_a_po_file_is_translated_with_a_memory_and_a_report(run: Path, tmp_path: Path) -> None:
    source, output, report = tmp_path / "a.po", tmp_path / "b.po", tmp_path / "report.json"
    source.write_text(PO, encoding="utf-8")
    memory = tmp_path / "old.po"
    memory.write_text('msgid "Open %s"\nmsgstr "Abrir %s"\n', encoding="utf-8")
    files = ["--file", source, "--output", output, "--memory", memory, "--report", report]
    done = dragoman("translate", run, *files, "--no-placeholders", "--max-length", 7, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 texts of 5 translated" in done.stderr
    entries = {entry.msgid: entry for entry in polib.pofile(str(output))}
    assert (entries["Open %s"].msgstr, entries["Open %s"].fuzzy) == ("Abrir %s", False)
    assert entries["Quit"].msgstr == "Sair"
    assert entries["Close %s"].fuzzy
    assert set(entries["%d file"].msgstr_plural) == {0, 1}
    assert output.read_text(encoding="utf-8").endswith('#~ msgid "Old"\n#~ msgstr "Velho"\n')
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [one["origin"] for one in found["segments"]] == ["memory", "machine", "machine"]
    assert (found["units"], found["kept"], found["memory"]) == (5, 2, 1)


def test_inline_tags_come_back(run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.xlf", tmp_path / "b.xlf"
    source.write_text(XLIFF_1, encoding="utf-8")
    done = dragoman(
        "translate",
        run,
        "--file",
        source,
        "--output",
        output,
        "--no-placeholders",
        "--target-language",
        "pt",
        "--max-length",
        7,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    root = etree.parse(output).getroot()
    target = root.find(".//{*}trans-unit[@id='a1']/{*}target")
    assert sorted((one.tag.rpartition("}")[2], one.get("id")) for one in target) == [("g", "1"), ("x", "2")]
    assert root.find(".//{*}file").get("target-language") == "pt"


PAGE = b"<!DOCTYPE html><html><body><h1>two dogs</h1><p>a <b>cat</b> sits</p><pre>x = 1</pre></body></html>"
NOTE = b"# two dogs\n\n- a **cat** sits\n- by the [sea](http://a.b/c)\n\n```\nx = 1\n```\n"
CUES = b"1\n00:00:01,000 --> 00:00:02,500\ntwo dogs play .\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>a cat</i> sits\n"
FILES = {
    "a.docx": office_samples.docx(),
    "a.pptx": office_samples.pptx(),
    "a.xlsx": office_samples.xlsx(),
    "a.odt": office_samples.odt(),
    "a.epub": office_samples.epub(),
    "a.html": PAGE,
    "a.md": NOTE,
    "a.srt": CUES,
}


def read_docx(path: Path) -> tuple[object, str]:
    document = docx.Document(str(path))
    paragraphs = [*document.paragraphs, *(cell.paragraphs[0] for cell in document.tables[0].rows[0].cells)]
    return [one.style.name for one in paragraphs], " ".join(one.text for one in paragraphs)


def read_pptx(path: Path) -> tuple[object, str]:
    [slide] = pptx.Presentation(str(path)).slides
    frames = [shape.text_frame for shape in slide.shapes]
    return [shape.name for shape in slide.shapes], " ".join(frame.text for frame in frames)


def read_xlsx(path: Path) -> tuple[object, str]:
    cells = [cell for sheet in openpyxl.load_workbook(path) for row in sheet.iter_rows() for cell in row if cell.value]
    kept = [(cell.parent.title, cell.coordinate, cell.data_type) for cell in cells]
    fixed = [cell.value for cell in cells if cell.data_type != "s" or cell.value in ("Ja", "Name", "Preis", "Blau")]
    return (kept, fixed), " ".join(str(cell.value) for cell in cells if cell.value not in fixed)


def read_odt(path: Path) -> tuple[object, str]:
    document = odf.opendocument.load(str(path))
    found = [one for kind in (text.H, text.P, text.Span) for one in document.getElementsByType(kind)]
    return [one.tagName for one in found], " ".join(teletype.extractText(one) for one in found)


def read_epub(path: Path) -> tuple[object, str]:
    with zipfile.ZipFile(path) as book:
        pages = [BeautifulSoup(book.read(name), "lxml") for name in book.namelist() if name.endswith(".xhtml")]
        names = book.namelist()
    return (names, sorted(tag.name for page in pages for tag in page.find_all())), " ".join(
        one.get_text(" ") for one in pages
    )


def read_html(path: Path) -> tuple[object, str]:
    page = BeautifulSoup(path.read_bytes(), "lxml")
    code = page.pre.extract().text
    return (code, sorted(tag.name for tag in page.find_all())), page.get_text(" ")


def read_markdown(path: Path) -> tuple[object, str]:
    page = BeautifulSoup(MarkdownIt("commonmark").render(path.read_text(encoding="utf-8")), "lxml")
    code = page.pre.extract().text
    return (code, page.a["href"], sorted(tag.name for tag in page.find_all())), page.get_text(" ")


def read_srt(path: Path) -> tuple[object, str]:
    cues = pysubs2.load(str(path))
    return [(one.start, one.end) for one in cues], " ".join(one.plaintext for one in cues)


READERS: dict[str, Callable[[Path], tuple[object, str]]] = {
    "a.docx": read_docx,
    "a.pptx": read_pptx,
    "a.xlsx": read_xlsx,
    "a.odt": read_odt,
    "a.epub": read_epub,
    "a.html": read_html,
    "a.md": read_markdown,
    "a.srt": read_srt,
}
"""Return what another program reads in a file: what does not change, and the words, which do."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_another_program_reads_a_translated_document(name: str, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / name, tmp_path / f"new-{name}"
    source.write_bytes(FILES[name])
    done = dragoman(
        "translate", run, "--file", source, "--output", output, "--no-placeholders", "--max-length", 7, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (kept, before), (same, after) = (READERS[name](path) for path in (source, output))
    assert same == kept
    assert before != after
    known = re.findall(r"\w+", "zwei Hunde spielen eine Katze sitzt am Meer")
    assert {*re.findall(r"\w+", after)} <= {*known, *re.findall(r"\d+", before)}


@pytest.mark.parametrize("kind", ["xliff1", "json", "android", "xcstrings"])
def test_a_damaged_file_gives_one_message_and_no_output(kind: str, run: Path, tmp_path: Path) -> None:
    name, text = SAMPLES[kind]
    source, output = tmp_path / name, tmp_path / f"new-{name}"
    source.write_text(text[: len(text) // 2], encoding="utf-8")
    done = dragoman("translate", run, "--file", source, "--output", output, "--no-placeholders", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"dragoman: {source}")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"])
def test_a_damaged_archive_gives_one_message_and_no_output(name: str, run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / name, tmp_path / f"new-{name}"
    source.write_bytes(FILES[name][:-97])
    done = dragoman("translate", run, "--file", source, "--output", output, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"dragoman: {source}: damaged archive")
    assert not output.exists()
