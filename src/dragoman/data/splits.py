"""A corpus in memory, in parts: to learn from, to validate by and to test with, none of which holds text of another."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, final

from dragoman.data.cleaning import FEWEST
from dragoman.data.hashing import KeySet, file_fingerprint, text_key
from dragoman.data.heldout_split import size_of_held_out
from dragoman.data.readers.repairs import Repairs
from dragoman.errors import DataError


class InFile(Protocol):
    """A corpus that is one file."""

    @property
    def path(self) -> Path: ...


T = TypeVar("T")
C = TypeVar("C", bound=InFile)
C_co = TypeVar("C_co", bound=InFile, covariant=True)


class Corpora(Protocol[C_co]):
    """The corpora that a configuration names."""

    @property
    def train(self) -> C_co: ...

    @property
    def valid(self) -> C_co | None: ...

    @property
    def test(self) -> C_co | None: ...

    @property
    def held_out(self) -> int | None:
        """Different texts of `train` that are held out where there is no `valid`."""
        ...

    @property
    def leaks(self) -> bool:
        """Whether training text that is held-out text too is removed."""
        ...


@final
@dataclass(frozen=True)
class Parts(Generic[T]):
    """The examples of a run."""

    train: Sequence[T]
    valid: Sequence[T]
    test: Sequence[T] | None
    notes: tuple[str, ...]
    """Sentences to be printed: what was mended, and what was removed."""
    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""


@final
@dataclass(frozen=True)
class Keys(Generic[T]):
    """By which text examples belong together."""

    together: Callable[[T], str]
    """Examples that agree in it are held out together, or not at all."""
    same: Callable[[T], str]
    """A training example that agrees in it with a held-out one is a leak."""


def read_parts(corpora: Corpora[C], read: Callable[[C, Repairs], Iterable[T]], keys: Keys[T], *, seed: int) -> Parts[T]:
    """All examples in parts, without leaks; a validation part is drawn by `seed` where none is given.

    Raises DataError as `read` does, where a part that is given is empty, and where too little is left to learn from.
    """
    repairs = Repairs()
    everything = list(read(corpora.train, repairs))
    test = None if corpora.test is None else list(read(corpora.test, repairs))
    ours = everything
    if corpora.valid is None:
        if corpora.leaks:  # so that weights are not chosen by what is tested
            ours = _without_leaks(everything, test or [], keys)
        train, valid = _held_out(ours, keys, size=corpora.held_out, seed=seed)
    else:
        train, valid = everything, list(read(corpora.valid, repairs))
    for name, corpus, examples in (("valid", corpora.valid, valid), ("test", corpora.test, test)):
        if corpus is not None and not examples:
            raise DataError(f"{corpus.path}: holds no example; give another file, or leave data.{name} out")
    kept = _without_leaks(train, [*valid, *(test or [])], keys)
    left = kept if corpora.leaks else train
    if len(left) < FEWEST:
        raise DataError(
            f"{corpora.train.path}: {len(left):,} of {len(everything):,} examples are left to learn from, and training "
            f"needs at least {FEWEST}; give more text, or hold out less of it"
        )
    notes = (*_mended(repairs), *_leaks(len(everything) - len(ours) + len(train) - len(kept), corpora))
    return Parts(left, valid, test, notes, _fingerprints(corpora))


def _held_out(examples: Sequence[T], keys: Keys[T], *, size: int | None, seed: int) -> tuple[list[T], list[T]]:
    """Those to learn from and those held out, drawn by hash, so that they are the same on every machine."""
    drawn = [text_key(keys.together(one).casefold(), seed=seed) for one in examples]
    different = sorted(set(drawn))
    chosen = set(different[: size_of_held_out(len(different)) if size is None else size])
    pairs = list(zip(drawn, examples, strict=True))
    return [one for key, one in pairs if key not in chosen], [one for key, one in pairs if key in chosen]


def _without_leaks(train: Iterable[T], held_out: Iterable[T], keys: Keys[T]) -> list[T]:
    known = KeySet(text_key(keys.same(one)) for one in held_out)
    return [one for one in train if text_key(keys.same(one)) not in known]


def _mended(repairs: Repairs) -> list[str]:
    """What was mended while reading; blank lines hold nothing or separate, and need no word."""
    told = {key: count for key, count in repairs.found.items() if key[1] != "blank"}
    return Repairs(told).sentences()


def _leaks(count: int, corpora: Corpora[InFile]) -> list[str]:
    if not count:
        return []
    what = "removed" if corpora.leaks else "kept, so that scores on it mean less"
    return [f"{corpora.train.path}: training examples that stand in the validation or test text: {count:,}, {what}"]


def _fingerprints(corpora: Corpora[InFile]) -> dict[str, str]:
    given = [corpus for corpus in (corpora.train, corpora.valid, corpora.test) if corpus is not None]
    return {str(corpus.path): file_fingerprint(corpus.path) for corpus in given}
