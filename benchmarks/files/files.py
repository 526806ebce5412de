"""Read, keep and fill real localization files, and translate some of them.

    python -m benchmarks.files.files round-trip FOLDER --name round_trip
    python -m benchmarks.files.files translate RUN FILE.po … --target-language pt --name translate

`round-trip` opens every file below a folder whose format is known, fills it with its own texts, and compares the bytes;
then it fills it with other texts and reads them again. `translate` runs the command `dragoman translate --file`, and
checks the output: PO with `msgfmt --check`, all with the placeholders of each text. Times are processor seconds.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results
from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document, recognize_document
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.errors import DataError

RESULTS = Path(__file__).with_name("results.json")
STRING_TABLES = frozenset(
    [
        "po",
        "xliff",
        "tmx",
        "tbx",
        "android",
        "strings",
        "stringsdict",
        "xcstrings",
        "resx",
        "ts",
        "properties",
        "json",
        "yaml",
    ],
)


def files_below(folder: Path) -> Iterator[tuple[Path, bytes, str]]:
    """Yield the files whose format is that of a string table, with their content and format."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        try:
            kind = recognize_document(content, str(path))
        except DataError:
            continue
        if kind in STRING_TABLES:
            yield path, content, kind


def round_trip(folder: Path) -> dict[str, dict[str, Any]]:
    """Return for each format the numbers of files and texts, and how many stay equal."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, content, kind in files_below(folder):
        found, start = counts[kind], time.process_time()
        found["files"] += 1
        try:
            document = open_document(content, name=str(path), source_language="en", target_language="pt")
            found["same_bytes"] += identity(document) == content
            found["filled"] += is_filled(document, str(path))
        except DataError as error:
            found["refused"] += 1
            print(f"refused: {error}", file=sys.stderr)
            continue
        found["texts"] += len(document.units)
        found["bytes"] += len(content)
        found["milliseconds"] += round(1000 * (time.process_time() - start))
    return {kind: dict(found) for kind, found in counts.items()}


def is_filled(document: Document, name: str) -> bool:
    """Return whether other texts are read again from the file that has them."""
    texts = [f"{unit.source} ×" for unit in document.units]
    filled = document.fill([UnitTranslation(text=text) for text in texts])
    again = open_document(filled, name=name, source_language="en", target_language="pt").units
    return [unit.source if unit.target is None else unit.target for unit in again] == texts


def translate(run: Path, path: Path, target_language: str) -> dict[str, Any]:
    """Translate a file with the command, and return what its report and its checks say."""
    with tempfile.TemporaryDirectory() as folder:
        output, report = Path(folder, path.name), Path(folder, "report.json")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [
            sys.executable,
            "-m",
            "dragoman",
            "translate",
            str(run),
            "--file",
            str(path),
            "--output",
            str(output),
        ]
        subprocess.run([*command, "--target-language", target_language, "--report", str(report), "--quiet"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads(report.read_text(encoding="utf-8"))
        segments = found.pop("segments")
        lost = sum(count_lost(one["source"], one["translation"]) for one in segments)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            **found,
            "file": path.name,
            "placeholders_lost": lost,
            "msgfmt": check_po(output) if path.suffix in (".po", ".pot") else None,
            "seconds": round(seconds, 1),
        }


def count_lost(source: str, translation: str) -> int:
    """Return how many placeholders of a source its translation lacks."""
    needed, found = (Counter(one.text for one in find_placeholders(text)) for text in (source, translation))
    return (needed - found).total()


def check_po(path: Path) -> bool:
    """Return whether `msgfmt --check` finds no error."""
    command = ["msgfmt", "--check", "--output-file=/dev/null", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode:
        print(checked.stderr, file=sys.stderr)
    return checked.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("round-trip").add_argument("folder", type=Path)
    translating = actions.add_parser("translate")
    translating.add_argument("run", type=Path)
    translating.add_argument("files", type=Path, nargs="+")
    translating.add_argument("--target-language", required=True)
    given = parser.parse_args()
    if given.action == "round-trip":
        results: Any = round_trip(given.folder)
    else:
        results = [translate(given.run, path, given.target_language) for path in given.files]
    print(json.dumps(results, indent=2))
    update_results(RESULTS, {given.name: results})


if __name__ == "__main__":
    main()
