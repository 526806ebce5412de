"""Text normalization before segmentation: Unicode form, casing, white space and pre-tokenization.

Nothing is lost beyond what `normalize` states: the tokens of a text, joined, are the normalized text.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

Normalization = Literal["none", "nfc", "nfkc"]
Casing = Literal["preserve", "lower"]
Whitespace = Literal["collapse", "keep"]

SPACE = "▁"
"""Symbol for a space inside tokens (Kudo and Richardson, 2018).

If white space is collapsed, `▁` in a text becomes an underscore; if white space is kept, it becomes a space.
"""

UNICODE_FORMS: Final[dict[Normalization, Literal["NFC", "NFKC"]]] = {"nfc": "NFC", "nfkc": "NFKC"}
"""Unicode form of each normalization; `none` has no form."""
MAX_MARKS = 30
"""Combining marks in a row that are sorted together (UAX #15, stream-safe text), in time quadratic in their number."""
JOINER = "\u034f"
"""Combining grapheme joiner, an invisible character that separates groups of marks."""
_COMPOSED_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"
"""Characters that are no marks, and decompose into marks."""
SURROGATE = re.compile("[\ud800-\udfff]")
_SWAPPED = str.maketrans({" ": SPACE, SPACE: " "})


@dataclass(frozen=True)
class TextNormalizer:
    """Normalization and pre-tokenization of a text; written to `tokenizer.json`."""

    normalization: Normalization = "nfc"
    casing: Casing = "preserve"
    add_prefix_space: bool = True
    split_punctuation: bool = True
    split_digits: bool = True
    whitespace: Whitespace = "collapse"

    def normalize(self, text: str) -> str:
        """Normalize a text; unless white space is kept, collapse its runs to one space and strip both ends.

        The function is idempotent. A lone surrogate, which no file can hold, becomes U+FFFD.
        """
        if not text.isascii():
            text = self._fold(SURROGATE.sub("\ufffd", text))
        if self.casing == "lower":
            text = text.lower()
            if not text.isascii():
                text = self._fold(text)
        return text if self.whitespace == "keep" else " ".join(text.split())

    def normalize_and_escape(self, text: str, *, continues: bool = False) -> str:
        """Return the normalized text with escaped spaces."""
        return self.escape_spaces(self.normalize(text), continues=continues)

    def escape_spaces(self, normalized: str, *, continues: bool = False) -> str:
        """Write the spaces of a normalized text as `▁`.

        If white space is collapsed, `▁` also precedes the first word if `add_prefix_space` is set or if the text
        `continues` another text.
        """
        if self.whitespace == "keep":
            return normalized.translate(_SWAPPED)
        if not normalized:
            return ""
        escaped = normalized.replace(" ", SPACE)
        return SPACE + escaped if self.add_prefix_space or continues else escaped

    def unescape_spaces(self, escaped: str) -> str:
        """Invert `escape_spaces`."""
        if self.whitespace == "keep":
            return escaped.translate(_SWAPPED)
        return " ".join(escaped.replace(SPACE, " ").split())

    def pretokenization_pattern(self) -> str:
        r"""Return the regular expression of the units inside which tokens are learned (Oniguruma syntax).

        `<` is always a unit of its own, so that no text can spell the name of a byte token such as `<0x41>`. If white
        space is kept, it forms units that end at a line break or before the last space in front of a word.
        """
        start = f"{SPACE}?"
        alone = r"[\p{P}\p{S}&&[^▁]]" if self.split_punctuation else "<"
        others = r"\p{P}\p{S}" if self.split_punctuation else f"{SPACE}<"
        number = rf"|{start}\p{{N}}" if self.split_digits else ""
        if self.split_digits:
            others += r"\p{N}"
        if self.whitespace == "collapse":
            return rf"{start}{alone}{number}|{start}[^{others}]+"
        white = rf"[\s{SPACE}]"
        spaces = rf"{white}*\n+|{white}+(?![^\s{SPACE}])|{white}+"
        return rf"{start}{alone}{number}|{start}[^{others}\s]+|{spaces}"

    def _fold(self, text: str) -> str:
        form = UNICODE_FORMS.get(self.normalization)
        folded = text if form is None else _separate_marks(unicodedata.normalize(form, _separate_marks(text)))
        return folded if self.whitespace == "keep" else folded.replace(SPACE, "_")


def long_mark_runs(text: str) -> list[int]:
    """Return the places of a text where a joiner separates `MAX_MARKS` combining marks from the marks that follow."""
    if not any(map(_is_mark, text[MAX_MARKS::MAX_MARKS])):  # a longer run has a mark at one of these places
        return []
    places, run = [], 0
    for place, character in enumerate(text):
        run = run + 1 if _is_mark(character) else 0
        if run > MAX_MARKS:
            places.append(place)
            run = 1
    return places


def _separate_marks(text: str) -> str:
    places = long_mark_runs(text)
    return JOINER.join(text[start:end] for start, end in pairwise([0, *places, len(text)])) if places else text


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) > 0 or character in _COMPOSED_MARKS
