"""Tables on narrow terminals."""

import io

import pytest
from rich.text import Text

from dragoman.cli.table_output import PlainConsole, build_table, print_whole

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("cell", [SIGNATURE, Text(SIGNATURE, style="dim")], ids=["string", "text"])
def test_signature_is_whole_on_a_narrow_terminal(width, cell):
    file = io.StringIO()
    rows = [("validation", "BLEU", "31.41", cell)]
    table = build_table(("set", "metric", "score", "signature"), rows, right=("score",))
    print_whole(PlainConsole(file=file, width=width), table)
    assert SIGNATURE in file.getvalue()
