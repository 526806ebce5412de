"""What the materials of every task have in common: where they are kept, the run's tokenizer, and unchanged corpora."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import RunError
from dragoman.runs.folder import RunFolder

MOST_NAMED = 5


def cache_folder() -> Path:
    """Where stores are kept that are built once per corpus and tokenizer: `DRAGOMAN_CACHE`, or the user's cache."""
    if chosen := os.environ.get("DRAGOMAN_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman"


def own_tokenizer(folder: RunFolder, learn: Callable[[], Tokenizer], *, tell: Callable[[str], None]) -> Tokenizer:
    """The run's tokenizer, or the one that `learn` gives, which from then on is the run's."""
    if folder.tokenizer.exists():
        return folder.read_tokenizer()
    tell("preparing the tokenizer")
    tokenizer = learn()
    tokenizer.save(folder.tokenizer)
    return tokenizer


def check_same(fingerprints: Mapping[str, str], folder: RunFolder) -> None:
    """Raises RunError where a corpus, by path, is not what the run began with; the files may lie elsewhere."""
    began_with = folder.read_environment().get("corpora")
    if began_with is None:
        return
    known = {corpus["sha256"] for corpus in began_with}
    for name, digest in fingerprints.items():
        if digest not in known:
            raise RunError(
                f"{name}: has changed since the run in {folder.path} began; put back the file, or start a new run"
            )


def listed(places: Sequence[object], *, what: str = "lines") -> str:
    """The first of some places in words, such as `lines 3, 5, …`."""
    return f"{what} {', '.join(map(str, places[:MOST_NAMED]))}{', …' if len(places) > MOST_NAMED else ''}"
