"""Office documents and a book that independent libraries write, or that the validator of their format accepts."""

import io

import docx as python_docx
import odf.opendocument
import openpyxl
import pptx as python_pptx
from docx.document import Document
from odf.style import Style, TextProperties
from odf.text import H, P, Span
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.comments import Comment
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.table import Table

from tests.archive_documents import archive

GREETING = ("Guten ", "Morgen", ", Welt")
"""Runs of a paragraph, of which the second one is bold."""


def docx() -> bytes:
    """Return a DOCX file of python-docx: a heading, runs, a list, a table, a header and a footer."""
    document: Document = python_docx.Document()
    document.add_heading("Der Hafen", level=1)
    paragraph = document.add_paragraph()
    for number, text in enumerate(GREETING):
        paragraph.add_run(text).bold = number == 1
    document.add_paragraph("Ein Punkt", style="List Bullet")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Name", "7"
    section = document.sections[0]
    section.header.paragraphs[0].text, section.footer.paragraphs[0].text = "Oben", "Unten"
    return _saved(document)


def pptx() -> bytes:
    """Return a PPTX file of python-pptx: a title, runs and notes."""
    presentation = python_pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Der Hafen"
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for number, text in enumerate(GREETING):
        run = paragraph.add_run()
        run.text, run.font.bold = text, number == 1
    slide.notes_slide.notes_text_frame.text = "Langsam sprechen"
    return _saved(presentation)


def xlsx() -> bytes:
    """Return an XLSX file of openpyxl: texts, runs, numbers, formulas, a table, a comment and a rule."""
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Hafen"
    bold, plain = InlineFont(b=True), InlineFont()
    sheet["A1"] = CellRichText(
        TextBlock(plain, GREETING[0]), TextBlock(bold, GREETING[1]), TextBlock(plain, GREETING[2])
    )
    sheet["A2"], sheet["B2"], sheet["C2"] = "Der Hafen", 7.5, '=IF(A4="Ja", B2*2, "Nein")'
    sheet["A3"], sheet["A4"], sheet["A5"] = "Zeile eins\nZeile zwei & mehr", "Ja", True
    sheet["A2"].comment = Comment("Bitte lesen", "Autor")
    sheet.append(["Name", "Preis"])
    sheet.append(["Brot", 3])
    sheet.add_table(Table(displayName="Preise", ref="A6:B7"))
    sheet.add_data_validation(DataValidation(type="list", formula1='"Rot,Blau"', sqref="D1"))
    sheet["D1"] = "Blau"
    workbook.create_sheet("Zwei")["A1"] = "Der Hafen"
    return _saved(workbook)


def odt() -> bytes:
    """Return an ODT file of odfpy: a heading and a paragraph with runs."""
    document = odf.opendocument.OpenDocumentText()
    bold = Style(name="Bold", family="text")
    bold.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    document.text.addElement(H(outlinelevel=1, text="Der Hafen"))
    paragraph = P(text=GREETING[0])
    paragraph.addElement(Span(stylename=bold, text=GREETING[1]))
    paragraph.addText(GREETING[2])
    document.text.addElement(paragraph)
    return _saved(document)


def epub() -> bytes:
    """Return an EPUB 3 book that epubcheck accepts."""
    space = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en"'
    page = f"<?xml version='1.0' encoding='utf-8'?>\n<!DOCTYPE html>\n<html {space}><head><title>Hafen</title></head>"
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<?xml version="1.0"?><container version="1.0" '
            'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="book/book.opf" '
            'media-type="application/oebps-package+xml"/></rootfiles></container>',
            "book/book.opf": '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
            'unique-identifier="id" xml:lang="en"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            '<dc:identifier id="id">urn:uuid:9e2c1a54-7c11-4a63-9b0e-2f40a6f3c2d1</dc:identifier>'
            "<dc:title>Hafen</dc:title><dc:language>en</dc:language>"
            '<meta property="dcterms:modified">2024-05-17T10:30:00Z</meta></metadata><manifest>'
            '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
            '<item id="c1" href="c1.xhtml" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="c1"/></spine></package>',
            "book/nav.xhtml": f'{page}<body><nav epub:type="toc"><ol><li><a href="c1.xhtml">Der Hafen</a></li></ol>'
            "</nav></body></html>",
            "book/c1.xhtml": f"{page}<body><h1>Der Hafen</h1><p>{GREETING[0]}<b>{GREETING[1]}</b>{GREETING[2]}</p>"
            '<p>Ein <a href="c1.xhtml">Punkt</a>.</p></body></html>',
        },
        stored=("mimetype",),
    )


def _saved(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()
