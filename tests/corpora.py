"""Location of the real corpora, which are not part of the project."""

import os
from pathlib import Path


def corpora() -> Path:
    """Return the folder next to the checkout, or the one that `DRAGOMAN_DATA` names. The folder may be absent."""
    return Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
