"""Documents of random content: sources as translations change nothing, and translations are read back from the file."""

import io
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from html.parser import HTMLParser
from xml.etree import ElementTree

import pysubs2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.data.documents.texts.subtitles import Subtitles
from dragoman.errors import DataError
from tests.archive_documents import docx, epub, member, open_document_file, pptx, run, xlsx
from tests.property_settings import damaged_files, examples

WORDS = st.sampled_from(
    ["house", "Baum", "señor", "мир", "水", "a", "R2", "it's", "snake_case", "5", "100%", "e-mail", "x."]
)
PLAIN = st.lists(WORDS, min_size=1, max_size=7).map(" ".join)
ODD = st.text(st.sampled_from(list("ab <>&\"'*_`[]()!#-+=|~\\{}$%:;.,\t\n5é水\u00a0")), max_size=23)
_TEXT = re.compile(r'(<g [^<>]*translate="no">[^<>]*</g>|<[^<>]*>|&\w+;)|[^<>&]+')


def upper(text: str, markup: str | None) -> str:
    """Return a translation: the same text in upper case, with the same tags."""
    if markup is None:
        return text.upper()
    return _TEXT.sub(lambda found: found[1] or found[0].upper(), text)


def shuffled(text: str, markup: str | None) -> str:
    """Return a translation with the tags and the text at the top level in reverse order."""
    if markup is None:
        return text
    depth, parts = 0, [""]
    for token in re.findall(r"<[^<>]*>|[^<>]+", text):
        if depth == 0:
            parts.append("")
        parts[-1] += token
        is_start = re.match(r"<\w", token) is not None and not token.endswith("/>")
        depth += 1 if is_start else -1 if token.startswith("</") else 0
    return " ".join(part.strip() for part in reversed(parts) if part.strip())


def words_of_html(fragment: str) -> list[str]:
    return re.sub(r"<[^<>]*>", " ", fragment).split()


def without_ids(text: str) -> str:
    return " ".join(re.sub(r' id="\d+"', "", text).split())


def check(content: bytes, name: str, *, change: Callable[[str, str | None], str] = upper) -> bytes:
    """Check a file and its translation, which is returned: its units are the translations, in the same order."""
    document = open_document(content, name=name)
    assert identity(document) == content
    wanted = [change(unit.source, unit.markup) for unit in document.units]
    filled = document.fill([UnitTranslation(text=one) for one in wanted])
    read = open_document(filled, name=name)
    assert [without_ids(unit.source) for unit in read.units] == [without_ids(one) for one in wanted]
    return filled


_INLINE = st.recursive(
    PLAIN | st.sampled_from(["&amp;", "&lt;x&gt;", "<!-- c -->", " "]),
    lambda inner: st.builds(
        "{1}<{0}>{2}</{0}> {3}".format, st.sampled_from(["b", "i", "span", "code"]), inner, inner, inner
    ),
    max_leaves=7,
)
_BLOCK = st.builds(
    "<{0}>{1}</{0}>\n".format, st.sampled_from(["p", "div", "li", "td", "h1", "pre", "blockquote"]), _INLINE
)


class _Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")


@examples(200)
@given(st.lists(_BLOCK | ODD, max_size=5).map("".join))
def test_html_pages_come_back(body: str) -> None:
    page = f"<!DOCTYPE html>\r\n<html><body>{body}</body></html>".encode()
    document = open_document(page, name="page.html")
    assert identity(document) == page
    filled = document.fill([UnitTranslation(text=upper(unit.source, unit.markup)) for unit in document.units])
    before, after = _Tags(), _Tags()
    before.feed(page.decode())
    after.feed(filled.decode())
    assert sorted(before.found) == sorted(after.found)


@examples(200)
@given(st.lists(_BLOCK, max_size=5).map("".join), st.sampled_from([upper, shuffled]))
def test_translated_html_is_read_back(body: str, change: Callable[[str, str | None], str]) -> None:
    content = f"<html><body>{body}</body></html>".encode()
    document = open_document(content, name="page.html")
    wanted = [change(unit.source, unit.markup) for unit in document.units]
    filled = document.fill([UnitTranslation(text=one) for one in wanted])
    units = open_document(filled, name="page.html").units
    assert [words_of_html(unit.source) for unit in units] == [words_of_html(one) for one in wanted]


_MARK = st.builds("{0}{1}{0}".format, st.sampled_from(["*", "**", "_", "`", "~~", "***"]), PLAIN)
_SPAN = _MARK | st.builds("[{}]({})".format, PLAIN, st.sampled_from(["http://x.y/a_b", "<a b>", "u 'T'"])) | PLAIN
_LINES = st.lists(_SPAN, min_size=1, max_size=4).map(" ".join)
CODE_AND_TABLE = "```\ncode *x*\n```\n\n| a | b |\n|---|---|\n| c \\| d | **e** |\n\n"
_PARAGRAPH = st.builds(
    "{}{}\n\n".format, st.sampled_from(["", "# ", "- ", "> ", "1. ", "    ", "- [ ] ", "***\n"]), _LINES
)


def blocks(content: str) -> list[tuple[str, str]]:
    """Return the blocks of a Markdown text, and the content of those that are code."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(content)
    return [(token.type, token.markup + ("" if token.type == "inline" else token.content)) for token in tokens]


@examples(200)
@given(
    st.lists(
        _PARAGRAPH | ODD | st.just("```\ncode *x*\n```\n\n| a | b |\n|---|---|\n| c \\| d | **e** |\n\n"), max_size=5
    )
)
def test_markdown_comes_back_with_the_same_blocks(parts: list[str]) -> None:
    content = "".join(parts)
    document = open_document(content.encode(), name="a.md")
    assert identity(document) == content.encode()
    filled = document.fill([UnitTranslation(text=upper(unit.source, unit.markup)) for unit in document.units])
    assert blocks(filled.decode()) == blocks(content)


@examples(200)
@given(st.lists(_PARAGRAPH, min_size=1, max_size=4), ODD.filter(lambda text: any(map(str.isalpha, text))))
def test_any_translation_of_markdown_stays_text(parts: list[str], odd: str) -> None:
    content = "".join(parts)
    document = open_document(content.encode(), name="a.md")
    plain = [UnitTranslation(text=odd) if unit.markup is None else None for unit in document.units]
    filled = document.fill(plain).decode()
    assert blocks(filled) == blocks(content)
    read = open_document(filled.encode(), name="a.md")
    assert len(read.units) == len(document.units)
    for unit, translation in zip(read.units, plain, strict=True):
        assert translation is None or unit.source.split() == odd.split()


_TAGGED = st.builds("<i>{}</i> {}".format, PLAIN, PLAIN)
_CUE = st.lists(
    st.builds("{}{}".format, st.sampled_from(["", "- ", "{\an8}"]), PLAIN | _TAGGED), min_size=1, max_size=3
)


@examples(200)
@given(st.lists(_CUE, min_size=1, max_size=6), st.sampled_from(["a.srt", "a.vtt"]), st.sampled_from(["\n", "\r\n"]))
def test_subtitles_come_back(cues: list[list[str]], name: str, newline: str) -> None:
    point = "." if name == "a.vtt" else ","
    lines = ["WEBVTT", ""] if name == "a.vtt" else []
    for number, cue in enumerate(cues):
        times = f"00:00:{2 * number:02}{point}000 --> 00:00:{2 * number + 1:02}{point}900"
        lines += [str(number + 1), times, *cue, ""]
    content = newline.join(lines).encode()
    document = open_document(content, name=name)
    assert identity(document) == content
    filled = document.fill([UnitTranslation(text=upper(unit.source, unit.markup)) for unit in document.units])
    before, after = (pysubs2.SSAFile.from_string(one.decode().replace("\r\n", "\n")) for one in (content, filled))
    assert [(one.start, one.end) for one in after] == [(one.start, one.end) for one in before]
    old, new = ("".join("".join(one.plaintext for one in file).split()) for file in (before, after))
    assert new == old.upper()


_CUE_WORDS = st.lists(st.sampled_from(["House", "baum", "Señor.", "мир,", "a", "R2", "I"]), min_size=1, max_size=7)


@examples(200)
@given(st.lists(_CUE_WORDS.map(" ".join), min_size=1, max_size=6), st.sampled_from([str.swapcase, str.title]))
def test_translated_cues_are_read_as_the_same_units(cues: list[str], change: Callable[[str], str]) -> None:
    lines = [f"00:{2 * n:02}.000 --> 00:{2 * n + 1:02}.900\n{cue}\n" for n, cue in enumerate(cues)]
    source = Subtitles("\n".join(["WEBVTT\n", *lines]).encode(), format="vtt")
    wanted = [f"{change(unit.source)} {unit.source}" for unit in source.units]
    filled = source.fill([UnitTranslation(text=text) for text in wanted])
    again = Subtitles(filled, format="vtt", cues_per_unit=source.cues_per_unit)
    assert [unit.source for unit in again.units] == wanted
    assert len(pysubs2.SSAFile.from_string(filled.decode())) == len(cues)


@examples(200)
@given(st.lists(PLAIN | ODD, max_size=9), st.sampled_from(["\n", "\r\n", "\r"]))
def test_plain_text_comes_back(lines: list[str], newline: str) -> None:
    content = newline.join(lines).encode()
    document = open_document(content, name="a.txt")
    assert identity(document) == content
    filled = document.fill([UnitTranslation(text=unit.source.upper()) for unit in document.units])
    assert filled.decode().split() == content.decode().upper().split()


_PROPERTIES = st.sampled_from(["", "<w:b/>", "<w:i/>", '<w:b/><w:lang w:val="en-US"/>', "<w:color w:val='FF0000'/>"])
_RUN = st.builds(run, PLAIN.map(lambda text: f"{text} "), _PROPERTIES)
_OBJECT = st.sampled_from(
    [
        "<w:r><w:tab/></w:r>",
        "<w:r><w:br/></w:r>",
        '<w:proofErr w:type="spellStart"/>',
        '<w:r><w:footnoteReference w:id="2"/></w:r>',
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        "<w:r><w:t>one</w:t><w:tab/><w:t>two</w:t></w:r>",
        "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>",
        '<w:bookmarkStart w:id="1" w:name="n"/>',
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>",
    ]
)
_RUNS = st.lists(_RUN | _OBJECT, max_size=7).map("".join)
_LINKED = st.builds('{}<w:hyperlink r:id="rId4">{}</w:hyperlink>{}'.format, _RUNS, _RUNS, _RUNS)
_WORD = st.lists((_RUNS | _LINKED).map("<w:p><w:pPr><w:jc w:val='left'/></w:pPr>{}</w:p>".format), max_size=3).map(
    "".join
)


def words(content: bytes, member: str, name: str) -> list[str]:
    """Return the words of a member of an archive, read by another XML parser."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        root = ElementTree.fromstring(archive.read(member))
    return sorted(" ".join(one.text or "" for one in root.iter() if one.tag.endswith(name)).split())


@examples(200)
@given(_WORD, st.sampled_from([upper, shuffled]))
def test_word_files_come_back(body: str, change: Callable[[str, str | None], str]) -> None:
    content = docx(body, header1=f"<w:p>{run('Head')}</w:p>")
    document = open_document(content, name="a.docx")
    assert identity(document) == content
    filled = document.fill([UnitTranslation(text=change(unit.source, unit.markup)) for unit in document.units])
    expected = words(content, "word/document.xml", "}t")
    expected = expected if change is shuffled else sorted(word.upper() for word in expected)
    found = words(filled, "word/document.xml", "}t")
    assert sorted("".join(found)) == sorted("".join(expected))
    assert len(open_document(filled, name="a.docx").units) == len(document.units)
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(filled)) as new:
        assert old.namelist() == new.namelist()
        assert old.read("word/media/image1.png") == new.read("word/media/image1.png")


_SLIDE_FORMAT = st.sampled_from(["", '<a:rPr lang="en-US" dirty="0"/>', '<a:rPr b="1"/>'])
_SLIDE_RUN = st.builds("<a:r>{}<a:t>{} </a:t></a:r>".format, _SLIDE_FORMAT, PLAIN)
_SLIDE = st.lists(_SLIDE_RUN | st.just("<a:br/>"), max_size=6).map(lambda runs: f"<a:p>{''.join(runs)}</a:p>")


@examples(200)
@given(st.lists(_SLIDE, min_size=1, max_size=3), st.sampled_from([upper, shuffled]))
def test_slides_come_back(slides: list[str], change: Callable[[str, str | None], str]) -> None:
    check(pptx(*slides), "a.pptx", change=change)


_CELL_FORMAT = st.sampled_from(["", "<rPr><b/></rPr>", "<rPr><i/><sz val='11'/></rPr>"])
_CELL_TEXT = PLAIN | st.builds("{}\n{} ".format, PLAIN, PLAIN)
_CELL_RUN = st.builds('<r>{}<t xml:space="preserve">{} </t></r>'.format, _CELL_FORMAT, _CELL_TEXT)
_CELL = st.lists(_CELL_RUN, min_size=1, max_size=5).map("".join) | _CELL_TEXT.map("<t>{}</t>".format)
_READING = "<t>Baum</t><rPh sb='0' eb='1'><t>kana</t></rPh><phoneticPr fontId='1'/>"


@examples(200)
@given(st.lists(_CELL | st.just(_READING), max_size=4), st.lists(_CELL, max_size=2), st.sampled_from([upper, shuffled]))
def test_workbooks_come_back(shared: list[str], inline: list[str], change: Callable[[str, str | None], str]) -> None:
    rows = "".join(f'<row><c t="inlineStr"><is>{one}</is></c><c><f>A1*2</f><v>5</v></c></row>' for one in inline)
    content = xlsx("".join(f"<si>{one}</si>" for one in shared), rows)
    document = open_document(content, name="a.xlsx")
    assert identity(document) == content
    wanted = [change(unit.source, unit.markup) for unit in document.units]
    filled = document.fill([UnitTranslation(text=one) for one in wanted])
    read = [unit.source for unit in open_document(filled, name="a.xlsx").units]
    # White space between two formats may have either.
    assert ["".join(without_ids(one).split()) for one in read] == ["".join(without_ids(one).split()) for one in wanted]
    for path, name, expected in (("sharedStrings", "si", len(shared)), ("worksheets/sheet1", "is", len(inline))):
        root = ElementTree.fromstring(member(filled, f"xl/{path}.xml"))
        assert sum(one.tag.endswith(f"}}{name}") for one in root.iter()) == expected


_NOTE = "<text:note><text:note-body><text:p>Note</text:p></text:note-body></text:note>"
_ODF_INLINE = st.recursive(
    PLAIN | st.sampled_from(["<text:line-break/>", "<text:s/>", "<text:tab/>", "&amp;", _NOTE]),
    lambda inner: st.builds('{}<text:span text:style-name="T1">{}</text:span> {}'.format, inner, inner, inner),
    max_leaves=7,
)
_ODF = st.lists(_ODF_INLINE.map("<text:p>{}</text:p>".format), max_size=4).map("".join)


@examples(200)
@given(_ODF, st.sampled_from(["text", "presentation", "spreadsheet"]))
def test_open_documents_come_back(body: str, kind: str) -> None:
    if kind == "spreadsheet":
        cell = f'<table:table-cell office:value-type="string">{body}</table:table-cell>'
        body = f"<table:table><table:table-row>{cell}</table:table-row></table:table>"
    content = open_document_file(body, kind=kind)
    filled = check(content, {"text": "a.odt", "presentation": "a.odp", "spreadsheet": "a.ods"}[kind])
    with zipfile.ZipFile(io.BytesIO(filled)) as archive:
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED
    assert words(filled, "content.xml", "}p") == sorted(word.upper() for word in words(content, "content.xml", "}p"))


_XHTML = st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["p", "h1", "li"]), _INLINE)


@examples(200)
@given(st.lists(st.lists(_XHTML, max_size=3).map("".join), min_size=1, max_size=3), st.lists(PLAIN, max_size=2))
def test_books_come_back(chapters: list[str], labels: list[str]) -> None:
    content = epub(*chapters, labels=tuple(labels))
    filled = check(content, "a.epub")
    with zipfile.ZipFile(io.BytesIO(filled)) as book:
        assert book.infolist()[0].filename == "mimetype"
        assert book.infolist()[0].compress_type == zipfile.ZIP_STORED
        for name in book.namelist():
            if name.endswith((".xhtml", ".ncx", ".opf")):
                ElementTree.fromstring(book.read(name))


SAMPLES = {
    "a.docx": docx(f"<w:p>{run('Hello')}{run('big', '<w:b/>')}<w:r><w:tab/></w:r>{run('world')}</w:p>"),
    "a.pptx": pptx("<a:p><a:r><a:t>Hello</a:t></a:r></a:p>"),
    "a.xlsx": xlsx("<si><t>Hello</t></si><si><r><rPr><b/></rPr><t>big</t></r><r><t> world</t></r></si>"),
    "a.odt": open_document_file("<text:p>Hello <text:span>big</text:span></text:p>"),
    "a.ods": open_document_file(
        '<table:table><table:table-row><table:table-cell office:value-type="string"><text:p>Hello</text:p>'
        "</table:table-cell></table:table-row></table:table>",
        kind="spreadsheet",
    ),
    "a.epub": epub("<p>Hello</p>", labels=("One",)),
    "a.srt": b"1\n00:00:01,000 --> 00:00:02,000\nHello\n",
    "a.vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n",
    "a.html": b"<p title='x'>Hello <b>big</b> world</p>",
    "a.md": b"# Hello\n\n- *big* [world](x)\n",
}


@pytest.mark.parametrize("name", SAMPLES)
@damaged_files(200)
@given(data=st.data())
def test_damaged_documents_give_one_message(name: str, data: st.DataObject) -> None:
    content = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(1, len(content)))])
    assume(damaged != SAMPLES[name])
    try:
        document = open_document(damaged, name=name)
    except DataError as error:
        message = str(error)
    else:
        message = f"{name}: "
        _fill(document)
        assert _same(document) in (damaged, b"")
    assert message.startswith(f"{name}: ")


def _fill(document: Document) -> None:
    """Fill a document, of which a member without text may be damaged."""
    with suppress(DataError):
        document.fill([UnitTranslation(text=f"{unit.source} x") for unit in document.units])


def _same(document: Document) -> bytes:
    with suppress(DataError):
        return identity(document)
    return b""
