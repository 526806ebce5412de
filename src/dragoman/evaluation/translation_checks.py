"""Checks of a translation that need no reference: empty, copied, repetitive, of an unlikely length or script.

A check compares the translation with its source, and says nothing where the source has the same property. Markup and
addresses are left out, since they are copied on purpose.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.evaluation.error_analysis import words
from dragoman.evaluation.script_statistics import comparable_length, count_scripts

CheckKind = Literal["empty", "copied", "repeated", "length", "script", "cut_off", "unmet", "unfamiliar"]
"""Kind of a warning about a translation."""

COPIED_SHARE = 0.6
"""Minimum share of words from the source in a translation that counts as copied."""
COPIED_RUN = 5
"""Words of the source, one after the other, from which on a part of a translation counts as copied."""
MAX_LOOP = 8
"""Words of the longest repeated phrase."""
LOOP_LETTERS = 8
"""Letters of a phrase of which two in a row are a repetition, unlike those in “hand in hand in a street”."""
SMOOTHING = 10.0
"""Letters that both lengths get, so that the ratio of short texts is not extreme."""
_MARKUP = re.compile(r"<[^<>]*+>|\b\w++://\S++")
_WORD_WITH_AT = re.compile(r"\S++")
_DOMAIN_END = re.compile(r"\.\w++")
_CHARACTER_LOOP = re.compile(r"([^\W\d_]{2,12}?)\1{3,}|([^\W\d_])\2{5,}")


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """Properties of good translations of one model, measured on references."""

    mean_log_ratio: float = 0.0
    """Mean of the logarithm of target length by source length, in smoothed letters."""
    max_deviation: float = math.log(2.5)
    """Deviation from the mean above which a length is unlikely."""
    scripts: tuple[str, ...] = ()
    """Writing systems of the target language; empty where they are unknown."""
    copies: bool = False
    """Whether references have long parts of their sources, as in the correction of texts."""


@dataclass(frozen=True, slots=True)
class TranslationIssue:
    """Finding of a check: its kind, and a sentence for the person who looks at the translation."""

    kind: CheckKind
    message: str


NO_STATISTICS = TextStatistics()


def check_translation(
    source: str, translation: str, statistics: TextStatistics = NO_STATISTICS
) -> tuple[TranslationIssue, ...]:
    """Return what a person should look at in a translation, by its text and that of the source alone."""
    source, translation = (_without_markup(text) for text in (source, translation))
    if not translation.strip():
        return (TranslationIssue("empty", "The translation is empty."),) if words(source) else ()
    checks: Sequence[Callable[[str, str, TextStatistics], str | None]] = (
        _copied,
        _repeated,
        _unlikely_length,
        _unlikely_script,
    )
    kinds: Sequence[CheckKind] = ("copied", "repeated", "length", "script")
    found = ((kind, check(source, translation, statistics)) for kind, check in zip(kinds, checks, strict=True))
    return tuple(TranslationIssue(kind, message) for kind, message in found if message is not None)


def _without_markup(text: str) -> str:
    """Return a text without tags, addresses of pages and e-mail addresses."""
    text = _MARKUP.sub(" ", text)
    return _WORD_WITH_AT.sub(_without_address, text) if "@" in text else text


def _without_address(word: re.Match[str]) -> str:
    """Return what follows the e-mail address that a word begins with; the word if it has none."""
    at, end = word[0].find("@", 1), max(_DOMAIN_END.finditer(word[0]), key=re.Match.start, default=None)
    return f" {word[0][end.end() :]}" if end is not None and 0 < at < end.start() - 1 else word[0]


def log_length_ratio(source: str, translation: str) -> float:
    """Return the logarithm of the ratio of smoothed lengths."""
    lengths = (comparable_length(text) + SMOOTHING for text in (translation, source))
    return math.log(next(lengths)) - math.log(next(lengths))


def is_copied(source: str, translation: str) -> bool:
    """Return whether most words of a translation, or a long part of it, are those of the source.

    Words with a capital are names as often as not, and do not suffice.

    >>> is_copied("Please restart the computer.", "Bitte restart the computer.")
    True
    >>> is_copied("Angela Merkel visits New York", "Angela Merkel besucht New York")
    False
    """
    return _copied(source, translation, NO_STATISTICS) is not None


def _copied(source: str, translation: str, statistics: TextStatistics) -> str | None:
    if statistics.copies:
        return None
    words_of_source = [word.casefold() for word in words(source)]
    kept = frozenset(words_of_source)
    own = [word for word in words(translation) if any(map(str.isalpha, word))]
    copied = [word for word in own if word.casefold() in kept]
    plain = [word for word in copied if not word[0].isupper()]
    letters = sum(map(comparable_length, plain))
    if (len(plain) >= 2 or letters >= 20) and letters >= 5 and len(copied) >= COPIED_SHARE * len(own):
        return f"{len(copied)} of {len(own)} words are those of the source."
    run = _common_run(words_of_source, own)
    return f"“{' '.join(run)}” is in the source, too." if run else None


def _common_run(source: Sequence[str], own: Sequence[str]) -> Sequence[str]:
    """Return the first sequence of words that the source has, too, with two or more words that are no names: of more
    than two letters, without a capital.
    """
    size = COPIED_RUN
    known = {tuple(source[at : at + size]) for at in range(len(source) - size + 1)}
    for start in range(len(own) - size + 1):
        end = start + size
        if tuple(map(str.casefold, own[start:end])) not in known:
            continue
        while end < len(own) and tuple(map(str.casefold, own[end + 1 - size : end + 1])) in known:
            end += 1
        if sum(len(word) > 2 and not word[0].isupper() for word in own[start:end]) >= 2:
            return own[start:end]
    return ()


def _repeated(source: str, translation: str, _: TextStatistics) -> str | None:
    loops = _word_loops(translation)
    if loops:
        known = _word_loops(source)
        phrase, times = max(loops.items(), key=lambda item: len(item[0]) * item[1])
        if times > max(known.values(), default=1):
            return f"“{' '.join(phrase)}” is repeated {times} times."
    found = _CHARACTER_LOOP.search(translation)
    if found is not None and _CHARACTER_LOOP.search(source) is None:
        piece = found[1] or found[2]
        return f"“{piece}” is repeated {len(found[0]) // len(piece)} times."
    return None


def _word_loops(text: str) -> dict[tuple[str, ...], int]:
    """Return the phrases that follow each other without a break, with the times: short ones three times or more."""
    row = [word.casefold() for word in words(text)]
    loops: dict[tuple[str, ...], int] = {}
    for size in range(1, min(MAX_LOOP, len(row) // 2) + 1):
        run = 0  # words that equal the word one period before them
        for at in range(size, len(row)):
            run = run + 1 if row[at] == row[at - size] else 0
            if run % size:
                continue
            phrase = tuple(row[at - size + 1 : at + 1])
            letters, enough = "".join(phrase), run // size + 1 >= 3
            enough |= run >= size > 1 and len(letters) >= LOOP_LETTERS
            if enough and any(map(str.isalpha, letters)) and len(set(phrase)) > (size > 1):
                loops[phrase] = max(run // size + 1, loops.get(phrase, 0))
    return loops


def _unlikely_length(source: str, translation: str, statistics: TextStatistics) -> str | None:
    deviation = log_length_ratio(source, translation) - statistics.mean_log_ratio
    if abs(deviation) <= statistics.max_deviation:
        return None
    word = "long" if deviation > 0 else "short"
    own, other = (round(comparable_length(text)) for text in (translation, source))
    return f"The translation is unusually {word}: {own:,} letters for {other:,} of the source."


def _unlikely_script(source: str, translation: str, statistics: TextStatistics) -> str | None:
    counts, known = count_scripts(translation), count_scripts(source)
    if not counts:
        return None
    expected = statistics.scripts or (counts.most_common(1)[0][0],)
    strange = {script: count for script, count in counts.items() if script not in expected}
    if statistics.scripts and sum(strange.values()) > counts.total() / 2 and counts.total() > 3:
        return f"Most letters are {_names(strange)}, not {_names(expected)}."
    new = {script: count for script, count in strange.items() if script not in known and count > 1}
    return f"Some letters are {_names(new)}." if new else None


def _names(scripts: Sequence[str] | dict[str, int]) -> str:
    return " and ".join(name if name == "CJK" else name.capitalize() for name in scripts)
