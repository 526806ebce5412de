"""Translated files and the validators of their formats; a validator that is not installed is skipped with a message."""

import plistlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from lxml import etree

from dragoman.data.documents.document import UnitTranslation
from dragoman.data.documents.recognize import open_document
from tests import office_samples
from tests.reversed_words import reverse_words
from tests.unit.data.documents.samples import SAMPLES
from tests.unit.data.documents.test_po import PO

SCHEMAS = Path("/usr/share/php/Symfony/Component/Translation/Resources/schemas")
"""Schemas of XLIFF in the Debian package php-symfony-translation."""
EPUBCHECK = Path("/usr/share/java/epubcheck.jar")
JAVA, MSGFMT, SOFFICE = (shutil.which(name) for name in ("java", "msgfmt", "soffice"))


def translated(content: bytes, name: str, *, needs_review: Sequence[bool] = (False, True)) -> bytes:
    """Return a file in Portuguese, of which some translations need a review."""
    document = open_document(content, name=name, source_language="en", target_language="pt")
    reviews = [needs_review[number % len(needs_review)] for number in range(len(document.units))]
    return document.fill(
        [
            UnitTranslation(text=reverse_words(unit.source, unit.markup), needs_review=review)
            for unit, review in zip(document.units, reviews, strict=True)
        ]
    )


class _LocalSchemas(etree.Resolver):
    """Finds the schema of `xml:lang` next to the others, and nothing in a network."""

    def resolve(self, system_url: str, public_id: str | None, context: object) -> object:
        path = SCHEMAS / system_url.rpartition("/")[2]
        return self.resolve_filename(str(path), context) if path.exists() else self.resolve_empty(context)


def schema(name: str) -> etree.XMLSchema:
    if not SCHEMAS.exists():
        pytest.skip("The schemas of XLIFF are not installed: apt-get install php-symfony-translation.")
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_LocalSchemas())
    return etree.XMLSchema(etree.parse(SCHEMAS / name, parser))


@pytest.mark.parametrize(
    ("kind", "schema_name"), [("xliff1", "xliff-core-1.2-strict.xsd"), ("xliff2", "xliff-core-2.0.xsd")]
)
def test_translated_xliff_is_valid(kind: str, schema_name: str) -> None:
    rules, (name, text) = schema(schema_name), SAMPLES[kind]
    for content in (text.encode(), translated(text.encode(), name)):
        rules.assertValid(etree.fromstring(content))


@pytest.mark.skipif(MSGFMT is None, reason="msgfmt is not installed: apt-get install gettext.")
def test_msgfmt_accepts_a_translated_po_file(tmp_path: Path) -> None:
    path = tmp_path / "pt.po"
    path.write_bytes(translated(PO.encode(), "pt.po", needs_review=(False,)))
    command = [MSGFMT, "--check-format", "--check-domain", "--output-file=/dev/null", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_property_list_is_read_by_python() -> None:
    name, text = SAMPLES["stringsdict"]
    files = plistlib.loads(translated(text.encode(), name))["%d files"]["files"]
    assert (files["one"], files["other"]) == ("%d elif", "%d selif")
    assert files["NSStringFormatSpecTypeKey"] == "NSStringPluralRuleType"


@pytest.mark.slow
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed: apt-get install libreoffice-nogui.")
@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "odt"])
def test_libreoffice_converts_translated_office_files(kind: str, tmp_path: Path) -> None:
    content: bytes = getattr(office_samples, kind)()
    text = _text_in_libreoffice(translated(content, f"a.{kind}"), tmp_path / f"new.{kind}")
    if text is None and _text_in_libreoffice(content, tmp_path / f"old.{kind}") is None:
        pytest.skip(f"LibreOffice has no application for {kind}: apt-get install libreoffice-nogui.")
    assert text is not None
    assert "netuG" in text
    assert "negroM" in text


def _text_in_libreoffice(content: bytes, path: Path) -> str | None:
    """Return the text of a file that LibreOffice converts to HTML; None if it cannot."""
    path.write_bytes(content)
    profile = f"-env:UserInstallation={(path.parent / 'profile').as_uri()}"
    command = [str(SOFFICE), profile, "--headless", "--convert-to", "html", "--outdir", str(path.parent), str(path)]
    subprocess.run(command, check=False, capture_output=True, timeout=200)
    page = path.with_suffix(".html")
    return " ".join(etree.HTML(page.read_bytes()).itertext()) if page.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(not (JAVA and EPUBCHECK.exists()), reason="epubcheck is not installed: apt-get install epubcheck.")
def test_epubcheck_accepts_a_translated_book(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    path.write_bytes(translated(office_samples.epub(), "a.epub"))
    command = [str(JAVA), "-jar", str(EPUBCHECK), str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
