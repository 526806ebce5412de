"""Memory-mapped store of tokenized documents of any length, written passage by passage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from dragoman.data.datasets.memory_map import ORIGINS, Columns, Numbers, RaggedArray, id_dtype, write_columns


@dataclass(frozen=True, slots=True)
class TokenizedPassage:
    """Ids of consecutive lines of a document, and their first line in the corpus."""

    ids: Sequence[int]
    line: int
    is_first: bool
    """Whether the passage begins a document."""


@final
class DocumentStore:
    """Ids of documents without BOS and EOS. `origins` holds the first line of each document in its corpus."""

    format = "dragoman.documents"

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError if it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.folder, self.header = folder, columns.header
        self.texts = RaggedArray(columns.column("texts.values"), columns.column("texts.lengths"))
        self.origins = columns.column(ORIGINS)
        if not self.texts.is_consistent(len(self.origins)):
            raise columns.damaged_error("its files do not fit each other")

    @classmethod
    def build(
        cls,
        folder: Path,
        chunks: Iterable[Sequence[TokenizedPassage]],
        *,
        vocab_size: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Write passages in the order of their documents, with `facts` in the header.

        `vocab_size` bounds the ids, so that two bytes per id may suffice.
        """
        dtypes = {"texts.values": id_dtype(vocab_size), "texts.lengths": "int64", ORIGINS: "int64"}
        write_columns(folder, _columns(chunks), dtypes=dtypes, header={"format": cls.format, **(facts or {})})
        return cls(folder)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.origins)

    @property
    def tokens(self) -> int:
        """Number of ids of all documents."""
        return len(self.texts.values)

    @property
    def fingerprint(self) -> str:
        """Hash that is equal for stores with the same documents in the same order."""
        return str(self.header["fingerprint"])


def _columns(chunks: Iterable[Sequence[TokenizedPassage]]) -> Iterator[dict[str, Numbers]]:
    """Yield the values of each chunk and the documents that end in it: where the next begins, or at the very end."""
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
