"""What a recipe should reach, written in the recipe, and whether runs of it did."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

from pydantic import Field

from dragoman.atomic import write_atomically
from dragoman.config import Config, parse, read_yaml
from dragoman.errors import ConfigError, RunError
from dragoman.runs.config import EXPECTED_KEY
from dragoman.runs.folder import RunFolder


class ExpectedScore(Config):
    """One score that a recipe reached, and how far another run of it may fall behind."""

    set: Literal["valid", "test"] = "test"
    metric: str = Field(description="name of the score, as a run's scores.json has it")
    value: float = Field(description="what was reached")
    tolerance: float = Field(
        gt=0.0, description="how much worse a run may be that still holds; better ones hold always"
    )


class _ExpectedScores(Config):
    expected: tuple[ExpectedScore, ...] = Field(min_length=1)


@final
@dataclass(frozen=True)
class ScoreCheck:
    """An expectation beside what runs of several seeds reached; their mean is what must hold."""

    expectation: ExpectedScore
    signature: str
    higher_is_better: bool
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def holds(self) -> bool:
        """Whether the mean is not worse than expected by more than the tolerance."""
        behind = self.expectation.value - self.mean
        return (behind if self.higher_is_better else -behind) <= self.expectation.tolerance


def read_expected_scores(recipe: Path) -> tuple[ExpectedScore, ...]:
    """The scores that a recipe should reach. Raises ConfigError where it names none."""
    tree = read_yaml(recipe)
    if EXPECTED_KEY not in tree:
        raise ConfigError(
            f"{recipe}: says nothing of the scores it should reach; add to it, with what you measured: "
            f"{EXPECTED_KEY}: [{{metric: BLEU, value: 40.0, tolerance: 1.0}}]"
        )
    return parse(_ExpectedScores, {EXPECTED_KEY: tree[EXPECTED_KEY]}, where=str(recipe)).expected


def check_scores(expectations: Sequence[ExpectedScore], runs: Sequence[RunFolder]) -> list[ScoreCheck]:
    """What finished runs reached of what was expected. Raises RunError where a run has no such score."""
    found = [folder.read_scores() for folder in runs]
    together = []
    for expectation in expectations:
        scores = [_find_score(expectation, tree, folder) for tree, folder in zip(found, runs, strict=True)]
        first = scores[0]
        values = tuple(float(score["value"]) for score in scores)
        together.append(ScoreCheck(expectation, str(first["signature"]), bool(first["higher_is_better"]), values))
    return together


def write_score_checks(
    path: Path, found: Sequence[ScoreCheck], *, seeds: Sequence[int], seconds: Sequence[float]
) -> None:
    """Everything that was found, for programs."""
    rows = [
        {**verdict.expectation.model_dump(), **_check_fields(verdict), "mean": verdict.mean, "holds": verdict.holds}
        for verdict in found
    ]
    tree = {"seeds": list(seeds), "seconds": list(seconds), "holds": all(one.holds for one in found), "scores": rows}
    write_atomically(path, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")


def _check_fields(verdict: ScoreCheck) -> dict[str, Any]:
    return {key: value for key, value in asdict(verdict).items() if key != "expectation"}


def _find_score(expectation: ExpectedScore, tree: Mapping[str, Any], folder: RunFolder) -> Mapping[str, Any]:
    scores: list[dict[str, Any]] = tree.get("scores", {}).get(expectation.set, [])
    for score in scores:
        if score["metric"] == expectation.metric:
            return score
    known = ", ".join(score["metric"] for score in scores) or "none"
    raise RunError(
        f"{folder.scores}: has no {expectation.metric} on {expectation.set} (it has: {known}); mend {EXPECTED_KEY} in the "
        "recipe, or name that metric in it"
    )
