"""What happens to a text before it is segmented: Unicode form, casing, white space, and where words may be cut.

Everything here loses nothing beyond what `normalise` states: the segments of a prepared text, joined, are the
normalised text again.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Normalisation = Literal["none", "nfc", "nfkc"]
Casing = Literal["preserve", "lower"]
Whitespace = Literal["collapse", "keep"]

SPACE = "▁"
"""Stands for a space inside pieces (Kudo and Richardson, 2018).

Where white space is collapsed, the sign itself is replaced by an underscore; where it is kept, a space stands for it.
"""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SWAPPED = str.maketrans({" ": SPACE, SPACE: " "})


@dataclass(frozen=True)
class Preparation:
    """How a text is made ready for segmentation; written to `tokenizer.json`."""

    normalisation: Normalisation = "nfc"
    casing: Casing = "preserve"
    words_begin_with_space: bool = True
    split_punctuation: bool = True
    split_digits: bool = True
    whitespace: Whitespace = "collapse"

    def normalise(self, text: str) -> str:
        """The text as the network sees it: runs of white space are one space, none at either end, unless they are kept.

        Applying it twice is applying it once. A lone surrogate, which no file can hold, becomes U+FFFD.
        """
        if not text.isascii():
            text = self._fold(_SURROGATE.sub("\ufffd", text))
        if self.casing == "lower":
            text = text.lower()
            if not text.isascii():
                text = self._fold(text)
        return text if self.whitespace == "keep" else " ".join(text.split())

    def mark(self, normalised: str, *, continues: bool = False) -> str:
        """A normalised text with its spaces written as `▁`.

        Where white space is collapsed, one stands also before the first word if words begin with it, or if the text
        `continues` another one.
        """
        if self.whitespace == "keep":
            return normalised.translate(_SWAPPED)
        if not normalised:
            return ""
        marked = normalised.replace(" ", SPACE)
        return SPACE + marked if self.words_begin_with_space or continues else marked

    def unmark(self, marked: str) -> str:
        """The normalised text that was marked so."""
        if self.whitespace == "keep":
            return marked.translate(_SWAPPED)
        return " ".join(marked.replace(SPACE, " ").split())

    def pattern(self) -> str:
        r"""The regular expression of the units inside which pieces are learnt (Oniguruma syntax).

        `<` always stands alone: so no text can ever spell the name of a byte, `<0x41>`. White space that is kept makes
        units of its own: up to a line break, else up to the last space before a word, which is the word's.
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
        match self.normalisation:
            case "none":
                folded = text
            case "nfc":
                folded = unicodedata.normalize("NFC", text)
            case "nfkc":
                folded = unicodedata.normalize("NFKC", text)
        return folded if self.whitespace == "keep" else folded.replace(SPACE, "_")
