"""Lexical shortlist: candidate target tokens for a source, a few per source token and the most frequent ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from dragoman.atomic_files import write_atomically
from dragoman.config import Config
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, byte_token_ids
from dragoman.data.translation_lexicon import sample_evenly, train_lexicon
from dragoman.errors import DataError

_Ids = NDArray[np.int32]


class ShortlistConfig(Config):
    """Size of a shortlist."""

    frequent: int = Field(default=1000, ge=0, description="most frequent target tokens, which are always candidates")
    per_token: PositiveInt = Field(default=50, description="candidates per source token")


@final
@dataclass(frozen=True)
class Shortlist:
    """Target tokens that are `always` candidates, and for each source token `lengths` more in `values`.

    Special tokens and byte tokens are always candidates, so that an output can end and spell any character.
    """

    always: _Ids
    values: _Ids
    lengths: _Ids

    def __post_init__(self) -> None:
        if int(self.lengths.sum(dtype=np.int64)) != len(self.values) or (self.lengths < 0).any():
            raise DataError("a shortlist with inconsistent lengths; export the model again")

    def tokens_for(self, source: Sequence[int]) -> _Ids:
        """Return the sorted candidates for a source."""
        ends, lengths = self._ends, self.lengths
        own = [self.values[ends[token] - lengths[token] : ends[token]] for token in {*source}]
        return np.unique(np.concatenate([self.always, *own]))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths, dtype=np.int64)

    def matches_vocabs(self, *, source: int, target: int) -> bool:
        """Return whether the shortlist fits vocabularies of these sizes."""
        every = np.concatenate([self.always, self.values])
        return len(self.lengths) == source and bool((every >= 0).all() and (every < target).all())

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        write_atomically(path, save({"always": self.always, "values": self.values, "lengths": self.lengths}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file written by `save`. Raises DataError if it is missing or damaged."""
        try:
            arrays: dict[str, Any] = load_file(path)
            return cls(**{name: arrays[name].astype(np.int32) for name in ("always", "values", "lengths")})
        except FileNotFoundError as error:
            raise DataError(
                f"{path}: no such file; make one by: dragoman export RUN --shortlist --out MODEL"
            ) from error
        except (SafetensorError, OSError, KeyError) as error:
            raise DataError(f"{path}: damaged or no shortlist ({error}); export the model again") from error


def build_shortlist(
    texts: Iterable[tuple[str, str]], tokenizer: Tokenizer, settings: ShortlistConfig
) -> tuple[Shortlist, int]:
    """Build a shortlist from pairs of texts, and return it with the number of pairs used.

    Candidates of a token are its most probable translations (`lexicon`) and the target token with the same text, with
    which names and numbers are copied. Raises DataError if there are no pairs.
    """
    pairs = sample_evenly(texts)
    if not pairs:
        raise DataError("there are no pairs of texts to build a shortlist from; give the training corpus")
    sources, targets = zip(*pairs, strict=True)
    source_ids = tokenizer.source.encode_batch(list(sources))
    target_ids = tokenizer.target.encode_batch(list(targets))
    vocabs = tokenizer.source.model.vocab, tokenizer.target.model.vocab
    sizes = {"source_size": len(vocabs[0]), "target_size": len(vocabs[1])}
    lexicon = train_lexicon(list(zip(source_ids, target_ids, strict=True)), **sizes)
    always = _frequent_tokens(target_ids, vocabs[1], settings.frequent)
    rows = np.stack([*lexicon.top_k(settings.per_token)]), _same_texts(*vocabs)
    source, target = np.unique(np.concatenate(rows, axis=1), axis=1)
    rest = ~np.isin(target, always)
    lengths = np.bincount(source[rest], minlength=len(vocabs[0])).astype(np.int32)
    return Shortlist(always, target[rest].astype(np.int32), lengths), len(pairs)


def _frequent_tokens(targets: Sequence[Sequence[int]], vocab: tuple[str, ...], frequent: int) -> _Ids:
    counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *map(np.asarray, targets)]).astype(np.int64))
    order = np.argsort(-counts, kind="stable")[:frequent]
    fixed = len(SPECIAL_TOKENS) + len(byte_token_ids(vocab))
    return np.unique(np.concatenate([np.arange(fixed), order[counts[order] > 0]])).astype(np.int32)


def _same_texts(sources: tuple[str, ...], targets: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the ids of source and target tokens with the same text, in two rows."""
    known = {text: index for index, text in enumerate(targets)}
    pairs = [(index, known[text]) for index, text in enumerate(sources) if text in known]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T
