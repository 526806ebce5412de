"""Sentences with one hypothesis each, that come and go: what greedy search keeps, however it asks the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, final

import numpy as np

from dragoman.decoding.beam_candidates import first_tokens
from dragoman.decoding.config import Normalisation, SearchSettings
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import score_of
from dragoman.models.search_protocols import M, S, Searched
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Bool, Int


@final
@dataclass(frozen=True)
class Sentences(Generic[M, S]):
    """The sentences still searched for. What was found last is `tokens`."""

    names: Int[np.ndarray, " kept"]
    ages: Int[np.ndarray, " kept"]
    limits: Int[np.ndarray, " kept"]
    tokens: Int[np.ndarray, " kept"]
    memory: M
    state: S

    def keep(self, rows: Int[np.ndarray, " chosen"]) -> Self:
        """These sentences alone."""
        return type(self)(
            self.names[rows],
            self.ages[rows],
            self.limits[rows],
            self.tokens[rows],
            self.memory.keep(rows),
            self.state.keep(rows),
        )

    def join(self, other: Self) -> Self:
        """These sentences and the others after them."""
        return type(self)(
            np.concatenate([self.names, other.names]),
            np.concatenate([self.ages, other.ages]),
            np.concatenate([self.limits, other.limits]),
            np.concatenate([self.tokens, other.tokens]),
            self.memory.join(other.memory),
            self.state.join(other.state),
        )


@final
class Rows(Generic[M, S]):
    """The sentences of a search in progress by name, and what has been written for each."""

    def __init__(self, model: Searched[M, S], *, settings: SearchSettings, symbols: Symbols) -> None:
        self._model = model
        self._settings = settings
        self._symbols = symbols
        self._open: Sentences[M, S] | None = None
        self._outputs: dict[int, list[tuple[int, float]]] = {}
        self._unused = 0

    def __len__(self) -> int:
        return len(self._outputs)

    @property
    def open(self) -> Sentences[M, S]:
        """Those that are searched for, of which there must be one."""
        assert self._open is not None, "there is a sentence to search for"
        return self._open

    def add(
        self, memory: M, *, limits: Int[np.ndarray, " batch"], first: Int[np.ndarray, " batch"] | None = None
    ) -> list[int]:
        """Let sentences enter, and name them, as `progress.Search` says."""
        names = np.arange(self._unused, self._unused + len(limits))
        self._unused += len(limits)
        tokens = first_tokens(limits, first, symbols=self._symbols)
        some = Sentences(names, np.zeros_like(names), limits, tokens, memory, self._model.start(memory, beam=1))
        self._open = some if self._open is None else self._open.join(some)
        added: list[int] = names.tolist()
        self._outputs |= {name: [] for name in added}
        return added

    def write(self, name: int, token: int, log_prob: float) -> None:
        """One more symbol of an output, the end symbol among them."""
        self._outputs[name].append((token, log_prob))

    def drop(self, names: Sequence[int]) -> None:
        """Let sentences leave which are not over."""
        if self._open is not None:
            self.without(self._open, np.isin(self._open.names, names))

    def without(self, some: Sentences[M, S], over: Bool[np.ndarray, " kept"]) -> dict[int, list[Hypothesis]]:
        """Go on with those that are not over; what was found for the others."""
        if not np.count_nonzero(over):
            self._open = some
            return {}
        going = (~over).nonzero()[0]
        self._open = some.keep(going) if len(going) else None
        return {
            name: [hypothesis_of(self._outputs.pop(name), self._settings.normalisation, symbols=self._symbols)]
            for name in some.names[over].tolist()
        }


def hypothesis_of(output: Sequence[tuple[int, float]], normalisation: Normalisation, *, symbols: Symbols) -> Hypothesis:
    """The hypothesis of one row that was followed: each token and its log-probability, the end symbol included."""
    tokens = [token for token, _ in output]
    log_probs = [log_prob for _, log_prob in output]
    finished = bool(tokens) and tokens[-1] == symbols.end
    log_prob = float(np.array(log_probs, dtype=np.float32).sum())
    return Hypothesis(
        tokens=tuple(tokens[:-1] if finished else tokens),
        log_prob=log_prob,
        score=score_of(log_prob, len(tokens), normalisation),
        token_log_probs=tuple(log_probs),
        finished=finished,
    )
