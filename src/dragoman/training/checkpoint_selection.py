"""Which weights a training ends with: the candidates are judged on the validation set, and the best is taken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.models.weights import set_weights
from dragoman.training.events import Chosen
from dragoman.training.trainer import InterruptionError, Judge, Run


@dataclass(frozen=True)
class Choice:
    """The chosen weights, their name, and the scores of all candidates by name."""

    weights: dict[str, Tensor]
    event: Chosen


def candidates(run: Run[Any]) -> dict[str, dict[str, Tensor]]:
    """The last weights, the best by validation, the mean of the last checkpoints, and the moving average.

    A checkpoint that a person deleted is no candidate and no part of the mean.
    """
    progress, checkpoints = run.progress, run.checkpoints
    there = set(checkpoints.updates())
    found = {"last": checkpoints.weights(progress.update)}
    if progress.best is not None and progress.best.update in there - {progress.update}:
        found["best"] = checkpoints.weights(progress.best.update)
    regular = tuple(update for update in progress.regular if update in there)
    if len(regular) > 1:
        found[f"average of the last {len(regular)}"] = checkpoints.mean(regular)
    if run.average is not None:
        found["moving average"] = dict(run.average)
    return found


def choose(run: Run[Any], judge: Judge, *, interrupted: Callable[[], bool] = lambda: False) -> Choice:
    """Judge every candidate on the validation set; the model is left with the chosen weights, in evaluation mode.

    Raises InterruptionError between two candidates where `interrupted` says so.
    """
    run.model.eval()
    found = candidates(run)
    scores: dict[str, Mapping[str, float]] = {}
    best = next(iter(found))
    for name, tensors in found.items():
        set_weights(run.model, tensors)
        with torch.inference_mode():
            scores[name] = dict(judge.validate(run.model))
        if judge.better(scores[name], scores[best]):
            best = name
        if interrupted():
            raise InterruptionError(run.progress.update)
    set_weights(run.model, found[best])
    return Choice(found[best], Chosen(run.progress.update, best, scores))
