"""Glossary files: columns, languages, and errors that name the line."""

import pytest
from translate.storage.tbx import tbxfile

from dragoman.data.terminology.glossary import Glossary, Term
from dragoman.data.terminology.glossary_files import parse_glossary, read_glossary, write_tsv
from dragoman.errors import DataError

V2 = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX-Basic" xml:lang="en"><martifHeader/><text><body>
<termEntry id="c1"><descrip type="definition">worn outdoors</descrip>
 <langSet xml:lang="en"><tig><term>rain <hi>jacket</hi></term></tig><tig><term>rain coat</term></tig></langSet>
 <langSet xml:lang="de">
  <tig><term>Regenmantel</term><termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig>
  <ntig><termGrp><term>Regenjacken</term></termGrp></ntig>
  <tig><term>Regenjacke</term><termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></tig>
 </langSet>
 <langSet xml:lang="fr"><tig><term>imperméable</term></tig></langSet>
</termEntry>
<termEntry><langSet xml:lang="en"><tig><term>only English</term></tig></langSet></termEntry>
</body></text></martif>"""
V3 = """<?xml version='1.0'?>
<tbx style="dct" type="TBX-Basic" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2" xmlns:min="http://www.tbxinfo.net/ns/min">
<text><body><conceptEntry id="c1">
 <langSec xml:lang="en-US"><termSec><term>printer</term></termSec></langSec>
 <langSec xml:lang="de-DE"><termSec><term>Drucker</term>
  <min:administrativeStatus>preferredTerm-admn-sts</min:administrativeStatus></termSec>
  <termSec><term>Printer</term><min:administrativeStatus>supersededTerm-admn-sts</min:administrativeStatus></termSec>
 </langSec></conceptEntry></body></text></tbx>"""
BOMB = '<!DOCTYPE martif [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><martif>&b;</martif>'
FILE_ENTITY = '<!DOCTYPE martif [<!ENTITY a SYSTEM "file:///etc/passwd">]><martif>&a;</martif>'


def test_table_without_names() -> None:
    glossary = parse_glossary("\ufeffjacket\tJacke|Jacken\r\n\r\nFirefox\t\nOS \n", "tsv")
    assert glossary.terms == (Term(("jacket",), ("Jacke", "Jacken")), Term(("Firefox",)), Term(("OS",)))


def test_table_with_names() -> None:
    text = 'Source;Target;Forbidden;Case;Note\njacket;Jacke;Mantel;exact;"worn; outdoors"\n;;Handy;;\n'
    glossary = parse_glossary(text, "csv")
    assert glossary.terms == (
        Term(("jacket",), ("Jacke",), ("Mantel",), "exact", "worn; outdoors"),
        Term((), forbidden=("Handy",)),
    )
    assert parse_glossary(write_tsv(glossary), "tsv") == glossary


def test_languages_of_rows() -> None:
    text = "house,Haus,EN,DE\nhouse,maison,EN,FR\n"
    assert parse_glossary(text, "csv", source_language="en", target_language="fr").terms[0].targets == ("maison",)
    assert parse_glossary(text.splitlines()[0], "csv").target_language == "DE"
    with pytest.raises(DataError, match="EN to DE, EN to FR"):
        parse_glossary(text, "csv")
    with pytest.raises(DataError, match="has no terms of en and nl"):
        parse_glossary(text, "csv", source_language="en", target_language="nl")


def test_tbx_of_version_2() -> None:
    glossary = parse_glossary(V2, "tbx", source_language="en", target_language="de-AT")
    assert glossary.terms == (Term(("rain jacket", "rain coat"), ("Regenjacke", "Regenjacken"), ("Regenmantel",)),)
    assert (glossary.source_language, glossary.target_language) == ("en", "de")
    assert parse_glossary(V2, "tbx", source_language="fr", target_language="en").terms[0].sources == ("imperméable",)
    with pytest.raises(DataError, match=r"has 3 languages \(de, en, fr\). Give the source"):
        parse_glossary(V2, "tbx", source_language="en")
    with pytest.raises(DataError, match=r"has no terms in nl. Its languages are de, en, fr"):
        parse_glossary(V2, "tbx", source_language="nl", target_language="en")


def test_tbx_of_version_3() -> None:
    glossary = parse_glossary(V3, "tbx", source_language="en")
    assert glossary.terms == (Term(("printer",), ("Drucker",), ("Printer",)),)
    assert glossary.target_language == "de-DE"


def test_tbx_of_another_program() -> None:
    file = tbxfile()
    file.settargetlanguage("de")
    for source, target in (("rain jacket", "Regenjacke"), ("dog & cat", "Hund & Katze")):
        file.addsourceunit(source).target = target
    glossary = parse_glossary(bytes(file), "tbx", source_language="en")
    assert glossary == Glossary.from_pairs(
        {"rain jacket": "Regenjacke", "dog & cat": "Hund & Katze"}, source_language="en", target_language="de"
    )


@pytest.mark.parametrize(
    ("format_", "text", "message"),
    [
        ("tsv", "", "g: has no terms"),
        ("tsv", "a\tb\n\x00\tc", "g, line 2: the form"),
        ("tsv", "a\tb\tc", "g, line 1: has 3 columns without names"),
        ("tsv", "source\ttargets\na\tb", "line 1: the column 'targets' is unknown. Did you mean target"),
        ("tsv", "source\tsource\n", "line 1: a column occurs twice"),
        ("tsv", "source\ttarget\tcase\na\tb\tupper", "line 2: case 'upper' is unknown"),
        ("tsv", "a\tb\nc\td\te", "line 2: has 3 columns, and the first line 2"),
        ("tsv", "\tb", "line 1: a term has no source phrase"),
        ("csv", 'a,b\n"c,d\n', "line 2: is no CSV"),
        ("csv", 'a,"' + "b" * 200_000 + '"', "line 1: is no CSV"),
        ("tbx", "<html/>", "is no TBX, since its root is <html>"),
        ("tbx", "<martif><body>", "line 1: is no valid XML"),
        ("tbx", BOMB, "declares entities, such as .a."),
        ("tbx", FILE_ENTITY, "declares entities, such as .a."),
        ("tbx", "<martif>" + "<a>" * 500, "elements nest deeper than 100"),
        ("tbx", "<martif/>", "has no terms. Give"),
        ("tbx", "<martif><termEntry><langSet/></termEntry></martif>", "a <langSet> has no xml:lang"),
        ("tbx", "<?xml version='1.0' encoding='klingon'?><martif/>", "encoding .klingon. is unknown"),
    ],
)
def test_unusable_glossaries_are_refused(format_, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_glossary(text, format_, name="g")


def test_files(tmp_path) -> None:
    path = tmp_path / "terms.csv"
    path.write_bytes(b"jacket,Jacke\n")
    assert read_glossary(path) == Glossary((Term(("jacket",), ("Jacke",)),))
    path.write_bytes("jacket,Jäcke\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"terms\.csv: not UTF-8 \(.* at byte 8\)"):
        read_glossary(path)
    with pytest.raises(DataError, match="does not tell its format"):
        read_glossary(tmp_path / "terms.xlsx")
    with pytest.raises(DataError, match=r"missing\.tsv"):
        read_glossary(tmp_path / "missing.tsv")


@pytest.mark.parametrize(("format_", "text"), [("tsv", "source\ttarget\tforbidden\n"), ("csv", "source,target")])
def test_a_header_line_alone_is_an_empty_glossary(format_, text: str) -> None:
    assert parse_glossary(text, format_, source_language="en").terms == ()
