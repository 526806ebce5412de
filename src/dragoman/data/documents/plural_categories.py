"""Plural categories of languages, of which a translation may need more than its source has.

Source: Unicode CLDR 47, supplemental data, cardinal plural rules.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

PLURAL_CATEGORIES: Final = ("zero", "one", "two", "few", "many", "other")
"""All plural categories, in the order in which files have them."""
_LANGUAGES: Final = {
    "other": (
        "bm bo dz hnj id ig ii in ja jbo jv jw kde kea km ko lkt lo ms my nqo osa sah ses sg su th to tpi vi wo "
        "yo yue zh"
    ),
    "one other": (
        "af ak am an as asa ast az bal bem bez bg bho bn brx ce ceb cgg chr ckb csw da de doi dv ee el en eo et "
        "eu fa ff fi fil fo fur fy gl gsw gu guw ha haw hi hu hy ia io is jgo jmc ka kab kaj kcg kk kkj kl kn ks "
        "ksb ku ky lb lg lij ln mas mg mgo mk ml mn mr nah nb nd ne nl nn nnh no nr nso ny nyn om or os pa pap "
        "pcm ps rm rof rwk saq sc sd sdh seh si sn so sq ss ssy st sv sw syr ta te teo ti tig tk tl tn tr ts tzm "
        "ug ur uz ve vo vun wa wae xh xog yi zu"
    ),
    "one many other": "ca es fr it lld pt scn vec",
    "zero one other": "blo ksh lag lv prg",
    "one two other": "he iu iw naq sat se sma smi smj smn sms",
    "one few other": "bs hr mo ro sh shi sr",
    "one two few other": "dsb gd hsb sl",
    "one few many other": "be cs lt pl ru sk uk",
    "one two few many other": "br ga gv mt",
    "zero one two few many other": "ar ars cy kw",
}
_BY_LANGUAGE = {
    language: tuple(categories.split()) for categories, some in _LANGUAGES.items() for language in some.split()
}


def plural_categories(language: str) -> tuple[str, ...] | None:
    """Return the plural categories of a language, such as `one` and `other`; None where CLDR does not know it."""
    return _BY_LANGUAGE.get(re.split("[-_]", language)[0].lower())


def missing_categories(found: Collection[str], language: str | None) -> Sequence[str]:
    """Return the plural categories that a language has and a group of plural forms lacks.

    A group without the form `other`, from which the missing ones are translated, lacks nothing.
    """
    categories = plural_categories(language) if language is not None else None
    if categories is None or "other" not in found:
        return ()
    return tuple(one for one in categories if one not in found)


def is_plural_group(keys: Collection[str]) -> bool:
    """Return whether the keys of an object are those of plural forms: `other`, at least one more, and nothing else."""
    return len(keys) > 1 and "other" in keys and all(one in PLURAL_CATEGORIES for one in keys)
