"""Which weights a training ends with: the candidates are judged on the validation set, and the best is taken."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.models.weights import set_weights
from dragoman.training.events import Chosen
from dragoman.training.loop import Judge, Run


@dataclass(frozen=True)
class Choice:
    """The chosen weights, their name, and the scores of all candidates by name."""

    weights: dict[str, Tensor]
    event: Chosen


def candidates(run: Run) -> dict[str, dict[str, Tensor]]:
    """The last weights, the best by validation, the mean of the last checkpoints, and the moving average."""
    progress, checkpoints = run.progress, run.checkpoints
    found = {"last": checkpoints.weights(progress.update)}
    if progress.best is not None and progress.best.update != progress.update:
        found["best"] = checkpoints.weights(progress.best.update)
    if len(progress.regular) > 1:
        found[f"average of the last {len(progress.regular)}"] = checkpoints.mean(progress.regular)
    if run.average is not None:
        found["moving average"] = dict(run.average)
    return found


def choose(run: Run, judge: Judge) -> Choice:
    """Judge every candidate on the validation set; the model is left with the chosen weights, in evaluation mode."""
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
    set_weights(run.model, found[best])
    return Choice(found[best], Chosen(run.progress.update, best, scores))
