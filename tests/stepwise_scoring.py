"""Slow twin of `score_targets`: forced decoding one position after the other."""

from typing import Any

import torch
from torch import Tensor

from dragoman.models.special_symbols import PAD


@torch.inference_mode()
def score_stepwise(model: Any, memory: Any, *, target: Tensor, expected: Tensor) -> Tensor:
    """Return what `score_targets` returns, one position after the other."""
    state = model.start(memory, beam_size=1)
    columns = []
    for position in range(target.shape[1]):
        logits, state = model.step(target[:, position, None], memory, state)
        columns.append(logits[:, 0].float().log_softmax(-1).gather(1, expected[:, position, None])[:, 0])
    return torch.stack(columns, dim=1).masked_fill(expected == PAD, 0.0)
