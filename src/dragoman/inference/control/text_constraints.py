"""Constraints on the words of translations, and the automata over tokens that beam search follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final, get_args
from weakref import WeakKeyDictionary

import numpy as np

from dragoman.data.terminology.glossary import accepts_any_case
from dragoman.data.terminology.word_units import HYPHENS, is_inside_word
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.decoding.constraints import Phrase, PhraseAutomaton, PhraseKind
from dragoman.decoding.constraints.phrase_automaton import BOUNDARY, HYPHEN, INSIDE, TokenEdges
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
_EDGES: WeakKeyDictionary[LanguageTokenizer, TokenEdges] = WeakKeyDictionary()
"""Edges of the tokens of tokenizers, which take milliseconds to find."""
_WORD, _MARK = "a ", "("
"""Texts before a form: its tokens depend on whether it begins a text, or follows a space or a mark."""
_INCOMPLETE: Final = "\ufffd"
"""Text of bytes that are a part of a character."""


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """Words that must appear in a translation, once or more, or may not.

    One of several forms suffices, such as inflections; of forbidden words, none may appear. A form counts as whole
    words, unless `whole_words` is False: `Jacke` is no word of `Jackenknopf` or `Jacke-Hose`. It counts in its own
    case; a forbidden form without capital letters is forbidden in any case. Preferred words need not appear: a
    translation without them ranks as if its log-probability were lower by the `bonus` (natural logarithm).
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
    tokenizer: LanguageTokenizer, constraints: Sequence[Constraint], *, text: str
) -> PhraseAutomaton | None:
    """Return the automaton of the constraints of a text, None without any.

    Raises DataError, which names the `text`, on too many constraints and on words that the tokenizer cannot write.
    """
    if not constraints:
        return None
    if len(constraints) > MAX_CONSTRAINTS:
        raise DataError(
            f"{text}: has {counted(len(constraints), 'constraints')}, and at most {MAX_CONSTRAINTS} are met."
        )
    return PhraseAutomaton([_phrase(tokenizer, one, text=text) for one in constraints], token_edges(tokenizer))


def _phrase(tokenizer: LanguageTokenizer, constraint: Constraint, *, text: str) -> Phrase:
    """Return the phrase of a constraint: the token sequences of the forms that the model can write."""
    forms = _writable_forms(tokenizer, constraint, text=text)
    written = dict.fromkeys(tokenizer.decode(tokenizer.encode(form)).strip() for form in forms)
    if constraint.kind == "forbidden":
        forms += [capitals for form in forms for capitals in _capitals(form)]
    proposed = dict.fromkeys(ids for context in ("", _WORD) for ids in _encode_after(tokenizer, context, forms))
    others = [ids for ids in _encode_after(tokenizer, _MARK, forms) if ids not in proposed]
    return Phrase(
        tuple(proposed),
        constraint.kind,
        " or ".join(constraint.texts),
        constraint.whole_words,
        _bonus(constraint),
        tuple(others),
        tuple(written),
    )


def _writable_forms(tokenizer: LanguageTokenizer, constraint: Constraint, *, text: str) -> list[str]:
    """Return the forms that the model can write. Raises DataError without any, and on an empty form."""
    texts = constraint.texts
    if not 0 < len(texts) <= MAX_FORMS:
        raise DataError(f"{text}: a constraint has {counted(len(texts), 'forms')}. Give 1 to {MAX_FORMS}.")
    encoded = tokenizer.encode_batch(list(texts))
    if not all(encoded):
        raise DataError(f"{text}: the constraint {texts[encoded.index([])]!r:.60} is empty. Change or remove it.")
    writable = [form for form, ids in zip(texts, encoded, strict=True) if UNK not in ids]
    if not writable:
        problem = "has characters that the model cannot write"
        raise DataError(f"{text}: the constraint {texts[0]!r:.60} {problem}. Change or remove it.")
    return writable


def _capitals(form: str) -> tuple[str, ...]:
    """Return a form without capital letters with a capital at its beginning, and in capitals."""
    return (form[0].upper() + form[1:], form.upper()) if accepts_any_case("smart", form) else ()


def _bonus(constraint: Constraint) -> float:
    if constraint.kind != "preferred":
        return 0.0
    return PREFERRED_BONUS if constraint.bonus is None else float(constraint.bonus)


def _encode_after(tokenizer: LanguageTokenizer, context: str, forms: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the token sequences of forms behind a context, as far as the context has tokens of its own."""
    before = tokenizer.encode(context.rstrip())
    count = len(before)
    encoded = tokenizer.encode_batch([context + form for form in forms])
    return [tuple(ids[count:]) for ids in encoded if ids[:count] == before and ids[count:] and UNK not in ids[count:]]


def token_edges(tokenizer: LanguageTokenizer) -> TokenEdges:
    """Return of each token whether a word is over before it, and whether one may begin after it."""
    if tokenizer not in _EDGES:
        _EDGES[tokenizer] = _find_edges(tokenizer)
    return _EDGES[tokenizer]


def _find_edges(tokenizer: LanguageTokenizer) -> TokenEdges:
    names = tokenizer.ids_to_tokens(range(len(tokenizer)))
    for byte, index in enumerate(tokenizer.byte_ids):
        names[index] = chr(byte) if byte < 128 else _INCOMPLETE  # a part of a letter, or of a mark of another script
    starts = np.array([_effect(name[:1]) for name in names])
    return TokenEdges(starts, np.array([_effect(name[-1:]) == BOUNDARY for name in names]))


def _effect(character: str) -> int:
    """Return what the first character of a token means for the word before it, and the last one for the word after."""
    if character and character in HYPHENS:
        return HYPHEN
    if character == SPACE:
        return BOUNDARY
    return INSIDE if not character or character == _INCOMPLETE or is_inside_word(character) else BOUNDARY
