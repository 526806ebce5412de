"""Regular variants of source phrases: a light rule for plurals, where a glossary gives no forms."""

MIN_LENGTH = 3
"""Letters of a word that has variants."""
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"
_PLURAL_IN_S = frozenset({"en", "es", "pt", "fr", "nl", "ca", "gl"})
"""Languages whose regular plural, or most of it, ends in -s or -es."""


def source_variants(phrase: str, language: str | None = None) -> tuple[str, ...]:
    """Return the regular plural of the last word of a phrase, as English forms it.

    There is none in languages whose plural does not end in -s. Other forms are given as `form1|form2`, or mined from a
    corpus. Without language, the rule is applied: a wrong plural is hardly ever a word of a text.
    """
    if language is not None and language[:2].lower() not in _PLURAL_IN_S:
        return ()
    before, _, word = phrase.rpartition(" ")
    letters = word.replace("-", "")
    if len(word) < MIN_LENGTH or not (letters.isalpha() and letters.isascii() and word[-1].islower()):
        return ()
    if word.endswith(_SIBILANTS):
        plural = word + "es"
    elif word.endswith("y") and word[-2] not in _VOWELS:
        plural = word[:-1] + "ies"
    else:
        plural = word + "s"
    return (f"{before} {plural}" if before else plural,)
