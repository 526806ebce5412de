"""Training, validation and test sets without common text; a validation set is drawn by hash if none is given."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, final

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.cleaning_rules import MIN_EXAMPLES
from dragoman.data.fingerprints import require_file, text_hash
from dragoman.data.readers.line_reader import CorpusFile, ReadWarnings
from dragoman.errors import ConfigError, DataError

TEXT_VALID_SHARE = 0.1
"""Default share of running text that is held out, from its end."""
MAX_VALID_SIZE = 2000
VALID_SHARE = 0.05


_T = TypeVar("_T")
_C = TypeVar("_C")
F = TypeVar("F", bound=CorpusFile)


def missing_corpus_error() -> ConfigError:
    """Return the error for a training without a corpus, with the configuration of a run that was imported."""
    return ConfigError(
        "data.train is null, as in the configuration of an imported model: there is no text to train on. Name a "
        "corpus, and start from the imported model with --init-from."
    )


class ValidationConfig(Config):
    """Configuration with `valid` or `valid_size`, but not both."""

    @model_validator(mode="after")
    def _check_validation_set(self) -> Self:
        given: Any = self
        if given.valid is not None and given.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        return self


class SplitConfig(ValidationConfig, Generic[_C]):
    """Corpora of a run that are read into memory."""

    train: _C | None
    """Training corpus; null for a run that was imported, which cannot be trained itself."""
    valid: _C | None = None
    """Validation corpus; by default a part of `train` is held out."""
    valid_size: int | None = Field(default=None, ge=1)
    """Different texts (contexts of questions) of `train` to hold out without `valid`; by default 5 %, at most 2,000."""
    test: _C | None = None
    """Test corpus, scored at the end."""
    remove_leaks: bool = True
    """Remove training examples that are in the validation or test set; they are reported in any case."""


@final
@dataclass(frozen=True)
class Splits(Generic[_T]):
    """Examples of a run."""

    train: Sequence[_T]
    valid: Sequence[_T]
    test: Sequence[_T] | None
    notes: tuple[str, ...]
    """Messages about repairs and leaks."""
    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""


def default_valid_size(examples: int) -> int:
    """Return the default number of held-out sources: 5 %, at least 1, at most 2,000."""
    return max(1, min(MAX_VALID_SIZE, int(VALID_SHARE * examples)))


def split_hash(text: str, *, seed: int) -> int:
    """Return the position of a text in the draw of a held-out part; case and white space do not matter."""
    return text_hash(text.casefold(), seed=seed)


def read_splits(
    corpora: "SplitConfig[F]",  # evaluated, pydantic would build a model for the base class
    read: Callable[[F, ReadWarnings], Iterable[_T]],
    *,
    group: Callable[[_T], str],
    content: Callable[[_T], str],
    seed: int,
) -> Splits[_T]:
    """Read all examples, draw a validation set by `seed` if none is given, and remove leaks.

    Examples with the same `group` are held out together. A training example with the same `content` as a held-out
    example is a leak. Raises DataError as `read` does, and if a set is empty or too little is left for training.
    """
    if corpora.train is None:
        raise missing_corpus_error()
    files = [corpus.path for corpus in (corpora.train, corpora.valid, corpora.test) if corpus is not None]
    for path in files:
        require_file(path)
    warnings = ReadWarnings()
    candidates = everything = list(read(corpora.train, warnings))
    test = None if corpora.test is None else list(read(corpora.test, warnings))
    if corpora.valid is None:
        if corpora.remove_leaks:  # weights must not be selected on test text
            candidates = _without_leaks(everything, test or [], content)
        train, valid = _hold_out(candidates, group, size=corpora.valid_size, seed=seed)
    else:
        train, valid = everything, list(read(corpora.valid, warnings))
    for name, corpus, examples in (("valid", corpora.valid, valid), ("test", corpora.test, test)):
        if corpus is not None and not examples:
            raise DataError(f"{corpus.path}: holds no example; give another file, or leave data.{name} out")
    kept = _without_leaks(train, [*valid, *(test or [])], content)
    left = kept if corpora.remove_leaks else train
    if len(left) < MIN_EXAMPLES:
        raise DataError(
            f"{corpora.train.path}: {len(left):,} of {len(everything):,} examples are left for training, which needs "
            f"at least {MIN_EXAMPLES}; give more text, or hold out less of it"
        )
    notes = warnings.messages(blank=False)
    if num_leaks := len(everything) - len(candidates) + len(train) - len(kept):
        action = "removed" if corpora.remove_leaks else "kept, so that scores on it mean less"
        notes.append(
            f"{corpora.train.path}: training examples that are in the validation or test text: {num_leaks:,}, {action}"
        )
    return Splits(left, valid, test, tuple(notes), {str(path): warnings.fingerprints[str(path)] for path in files})


def _hold_out(
    examples: Sequence[_T], group: Callable[[_T], str], *, size: int | None, seed: int
) -> tuple[list[_T], list[_T]]:
    hashes = [split_hash(group(example), seed=seed) for example in examples]
    different = sorted(set(hashes))
    chosen = set(different[: default_valid_size(len(different)) if size is None else size])
    pairs = list(zip(hashes, examples, strict=True))
    return [one for key, one in pairs if key not in chosen], [one for key, one in pairs if key in chosen]


def _without_leaks(train: Iterable[_T], held_out: Iterable[_T], content: Callable[[_T], str]) -> list[_T]:
    known = {text_hash(content(example)) for example in held_out}
    return [example for example in train if text_hash(content(example)) not in known]
