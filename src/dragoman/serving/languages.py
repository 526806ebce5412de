"""Codes and names of languages, and which language a text is in."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

from babel import Locale, UnknownLocaleError

_ALIASES = {"zt": "zh-hant", "pb": "pt-br", "no": "nb", "iw": "he", "in": "id"}
"""Other codes of clients."""


class DetectedLanguage(NamedTuple):
    """Language of a text, and its probability among the languages asked for, from 0 to 1."""

    code: str
    probability: float


def find_language(given: str, known: Iterable[str]) -> str | None:
    """Return the known code that a client means: the same regardless of case, or one of the same language.

    `pt-BR` finds `pt` where that is the only form of Portuguese, and `pt` finds `pt-BR`.
    """
    folded = {fold_code(code): code for code in sorted(known)}
    wanted = fold_code(given)
    for one in (wanted, _ALIASES.get(wanted, wanted)):
        if one in folded:
            return folded[one]
    language = _ALIASES.get(wanted, wanted).partition("-")[0]
    same = [code for one, code in folded.items() if one.partition("-")[0] == language]
    return folded.get(language) or (same[0] if len(same) == 1 else None)


def fold_code(code: str) -> str:
    """Return a code in lower case and with `-` for `_`, in order to compare it."""
    return code.strip().replace("_", "-").casefold()


def language_name(code: str) -> str:
    """Return the English name of a language; the code itself where it is unknown."""
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError, TypeError):
        return code


@final
class LanguageDetector:
    """Recognizes the language of a text among given ones, by its byte sequences (Lui and Baldwin, 2012)."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._codes = {fold_code(code).partition("-")[0]: code for code in sorted(languages, reverse=True)}

    @cached_property
    def _identifier(self) -> Any:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = [code for code in self._codes if code in set(identifier.labels)]
        identifier.set_languages(known)
        return identifier if known else None

    def detect(self, text: str) -> Sequence[DetectedLanguage]:
        """Return the languages that the text may be in, the most probable first; empty where none is known."""
        if self._identifier is None:
            return [DetectedLanguage(code, 0.0) for code in self._codes.values()]
        ranked = [DetectedLanguage(self._codes[code], float(p)) for code, p in self._identifier.rank(text)]
        return sorted(ranked, key=lambda one: -one.probability)
