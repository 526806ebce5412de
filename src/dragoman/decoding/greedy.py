"""Greedy search: always the most probable symbol."""

import itertools
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.config import Normalisation, SearchSettings
from dragoman.decoding.continuations import first_tokens, forbidden, log_normaliser
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.penalties import normalised
from dragoman.models.interfaces import M, S, Stepper, Symbols
from dragoman.shapes import Lengths, StepLogits


@torch.inference_mode()
def greedy(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[Tensor, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence of the memory, as `beam_search` with a beam of one finds it.

    `limits` are the most tokens of each output, the end symbol not counted. `first` are the tokens that the outputs go
    on from, the begin symbol without it. Raises RunError when logits are not numbers.
    """
    rows = torch.arange(len(limits), device=limits.device)
    tokens = first_tokens(limits, first, symbols=symbols)
    state = model.start(memory, beam=1)
    outputs: list[list[tuple[int, float]]] = [[] for _ in rows]
    for age in itertools.count():
        logits, state = model.step(tokens[:, None], memory, state)
        never = forbidden(
            age, minimum_length=settings.minimum_length, allow_unknown=settings.allow_unknown, symbols=symbols
        )
        tokens, log_probs = most_probable(logits, never)
        cut = ((limits <= age) & (tokens != symbols.end)) | (log_probs == -math.inf)
        for row, token, log_prob, stop in zip(*(part.tolist() for part in (rows, tokens, log_probs, cut)), strict=True):
            if not stop:
                outputs[row].append((token, log_prob))
        going = (~cut & (tokens != symbols.end)).nonzero()[:, 0]
        if len(going) == 0:
            break
        if len(going) < len(rows):
            rows, limits, tokens = rows[going], limits[going], tokens[going]
            memory, state = memory.keep(going), state.keep(going)
    return [[hypothesis_of(output, settings.normalisation, symbols=symbols)] for output in outputs]


def most_probable(logits: StepLogits, never: list[int]) -> tuple[Int[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The best symbol of each sentence of a beam of one, the lowest among equals, and its log-probability."""
    normaliser = log_normaliser(logits)[:, 0]
    possible = logits[:, 0].index_fill(-1, torch.tensor(never, device=logits.device), -math.inf)
    tokens = possible.argmax(dim=-1)
    return tokens, possible.gather(1, tokens[:, None])[:, 0].float() - normaliser


def hypothesis_of(output: Sequence[tuple[int, float]], normalisation: Normalisation, *, symbols: Symbols) -> Hypothesis:
    """The hypothesis of one row that was followed: each token and its log-probability, the end symbol included."""
    tokens = [token for token, _ in output]
    log_probs = torch.tensor([log_prob for _, log_prob in output])
    finished = bool(tokens) and tokens[-1] == symbols.end
    score = normalised(log_probs.sum(), torch.tensor(len(tokens)), normalisation)
    return Hypothesis(
        tokens=tuple(tokens[:-1] if finished else tokens),
        log_prob=float(log_probs.sum()),
        score=float(score),
        token_log_probs=tuple(log_probs.tolist()),
        finished=finished,
    )
