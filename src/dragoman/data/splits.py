"""A corpus in memory, in parts: to learn from, to validate by and to test with, none of which holds text of another."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, final

from dragoman.data.cleaning import MIN_EXAMPLES
from dragoman.data.hashing import HashSet, file_fingerprint, text_hash
from dragoman.data.heldout_split import default_valid_size
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.errors import DataError


class CorpusFile(Protocol):
    """A corpus that is one file."""

    @property
    def path(self) -> Path: ...


T = TypeVar("T")
C = TypeVar("C", bound=CorpusFile)
C_co = TypeVar("C_co", bound=CorpusFile, covariant=True)


class SplitConfig(Protocol[C_co]):
    """The corpora that a configuration names."""

    @property
    def train(self) -> C_co: ...

    @property
    def valid(self) -> C_co | None: ...

    @property
    def test(self) -> C_co | None: ...

    @property
    def valid_size(self) -> int | None:
        """Different texts of `train` that are held out where there is no `valid`."""
        ...

    @property
    def remove_leaks(self) -> bool:
        """Whether training text that is held-out text too is removed."""
        ...


@final
@dataclass(frozen=True)
class Splits(Generic[T]):
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
class SplitKeys(Generic[T]):
    """By which text examples belong together."""

    group: Callable[[T], str]
    """Examples that agree in it are held out together, or not at all."""
    content: Callable[[T], str]
    """A training example that agrees in it with a held-out one is a leak."""


def read_splits(
    corpora: SplitConfig[C], read: Callable[[C, ReadWarnings], Iterable[T]], keys: SplitKeys[T], *, seed: int
) -> Splits[T]:
    """All examples in parts, without leaks; a validation part is drawn by `seed` where none is given.

    Raises DataError as `read` does, where a part that is given is empty, and where too little is left to learn from.
    """
    repairs = ReadWarnings()
    everything = list(read(corpora.train, repairs))
    test = None if corpora.test is None else list(read(corpora.test, repairs))
    ours = everything
    if corpora.valid is None:
        if corpora.remove_leaks:  # so that weights are not chosen by what is tested
            ours = _without_leaks(everything, test or [], keys)
        train, valid = _held_out(ours, keys, size=corpora.valid_size, seed=seed)
    else:
        train, valid = everything, list(read(corpora.valid, repairs))
    for name, corpus, examples in (("valid", corpora.valid, valid), ("test", corpora.test, test)):
        if corpus is not None and not examples:
            raise DataError(f"{corpus.path}: holds no example; give another file, or leave data.{name} out")
    kept = _without_leaks(train, [*valid, *(test or [])], keys)
    left = kept if corpora.remove_leaks else train
    if len(left) < MIN_EXAMPLES:
        raise DataError(
            f"{corpora.train.path}: {len(left):,} of {len(everything):,} examples are left to learn from, and training "
            f"needs at least {MIN_EXAMPLES}; give more text, or hold out less of it"
        )
    notes = (*_mended(repairs), *_leaks(len(everything) - len(ours) + len(train) - len(kept), corpora))
    return Splits(left, valid, test, notes, _fingerprints(corpora))


def _held_out(examples: Sequence[T], keys: SplitKeys[T], *, size: int | None, seed: int) -> tuple[list[T], list[T]]:
    """Those to learn from and those held out, drawn by hash, so that they are the same on every machine."""
    drawn = [text_hash(keys.group(one).casefold(), seed=seed) for one in examples]
    different = sorted(set(drawn))
    chosen = set(different[: default_valid_size(len(different)) if size is None else size])
    pairs = list(zip(drawn, examples, strict=True))
    return [one for key, one in pairs if key not in chosen], [one for key, one in pairs if key in chosen]


def _without_leaks(train: Iterable[T], held_out: Iterable[T], keys: SplitKeys[T]) -> list[T]:
    known = HashSet(text_hash(keys.content(one)) for one in held_out)
    return [one for one in train if text_hash(keys.content(one)) not in known]


def _mended(repairs: ReadWarnings) -> list[str]:
    """What was mended while reading; blank lines hold nothing or separate, and need no word."""
    told = {key: count for key, count in repairs.found.items() if key[1] != "blank"}
    return ReadWarnings(told).messages()


def _leaks(count: int, corpora: SplitConfig[CorpusFile]) -> list[str]:
    if not count:
        return []
    what = "removed" if corpora.remove_leaks else "kept, so that scores on it mean less"
    return [f"{corpora.train.path}: training examples that stand in the validation or test text: {count:,}, {what}"]


def _fingerprints(corpora: SplitConfig[CorpusFile]) -> dict[str, str]:
    given = [corpus for corpus in (corpora.train, corpora.valid, corpora.test) if corpus is not None]
    return {str(corpus.path): file_fingerprint(corpus.path) for corpus in given}
