"""Synthetic parallel corpus from the CLDR: the same dates, amounts, units and lists in two locales."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, final

from dragoman.atomic_files import WriteError, write_atomically
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.errors import DataError, MissingExtraError, nearest
from dragoman_demo.normalized_comparison import normal, spaced
from dragoman_demo.typed_variants import type_variant

if TYPE_CHECKING:
    from babel import Locale

    from dragoman_demo.unambiguous_templates import Reading

TYPED_SHARE = 0.5
"""Share of the English phrases that are written as people type them, and not as the CLDR writes them."""
MAX_REPETITIONS = 10
"""Times that a phrase is in the training set at most."""
MAX_CODE = 3
"""Letters of a language code; all codes of so few letters are similar."""
FAMILIES = {
    "date": 14,
    "time": 8,
    "date-time": 12,
    "weekday": 6,
    "interval": 8,
    "number": 12,
    "money": 12,
    "unit": 12,
    "rate": 3,
    "duration": 7,
    "list": 6,
}
"""Percentage of each family of phrases."""


@final
@dataclass(frozen=True, slots=True)
class Phrase:
    """One value in two locales, and its family."""

    source: str
    target: str
    family: str


@final
@dataclass(frozen=True, slots=True)
class Split:
    """Training, validation and test phrases; no source occurs in two of them."""

    train: tuple[Phrase, ...]
    valid: tuple[Phrase, ...]
    test: tuple[Phrase, ...]


@final
@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """Files of a corpus, and the family of every line of `test`."""

    train: ParallelFiles
    valid: ParallelFiles
    test: ParallelFiles
    families: Path


def phrases(count: int, *, source_locale: str = "en", target_locale: str = "fr", seed: int = 1) -> Iterator[Phrase]:
    """Yield at most `count` phrases in random order, each with a different source.

    Sources have plain spaces, and half of the English ones are written as people type them; targets have the no-break
    and thin spaces of the CLDR. A source that was drawn with two targets is left out, so that a few phrases may be
    missing. Sources that differ in Unicode form only count as equal. The same arguments give the same phrases. Raises
    DataError for an unknown locale and MissingExtraError without Babel.
    """
    return iter(_count_phrases(count, source_locale=source_locale, target_locale=target_locale, seed=seed))


def _count_phrases(count: int, *, source_locale: str, target_locale: str, seed: int) -> dict[Phrase, int]:
    """Return the phrases of `phrases`, and how often each was drawn."""
    drawn = _drawn(known_locale(source_locale), known_locale(target_locale), seed)
    variants = _generator("variants", seed) if source_locale.partition("_")[0] == "en" else None
    meanings: dict[str, Phrase | None] = {}
    times: Counter[str] = Counter()
    while len(meanings) < count:
        phrase = next(drawn)
        phrase = replace(phrase, source=spaced(phrase.source))
        if variants is not None and variants.random() < TYPED_SHARE:
            phrase = replace(phrase, source=type_variant(phrase.source, variants))
        key = normal(phrase.source)
        times[key] += 1
        before = meanings.setdefault(key, phrase)
        if before is not None and spaced(before.target) != spaced(phrase.target):
            meanings[key] = None
    return {phrase: times[key] for key, phrase in meanings.items() if phrase is not None}


def split(
    *,
    train: int = 60_000,
    valid: int = 1_000,
    test: int = 1_000,
    source_locale: str = "en",
    target_locale: str = "fr",
    seed: int = 1,
) -> Split:
    """Return three sets from one distribution; `valid` and `test` have the given sizes, `train` almost.

    The number of training phrases counts different ones. Phrases that are frequent in texts, such as `2 days ago`, are
    there several times.
    """
    total = train + valid + test
    times = _count_phrases(total, source_locale=source_locale, target_locale=target_locale, seed=seed)
    different = list(times)
    _generator("split", seed).shuffle(different)
    held_out = valid + test
    repeated = [phrase for phrase in different[held_out:] for _ in range(min(times[phrase], MAX_REPETITIONS))]
    _generator("order", seed).shuffle(repeated)
    return Split(tuple(repeated), tuple(different[:valid]), tuple(different[valid:held_out]))


def write_corpus(folder: Path, parts: Split, *, source_locale: str = "en", target_locale: str = "fr") -> CorpusFiles:
    """Write `train.en`, `train.fr`, `valid.en` ... `test.fr` and `test.family`, one phrase a line.

    Raises DataError if a file with other content exists or both locales are equal, RunError if writing fails.
    """
    files = corpus_files(folder, source_locale=source_locale, target_locale=target_locale)
    texts = {files.families: "".join(f"{phrase.family}\n" for phrase in parts.test)}
    for corpus, part in ((files.train, parts.train), (files.valid, parts.valid), (files.test, parts.test)):
        texts[Path(str(corpus.source))] = "".join(f"{phrase.source}\n" for phrase in part)
        texts[Path(str(corpus.target))] = "".join(f"{phrase.target}\n" for phrase in part)
    _write_new(texts)
    return files


def corpus_files(folder: Path, *, source_locale: str = "en", target_locale: str = "fr") -> CorpusFiles:
    """Return the names of the files of a corpus. Raises DataError if a locale is unknown or both are equal."""
    endings = str(known_locale(source_locale)), str(known_locale(target_locale))
    if endings[0] == endings[1]:
        raise DataError(f"{target_locale}: the source is in this locale too; choose another target")
    train, valid, test = (
        ParallelFiles(source=folder / f"{name}.{endings[0]}", target=folder / f"{name}.{endings[1]}")
        for name in ("train", "valid", "test")
    )
    return CorpusFiles(train=train, valid=valid, test=test, families=folder / "test.family")


def _write_new(texts: dict[Path, str]) -> None:
    """Write new files; existing files with the same content stay."""
    for path, text in texts.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise DataError(f"{path}: exists with other content; remove it or choose another folder")
    for path, text in texts.items():
        if not path.exists():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WriteError(path.parent, error) from error
            write_atomically(path, text)


def _generator(purpose: str, seed: int) -> Random:
    return Random(f"{purpose} {seed}")  # noqa: S311  # not for secrets


def _drawn(source: "Locale", target: "Locale", seed: int) -> Iterator[Phrase]:
    """Yield phrases endlessly, with repetitions."""
    from dragoman_demo.phrase_templates import all_forms
    from dragoman_demo.unambiguous_templates import consistent

    families: dict[str, list[Reading]] = {name: [] for name in FAMILIES}
    for reading in consistent(all_forms(), source, target):
        families[reading.form.family].append(reading)
    names = [name for name, members in families.items() if members]
    shares = list(accumulate(FAMILIES[name] for name in names))
    weights = {name: list(accumulate(reading.form.weight for reading in families[name])) for name in names}
    random = _generator("phrases", seed)
    while True:
        (name,) = random.choices(names, cum_weights=shares)
        (reading,) = random.choices(families[name], cum_weights=weights[name])
        pair = reading.pair(reading.form.values.draw(random))
        if pair is not None:
            yield Phrase(*pair, name)


def known_locale(name: str) -> "Locale":
    """Return Babel's locale of a name such as `fr`, `pt_BR` or `sr-Latn`."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError as error:
        raise MissingExtraError(feature="the corpus made from the CLDR", extra="demo") from error
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        near = _nearest_locale(name)
        remedy = f"Did you mean {near}?" if near else "Give a language code such as de, ja or pt_BR."
        raise DataError(f"{name}: no locale that Babel knows. {remedy}") from error


def _nearest_locale(name: str) -> str | None:
    """Return the locale whose identifier, or the English name of whose language, is similar to `name`."""
    from babel import Locale, localedata

    identifiers = sorted(localedata.locale_identifiers())
    known = {title.lower(): code for code, title in Locale("en").languages.items() if code in identifiers}
    known |= {identifier.lower(): identifier for identifier in identifiers}
    language = name.replace("-", "_").partition("_")[0].lower()
    if language in known:  # an unknown region
        return known[language]
    near = nearest(name, known) if len(name) > MAX_CODE else []
    return known[near[0]] if near else None
