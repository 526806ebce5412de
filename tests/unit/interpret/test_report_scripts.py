"""Scripts of the HTML reports."""

import shutil
import subprocess
from importlib.resources import files

import pytest

SCRIPTS = {
    one.name: one.read_text(encoding="utf-8")
    for one in files("dragoman.interpret.report").iterdir()
    if one.name.endswith(".js")
}


def test_numbers_are_written_by_one_function():
    found = [line for text in SCRIPTS.values() for line in text.splitlines() if "toFixed(" in line]
    assert len(found) == 1
    assert found[0].startswith("const decimals = ")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_number_rounded_to_zero_has_no_sign():
    [function] = [line for line in SCRIPTS["drawing.js"].splitlines() if line.startswith("const decimals = ")]
    asked = "console.log(decimals(-0.00001, 4), decimals(-0.4, 0), decimals(-0.06, 1), decimals(-10, 0))"
    written = subprocess.run(["node", "-e", f"{function}\n{asked}"], capture_output=True, text=True, check=True).stdout
    assert written.split() == ["0.0000", "0", "-0.1", "-10"]
