"""What happens to a text before it is segmented: Unicode form, casing, spaces, and where words may be cut.

Everything here loses nothing beyond what `normalise` states: the segments of a prepared text, joined, are the
normalised text again.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Normalisation = Literal["none", "nfc", "nfkc"]
Casing = Literal["preserve", "lower"]

SPACE = "▁"
"""Stands for a space inside pieces (Kudo and Richardson, 2018); in a text it is replaced by an underscore."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Preparation:
    """How a text is made ready for segmentation; written to `tokenizer.json`."""

    normalisation: Normalisation = "nfc"
    casing: Casing = "preserve"
    words_begin_with_space: bool = True
    split_punctuation: bool = True
    split_digits: bool = True

    def normalise(self, text: str) -> str:
        """The text as the network sees it: runs of white space become one space, none stands at either end.

        Applying it twice is applying it once. A lone surrogate, which no file can hold, becomes U+FFFD.
        """
        if not text.isascii():
            text = self._fold(_SURROGATE.sub("\ufffd", text))
        if self.casing == "lower":
            text = text.lower()
            if not text.isascii():
                text = self._fold(text)
        return " ".join(text.split())

    def mark(self, normalised: str) -> str:
        """A normalised text with its spaces written as `▁`, one also before the first word if words begin with it."""
        if not normalised:
            return ""
        marked = normalised.replace(" ", SPACE)
        return SPACE + marked if self.words_begin_with_space else marked

    def pattern(self) -> str:
        r"""The regular expression of the units inside which pieces are learnt (Oniguruma syntax).

        `<` always stands alone: so no text can ever spell the name of a byte, `<0x41>`.
        """
        start = f"{SPACE}?"
        alone = r"[\p{P}\p{S}&&[^▁]]" if self.split_punctuation else "<"
        others = r"\p{P}\p{S}" if self.split_punctuation else f"{SPACE}<"
        if self.split_digits:
            return rf"{start}{alone}|{start}\p{{N}}|{start}[^{others}\p{{N}}]+"
        return rf"{start}{alone}|{start}[^{others}]+"

    def _fold(self, text: str) -> str:
        match self.normalisation:
            case "none":
                folded = text
            case "nfc":
                folded = unicodedata.normalize("NFC", text)
            case "nfkc":
                folded = unicodedata.normalize("NFKC", text)
        return folded.replace(SPACE, "_")
