"""Calibration of a run: its file, and translations of the run loaded again."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import load
from dragoman.errors import DataError, RunError
from dragoman.inference import Translator
from dragoman.runs.calibrate import calibrate
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder
from tests.untrained_runs import PAIRS, finished_run

SOURCES, REFERENCES = ([pair[side] for pair in PAIRS] * 60 for side in (0, 1))
pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return finished_run(tmp_path / "run").path


def test_calibrated_runs_and_their_exports_expect_a_score(run: Path, tmp_path: Path):
    assert load(run, Translator).translate(SOURCES[0]).quality.expected_chrf is None
    result = calibrate(run, source=SOURCES, reference=REFERENCES, beam_size=1)
    assert RunFolder(run).read_quality() == result.profile
    assert result.to_dict()["pairs"] == len(SOURCES)
    assert str(result.path) in result.describe()
    export(run, tmp_path / "int8", compute_type="int8")
    for path in (run, tmp_path / "int8"):
        quality = load(path, Translator).translate(SOURCES[0], beam_size=1).quality
        assert quality.expected_chrf == result.profile.curve(quality.confidence)
        assert quality.to_dict()["expected_chrf"] == quality.expected_chrf


def test_too_few_pairs_write_nothing(run: Path):
    with pytest.raises(DataError, match="100 or more"):
        calibrate(run, source=SOURCES[:7], reference=REFERENCES[:7], beam_size=1)
    assert not RunFolder(run).quality.exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("curve", "confidences"), []),
        (("curve", "confidences"), [0.9, 0.1]),
        (("curve", "scores"), [1.0]),
        (("curve", "scores"), [1.0, 101.0]),
        (("statistics", "scripts"), "LATIN"),
        (("pairs",), -1),
    ],
)
def test_damaged_files_are_refused(run: Path, path: tuple[str, ...], value: object):
    statistics = {"mean_log_ratio": 0.1, "max_deviation": 0.5, "scripts": ["LATIN"], "copies": False}
    tree: Any = {"pairs": 100, "curve": {"confidences": [0.1, 0.9], "scores": [10.0, 90.0]}, "statistics": statistics}
    RunFolder(run).quality.write_text(json.dumps(tree))
    assert load(run, Translator).facts.quality_profile is not None
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    RunFolder(run).quality.write_text(json.dumps(tree))
    with pytest.raises(RunError, match=r"quality\.json"):
        load(run, Translator)
