"""Labeled texts as ids and batches; a text is read between BOS and EOS."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from dragoman.array_types import Int, Rows
from dragoman.atomic_files import write_atomically
from dragoman.data.batching.example_batches import RaggedExamples, SequenceBatch, to_ragged
from dragoman.data.fingerprints import json_fingerprint
from dragoman.data.readers.labeled import LabeledCorpus, LabeledText, read_labeled
from dragoman.data.splits import SplitConfig, Splits, read_splits
from dragoman.data.tokenizers import BOS, EOS
from dragoman.errors import DataError
from dragoman.untrusted_files import MEBIBYTE, FileKind

Encode = Callable[[Sequence[str]], list[list[int]]]
"""Function from texts to ids, such as `LanguageTokenizer.encode_batch`."""
_FORMAT = "dragoman.labels"
_FORMAT_VERSION = 1
_REMEDY = "copy the file again from the run it belongs to, or train again"
_FILE = FileKind(8 * MEBIBYTE, _REMEDY)


class LabeledDataConfig(SplitConfig[LabeledCorpus]):
    """Labeled texts of a run."""

    max_length: int = Field(default=256, ge=3)
    """Maximum number of tokens of a text, BOS and EOS included; longer texts are truncated."""


def read_labeled_splits(data: LabeledDataConfig, *, seed: int) -> Splits[LabeledText]:
    """Read all texts; `seed` draws the held-out part. Raises DataError as `read_labeled` and `read_splits` do."""

    def text_of(example: LabeledText) -> str:
        return example.text

    return read_splits(data, read_labeled, group=text_of, content=text_of, seed=seed)


@final
@dataclass(frozen=True)
class Labels:
    """Label names, indexed by id."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise DataError on a label that would break the lines and columns of outputs."""
        for name in self.names:
            if "\t" in name or name.splitlines() != [name]:
                raise DataError(f"the label {name!r} is empty or contains a tab or a line break; rename it in the text")

    @classmethod
    def collect(cls, labels: Iterable[str]) -> Self:
        """Return all different labels, sorted. Raises DataError if there are fewer than two, or one is unusable."""
        names = tuple(sorted(set(labels)))
        if len(names) < 2:
            only = f"the label {names[0]!r} alone" if names else "no label"
            raise DataError(f"the training text has {only}, but training needs at least two labels; add text")
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """Id of each label."""
        return {name: index for index, name in enumerate(self.names)}

    def save(self, path: Path) -> None:
        """Write the file atomically. Raises RunError if it cannot be written."""
        names = list(self.names)
        head = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "fingerprint": json_fingerprint(names)}
        tree = {**head, "labels": names}
        write_atomically(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file written by `save`. Raises DataError if it is missing or damaged."""
        tree = _FILE.read_versioned_json(path, format_name=_FORMAT, version=_FORMAT_VERSION)
        names = tree.get("labels")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{path}: damaged labels; {_REMEDY}")
        if tree.get("fingerprint") not in (None, json_fingerprint(names)):
            raise DataError(
                f"{path}: the labels do not match their fingerprint; {_REMEDY}. If you renamed labels, delete the "
                "line with the fingerprint"
            )
        try:
            return cls(tuple(names))
        except DataError as error:
            raise DataError(f"{path}: {error}") from error


def wrap_in_bos_eos(ids: Sequence[int], *, max_length: int) -> list[int]:
    """Return BOS, the ids, EOS, truncated to `max_length`."""
    return [BOS, *ids[: max_length - 2], EOS]


@final
@dataclass(frozen=True)
class LabeledBatch(SequenceBatch):
    """Padded labeled texts."""

    labels: Int[Tensor, " batch"]


@final
@dataclass(frozen=True)
class LabeledDataset(RaggedExamples):
    """Labeled texts as ids."""

    labels: NDArray[np.int64]
    lines: tuple[int, ...]
    """Line of each text in its corpus."""
    num_truncated: int
    num_unknown: int
    """Texts left out because their label is unknown."""

    @classmethod
    def build(cls, examples: Sequence[LabeledText], encode: Encode, labels: Labels, *, max_length: int) -> Self:
        """Encode the texts; texts with unknown labels are left out, because they have no loss."""
        known = [(example, labels.ids[example.label]) for example in examples if example.label in labels.ids]
        encoded = encode([example.text for example, _ in known])
        return cls(
            tokens=to_ragged([wrap_in_bos_eos(ids, max_length=max_length) for ids in encoded]),
            labels=np.array([label for _, label in known], dtype=np.int64),
            lines=tuple(example.line for example, _ in known),
            num_truncated=sum(len(ids) + 2 > max_length for ids in encoded),
            num_unknown=len(examples) - len(known),
        )

    def collate(self, rows: Rows) -> LabeledBatch:
        """Return the texts of `rows`, padded to the longest of them."""
        return LabeledBatch(labels=torch.from_numpy(self.labels[rows]), **self.pad(rows))
