"""DOCX, PPTX, ODT, ODP and EPUB: what is a unit, which bytes a translation changes, and hostile archives."""

import io
import zipfile

import pytest

from dragoman.data.documents.archives.xml_syntax import MAX_DEPTH
from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError
from tests.archive_documents import archive, docx, epub, member, open_document_file, pptx, run, xlsx
from tests.smart_art import Kind, diagram_texts, smart_art


def sources(content: bytes, name: str) -> list[str]:
    document = open_document(content, name=name)
    assert identity(document) == content
    return [unit.source for unit in document.units]


def fill(content: bytes, name: str, part: str, *translations: str | None, language: str | None = None) -> str:
    document = open_document(content, name=name, target_language=language)
    return member(document.fill([None if one is None else UnitTranslation(text=one) for one in translations]), part)


def word(body: str) -> list[str]:
    return sources(docx(body), "a.docx")


def fill_word(body: str, *translations: str | None) -> str:
    text = fill(docx(body), "a.docx", "word/document.xml", *translations)
    return text[text.index("<w:body>") + 8 : text.index("<w:sectPr/>")]


def text(content: str, properties: str = "") -> str:
    """Return a run as it is written."""
    props = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{props}<w:t xml:space="preserve">{content}</w:t></w:r>'


def test_runs_of_one_format_are_one_text() -> None:
    other = run("lo ", "<w:lang w:val='en'/>")
    body = f"<w:p>{run('Hel')}<w:proofErr/>{other}{run('big', '<w:b/>')}{run(' world')}</w:p>"
    assert word(body) == ['Hello <g id="1">big</g> world']
    filled = fill_word(body, '<g id="1">Große</g> Welt &amp; mehr')
    assert filled == f"<w:p>{text('Große', '<w:b/>')}{text(' Welt &amp; mehr')}</w:p>"


def test_the_most_frequent_format_of_a_paragraph_has_no_tags() -> None:
    body = f"<w:p>{run('A long bold text', '<w:b/>')}{run(' end')}</w:p>"
    assert word(body) == ['A long bold text<g id="1"> end</g>']
    assert fill_word(body, "Kurz") == f"<w:p>{text('Kurz', '<w:b/>')}</w:p>"


def test_tabs_and_line_breaks_end_a_unit() -> None:
    body = "<w:p><w:r><w:rPr><w:i/></w:rPr><w:t>Name:</w:t><w:tab/><w:t>Alice</w:t><w:br/><w:t>Next</w:t></w:r></w:p>"
    assert word(body) == ["Name:", "Alice", "Next"]
    italic = "<w:rPr><w:i/></w:rPr>"
    assert fill_word(body, None, "Alicia", None) == (
        f"<w:p><w:r>{italic}<w:t>Name:</w:t><w:tab/></w:r>{text('Alicia', '<w:i/>')}<w:r>{italic}<w:br/><w:t>Next</w:t>"
        "</w:r></w:p>"
    )


def field(code: str, result: str) -> str:
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{name}"/></w:r>' for name in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText> {code} </w:instrText></w:r>{separate}{run(result)}{end}"


def test_links_and_their_fields_are_pairs_and_other_fields_stay() -> None:
    link = f'<w:hyperlink r:id="r1">{run("here", "<w:u/>")}</w:hyperlink>'
    page = field("PAGE", "7")
    body = f"<w:p>{run('See ')}{link}{run(' or ')}{field('HYPERLINK x', 'site')}{run(', p. ')}{page}{run(' on')}</w:p>"
    assert word(body) == ['See <g id="1">here</g> or <g id="2">site</g>, p. <x id="3"/> on']
    filled = fill_word(body, '<x id="3"/> <g id="1">hier</g>')
    number = page.replace(' w:rsidR="00A1"', "")
    assert filled == f'<w:p>{number}{text(" ")}<w:hyperlink r:id="r1">{text("hier", "<w:u/>")}</w:hyperlink></w:p>'


def test_text_boxes_have_units_of_their_own() -> None:
    box = f"<w:r><w:pict><w:txbxContent><w:p>{run('In the box')}</w:p></w:txbxContent></w:pict></w:r>"
    body = f"<w:p>{run('Before ')}{box}{run(' after')}</w:p>"
    assert word(body) == ['Before <x id="1"/> after', "In the box"]
    filled = fill_word(body, 'Nach <x id="1"/>', "Im Kasten")
    assert filled == f"<w:p>{text('Nach ')}{box.replace(run('In the box'), text('Im Kasten'))}</w:p>"


def test_deleted_text_and_comments_stay_and_notes_are_translated() -> None:
    body = f"<w:p>{run('Kept')}<w:del><w:r><w:delText>Gone</w:delText></w:r></w:del><w:ins>{run(' new')}</w:ins></w:p>"
    content = docx(
        body, footnotes=f"<w:footnote><w:p>{run('Note')}</w:p></w:footnote>", header1=f"<w:p>{run('Top')}</w:p>"
    )
    assert sources(content, "a.docx") == ['Kept<x id="1"/><g id="2"> new</g>', "Note", "Top"]


def test_other_members_keep_their_bytes_dates_and_order() -> None:
    content = docx(f"<w:p>{run('Hello')}</w:p>", header1=f"<w:p>{run('Top')}</w:p>")
    filled = open_document(content, name="a.docx").fill([UnitTranslation(text="Hallo"), None])
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(filled)) as new:
        for before, after in zip(old.infolist(), new.infolist(), strict=True):
            assert (before.filename, before.date_time, before.compress_type, before.external_attr) == (
                after.filename,
                after.date_time,
                after.compress_type,
                after.external_attr,
            )
            assert (old.read(before) == new.read(after)) == (before.filename != "word/document.xml")


def test_control_characters_of_a_translation_are_left_out() -> None:
    assert fill_word(f"<w:p>{run('Hello')}</w:p>", "Hal\x00lo\x0b") == f"<w:p>{text('Hallo')}</w:p>"


def test_slides_are_read_in_their_order() -> None:
    content = pptx(*(f'<a:p><a:r><a:rPr lang="en"/><a:t>Slide {name}</a:t></a:r></a:p>' for name in "abcdefghijk"))
    assert sources(content, "a.pptx") == [f"Slide {name}" for name in "abcdefghijk"]
    filled = fill(content, "a.pptx", "ppt/slides/slide11.xml", *[None] * 10, "Folie")
    assert '<a:p><a:r><a:rPr lang="en"/><a:t>Folie</a:t></a:r></a:p>' in filled


def test_open_documents_have_notes_headers_and_no_comments() -> None:
    note = (
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>A note</text:p></text:note-body>"
    )
    note += "</text:note>"
    body = (
        f'<text:h>Title</text:h><text:p>One{note} <text:span text:style-name="B">two</text:span><text:tab/>'
        "three</text:p>"
        "<text:p><office:annotation><text:p>Remark</text:p></office:annotation>Text</text:p>"
    )
    content = open_document_file(body, styles="<style:header><text:p>Head</text:p></style:header>")
    assert sources(content, "a.odt") == [
        "Title", 'One<x id="1"/> <g id="2">two</g>', "A note", "three", "Text", "Head",
    ]  # fmt: skip
    filled = fill(
        content, "a.odt", "content.xml", None, '<g id="2">zwei</g> eins<x id="1"/>', "Notiz", None, None, None
    )
    moved = note.replace("A note", "Notiz")
    assert f'<text:p><text:span text:style-name="B">zwei</text:span> eins{moved}<text:tab/>three</text:p>' in filled


def test_books_name_the_language_and_keep_their_files() -> None:
    content = epub("<p>Hello <b>world</b>&#160;!</p>", "<p>Second</p>", labels=("Part one",))
    assert sources(content, "a.epub") == [
        "Part one", "Chapter", "Hello <b>world</b>&#160;!", "Chapter", "Second",
    ]  # fmt: skip
    translations = ["Teil eins", None, None, None, "Zweites"]
    assert "<dc:language>de</dc:language>" in fill(content, "a.epub", "OEBPS/content.opf", *translations, language="de")
    chapter = fill(content, "a.epub", "OEBPS/chapter 2.xhtml", *translations, language="de")
    assert 'xml:lang="de" lang="de"' in chapter
    assert "<p>Zweites</p>" in chapter


def bomb() -> bytes:
    """Return a DOCX file whose document has more bytes than it declares."""
    content = bytearray(docx(f"<w:p>{run('a' * 100_000)}</w:p>"))
    place = content.rindex(b"PK\x01\x02", 0, content.rindex(b"word/document.xml"))
    content[place + 24 : place + 28] = (1000).to_bytes(4, "little")
    return bytes(content)


ENTITY = '<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.docx", b"not an archive", "damaged archive"),
        ("a.docx", archive({"x": "y"}), "Content_Types.* is missing"),
        ("a.docx", pptx("<a:p/>"), "has no text of a DOCX file"),
        ("a.docx", bomb(), "damaged archive"),
        ("a.docx", docx("<w:p>" * (MAX_DEPTH + 1) + "</w:p>" * (MAX_DEPTH + 1)), "nested more than"),
        ("a.docx", docx("<w:p>"), "not well-formed XML"),
        ("a.xlsx", xlsx(f"{'<a>' * (MAX_DEPTH + 1)}{'</a>' * (MAX_DEPTH + 1)}"), "nested more than"),
        ("a.xlsx", xlsx("<si><t>Hello</t>"), "not well-formed XML"),
        ("a.xlsx", docx(f"<w:p>{run('Hello')}</w:p>"), "has no sheet"),
        ("a.xlsx", archive({"[Content_Types].xml": f"{ENTITY}<Types>&b;</Types>"}), "declares entities"),
        ("a.odt", archive({"content.xml": f"{ENTITY}<d>&b;</d>"}), "declares entities"),
        ("a.odt", archive({"mimetype": "x"}), "has no content.xml"),
        ("a.odt", archive({"content.xml": "<a/>", "META-INF/manifest.xml": "<encryption-data/>"}), "is encrypted"),
        ("a.epub", archive({"META-INF/container.xml": "<a/>"}), "names no package"),
        ("a.epub", archive({"META-INF/container.xml": '<rootfile full-path="../../etc/passwd"/>'}), "is missing"),
        ("a.docx", archive({f"{number}": "" for number in range(20_001)}), "20,001 members"),
    ],
)
def test_hostile_archives_give_one_message(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        open_document(content, name=name)
    assert "\n" not in str(caught.value)


def test_archives_larger_than_the_bound_are_not_unpacked() -> None:
    zeros = archive({"[Content_Types].xml": b"<Types/>", "word/document.xml": bytes(300 * 2**20)})
    with pytest.raises(DataError, match="unpacked"):
        open_document(zeros, name="a.docx")


def test_the_order_of_words_does_not_choose_the_base_format() -> None:
    plain, bold = run("house "), run("horse ", "<w:b/>")
    assert sources(docx(f"<w:p>{plain}{bold}</w:p>"), "a.docx") == ['house <g id="1">horse </g>']
    assert sources(docx(f"<w:p>{bold}{plain}</w:p>"), "a.docx") == ['<g id="1">horse </g>house']


RICH = "<si><r><t>One </t></r><r><rPr><b/></rPr><t>two</t></r><r><t xml:space='preserve'> three\n- four </t></r></si>"


def test_lines_of_cells_with_formats_are_units() -> None:
    content = xlsx(f"<si><t>Plain &amp; _x000D_\nsimple</t></si>{RICH}<si><t>12</t></si>")
    assert sources(content, "a.xlsx") == ["Plain & \nsimple", 'One <g id="1">two</g> three', "- four"]
    filled = fill(content, "a.xlsx", "xl/sharedStrings.xml", None, 'Drei <g id="1">zwei</g>', "- vier")
    assert (
        '<si><r><t xml:space="preserve">Drei </t></r><r><rPr><b/></rPr><t xml:space="preserve">zwei\n</t></r>'
        '<r><t xml:space="preserve">- vier </t></r></si>'
    ) in filled
    filled = fill(content, "a.xlsx", "xl/sharedStrings.xml", "_x000D_ < 5", None, None)
    assert "<t>_x005F_x000D_ &lt; 5</t>" in filled


def test_texts_that_formulas_and_tables_name_stay() -> None:
    rows = '<row><c t="s"><v>0</v></c><c><f>IF(A1="Yes",Prices[Total price],"No")</f><v>1</v></c></row>'
    rules = '<dataValidations><dataValidation><formula1>"Red, Blue"</formula1></dataValidation></dataValidations>'
    table = '<table xmlns="x"><tableColumns><tableColumn id="1" name="Total price"/></tableColumns></table>'
    strings = "".join(f"<si><t>{one}</t></si>" for one in ("Yes", "Total price", "Blue", "Hello"))
    content = xlsx(strings, f"{rows}{rules}", **{"tables/table1": table})
    assert sources(content, "a.xlsx") == ["Hello"]
    document = open_document(content, name="a.xlsx")
    filled = document.fill([UnitTranslation(text="Hallo")])
    assert member(filled, "xl/worksheets/sheet1.xml") == member(content, "xl/worksheets/sheet1.xml")
    assert "<t>Hallo</t>" in member(filled, "xl/sharedStrings.xml")


def test_the_reading_of_a_japanese_cell_goes_with_its_text() -> None:
    content = xlsx("<si><t>東京</t><rPh sb='0' eb='2'><t>トウキョウ</t></rPh><phoneticPr fontId='1'/></si>")
    assert sources(content, "a.xlsx") == ["東京"]
    assert "<si><t>Tokyo</t></si>" in fill(content, "a.xlsx", "xl/sharedStrings.xml", "Tokyo")


def test_encrypted_office_files_are_named_so() -> None:
    with pytest.raises(DataError, match="is encrypted, or of Office before 2007"):
        open_document(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504), name="a.xlsx")


def test_control_characters_of_cells_have_escapes() -> None:
    content = xlsx("<si><t>Data _x001B_[32m</t></si>")
    assert sources(content, "a.xlsx") == ["Data \x1b[32m"]
    assert "<t>Daten _x001B_[32m</t>" in fill(content, "a.xlsx", "xl/sharedStrings.xml", "Daten \x1b[32m")


def test_cells_of_an_opendocument_spreadsheet_are_units() -> None:
    string = '<table:table-cell office:value-type="string"'
    computed = f"{string} table:formula='of:=IF([.A1]=&quot;Yes&quot;;1;2)'><text:p>Result</text:p></table:table-cell>"
    cells = (
        f"{string}><text:p>One <text:span>two</text:span></text:p><text:p>three</text:p></table:table-cell>{computed}"
    )
    number = '<table:table-cell office:value-type="float" office:value="5"><text:p>five</text:p></table:table-cell>'
    note = "<office:annotation><text:p>Comment</text:p></office:annotation>"
    yes = f"{string}>{note}<text:p>Yes</text:p></table:table-cell>"
    row = f"<table:table-row>{cells}{computed}{number}{yes}</table:table-row>"
    body = f'<table:table table:name="Sheet">{row}</table:table>'
    content = open_document_file(body, kind="spreadsheet")
    assert sources(content, "a.ods") == ['One <g id="1">two</g>', "three"]
    filled = fill(content, "a.ods", "content.xml", None, "drei")
    assert filled == member(content, "content.xml").replace(">three<", ">drei<")


@pytest.mark.parametrize("kind", ["pptx", "docx", "xlsx"])
def test_a_diagram_is_translated_in_its_data_and_its_drawing(kind: Kind) -> None:
    content = smart_art(kind, ["Open it", "Save the *file", "Open it", "7"])
    document = open_document(content, name=f"a.{kind}")
    sources = [unit.source for unit in document.units]
    assert sources.count("Open it") == 2
    assert sources.count('Save the <g id="1">file</g>') == 1
    translations = {"Open it": "Abrir", 'Save the <g id="1">file</g>': 'Salvar o <g id="1">ficheiro</g>'}
    filled = document.fill([UnitTranslation(text=translations.get(source, source)) for source in sources])
    for part in ("data", "drawing"):
        assert diagram_texts(filled, part) == ["Abrir", "Salvar o ficheiro", "Abrir", "7"]
    assert identity(document) == content
