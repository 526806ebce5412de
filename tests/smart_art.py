"""PPTX, DOCX and XLSX files with SmartArt, whose parts are written by hand: no library makes them.

Sources: ECMA-376-1, 21.4 (DrawingML diagrams), and [MS-ODRAWXML] 2.4 (drawings of diagrams).
"""

import io
import zipfile
from collections.abc import Sequence
from typing import Literal

import docx
import openpyxl
import pptx

Kind = Literal["pptx", "docx", "xlsx"]
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_DGM = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
_DSP = 'xmlns:dsp="http://schemas.microsoft.com/office/drawing/2008/diagram"'
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_TYPES = {
    "data": "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml",
    "layout": "application/vnd.openxmlformats-officedocument.drawingml.diagramLayout+xml",
    "quickStyle": "application/vnd.openxmlformats-officedocument.drawingml.diagramStyle+xml",
    "colors": "application/vnd.openxmlformats-officedocument.drawingml.diagramColors+xml",
    "drawing": "application/vnd.ms-office.drawingml.diagramDrawing+xml",
}
_RELATIONS = {
    "data": f"{_OFFICE}diagramData",
    "layout": f"{_OFFICE}diagramLayout",
    "quickStyle": f"{_OFFICE}diagramQuickStyle",
    "colors": f"{_OFFICE}diagramColors",
    "drawing": "http://schemas.microsoft.com/office/2007/relationships/diagramDrawing",
}
_SIZE = ' sz="2000" kern="1200"'
_FOLDERS = {"pptx": "ppt", "docx": "word", "xlsx": "xl"}


def smart_art(kind: Kind, texts: Sequence[str]) -> bytes:
    """Return an office file with a diagram of boxes; `*` in a text makes the rest of it bold."""
    content = {"pptx": _pptx, "docx": _docx, "xlsx": _xlsx}[kind]()
    owner = {
        "pptx": "ppt/slides/slide1.xml",
        "docx": "word/document.xml",
        "xlsx": "xl/drawings/drawing1.xml",
    }[kind]
    folder = _FOLDERS[kind]
    parts = {
        "data": _data(texts),
        "layout": _layout(),
        "quickStyle": f'{_HEAD}<dgm:styleDef {_DGM} {_A} uniqueId="urn:s"/>',
        "colors": f'{_HEAD}<dgm:colorsDef {_DGM} {_A} uniqueId="urn:c"/>',
        "drawing": _drawing(texts),
    }
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    relations = f"{owner.rpartition('/')[0]}/_rels/{owner.rpartition('/')[2]}.rels"
    links = "".join(
        f'<Relationship Id="rIdD{name}" Type="{_RELATIONS[name]}" Target="/{folder}/diagrams/{name}1.xml"/>'
        for name in parts
    )
    empty = b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"></Relationships>'
    members[relations] = members.get(relations, empty).replace(
        b"</Relationships>", links.encode() + b"</Relationships>"
    )
    overrides = "".join(
        f'<Override PartName="/{folder}/diagrams/{name}1.xml" ContentType="{_TYPES[name]}"/>' for name in parts
    )
    types = "[Content_Types].xml"
    members[types] = members[types].replace(b"</Types>", overrides.encode() + b"</Types>")
    members[owner] = _with_frame(kind, members[owner].decode()).encode()
    members |= {f"{folder}/diagrams/{name}1.xml": text.encode() for name, text in parts.items()}
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return result.getvalue()


def diagram_texts(content: bytes, part: Literal["data", "drawing"]) -> list[str]:
    """Return the texts of the paragraphs of a part of the diagram."""
    from xml.etree import ElementTree

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(f"diagrams/{part}1.xml")]
        root = ElementTree.fromstring(archive.read(name))
    space = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
    paragraphs = ("".join(text.text or "" for text in one.iter(f"{space}t")) for one in root.iter(f"{space}p"))
    return [text for text in paragraphs if text]


def _with_frame(kind: Kind, owner: str) -> str:
    """Return the part of a slide, a document or a sheet with the diagram in it."""
    ids = " ".join(
        f'r:{short}="rIdD{name}"'
        for short, name in {"dm": "data", "lo": "layout", "qs": "quickStyle", "cs": "colors"}.items()
    )
    graphic = (
        f'<a:graphic {_A}><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/diagram">'
        f"<dgm:relIds {_DGM} {_R} {ids}/></a:graphicData></a:graphic>"
    )
    size = '<a:off x="500000" y="1500000"/><a:ext cx="8000000" cy="4000000"/>'
    match kind:
        case "pptx":
            frame = (
                '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="99" name="Diagram"/><p:cNvGraphicFramePr/><p:nvPr/>'
                f"</p:nvGraphicFramePr><p:xfrm>{size}</p:xfrm>{graphic}</p:graphicFrame></p:spTree>"
            )
            return owner.replace("</p:spTree>", frame)
        case "docx":
            space = 'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
            frame = (
                f'<w:p><w:r><w:drawing><wp:inline {space} distT="0" distB="0" distL="0" distR="0">'
                '<wp:extent cx="5400000" cy="3000000"/><wp:docPr id="99" name="Diagram"/><wp:cNvGraphicFramePr/>'
                f"{graphic}</wp:inline></w:drawing></w:r></w:p><w:sectPr"
            )
            return owner.replace("<w:sectPr", frame, 1)
        case "xlsx":
            corner = "<xdr:col>{}</xdr:col><xdr:colOff>0</xdr:colOff><xdr:row>{}</xdr:row><xdr:rowOff>0</xdr:rowOff>"
            frame = (
                f"<xdr:twoCellAnchor><xdr:from>{corner.format(1, 1)}</xdr:from><xdr:to>{corner.format(9, 20)}</xdr:to>"
                '<xdr:graphicFrame macro=""><xdr:nvGraphicFramePr><xdr:cNvPr id="2" name="Diagram"/>'
                "<xdr:cNvGraphicFramePr/></xdr:nvGraphicFramePr><xdr:xfrm><a:off x='0' y='0'/><a:ext cx='0' cy='0'/>"
                f"</xdr:xfrm>{graphic}</xdr:graphicFrame><xdr:clientData/></xdr:twoCellAnchor></xdr:wsDr>"
            )
            return owner.replace("</xdr:wsDr>", frame)


def _paragraph(text: str, properties: str) -> str:
    plain, _, bold = text.partition("*")
    runs = [(plain, ""), (bold, ' b="1"')]
    written = "".join(
        f'<a:r><a:rPr lang="en-US"{properties}{style}/><a:t>{part}</a:t></a:r>' for part, style in runs if part
    )
    return f"<a:p>{written}</a:p>"


def _data(texts: Sequence[str]) -> str:
    points = "".join(
        f'<dgm:pt modelId="{number}"><dgm:prSet phldrT="[Text]"/><dgm:spPr/><dgm:t><a:bodyPr/><a:lstStyle/>'
        f"{_paragraph(text, '')}</dgm:t></dgm:pt>"
        for number, text in enumerate(texts, 2)
    )
    links = "".join(
        f'<dgm:cxn modelId="{100 + number}" srcId="1" destId="{number}" srcOrd="{number - 2}" destOrd="0"/>'
        for number in range(2, len(texts) + 2)
    )
    extension = (
        '<dgm:extLst><a:ext uri="http://schemas.microsoft.com/office/drawing/2008/diagram">'
        f'<dsp:dataModelExt {_DSP} relId="rIdDdrawing" minVer="http://schemas.openxmlformats.org/drawingml/2006/diagram"/>'
        "</a:ext></dgm:extLst>"
    )
    root = '<dgm:pt modelId="1" type="doc"><dgm:prSet loTypeId="urn:l" qsTypeId="urn:s" csTypeId="urn:c"/></dgm:pt>'
    return (
        f"{_HEAD}<dgm:dataModel {_DGM} {_A}><dgm:ptLst>{root}{points}</dgm:ptLst>"
        f"<dgm:cxnLst>{links}</dgm:cxnLst><dgm:bg/><dgm:whole/>{extension}</dgm:dataModel>"
    )


def _layout() -> str:
    return (
        f'{_HEAD}<dgm:layoutDef {_DGM} {_A} uniqueId="urn:l"><dgm:layoutNode name="root">'
        '<dgm:alg type="lin"/></dgm:layoutNode></dgm:layoutDef>'
    )


def _drawing(texts: Sequence[str]) -> str:
    def shape(number: int, text: str) -> str:
        place = f'<a:off x="0" y="{number * 800_000}"/><a:ext cx="5000000" cy="700000"/>'
        return (
            f'<dsp:sp modelId="{{{number}}}"><dsp:nvSpPr><dsp:cNvPr id="0" name=""/><dsp:cNvSpPr/></dsp:nvSpPr>'
            f'<dsp:spPr><a:xfrm>{place}</a:xfrm><a:prstGeom prst="roundRect"><a:avLst/></a:prstGeom>'
            '<a:solidFill><a:srgbClr val="DDE8F6"/></a:solidFill></dsp:spPr><dsp:style><a:lnRef idx="2"><a:srgbClr '
            'val="000000"/></a:lnRef><a:fillRef idx="1"><a:srgbClr val="DDE8F6"/></a:fillRef><a:effectRef idx="0">'
            '<a:srgbClr val="000000"/></a:effectRef><a:fontRef idx="minor"/></dsp:style><dsp:txBody>'
            f"<a:bodyPr/><a:lstStyle/>{_paragraph(text, _SIZE)}"
            f"</dsp:txBody><dsp:txXfrm>{place}</dsp:txXfrm></dsp:sp>"
        )

    shapes = "".join(shape(number, text) for number, text in enumerate(texts))
    return (
        f'{_HEAD}<dsp:drawing {_DGM} {_DSP} {_A}><dsp:spTree><dsp:nvGrpSpPr><dsp:cNvPr id="0" name=""/>'
        f"<dsp:cNvGrpSpPr/></dsp:nvGrpSpPr><dsp:grpSpPr/>{shapes}</dsp:spTree></dsp:drawing>"
    )


def _pptx() -> bytes:
    presentation = pptx.Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[5]).shapes.title.text = "The plan"
    return _saved(presentation)


def _docx() -> bytes:
    document = docx.Document()
    document.add_paragraph("The plan")
    return _saved(document)


def _xlsx() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active["A1"] = "The plan"
    image = openpyxl.drawing.image.Image(io.BytesIO(_PIXEL))
    workbook.active.add_image(image, "A1")  # so that there is a drawing
    return _saved(workbook)


_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
    "89993d1d0000000049454e44ae426082"
)


def _saved(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()
