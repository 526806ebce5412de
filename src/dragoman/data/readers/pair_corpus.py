"""Settings common to all formats of parallel corpora."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragoman.config import Config

Files = Annotated[Path | Annotated[tuple[Path, ...], Field(min_length=1)], Field(union_mode="left_to_right")]
"""One file, several files, or a glob pattern with `*`, `?` or `[...]`."""

PairRow = tuple[int, str, str] | tuple[int, str, str, str]
"""Line (from 1) in its file, source, target, and the name of its document where the corpus has one."""


class PairCorpus(Config):
    """Settings common to all formats."""

    kind: str  # first, because the order of keys is part of the file format
    source_language: str | None = None
    """Language code of the sources, for a model of several languages."""
    target_language: str | None = None
    """Language code of the targets."""
