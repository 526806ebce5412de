"""Programs of the how-to page about inspection in Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.untrained_runs import finished_language_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "inspect-in-python.md"


def test_programs_of_the_page_write_their_figures(tmp_path):
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert programs
    shutil.copytree(ROOT / "tests" / "golden" / "run-1", tmp_path / "runs" / "en-de")
    finished_language_model(tmp_path / "runs" / "shakespeare")
    printed = ""
    for program in programs:
        answer = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"MPLBACKEND": "agg"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert answer.returncode == 0, f"{program}\n{answer.stderr}"
        printed += answer.stdout
    assert len(re.findall(r"^'.+': '.+' \d+\.\d %, ", printed, re.M)) == 5
    written = {path.name for path in tmp_path.glob("*.png")}
    assert {"last-layer.png", "encoder.png", "cross.png", "alignment-leave-one-out.png"} <= written
    assert {"attribution-gradient-times-input.png", "heads-cross.png"} <= written
