"""Expected scores of a recipe, and the check that runs of it reach them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

from pydantic import Field

from dragoman.atomic_files import write_atomically
from dragoman.config import Config, parse
from dragoman.errors import ConfigError, RunError
from dragoman.runs.config import EXPECTED_KEY
from dragoman.runs.folder import RunFolder
from dragoman.yaml_files import read_yaml


class ExpectedScore(Config):
    """Score that a recipe reached, and its tolerance."""

    set: Literal["valid", "test"] = "test"
    metric: str = Field(description="name of the metric, as in scores.json")
    value: float = Field(description="score that was reached")
    tolerance: float = Field(gt=0.0, description="how much worse a run may be")


class _ExpectedScores(Config):
    expected: tuple[ExpectedScore, ...] = Field(min_length=1)


@final
@dataclass(frozen=True)
class ScoreCheck:
    """Expected score and the scores of runs with several seeds."""

    expected: ExpectedScore
    signature: str
    higher_is_better: bool
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def passed(self) -> bool:
        """Return whether the mean is worse than expected by at most the tolerance."""
        gap = self.expected.value - self.mean
        return (gap if self.higher_is_better else -gap) <= self.expected.tolerance


def read_expected_scores(recipe: Path) -> tuple[ExpectedScore, ...]:
    """Read the expected scores of a recipe. Raises ConfigError if it has none."""
    tree = read_yaml(recipe)
    if EXPECTED_KEY not in tree:
        raise ConfigError(
            f"{recipe}: has no expected scores. Add the scores that you measured, such as: "
            f"{EXPECTED_KEY}: [{{metric: BLEU, value: 40.0, tolerance: 1.0}}]"
        )
    return parse(_ExpectedScores, {EXPECTED_KEY: tree[EXPECTED_KEY]}, where=str(recipe)).expected


def check_scores(expected: Sequence[ExpectedScore], runs: Sequence[RunFolder]) -> list[ScoreCheck]:
    """Compare the scores of finished runs with the expected ones. Raises RunError if a run lacks a score."""
    checks = []
    for one in expected:
        scores = [_find_score(one, folder) for folder in runs]
        values = tuple(float(score["value"]) for score in scores)
        checks.append(ScoreCheck(one, str(scores[0]["signature"]), bool(scores[0]["higher_is_better"]), values))
    return checks


def write_score_checks(
    path: Path, checks: Sequence[ScoreCheck], *, seeds: Sequence[int], seconds: Sequence[float]
) -> None:
    """Write seeds, times and all checks as JSON."""
    rows = []
    for check in checks:
        found = asdict(check)
        rows.append({**found.pop("expected").model_dump(), **found, "mean": check.mean, "passed": check.passed})
    tree = {
        "seeds": list(seeds),
        "seconds": list(seconds),
        "passed": all(check.passed for check in checks),
        "scores": rows,
    }
    write_atomically(path, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")


def _find_score(expected: ExpectedScore, folder: RunFolder) -> Mapping[str, Any]:
    scores: list[dict[str, Any]] = folder.read_scores().get("scores", {}).get(expected.set, [])
    for score in scores:
        if score["metric"] == expected.metric:
            return score
    known = ", ".join(score["metric"] for score in scores) or "none"
    raise RunError(
        f"{folder.scores}: has no {expected.metric} on {expected.set} (it has: {known}). Correct `{EXPECTED_KEY}` in "
        "the recipe, or add the metric to it."
    )
