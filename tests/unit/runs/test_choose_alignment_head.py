"""Choice of the head that aligns words, its file, and translations that use it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman import load
from dragoman.errors import RunError
from dragoman.inference import Translator
from dragoman.models.alignment_head import AlignmentHead
from dragoman.runs import choose_alignment_head as module
from dragoman.runs.calibrate import calibrate
from dragoman.runs.choose_alignment_head import choose_alignment_head
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder
from tests.untrained_runs import PAIRS, finished_run

SOURCES, REFERENCES = ([pair[side] for pair in PAIRS] * 60 for side in (0, 1))
pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return finished_run(tmp_path / "run").path


def heads_used(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[AlignmentHead | None]:
    used = []
    align = translator.backend.align

    def spy(*sides: Any, head: AlignmentHead | None, **options: Any) -> Sequence[np.ndarray]:
        used.append(head)
        return align(*sides, head=head, **options)

    monkeypatch.setattr(translator.backend, "align", spy)
    translator.translate("The <b>dog</b> sees.", markup="xml")
    return used


def test_head_with_most_links_is_chosen(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = AlignmentHead(0, 1, shifted=True)
    ranking = [(best, 0.8), (AlignmentHead(0, 0, shifted=False), 0.7), (AlignmentHead.default(1, ssru=False), 0.5)]
    monkeypatch.setattr(module, "rank_alignment_heads", lambda _, __: ranking)
    found = choose_alignment_head(run, SOURCES, REFERENCES)
    assert found is not None
    assert (found.head, found.share, found.default_share) == (best, 0.8, 0.5)
    assert (
        "head 2 of the next step in layer 1, with 80 % of the links of a lexicon; by default 50 %" in found.describe()
    )
    monkeypatch.setattr(module, "rank_alignment_heads", lambda _, __: [(best, 0.51), *ranking[1:]])
    found = choose_alignment_head(run, SOURCES, REFERENCES)
    assert found is not None
    assert (found.head, found.share) == (AlignmentHead.default(1, ssru=False), 0.5)


def test_shares_are_those_of_the_links_of_a_lexicon(run: Path) -> None:
    found = choose_alignment_head(run, SOURCES, REFERENCES)
    assert found is not None
    assert 0 < found.default_share <= found.share <= 1
    assert choose_alignment_head(run, ["x " * 999], ["y"]) is None


def test_calibrated_runs_and_exports_align_by_the_chosen_head(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heads_used(load(run, Translator), monkeypatch) == [None]
    result = calibrate(run, source=SOURCES, reference=REFERENCES, beam_size=1)
    assert result.alignment is not None
    export(run, tmp_path / "int8", compute_type="int8")
    for path in (run, tmp_path / "int8"):
        translator = load(path, Translator)
        assert translator.facts.alignment_head == result.alignment.head
        assert heads_used(translator, monkeypatch) == [result.alignment.head]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"layer": 7, "head": 0, "shifted": False}, "has no such head"),
        ({"layer": 0, "head": 99, "shifted": False}, "has no such head"),
        ({"layer": -1, "head": 0, "shifted": False}, "alignment.json"),
    ],
)
def test_other_heads_are_refused(run: Path, tree: dict[str, Any], message: str) -> None:
    RunFolder(run).write_alignment(tree)
    with pytest.raises(RunError, match=message):
        load(run, Translator)
