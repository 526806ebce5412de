"""Plural forms of PO files: their number, and which numbers each form is for.

The expressions for languages are those of the manual of GNU gettext and of Unicode's CLDR.
"""

import gettext
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.errors import DataError

_HEADER = re.compile(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\\]{1,1000})(?:[;\s]|\\n)*")
_SLAVIC = "n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2"
_EXPRESSIONS = {
    "nplurals=1; plural=0;": "id ja ka ko lo ms th vi zh",
    "nplurals=2; plural=(n != 1);": (
        "af bg bn ca da de el en eo es et eu fi fur fy gl gu he hi hu ia it kn ku lb ml mr nb ne nl nn no or pa pt "
        "sq sv sw ta te ur"
    ),
    "nplurals=2; plural=(n > 1);": "fa fr hy ln mg oc pt_BR tr uz",
    f"nplurals=3; plural=({_SLAVIC});": "be bs hr ru sr uk",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100>0 && n%100<20)) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
}
_BY_LANGUAGE = {language: one for one, languages in _EXPRESSIONS.items() for language in languages.split()}
_SAMPLED = 200
"""Numbers whose form is computed to find what each form is for: expressions depend on n modulo 100 at most."""
GERMANIC = "nplurals=2; plural=(n != 1);"
"""Plural forms that gettext assumes where a file names none."""


@dataclass(frozen=True, slots=True)
class PluralForms:
    """Number of plural forms, and the numbers that each is for."""

    count: int
    singular: int
    """Form of the number 1."""
    only_one: bool
    """Whether the form of 1 is for no other number."""


def language_plurals(language: str) -> str | None:
    """Return the value of the header field `Plural-Forms` for a language, or None where it is not known."""
    full = language.replace("-", "_")
    return _BY_LANGUAGE.get(full) or _BY_LANGUAGE.get(full.partition("_")[0].lower())


def parse_plurals(header: str, name: str) -> PluralForms:
    """Return the forms that the value of `Plural-Forms` describes. Raises DataError if it is none."""
    found = _HEADER.fullmatch(header)
    compute: Callable[[int], Any] | None = None
    if found is not None:
        try:
            compute = gettext.c2py(found[2])
            forms = [int(compute(n)) for n in range(_SAMPLED)]
        except (ValueError, ZeroDivisionError, OverflowError, RecursionError):
            compute = None
    if found is None or compute is None or not 0 < int(found[1]) <= 16 or not {*forms} <= {*range(int(found[1]))}:
        raise DataError(
            f"{name}: `Plural-Forms: {header}` does not say how many plural forms there are and which number has "
            f"which. Write it as in `{GERMANIC}`."
        )
    return PluralForms(int(found[1]), forms[1], forms.count(forms[1]) == 1)
