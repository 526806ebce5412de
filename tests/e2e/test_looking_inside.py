"""What the page about looking inside shows to Python is run, in a folder where its run is, and draws its figures."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain" / "looking-inside.md"


def test_the_programs_of_the_page_draw_what_they_say(tmp_path):
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert programs
    shutil.copytree(ROOT / "tests" / "golden" / "run-1", tmp_path / "runs" / "en-de")
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
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert {"looks.png", "encoder.png", "cross.png", "alignment-leave-one-out.png"} <= drawn
    assert {"attribution-gradient-times-input.png", "heads-cross.png"} <= drawn
