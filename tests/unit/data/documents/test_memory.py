"""Memory that files take, in a process of its own: at most four times the file and 300 MB."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import archive_documents

MEASURE = """
import contextlib, resource, sys
from dragoman.data.documents.document import UnitTranslation
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError

idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
content = open(sys.argv[1], "rb").read()
with contextlib.suppress(DataError):
    document = open_document(content, name=sys.argv[1], source_language="en", target_language="pl")
    document.fill([UnitTranslation(text=f"{unit.source} x") for unit in document.units])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
"""
LONG = "K" * 300_000
MANY = 5_000
PO_HEADER = 'msgid ""\nmsgstr "Plural-Forms: nplurals=99; plural=n%99;\\n"\n\n'
PLURAL = f'msgctxt "{LONG}"\n"{LONG}"\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n\n'


def xliff(units: str, begin: str = "") -> str:
    return f'{begin}<xliff version="1.2"><file><body>{units}</body></file></xliff>'


FILES: dict[str, Callable[[], str | bytes]] = {
    "names.json": lambda: json.dumps({LONG: {f"a{number}": "ab" for number in range(MANY)}}),
    "nested.json": lambda: f'{{"{LONG[:3000]}":' * 98 + "{" + '"a":"b",' * MANY + '"z":"z"' + "}" * 99,
    "names.xml": lambda: (
        f'<resources><string-array name="{LONG}">{"<item>ab</item>" * MANY}</string-array></resources>'
    ),
    "names.yaml": lambda: f"? {LONG}\n:\n" + "".join(f"  a{number}: ab\n" for number in range(MANY)),
    "aliases.yaml": lambda: "a: &a [ab, cd]\n" + "".join(f"b{number}: [*a, *a]\n" for number in range(MANY)),
    "names.stringsdict": lambda: (
        f"<plist><dict><key>{LONG}</key><dict>"
        + "<key>one</key><string>ab</string><key>other</key><string>ab</string>" * MANY
        + "</dict></dict></plist>"
    ),
    "names.xlf": lambda: xliff(
        f'<trans-unit id="{LONG}"><source>a</source><seg-source>'
        + "".join(f'<mrk mtype="seg" mid="{number}">ab</mrk>' for number in range(MANY))
        + "</seg-source></trans-unit>"
    ),
    "names.ts": lambda: (
        f"<TS><context><name>{LONG}</name>"
        + "<message><source>ab</source><translation/></message>" * MANY
        + "</context></TS>"
    ),
    "names.xcstrings": lambda: json.dumps(
        {
            "sourceLanguage": "en",
            "strings": {
                LONG: {
                    "localizations": {
                        "en": {
                            "variations": {
                                "device": {f"d{n}": {"stringUnit": {"state": "new", "value": "v"}} for n in range(MANY)}
                            }
                        }
                    }
                }
            },
        }
    ),
    "contexts.po": lambda: PO_HEADER + "".join(PLURAL.replace('id "a', f'id "a{number}') for number in range(20)),
    "namespace.xlf": lambda: xliff(f'<a xmlns="{LONG}">{"<b/>" * 50 * MANY}</a>'),
    "attributes.xlf": lambda: xliff(
        f'<trans-unit id="{"&e;" * 1_500_000}"><source>a</source></trans-unit>',
        f'<!DOCTYPE xliff [<!ENTITY e "{"é" * 900}">]>',
    ),
    "attribute defaults.xlf": lambda: xliff(
        "<note/>" * 40 * MANY, f'<!DOCTYPE xliff [<!ATTLIST note from CDATA "{LONG[:100_000]}">]>'
    ),
    "message.json": lambda: json.dumps({"a": "{n,select,other{x}b{y}}" * 6 + "z" * 1_000_000}),
    "nested.html": lambda: "<div>" * 100_000 + "a" + "<p><b>a</b>" * 20_000,
    "select.html": lambda: "<p>" + "<select><option>a</option></select>" * 20_000,
    "strings.json": lambda: json.dumps({f"a{number}": "ab cd ef" * 3 for number in range(20 * MANY)}),
    "shared.xlsx": lambda: archive_documents.xlsx("<si><t>ab</t></si>" * 20 * MANY),
    "cells.ods": lambda: archive_documents.open_document_file(
        "<table:table><table:table-row>"
        '<table:table-cell office:value-type="string" table:number-columns-repeated="1000000"><text:p>ab</text:p>'
        "</table:table-cell></table:table-row></table:table>",
        kind="spreadsheet",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_memory_is_in_proportion_to_the_file(name: str, tmp_path: Path) -> None:
    content = FILES[name]()
    content = content.encode() if isinstance(content, str) else content
    path = tmp_path / name
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path], capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout) * 1024 <= 4 * len(content) + 300 * 2**20
