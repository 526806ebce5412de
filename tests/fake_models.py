"""Models small enough to reason about, for tests of code that uses `dragoman.models.protocols`."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Self

import torch
from torch import Tensor

from dragoman.models.special_symbols import BOS, EOS, PAD, UNK

SYMBOLS = SimpleNamespace(pad=PAD, unk=UNK, bos=BOS, eos=EOS)


@dataclass(frozen=True)
class Sources:
    """Encoder memory of a `PrefixNetwork`: the source ids."""

    ids: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(row) for row in self.ids])

    def select(self, rows: Tensor) -> Self:
        return type(self)(tuple(self.ids[row] for row in rows.tolist()))

    def concat(self, other: Self) -> Self:
        return type(self)(self.ids + other.ids)


@dataclass(frozen=True)
class Prefixes:
    """Decoder state of a `PrefixNetwork`: the tokens of each hypothesis so far."""

    ids: tuple[tuple[tuple[int, ...], ...], ...]

    def reorder(self, parents: Tensor) -> Self:
        rows = zip(self.ids, parents.tolist(), strict=True)
        return type(self)(tuple(tuple(beams[parent] for parent in chosen) for beams, chosen in rows))

    def select(self, rows: Tensor) -> Self:
        return type(self)(tuple(self.ids[row] for row in rows.tolist()))

    def concat(self, other: Self) -> Self:
        return type(self)(self.ids + other.ids)


@dataclass(frozen=True)
class PrefixModel:
    """Random model whose logits depend on the whole prefix and the source, by a seeded generator.

    With `levels`, logits take only that many values, so that ties are common. `end_bias` makes EOS likely. `words` real
    tokens follow the four special symbols.
    """

    words: int = 3
    seed: int = 0
    levels: int | None = None
    end_bias: float = 0.0
    _seen: dict[tuple[tuple[int, ...], tuple[int, ...]], list[float]] = field(default_factory=dict, compare=False)

    @property
    def vocabulary(self) -> int:
        return 4 + self.words

    def logits(self, source: Sequence[int], prefix: Sequence[int]) -> list[float]:
        """Return the logits after a prefix, which begins with BOS."""
        key = (tuple(source), tuple(prefix))
        if key not in self._seen:
            self._seen[key] = self._drawn(random.Random(repr((self.seed, key))))
        return self._seen[key]

    def _drawn(self, generator: random.Random) -> list[float]:
        values = [generator.gauss(0.0, 1.5) for _ in range(self.vocabulary)]
        if self.levels is not None:
            values = [float(generator.randrange(self.levels)) for _ in values]
        values[SYMBOLS.eos] += self.end_bias
        return values

    def log_probs(self, source: Sequence[int], prefix: Sequence[int]) -> list[float]:
        """Return the log-probabilities after a prefix by definition, in double precision."""
        logits = self.logits(source, prefix)
        normalizer = math.log(math.fsum(math.exp(logit) for logit in logits))
        return [logit - normalizer for logit in logits]

    def encode(self, source: Tensor, lengths: Tensor) -> Sources:
        rows = zip(source.tolist(), lengths.tolist(), strict=True)
        return Sources(tuple(tuple(row[:length]) for row, length in rows))

    def start(self, memory: Sources, *, beam_size: int) -> Prefixes:
        return Prefixes(((((),) * beam_size),) * len(memory.ids))

    def step(self, tokens: Tensor, memory: Sources, state: Prefixes) -> tuple[Tensor, Prefixes]:
        grown = Prefixes(
            tuple(
                tuple((*prefix, token) for prefix, token in zip(prefixes, row, strict=True))
                for prefixes, row in zip(state.ids, tokens.tolist(), strict=True)
            )
        )
        logits = [
            [self.logits(source, prefix) for prefix in prefixes]
            for source, prefixes in zip(memory.ids, grown.ids, strict=True)
        ]
        return torch.tensor(logits), grown

    def hidden(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits themselves: `unembed` is the identity."""
        rows = zip(self.encode(source, source_lengths).ids, target.tolist(), strict=True)
        return torch.tensor([[self.logits(ids, row[: n + 1]) for n in range(len(row))] for ids, row in rows])

    def unembed(self, hidden: Tensor) -> Tensor:
        return hidden


@dataclass(frozen=True)
class TextModel:
    """A `PrefixNetwork` without sources that continues texts; it raises if a prefix exceeds its context."""

    network: PrefixModel = field(default_factory=PrefixModel)
    max_length: int | None = None

    def encode(self, prompt: Tensor, lengths: Tensor) -> Sources:
        rows = zip(prompt.tolist(), lengths.tolist(), strict=True)
        return Sources(tuple(tuple(row[: length - 1]) for row, length in rows))

    def start(self, memory: Sources, *, beam_size: int) -> Prefixes:
        return Prefixes(tuple((ids,) * beam_size for ids in memory.ids))

    def step(self, tokens: Tensor, memory: Sources, state: Prefixes) -> tuple[Tensor, Prefixes]:
        nothing = Sources(((),) * len(state.ids))
        logits, grown = self.network.step(tokens, nothing, state)
        assert all(len(prefix) <= (self.max_length or len(prefix)) for row in grown.ids for prefix in row)
        return logits, grown

    def hidden(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        """Return the logits themselves: `unembed` is the identity."""
        assert tokens.shape[1] <= (self.max_length or tokens.shape[1])
        rows = tokens.tolist()
        return torch.tensor([[self.network.logits((), row[: n + 1]) for n in range(len(row))] for row in rows])

    def unembed(self, hidden: Tensor) -> Tensor:
        return hidden


def rectangle(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Padded ids and their lengths."""
    width = max(len(row) for row in rows)
    ids = [[*row, *[SYMBOLS.pad] * (width - len(row))] for row in rows]
    return torch.tensor(ids, dtype=torch.long), torch.tensor([len(row) for row in rows])
