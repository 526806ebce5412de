"""Small DOCX, PPTX, XLSX, ODT, ODP and EPUB files for tests, in the form that their programs write."""

import io
import zipfile
from collections.abc import Mapping

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml."
_SLIDE_TYPE = "application/vnd.openxmlformats-officedocument.presentationml."


def archive(members: Mapping[str, str | bytes], *, stored: tuple[str, ...] = ()) -> bytes:
    """Return a zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as result:
        for name, content in members.items():
            member = zipfile.ZipInfo(name, (2024, 5, 17, 10, 30, 0))
            member.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            member.external_attr = 0o600 << 16
            result.writestr(member, content)
    return file.getvalue()


def member(content: bytes, name: str) -> str:
    """Return the text of a member of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as result:
        return result.read(name).decode()


def docx(body: str, **parts: str) -> bytes:
    """Return a DOCX file with the content of its body, and with other parts, such as `header1`."""
    types = {"document": "document.main", **{name: name.rstrip("0123456789") for name in parts}}
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_WORD_TYPE}{kind}+xml"/>' for name, kind in types.items()
    )
    roots = {"document": f"<w:body>{body}<w:sectPr/></w:body>", **parts}
    tags = {"document": "document", "header": "hdr", "footer": "ftr", "footnotes": "footnotes"}
    members = {
        "[Content_Types].xml": f'{_XML}<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
        "_rels/.rels": f'{_XML}<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/media/image1.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    }
    for name, content in roots.items():
        tag = tags[name.rstrip("0123456789")]
        members[f"word/{name}.xml"] = f'{_XML}<w:{tag} xmlns:w="{WORD}" xmlns:r="{RELATIONS}">{content}</w:{tag}>'
    return archive(members)


def run(text: str, properties: str = "") -> str:
    """Return a run of a DOCX file; the text is XML."""
    props = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r w:rsidR="00A1">{props}<w:t xml:space="preserve">{text}</w:t></w:r>'


def pptx(*slides: str) -> bytes:
    """Return a PPTX file; each slide has the paragraphs of one text frame."""
    names = [f"ppt/slides/slide{number}.xml" for number in range(1, len(slides) + 1)]
    overrides = "".join(f'<Override PartName="/{name}" ContentType="{_SLIDE_TYPE}slide+xml"/>' for name in names)
    members = {
        "[Content_Types].xml": f'{_XML}<Types xmlns="{PACKAGE}/content-types">{overrides}</Types>',
        "ppt/presentation.xml": f'{_XML}<p:presentation xmlns:p="{SLIDES}"/>',
    }
    for name, slide in zip(names, slides, strict=True):
        members[name] = (
            f'{_XML}<p:sld xmlns:a="{DRAWING}" xmlns:p="{SLIDES}"><p:cSld><p:spTree><p:sp><p:txBody><a:bodyPr/>{slide}'
            "</p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
        )
    return archive(members)


def xlsx(shared: str, sheet: str = "", **parts: str) -> bytes:
    """Return an XLSX file with its shared strings, the rows of a sheet, and other parts, such as `tables/table1`."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    names = {"sharedStrings": "xl/sharedStrings.xml", "worksheet": "xl/worksheets/sheet1.xml"}
    overrides = "".join(
        f'<Override PartName="/{path}" ContentType="{kind}.{name}+xml"/>' for name, path in names.items()
    )
    return archive(
        {
            "[Content_Types].xml": f'{_XML}<Types xmlns="{PACKAGE}/content-types">{overrides}</Types>',
            "xl/workbook.xml": f'{_XML}<workbook xmlns="{SHEETS}"><sheets><sheet name="Hello"/></sheets></workbook>',
            names["worksheet"]: f'{_XML}<worksheet xmlns="{SHEETS}"><sheetData>{sheet}</sheetData></worksheet>',
            names["sharedStrings"]: f'{_XML}<sst xmlns="{SHEETS}">{shared}</sst>',
            **{f"xl/{name}.xml": content for name, content in parts.items()},
        }
    )


def open_document_file(body: str, *, styles: str = "", kind: str = "text") -> bytes:
    """Return an ODT file, or an ODP file of the kind `presentation`."""
    spaces = " ".join(f'xmlns:{name}="{OPEN}:{name}:1.0"' for name in ("office", "text", "draw", "table", "style"))
    media = f"application/vnd.oasis.opendocument.{kind}"
    return archive(
        {
            "mimetype": media,
            "content.xml": f'{_XML}<office:document-content {spaces} office:version="1.3"><office:body><office:{kind}>'
            f"{body}</office:{kind}></office:body></office:document-content>",
            "styles.xml": f'{_XML}<office:document-styles {spaces} office:version="1.3"><office:master-styles>{styles}'
            "</office:master-styles></office:document-styles>",
            "META-INF/manifest.xml": f'{_XML}<manifest:manifest xmlns:manifest="{OPEN}:manifest:1.0"/>',
        },
        stored=("mimetype",),
    )


def epub(*chapters: str, labels: tuple[str, ...] = ()) -> bytes:
    """Return an EPUB file; each chapter is the content of a body."""
    names = [f"chapter {number}.xhtml" for number in range(1, len(chapters) + 1)]
    items = "".join(
        f'<item id="c{number}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>'
        for number, name in enumerate(names)
    )
    points = "".join(f"<navPoint><navLabel><text>{label}</text></navLabel></navPoint>" for label in labels)
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<?xml version="1.0"?>'
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/content.opf": '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A book</dc:title>'
        "<dc:language>en</dc:language></metadata>"
        f'<manifest><item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>{items}</manifest></package>',
        "OEBPS/toc.ncx": '<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>'
        f"{points}</navMap></ncx>",
        "OEBPS/style.css": "p { margin: 0 }",
    }
    for name, chapter in zip(names, chapters, strict=True):
        members[f"OEBPS/{name}"] = (
            '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" '
            f'xml:lang="en" lang="en"><head><title>Chapter</title></head><body>{chapter}</body></html>'
        )
    return archive(members, stored=("mimetype",))
