"""Codes and names of languages, and which language a text is in."""

import math
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

    @cached_property
    def _identifier(self) -> Any:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)

    def detect(self, text: str, languages: Iterable[str]) -> Sequence[DetectedLanguage]:
        """Return the languages that the text may be in, the most probable first.

        Languages that cannot be recognized are left out; where none can be, all are returned with probability 0.
        """
        codes = {fold_code(code).partition("-")[0]: code for code in sorted(languages, reverse=True)}
        scores = {codes[one]: float(score) for one, score in self._identifier.rank(text) if one in codes}
        if not scores:
            return [DetectedLanguage(code, 0.0) for code in codes.values()]
        best, temperature = max(scores.values()), math.sqrt(len(text.encode("utf-8", "surrogatepass")) or 1)
        weights = {code: math.exp((score - best) / temperature) for code, score in scores.items()}
        total = sum(weights.values())
        found = [DetectedLanguage(code, weight / total) for code, weight in weights.items()]
        return sorted(found, key=lambda one: (-one.probability, one.code))
