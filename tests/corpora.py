"""Where the real corpora are, which are no part of the project."""

import os
from pathlib import Path


def corpora() -> Path:
    """The folder beside the checkout, or the one that `DRAGOMAN_DATA` names; it need not be there."""
    return Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
