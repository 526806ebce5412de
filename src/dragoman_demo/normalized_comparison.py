"""Normal forms in which equal texts are compared."""

import unicodedata


def normal(text: str) -> str:
    """Return the NFKC form with single spaces, in which sources are compared."""
    return spaced(unicodedata.normalize("NFKC", text))


def spaced(text: str) -> str:
    """Return the NFC form with single spaces, in which targets are compared."""
    return " ".join(unicodedata.normalize("NFC", text).split())
