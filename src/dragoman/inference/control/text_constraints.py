"""Constraints on the words of translations, and the automata over tokens that beam search follows."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dragoman.array_types import Bool
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.decoding.constraints import Phrase, PhraseAutomaton, PhraseKind
from dragoman.errors import DataError
from dragoman.models.special_symbols import UNK
from dragoman.number_words import counted

MAX_CONSTRAINTS = 62
"""Constraints of one text."""
MAX_FORMS = 100
"""Forms of a constraint."""
_WORD_ENDS = frozenset("ZPSC")
"""Unicode categories of characters that do not continue a word."""


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """Words that must appear in a translation, once or more, or may not.

    One of several forms suffices, such as inflections; of forbidden words, none may appear. A form counts where it is
    not the beginning of a longer word, unless `whole_words` is False.
    """

    forms: str | Sequence[str]
    kind: PhraseKind = "required"
    whole_words: bool = True

    @property
    def texts(self) -> tuple[str, ...]:
        """The forms."""
        return (self.forms,) if isinstance(self.forms, str) else tuple(self.forms)


TextConstraints = Sequence[Constraint] | Sequence[Sequence[Constraint]]
"""Constraints of all texts, or of each text."""


def build_automaton(
    tokenizer: LanguageTokenizer,
    constraints: Sequence[Constraint],
    boundaries: Bool[np.ndarray, " vocabulary"],
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
        Phrase(_encode(tokenizer, one, text=text), one.kind, " or ".join(one.texts), one.whole_words)
        for one in constraints
    ]
    return PhraseAutomaton(phrases, boundaries)


def _encode(tokenizer: LanguageTokenizer, constraint: Constraint, *, text: str) -> tuple[tuple[int, ...], ...]:
    """Return the token sequences of the forms of a constraint."""
    texts = constraint.texts
    if not 0 < len(texts) <= MAX_FORMS:
        raise DataError(f"{text}: a constraint has {counted(len(texts), 'forms')}. Give 1 to {MAX_FORMS}.")
    encoded = tokenizer.encode_batch(list(texts))
    for form, ids in zip(texts, encoded, strict=True):
        if not ids or UNK in ids:
            problem = "is empty" if not ids else "has characters that the model cannot write"
            raise DataError(f"{text}: the constraint {form!r:.60} {problem}. Change or remove it.")
    return tuple(map(tuple, encoded))


def word_boundaries(tokenizer: LanguageTokenizer) -> Bool[np.ndarray, " vocabulary"]:
    """Return the tokens before which a word is over: they begin with a space or a punctuation mark."""
    names = tokenizer.ids_to_tokens(range(len(tokenizer)))
    return np.array([name[:1] == SPACE or unicodedata.category(name[:1] or "a")[0] in _WORD_ENDS for name in names])
