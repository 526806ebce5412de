"""Which tokens may stand in the translation of a text: a few for each of its own, and those that occur everywhere."""

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

from dragoman.atomic import write_atomically
from dragoman.config import Config
from dragoman.data.lexicon import sample_evenly, train_lexicon
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.vocabulary import BYTE_TOKENS, SPECIAL_TOKENS, has_byte_tokens
from dragoman.errors import DataError

Ids = NDArray[np.int32]


class ShortlistConfig(Config):
    """How long a shortlist is."""

    frequent: int = Field(default=1000, ge=0, description="tokens that are candidates always, the most frequent of all")
    per_token: PositiveInt = Field(default=50, description="candidates for each token of a source")


@final
@dataclass(frozen=True)
class Shortlist:
    """Target tokens that are candidates for every source, and for each source token `lengths` more in `values`.

    Special symbols, and bytes where the vocabulary has them, are always among them: an output can always end, and
    where there are bytes, spell anything.
    """

    always: Ids
    values: Ids
    lengths: Ids

    def __post_init__(self) -> None:
        if int(self.lengths.sum(dtype=np.int64)) != len(self.values) or (self.lengths < 0).any():
            raise DataError("a shortlist whose lists do not fit each other; export the model again")

    def tokens_for(self, source: Sequence[int]) -> Ids:
        """The candidates for a source, in order."""
        ends, lengths = self._ends, self.lengths
        own = [self.values[ends[token] - lengths[token] : ends[token]] for token in {*source}]
        return np.unique(np.concatenate([self.always, *own]))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths, dtype=np.int64)

    def matches_vocabs(self, *, source: int, target: int) -> bool:
        """Whether it is about vocabularies of these sizes."""
        every = np.concatenate([self.always, self.values])
        return len(self.lengths) == source and bool((every >= 0).all() and (every < target).all())

    def save(self, path: Path) -> None:
        """Write it atomically."""
        write_atomically(path, save({"always": self.always, "values": self.values, "lengths": self.lengths}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises DataError where there is none, or it is damaged."""
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
    """From pairs of texts, of which so many were used.

    Candidates of a token are its most probable translations (`lexicon`) and the piece that is written like it, which is
    how names and numbers are copied. Raises DataError where there are no pairs.
    """
    pairs = sample_evenly(texts)
    if not pairs:
        raise DataError("there are no pairs of texts to learn a shortlist from; give the training corpus")
    sources, targets = zip(*pairs, strict=True)
    source_ids = tokenizer.source.encode_batch(list(sources))
    target_ids = tokenizer.target.encode_batch(list(targets))
    pieces = tokenizer.source.model.vocab, tokenizer.target.model.vocab
    sizes = {"source_size": len(pieces[0]), "target_size": len(pieces[1])}
    lexicon = train_lexicon(list(zip(source_ids, target_ids, strict=True)), **sizes)
    always = _always(target_ids, pieces[1], settings.frequent)
    rows = np.stack([*lexicon.top_k(settings.per_token)]), _alike(*pieces)
    source, target = np.unique(np.concatenate(rows, axis=1), axis=1)
    rest = ~np.isin(target, always)
    lengths = np.bincount(source[rest], minlength=len(pieces[0])).astype(np.int32)
    return Shortlist(always, target[rest].astype(np.int32), lengths), len(pairs)


def _always(outputs: Sequence[Sequence[int]], pieces: tuple[str, ...], frequent: int) -> Ids:
    counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *map(np.asarray, outputs)]).astype(np.int64))
    order = np.argsort(-counts, kind="stable")[:frequent]
    fixed = len(SPECIAL_TOKENS) + (len(BYTE_TOKENS) if has_byte_tokens(pieces) else 0)
    return np.unique(np.concatenate([np.arange(fixed), order[counts[order] > 0]])).astype(np.int32)


def _alike(sources: tuple[str, ...], targets: tuple[str, ...]) -> NDArray[np.int64]:
    """Source and target tokens that are written alike, in two rows."""
    known = {piece: token for token, piece in enumerate(targets)}
    pairs = [(token, known[piece]) for token, piece in enumerate(sources) if piece in known]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T
