"""Records and configurations of runs that someone else may have written."""

import json
from contextlib import suppress

import pytest

from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.runs.compare import summarize_run
from dragoman.runs.folder import RunFolder
from tests.untrained_runs import finished_run

SCORE = {"metric": "BLEU", "value": 1.5, "signature": "x", "higher_is_better": True}
SCORES = {"weights": "last", "seconds": 1.5, "steps": 7, "tokens": 99, "scores": {"valid": [SCORE]}}
VALUES = [None, 7, -1, 2.5, "x", True, [], {}, [1], ["x"], [[]], {"x": 1}, {"": []}, 2**63, "9" * 100_000, [{}] * 1000]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


@pytest.mark.parametrize("key", [*SCORES, "metric", "value", "signature", "higher_is_better"])
def test_scores_of_wrong_types_are_refused(folder, key):
    folder.scores.write_text(json.dumps(SCORES), encoding="utf-8")
    assert folder.read_scores() == SCORES
    accepted = 0
    for value in VALUES:
        edit = {key: value} if key in SCORES else {"scores": {"valid": [SCORE | {key: value}]}}
        folder.scores.write_text(json.dumps(SCORES | edit), encoding="utf-8")
        with suppress(RunError):
            found = folder.read_scores()
            f"{found['steps']:,} {found['seconds'] / 60:.1f}"
            [f"{one['value']:.2f}" + one["metric"] for some in found["scores"].values() for one in some]
            accepted += 1
    assert accepted < len(VALUES) // 2


@pytest.mark.parametrize(
    ("name", "tree", "problem"),
    [
        ("scores.json", {"scores": {}}, r"scores\.json: damaged \(weights field required\); restore it from a copy"),
        ("scores.json", SCORES | {"steps": 2.5}, r"damaged \(steps must be an integer\)"),
        ("scores.json", SCORES | {"scores": {"v" * 999: [7]}}, r"damaged \(scores\.v+\.\.\. input should be"),
        ("environment.json", {"corpora": 7}, r"environment\.json: damaged \(corpora must be a list\)"),
        ("environment.json", {"corpora": None}, r"damaged \(corpora must be a list\)"),
        ("environment.json", {"corpora": [{"file": "a"}]}, r"damaged \(corpora\.0\.sha256 field required\)"),
        ("environment.json", {"tokenizer": [7]}, r"damaged \(tokenizer must be text\)"),
        ("export.json", {"compute_type": ["int8"]}, r"export\.json: damaged \(compute_type must be text\)"),
        ("export.json", {"run": {}}, r"damaged \(run must be text\)"),
    ],
)
def test_damaged_records_name_the_key(folder, name, tree, problem):
    (folder.path / name).write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(RunError, match=problem):
        folder.read_environment(), folder.read_export(), folder.read_scores()


CONFIG = {"task": "translation", "model": {"kind": "encoder_decoder"}, "data": {"train": {}}, "training": {}}


@pytest.mark.parametrize("key", [*CONFIG, "data.train", "data.valid", "model.kind", "training.max_steps", "decoding"])
def test_configurations_of_wrong_types_are_refused(folder, key):
    folder.scores.write_text(json.dumps(SCORES), encoding="utf-8")
    for value in VALUES:
        group, _, name = key.partition(".")
        edit = {group: {**CONFIG.get(group, {}), name: value}} if name else {group: value}
        folder.config.write_text(json.dumps(CONFIG | edit), encoding="utf-8")
        with suppress(DragomanError):
            summarize_run(folder.path)
        with suppress(DragomanError):
            folder.expected_workers()


def test_damaged_metrics_are_skipped(tmp_path):
    folder = finished_run(tmp_path / "run")
    log = '{"event": "log", "step": 3, "seconds": 2, "loss": 1, "tokens_per_second": '
    lines = [f"{log}5}}", '{"event": "log"', '{"event": "log"}', '{"event": "log"}]', ""]
    lines += [f"{log}{value}}}" for value in ("NaN", "[7]", '"x"', "1e999", "[" * 9999)]
    folder.metrics.write_text("\n".join(lines), encoding="utf-8")
    assert summarize_run(folder.path).tokens_per_second == 5.0
    folder.metrics.unlink()
    folder.metrics.symlink_to("/dev/zero")
    with pytest.raises(RunError, match=r"metrics\.jsonl: is a symbolic link"):
        summarize_run(folder.path)


def test_edited_configuration_is_completed(folder):
    folder.config.write_text("model: {kind: [7]}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.yaml: "):
        folder.read_complete_config()
