"""Read, keep and fill real documents, and let LibreOffice read the filled office files.

    python -m benchmarks.documents.documents FOLDER --name debian [--libreoffice]

Every document below the folder is filled with its own texts, and the bytes are compared; then it is filled with texts
in reversed words, and read again. With LibreOffice, the letters, words and lines of an office file are compared before
and after. Times are processor seconds.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.collect_runs import update_results
from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document, recognize_document
from dragoman.data.documents.texts.subtitles import Subtitles
from dragoman.errors import DataError

RESULTS = Path(__file__).with_name("results.json")
FORMATS = frozenset(["html", "markdown", "text", "srt", "vtt", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub"])
LIBREOFFICE = frozenset(["docx", "odt"])
"""Formats whose text LibreOffice writes as plain text."""
_FIXED = re.compile(r'<g [^<>]*translate="no">.*?</g>|<[^<>]*>|&\w+;')


def reverse_words(text: str, markup: str | None) -> str:
    """Return a text with the letters of each word in reverse order, and with its tags."""
    if markup is None:
        return re.sub(r"[^\W\d_]+", lambda word: word[0][::-1], text)
    parts, end = [], 0
    for fixed in _FIXED.finditer(text):
        parts += [reverse_words(text[end : fixed.start()], None), fixed[0]]
        end = fixed.end()
    return "".join([*parts, reverse_words(text[end:], None)])


def readable(text: str) -> list[str]:
    """Return the words of a text and its tags, whose numbers depend on the parts before them."""
    return re.sub(r' id="\d+"', "", text).split()


def measure(path: Path, counts: Counter[str], *, libreoffice: bool) -> None:
    """Count what is kept of one document."""
    content = path.read_bytes()
    start = time.process_time()
    document = open_document(content, name=path.name)
    counts["milliseconds"] += round(1000 * (time.process_time() - start))
    counts["texts"] += len(document.units)
    counts["bytes"] += len(content)
    counts["same_bytes"] += identity(document) == content
    filled, texts = fill(document)
    again = read_again(document, filled, path.name).units
    counts["read_again"] += [readable(unit.source) for unit in again] == [readable(text) for text in texts]
    if libreoffice and document.format in LIBREOFFICE:
        counts["libreoffice_same"] += plain_text(content, path.suffix) == plain_text(filled, path.suffix)


def read_again(document: Document, filled: bytes, name: str) -> Document:
    """Read a filled document; the cues of subtitles are joined to sentences as in their source."""
    if isinstance(document, Subtitles):
        return Subtitles(filled, format=document.format, name=name, cues_per_unit=document.cues_per_unit)
    return open_document(filled, name=name)


def fill(document: Document) -> tuple[bytes, list[str]]:
    """Return a document with reversed words, and its texts."""
    texts = [reverse_words(unit.source, unit.markup) for unit in document.units]
    return document.fill([UnitTranslation(text=text) for text in texts]), texts


def plain_text(content: bytes, suffix: str) -> tuple[list[str], int, int]:
    """Return the letters, the number of words and the number of lines that LibreOffice reads in a document."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"document{suffix}")
        path.write_bytes(content)
        command = [shutil.which("soffice") or "soffice", "--headless", "--convert-to", "txt:Text", "--outdir", folder]
        subprocess.run([*command, str(path)], check=True, capture_output=True, timeout=120)
        text = path.with_suffix(".txt").read_text(encoding="utf-8-sig")
    return sorted(filter(str.isalpha, text.lower())), len(text.split()), text.count("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--libreoffice", action="store_true")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(one for one in arguments.folder.rglob("*") if one.is_file()):
        try:
            kind = recognize_document(path.read_bytes(), path.name)
        except DataError:
            continue
        if kind in FORMATS:
            counts[kind]["files"] += 1
            try:
                measure(path, counts[kind], libreoffice=arguments.libreoffice)
            except DataError as error:
                counts[kind]["refused"] += 1
                print(f"refused: {error}")
    update_results(RESULTS, {arguments.name: {kind: dict(found) for kind, found in sorted(counts.items())}})
    for kind, found in sorted(counts.items()):
        print(kind, dict(found))


if __name__ == "__main__":
    main()
