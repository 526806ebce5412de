"""Fill real files with texts in reversed words, and let the validators of their formats read them.

    python -m benchmarks.files.validators FOLDER --name validators

PO files are checked with `msgfmt --check-format`, XLIFF with the schemas of OASIS (from the Debian package
php-symfony-translation), EPUB with epubcheck, and office files by a conversion in LibreOffice. A file that the
validator does not accept as it is counts as refused, and is not filled. At most `--limit` files of a format are read.
"""

import argparse
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from lxml import etree

from benchmarks.collect_runs import update_results
from dragoman.data.documents.document import UnitTranslation
from dragoman.data.documents.recognize import open_document, recognize_document
from dragoman.errors import DataError
from tests.reversed_words import reverse_words

RESULTS = Path(__file__).with_name("results.json")
SCHEMAS = Path("/usr/share/php/Symfony/Component/Translation/Resources/schemas")
EPUBCHECK = "/usr/share/java/epubcheck.jar"


class LocalSchemas(etree.Resolver):
    """Finds the schema of `xml:lang` next to the others."""

    def resolve(self, url: str, _: str | None, context: object) -> object:
        return self.resolve_filename(str(SCHEMAS / url.rpartition("/")[2]), context)


def is_valid_po(content: bytes, _: str) -> bool:
    command = ["msgfmt", "--check-format", "--output-file=/dev/null", "-"]
    return subprocess.run(command, input=content, capture_output=True, check=False).returncode == 0


def is_valid_xliff(content: bytes, _: str) -> bool:
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(LocalSchemas())
    try:
        file = etree.fromstring(content)
    except etree.XMLSyntaxError:
        return False
    name = "xliff-core-2.0.xsd" if file.get("version", "").startswith("2") else "xliff-core-1.2-strict.xsd"
    return etree.XMLSchema(etree.parse(SCHEMAS / name, parser)).validate(file)


def is_valid_book(content: bytes, name: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        command = ["java", "-jar", EPUBCHECK, "--error", str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def is_converted(content: bytes, name: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        command = [shutil.which("soffice") or "soffice", "--headless", "--convert-to", "pdf", "--outdir", folder]
        subprocess.run([*command, str(path)], capture_output=True, check=False, timeout=300)
        return path.with_suffix(".pdf").exists()


VALIDATORS: dict[str, Callable[[bytes, str], bool]] = {
    "po": is_valid_po,
    "xliff": is_valid_xliff,
    "epub": is_valid_book,
    **dict.fromkeys(("docx", "pptx", "xlsx", "odt", "odp", "ods"), is_converted),
}


def check(path: Path, kind: str, found: Counter[str]) -> None:
    """Count whether the validator accepts a file before and after it is filled."""
    content = path.read_bytes()
    if not VALIDATORS[kind](content, path.name):
        found["refused_before"] += 1
        return
    document = open_document(content, name=path.name, source_language="en", target_language="pt")
    found["files"] += 1
    found["texts"] += len(document.units)
    filled = document.fill([UnitTranslation(text=reverse_words(unit.source, unit.markup)) for unit in document.units])
    is_valid = VALIDATORS[kind](filled, path.name)
    found["valid"] += is_valid
    if not is_valid:
        print(f"not valid: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--name", required=True)
    parser.add_argument("--limit", type=int, default=1000)
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    read: Counter[str] = Counter()
    for path in sorted(one for folder in given.folders for one in folder.rglob("*") if one.is_file()):
        try:
            kind = recognize_document(path.read_bytes()[:4096], path.name)
        except DataError:
            continue
        if kind in VALIDATORS and read[kind] < given.limit:
            read[kind] += 1
            try:
                check(path, kind, counts[kind])
            except DataError as error:
                counts[kind]["unreadable"] += 1
                print(error)
    print({kind: dict(found) for kind, found in counts.items()})
    update_results(RESULTS, {given.name: {kind: dict(found) for kind, found in sorted(counts.items())}})


if __name__ == "__main__":
    main()
