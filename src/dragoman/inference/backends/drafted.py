"""A network with guesses about its outputs: from what was read and written, or by a smaller network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.drafting import Acceptance, Draft
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.backends.wrapper import Around
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Int

SYMBOLS = Symbols()
NOTHING = -1
"""A token of a source that cannot be written."""
GRAM = 3
"""Tokens by which it is found again where an output may be copied from."""

Drafter = Callable[[Ids], Draft]
"""Begins to guess the output for a source, given without its end symbol."""


@final
class Copying:
    """Implements `decoding.drafting.Draft`: an output goes on as the source, or the output itself, went on before.

    Where its last three tokens stand last before, or its last two, or its last one.
    """

    def __init__(self, source: Ids) -> None:
        """The `source` is in tokens of the target; `NOTHING` stands where there is none."""
        self._tokens: list[int] = []
        self._begin = 0
        self._after: dict[tuple[int, ...], int] = {}
        self.accept([*source, SYMBOLS.end])
        self._begin = len(self._tokens)

    def propose(self, count: int) -> list[int]:
        for length in range(min(GRAM, len(self._tokens) - self._begin), 0, -1):
            place = self._after.get(tuple(self._tokens[-length:]))
            if place is not None:
                return list(self._up_to_an_end(self._tokens[place : place + count]))
        return []

    @staticmethod
    def _up_to_an_end(tokens: Sequence[int]) -> Iterator[int]:
        for token in tokens:
            if token == NOTHING:
                return
            yield token
            if token == SYMBOLS.end:
                return

    def accept(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            for length in range(1, min(GRAM, len(self._tokens) - self._begin) + 1):
                self._after[tuple(self._tokens[-length:])] = len(self._tokens)
            self._tokens.append(token)


@final
class ByNetwork:
    """Implements `decoding.drafting.Draft`: what a smaller network, of the same vocabularies, would write."""

    def __init__(self, network: Any, source: Ids) -> None:
        self._network = network
        self._source = source
        self._memory: Any = None
        self._state: Any = None
        self._output = [SYMBOLS.begin]
        self._read: list[int] = []

    def propose(self, count: int) -> list[int]:
        if self._memory is None:  # many are never asked
            self._memory = self._network.encode([self._source])
            self._state = self._network.start(self._memory, beam=1)
        places = self._network.maximum_length
        count = count if places is None else min(count, places - len(self._output))
        guessed: list[int] = []
        while len(guessed) < count and (not guessed or guessed[-1] != SYMBOLS.end):
            guessed.append(self._next([*self._output, *guessed]))
        return guessed

    def accept(self, tokens: Sequence[int]) -> None:
        self._output += tokens
        if not self._read:
            return
        agreed = 0
        for one, other in zip(self._read, self._output[:-1], strict=False):
            if one != other:
                break
            agreed += 1
        self._state = self._state.back([len(self._read) - agreed])
        del self._read[agreed:]

    def _next(self, output: Sequence[int]) -> int:
        """The most probable token after an output, of which the state has read the beginning."""
        unread = np.array([output[len(self._read) :]], dtype=np.int32)
        never = (SYMBOLS.pad, SYMBOLS.begin)
        _, ids, self._state = self._network.follow(
            unread, np.array([unread.shape[1]]), self._memory, self._state, width=1, forbidden=never
        )
        self._read = list(output)
        return int(ids[-1, 0])


def guesses_of(network: Any) -> Drafter:
    """Guesses of a smaller network, and none about a source of more places than it knows."""

    def drafter(source: Ids) -> Draft:
        places = network.maximum_length
        return NO_GUESS if places is not None and len(source) + 1 > places else ByNetwork(network, source)

    return drafter


@final
class Nothing:
    """Implements `decoding.drafting.Draft` where guessing does not pay."""

    def propose(self, count: int) -> list[int]:  # noqa: ARG002
        return []

    def accept(self, tokens: Sequence[int]) -> None:
        """There is nothing to learn for."""


NO_GUESS = Nothing()


@dataclass(frozen=True)
class DraftedMemory:
    """A network's memory, and the guesses about each sentence."""

    memory: Any
    drafts: tuple[Draft, ...]

    def keep(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Those of these sentences alone."""
        return type(self)(self.memory.keep(rows), tuple(self.drafts[row] for row in rows.tolist()))

    def join(self, other: Self) -> Self:
        """These sentences and the others after them."""
        return type(self)(self.memory.join(other.memory), self.drafts + other.drafts)


@final
class Drafted(Around):
    """Implements `decoding.drafting.Drafting` too, around a network that can follow."""

    def __init__(self, network: Any, drafter: Drafter) -> None:
        super().__init__(network)
        self.drafter = drafter
        self.acceptance = Acceptance()

    def _inside(self, memory: DraftedMemory) -> Any:
        return memory.memory

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> DraftedMemory:
        memory = self.network.encode(sources, trees, candidates)
        if not self.acceptance.pays:
            return DraftedMemory(memory, (NO_GUESS,) * len(sources))
        return DraftedMemory(memory, tuple(self.drafter(source) for source in sources))

    def drafts(self, memory: DraftedMemory) -> Sequence[Draft]:
        return memory.drafts
