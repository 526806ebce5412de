"""Selection of the final weights: score every candidate on the validation set and take the best."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.models.weights import set_weights
from dragoman.training.callbacks import SelectionEvent
from dragoman.training.trainer import InterruptionError, TrainingState, Validator


@dataclass(frozen=True)
class SelectedWeights:
    """The selected weights, and the event with the name and the scores of all candidates."""

    weights: dict[str, Tensor]
    event: SelectionEvent


def weight_candidates(state: TrainingState[Any]) -> dict[str, dict[str, Tensor]]:
    """Return the last weights, the best by validation, the average of the last checkpoints, and the moving average.

    Checkpoints whose folder was deleted are left out.
    """
    progress, checkpoints = state.progress, state.checkpoints
    existing = set(checkpoints.steps())
    found = {"last": checkpoints.weights(progress.step)}
    if progress.best is not None and progress.best.step in existing - {progress.step}:
        found["best"] = checkpoints.weights(progress.best.step)
    recent = tuple(step for step in progress.recent if step in existing)
    if len(recent) > 1:
        found[f"average of the last {len(recent)}"] = checkpoints.average(recent)
    if state.ema is not None:
        found["moving average"] = dict(state.ema)
    return found


def select_weights(
    state: TrainingState[Any], validator: Validator, *, interrupted: Callable[[], bool] = lambda: False
) -> SelectedWeights:
    """Score every candidate on the validation set; load the best into the model, in evaluation mode.

    Raises InterruptionError between two candidates once `interrupted` returns true.
    """
    state.model.eval()
    found = weight_candidates(state)
    scores: dict[str, Mapping[str, float]] = {}
    best = next(iter(found))
    for name, tensors in found.items():
        set_weights(state.model, tensors)
        with torch.inference_mode():
            scores[name] = dict(validator.validate(state.model))
        if validator.is_better(scores[name], scores[best]):
            best = name
        if interrupted():
            raise InterruptionError(state.progress.step)
    set_weights(state.model, found[best])
    return SelectedWeights(found[best], SelectionEvent(state.progress.step, best, scores))
