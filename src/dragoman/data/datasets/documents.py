"""Ids of running text on disk: documents of any length, a row each, written a passage at a time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from dragoman.data.datasets.memory_map import ORIGINS, Columns, Numbers, write_columns
from dragoman.data.datasets.parallel import RaggedArray, id_dtype


@dataclass(frozen=True, slots=True)
class TokenizedPassage:
    """The ids of a stretch of a document, and the line of the corpus where it begins."""

    ids: Sequence[int]
    line: int
    is_first: bool
    """Whether it is the first of its document."""


@final
class DocumentStore:
    """The ids of documents, without begin and end. `origins` holds the line where each begins in its corpus."""

    format = "dragoman.documents"

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError where it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.folder, self.header = folder, columns.header
        self.texts = RaggedArray(columns.column("texts.values"), columns.column("texts.lengths"))
        self.origins = columns.column(ORIGINS)
        if int(self.texts.lengths.sum()) != len(self.texts.values) or len(self.texts) != len(self.origins):
            raise columns.damaged_error("its files do not fit each other")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store that was built before."""
        return cls(folder)

    @classmethod
    def build(
        cls,
        folder: Path,
        chunks: Iterable[Sequence[TokenizedPassage]],
        *,
        vocabulary: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Write passages in the order of their documents, with `facts` in the header.

        `vocabulary` bounds the ids, so that two bytes an id may do.
        """
        kinds = {"texts.values": id_dtype(vocabulary), "texts.lengths": "int64", ORIGINS: "int64"}
        write_columns(folder, _columns(chunks), dtypes=kinds, header={"format": cls.format, **(facts or {})})
        return cls(folder)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.origins)

    @property
    def tokens(self) -> int:
        """Ids of all documents."""
        return len(self.texts.values)

    @property
    def fingerprint(self) -> str:
        """Equal for stores with the same documents in the same order."""
        return str(self.header["fingerprint"])


def _columns(chunks: Iterable[Sequence[TokenizedPassage]]) -> Iterator[dict[str, Numbers]]:
    """The values of each chunk, and the rows that end in it: a row ends where another begins, or at the very end."""
    lengths: list[int] = []
    origins: list[int] = []
    for chunk in chunks:
        for passage in chunk:
            if passage.is_first:
                lengths.append(0)
                origins.append(passage.line)
            lengths[-1] += len(passage.ids)
        values = [np.zeros(0, dtype=np.int64), *(np.asarray(passage.ids, dtype=np.int64) for passage in chunk)]
        yield {
            "texts.values": np.concatenate(values),
            "texts.lengths": np.array(lengths[:-1]),
            ORIGINS: np.array(origins[:-1]),
        }
        lengths, origins = lengths[-1:], origins[-1:]
    yield {"texts.lengths": np.array(lengths), ORIGINS: np.array(origins)}
