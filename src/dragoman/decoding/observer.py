"""What a beam search may tell of its steps to someone who looks on, such as one who draws its tree."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.decoding.beam_candidates import Continuations
from dragoman.typing import Bool, Int


@dataclass(frozen=True)
class SearchStep:
    """What one step looked at and decided, for the sentences that were searched for, each in a row."""

    names: Int[np.ndarray, " kept"]
    """Of the sentences, as `Search.add` gave them; counted from 0 in the order of the memory by `beam_search`."""
    ages: Int[np.ndarray, " kept"]
    """Tokens of the hypotheses before the step."""
    candidates: Continuations
    """The best (parent, token) pairs, best first; `parents` are places among the hypotheses before the step."""
    going_on: Int[np.ndarray, "kept beam"]
    """The candidates that are the hypotheses after the step, in the order of these; impossible ones among them."""
    ended: Bool[np.ndarray, "kept beam"]
    """Which of the first `beam` candidates end, and are set aside as finished."""
    cut_off: Bool[np.ndarray, "kept beam"]
    """Which of the hypotheses before the step are set aside as they are, because they may not go on."""
    over: Bool[np.ndarray, " kept"]
    """The sentences that leave with this step: their hypotheses after it are not looked at any more."""


@runtime_checkable
class SearchObserver(Protocol):
    """Who looks on."""

    def stepped(self, step: SearchStep) -> None:
        """Called after every step."""
        ...
