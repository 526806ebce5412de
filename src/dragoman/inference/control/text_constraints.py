"""Constraints on the words of translations, and the automata over tokens that beam search follows."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final, get_args
from weakref import WeakKeyDictionary

import numpy as np

from dragoman.array_types import Int
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.decoding.constraints import Phrase, PhraseAutomaton, PhraseKind
from dragoman.decoding.constraints.phrase_automaton import BOUNDARY, HYPHEN, INSIDE
from dragoman.errors import ConfigError, DataError
from dragoman.models.special_symbols import UNK
from dragoman.number_words import counted

MAX_CONSTRAINTS = 62
"""Constraints of one text."""
MAX_FORMS = 100
"""Forms of a constraint."""
PREFERRED_BONUS = 4.0
"""Bonus of preferred words, natural logarithm."""
MAX_BONUS = 1000.0
"""Largest bonus: more than the negative log-probability of a translation."""
_BOUNDARIES: WeakKeyDictionary[LanguageTokenizer, Int[np.ndarray, " vocabulary"]] = WeakKeyDictionary()
"""Word boundaries of tokenizers, which take milliseconds to find."""
_WORD_ENDS = frozenset("ZPSC")
"""Unicode categories of characters that do not continue a word."""
_HYPHENS = "-_\u2010\u2011"
"""Characters that join two words to one."""


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """Words that must appear in a translation, once or more, or may not.

    One of several forms suffices, such as inflections; of forbidden words, none may appear. A form counts where it is
    not the beginning of a longer word, unless `whole_words` is False; a compound with a hyphen is a longer word, except
    for forbidden words. Preferred words need not appear: a translation
    without them ranks as if its log-probability were lower by the `bonus` (natural logarithm).
    """

    forms: str | Sequence[str]
    kind: PhraseKind = "required"
    whole_words: bool = True
    bonus: float | None = None
    """By default, that of `PREFERRED_BONUS` for preferred words."""

    def __post_init__(self) -> None:
        """Raise ConfigError on an invalid kind or bonus."""
        if self.kind not in get_args(PhraseKind):
            raise ConfigError(
                f"kind = {self.kind!r:.60} is no kind of constraint. Choose {' or '.join(get_args(PhraseKind))}."
            )
        if self.bonus is None:
            return
        if self.kind != "preferred":
            raise ConfigError(f"bonus = {self.bonus!r:.60}: only preferred words have one. Leave it out.")
        if not 0 <= self.bonus <= MAX_BONUS:
            raise ConfigError(f"bonus = {self.bonus!r:.60} is out of range. Choose 0 to {MAX_BONUS:g}.")

    @property
    def texts(self) -> tuple[str, ...]:
        """The forms."""
        return (self.forms,) if isinstance(self.forms, str) else tuple(self.forms)


TextConstraints = Sequence[Constraint] | Sequence[Sequence[Constraint]]
"""Constraints of all texts, or of each text."""


def build_automaton(
    tokenizer: LanguageTokenizer,
    constraints: Sequence[Constraint],
    boundaries: Int[np.ndarray, " vocabulary"],
    *,
    text: str,
) -> PhraseAutomaton | None:
    """Return the automaton of the constraints of a text, None without any; `boundaries` are its word boundaries.

    Raises DataError, which names the `text`, on too many constraints and on words that the tokenizer cannot write.
    """
    if not constraints:
        return None
    if len(constraints) > MAX_CONSTRAINTS:
        raise DataError(
            f"{text}: has {counted(len(constraints), 'constraints')}, and at most {MAX_CONSTRAINTS} are met."
        )
    phrases = [
        Phrase(
            _encode(tokenizer, one, text=text),
            one.kind,
            " or ".join(one.texts),
            one.whole_words,
            _bonus(one),
        )
        for one in constraints
    ]
    return PhraseAutomaton(phrases, boundaries)


def _bonus(constraint: Constraint) -> float:
    if constraint.kind != "preferred":
        return 0.0
    return PREFERRED_BONUS if constraint.bonus is None else float(constraint.bonus)


def _encode(tokenizer: LanguageTokenizer, constraint: Constraint, *, text: str) -> tuple[tuple[int, ...], ...]:
    """Return the token sequences of the forms of a constraint that the model can write."""
    texts = constraint.texts
    if not 0 < len(texts) <= MAX_FORMS:
        raise DataError(f"{text}: a constraint has {counted(len(texts), 'forms')}. Give 1 to {MAX_FORMS}.")
    encoded = tokenizer.encode_batch(list(texts))
    if not all(encoded):
        raise DataError(f"{text}: the constraint {texts[encoded.index([])]!r:.60} is empty. Change or remove it.")
    written = tuple(tuple(ids) for ids in encoded if UNK not in ids)
    if not written:
        problem = "has characters that the model cannot write"
        raise DataError(f"{text}: the constraint {texts[0]!r:.60} {problem}. Change or remove it.")
    return written


def word_boundaries(tokenizer: LanguageTokenizer) -> Int[np.ndarray, " vocabulary"]:
    """Return of each token whether a word is over before it: it begins with a space or a punctuation mark."""
    if tokenizer not in _BOUNDARIES:
        _BOUNDARIES[tokenizer] = _find_boundaries(tokenizer)
    return _BOUNDARIES[tokenizer]


def _find_boundaries(tokenizer: LanguageTokenizer) -> Int[np.ndarray, " vocabulary"]:
    names = tokenizer.ids_to_tokens(range(len(tokenizer)))
    starts = [name[:1] for name in names]
    for byte, index in enumerate(tokenizer.byte_ids):
        starts[index] = chr(byte) if byte < 128 else "a"  # a part of a letter, or of a mark of another script
    return np.array([*map(_boundary, starts)])


def _boundary(start: str) -> int:
    """Return what a token that begins with this character means for the word before it."""
    if start and start in _HYPHENS:
        return HYPHEN
    return BOUNDARY if start == SPACE or unicodedata.category(start or "a")[0] in _WORD_ENDS else INSIDE
