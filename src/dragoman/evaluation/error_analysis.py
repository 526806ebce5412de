"""Where outputs go wrong: scores by length, by how common words are, by kinds of words, and outputs that are no
translation at all.

Words are those that white space separates, with the punctuation around them taken off; recall and precision count them
as bags, sentence by sentence.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dragoman.evaluation.metrics import Bleu, Chrf
from dragoman.evaluation.scores import check_aligned, corpus_score, sentence_scores

LENGTHS = (5, 10, 15, 20, 30, 50)
"""The longest sources of each group but the last, in words."""
FREQUENCIES = (0, 1, 4, 19, 99, 999)
"""How often the most common words of each group but the last occur in training: 0 is never."""
LONGEST_REPEATED = 4
ECHO = 0.5
"""The share of an output's words that stand in the source and not in the reference from which on it is an echo."""

_TRIMMED = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the sentences, scored together."""

    name: str
    sentences: int
    bleu: float
    chrf: float


@dataclass(frozen=True, slots=True)
class WordsFound:
    """Words of one kind: how many the references have, the outputs have, and both have."""

    name: str
    wanted: int
    written: int
    both: int

    @property
    def recall(self) -> float | None:
        return self.both / self.wanted if self.wanted else None

    @property
    def precision(self) -> float | None:
        return self.both / self.written if self.written else None


@dataclass(frozen=True, slots=True)
class Faults:
    """The sentences, counted from 0, whose outputs are no translation, or repeat themselves."""

    empty: tuple[int, ...]
    repeating: tuple[int, ...]
    echoing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bad:
    """One sentence that went wrong."""

    number: int
    chrf: float
    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Analysis:
    """What one system does with a test set."""

    name: str
    whole: Group
    by_length: tuple[Group, ...]
    by_frequency: tuple[WordsFound, ...]
    """Nothing where it is not known how common words are."""
    by_kind: tuple[WordsFound, ...]
    faults: Faults
    worst: tuple[Bad, ...]


def analyse(
    name: str,
    outputs: Sequence[str],
    *,
    sources: Sequence[str],
    references: Sequence[str],
    frequencies: Mapping[str, int] | None = None,
    worst: int = 10,
) -> Analysis:
    """Everything about the outputs of a system, one for each source and reference.

    `frequencies` say how often each word occurs on the target side of the training data. Raises DataError on unequal
    numbers of sentences.
    """
    check_aligned(outputs, [references, sources], names=[name, "references", "sources"])
    rows = list(zip(sources, references, outputs, strict=True))
    chrfs = [score.value for score in sentence_scores(outputs, [references], Chrf())]
    ranked = sorted(range(len(rows)), key=lambda number: (chrfs[number], number))[:worst]
    return Analysis(
        name=name,
        whole=_scored("all", rows),
        by_length=tuple(_by_length(rows)),
        by_frequency=tuple(_by_frequency(rows, frequencies)) if frequencies is not None else (),
        by_kind=tuple(_by_kind(rows)),
        faults=faults(rows),
        worst=tuple(Bad(number, chrfs[number], *rows[number]) for number in ranked),
    )


Row = tuple[str, str, str]
"""Source, reference and output."""


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words(text))
    return counts


def words(text: str) -> list[str]:
    """The words of a text without the punctuation around them.

    >>> words('"Zwei (2) Hunde," sagt er.')
    ['Zwei', '2', 'Hunde', 'sagt', 'er']
    """
    return [trimmed for word in text.split() if (trimmed := _TRIMMED.sub("", word))]


def faults(rows: Sequence[Row]) -> Faults:
    """What no reference is needed for to see, the echo aside."""
    return Faults(
        empty=tuple(number for number, (_, _, output) in enumerate(rows) if not output.strip()),
        repeating=tuple(number for number, (_, _, output) in enumerate(rows) if repeats(output)),
        echoing=tuple(number for number, row in enumerate(rows) if echoes(*row)),
    )


def repeats(output: str) -> bool:
    """Whether some words stand there twice, one time right behind the other; one word alone must stand three times.

    >>> repeats("ein Mann mit einem Hut mit einem Hut"), repeats("das, das sie sah"), repeats("ja ja ja")
    (True, False, True)
    """
    found = words(output)
    for size in range(1, LONGEST_REPEATED + 1):
        times = 3 if size == 1 else 2
        for first in range(len(found) - times * size + 1):
            pieces = [found[first + time * size : first + (time + 1) * size] for time in range(times)]
            if all(piece == pieces[0] for piece in pieces):
                return True
    return False


def echoes(source: str, reference: str, output: str) -> bool:
    """Whether at least half of an output's words are the source's, and the reference has none of them."""
    written = words(output)
    copied = [word for word in written if word in set(words(source)) - set(words(reference))]
    return bool(written) and len(copied) >= ECHO * len(written)


def _by_length(rows: Sequence[Row]) -> Iterable[Group]:
    for low, high in zip((0, *LENGTHS), (*LENGTHS, None), strict=True):
        some = [row for row in rows if low < len(row[0].split()) and (high is None or len(row[0].split()) <= high)]
        if some:
            yield _scored(f"{low + 1} to {high}" if high is not None else f"more than {low}", some)


def _by_frequency(rows: Sequence[Row], frequencies: Mapping[str, int]) -> Iterable[WordsFound]:
    for low, high in zip((-1, *FREQUENCIES), (*FREQUENCIES, None), strict=True):
        name = f"{low + 1:,} and more" if high is None else f"{low + 1:,} to {high:,}"
        named = {0: "never", 1: "once"}.get(-1 if high is None else high, name)
        yield _found(named, rows, partial(_as_common, frequencies, low, high))


def _as_common(frequencies: Mapping[str, int], low: int, high: int | None, _: frozenset[str], word: str) -> bool:
    count = frequencies.get(word, 0)
    return low < count and (high is None or count <= high)


def _by_kind(rows: Sequence[Row]) -> Iterable[WordsFound]:
    yield _found("with a capital", rows, lambda _, word: word[:1].isupper())
    yield _found("in small letters", rows, lambda _, word: word[:1].islower())
    yield _found("with a digit", rows, lambda _, word: any(map(str.isdigit, word)))
    yield _found("standing in the source too", rows, lambda source, word: word in source)


def _found(name: str, rows: Sequence[Row], belongs: Callable[[frozenset[str], str], bool]) -> WordsFound:
    wanted = written = both = 0
    for source, reference, output in rows:
        there = frozenset(words(source))
        ours, theirs = (Counter(word for word in words(text) if belongs(there, word)) for text in (reference, output))
        wanted, written, both = wanted + ours.total(), written + theirs.total(), both + (ours & theirs).total()
    return WordsFound(name, wanted, written, both)


def _scored(name: str, rows: Sequence[Row]) -> Group:
    references, outputs = [row[1] for row in rows], [row[2] for row in rows]
    bleu, chrf = (corpus_score(outputs, [references], metric).value for metric in (Bleu(), Chrf()))
    return Group(name, len(rows), bleu, chrf)
