"""`dragoman translate --file` as a process: the output is read by another program, and an error writes nothing."""

import json
from pathlib import Path

import polib
import pytest
from lxml import etree

from tests.small_runs import dragoman
from tests.unit.data.documents.samples import SAMPLES, XLIFF_1
from tests.unit.data.documents.test_po import PO
from tests.untrained_runs import finished_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "en-pt"
    finished_run(folder)
    return folder


def test_a_po_file_is_translated_with_a_memory_and_a_report(run: Path, tmp_path: Path) -> None:
    source, output, report = tmp_path / "a.po", tmp_path / "b.po", tmp_path / "report.json"
    source.write_text(PO, encoding="utf-8")
    memory = tmp_path / "old.po"
    memory.write_text('msgid "Open %s"\nmsgstr "Abrir %s"\n', encoding="utf-8")
    files = ["--file", source, "--output", output, "--memory", memory, "--report", report]
    done = dragoman("translate", run, *files, "--no-placeholders", "--max-length", 7, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 texts of 5 translated" in done.stderr
    entries = {entry.msgid: entry for entry in polib.pofile(str(output))}
    assert (entries["Open %s"].msgstr, entries["Open %s"].fuzzy) == ("Abrir %s", False)
    assert entries["Quit"].msgstr == "Sair"
    assert entries["Close %s"].fuzzy
    assert set(entries["%d file"].msgstr_plural) == {0, 1}
    assert output.read_text(encoding="utf-8").endswith('#~ msgid "Old"\n#~ msgstr "Velho"\n')
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [one["origin"] for one in found["segments"]] == ["memory", "machine", "machine"]
    assert (found["units"], found["kept"], found["memory"]) == (5, 2, 1)


def test_inline_tags_come_back(run: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.xlf", tmp_path / "b.xlf"
    source.write_text(XLIFF_1, encoding="utf-8")
    done = dragoman(
        "translate",
        run,
        "--file",
        source,
        "--output",
        output,
        "--no-placeholders",
        "--target-language",
        "pt",
        "--max-length",
        7,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    root = etree.parse(output).getroot()
    target = root.find(".//{*}trans-unit[@id='a1']/{*}target")
    assert sorted((one.tag.rpartition("}")[2], one.get("id")) for one in target) == [("g", "1"), ("x", "2")]
    assert root.find(".//{*}file").get("target-language") == "pt"


@pytest.mark.parametrize("kind", ["xliff1", "json", "android"])
def test_a_damaged_file_gives_one_message_and_no_output(kind: str, run: Path, tmp_path: Path) -> None:
    name, text = SAMPLES[kind]
    source, output = tmp_path / name, tmp_path / f"new-{name}"
    source.write_text(text[: len(text) // 2], encoding="utf-8")
    done = dragoman("translate", run, "--file", source, "--output", output, "--no-placeholders", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"dragoman: {source}")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
