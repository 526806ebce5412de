"""Codes and names of languages, and which language a text is in."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

from babel import Locale, UnknownLocaleError
from babel.core import get_global

_ALIASES = {"zt": "zh-hant", "pb": "pt-br", "no": "nb", "iw": "he", "in": "id"} | {
    f"zh-{region}": "zh-hant" for region in ("tw", "hk", "mo")
}
"""Other codes of clients."""
_NO_REGION = "xx"
"""Region of codes such as `en_XX`, which stands for none."""


class DetectedLanguage(NamedTuple):
    """Language of a text, and its probability among the languages asked for, from 0 to 1."""

    code: str
    probability: float


def find_language(given: str, known: Iterable[str]) -> str | None:
    """Return the known code that a client means: the same regardless of case, or one of the same language.

    `pt-BR` finds `pt` where that is the only form of Portuguese, and `pt` finds `pt-BR`; `eng_Latn` finds `en`.
    """
    folded = {fold_code(code): code for code in sorted(known)}
    wanted = fold_code(given)
    alias = _ALIASES.get(wanted, wanted)
    short = fold_code(short_code(alias))
    for one in (wanted, alias, short):
        if one in folded:
            return folded[one]
    language = short.partition("-")[0]
    same = [code for one, code in folded.items() if one.partition("-")[0] == language]
    return folded.get(language) or (same[0] if len(same) == 1 else None)


def short_code(code: str) -> str:
    """Return the shortest code of a language in BCP 47: `en` for `eng_Latn` and `en_XX`, `zh-Hant` for `zho_Hant`.

    Source: the aliases and likely subtags of Unicode's CLDR.
    """
    language, *subtags = code.replace("_", "-").split("-")
    alias = get_global("language_aliases").get(language.lower(), language.lower())
    language = (alias if isinstance(alias, str) else alias[0]).split("_")[0]
    likely = {one.casefold() for one in get_global("likely_subtags").get(language, "").split("_")[1:]} | {_NO_REGION}
    return "-".join([language, *(one for one in subtags if one.casefold() not in likely)])


def short_codes(own: Iterable[str]) -> dict[str, str]:
    """Return the codes that a model has for languages, by their short codes; by themselves where these are taken."""
    codes: dict[str, str] = {}
    for code in sorted(own):
        short = short_code(code)
        codes[short if short not in codes else code.replace("_", "-")] = code
    return codes


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
