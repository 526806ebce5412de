"""When two texts are the same text, however they are spaced."""

import unicodedata


def normal(text: str) -> str:
    """NFKC, and every run of white space one plain space: sources that agree in this are one source."""
    return spaced(unicodedata.normalize("NFKC", text))


def spaced(text: str) -> str:
    """NFC, and every run of white space one plain space: targets that differ in this are two targets."""
    return " ".join(unicodedata.normalize("NFC", text).split())
