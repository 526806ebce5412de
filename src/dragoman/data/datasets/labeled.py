"""From labelled texts to ids and batches. A text is read between BEGIN and END."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.atomic import write_atomically
from dragoman.config import Config
from dragoman.data.batching.epochs import Rows
from dragoman.data.batching.in_memory import pad_batch, to_ragged
from dragoman.data.batching.token_batches import LengthArray
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.data.readers.labeled import LabeledCorpus, LabeledText, read_labeled
from dragoman.data.splits import SplitKeys, Splits, read_splits
from dragoman.data.tokenizers import BOS, EOS, PAD
from dragoman.errors import DataError
from dragoman.typing import Int, Lengths

Encode = Callable[[Sequence[str]], list[list[int]]]
"""From texts to ids, such as `Side.encode_batch`."""
FORMAT = "dragoman.labels"
FORMAT_VERSION = 1


class LabeledDataConfig(Config):
    """The labelled texts of a run."""

    train: LabeledCorpus
    """What is learnt from."""

    valid: LabeledCorpus | None = None
    """What training is watched and chosen by; without it a part of `train` is held out."""

    valid_size: int | None = Field(None, ge=1)
    """Different texts of `train` that are held out where `valid` is not given; by default 5 %, at most 2,000."""

    test: LabeledCorpus | None = None
    """What is scored at the end."""

    remove_leaks: bool = True
    """Remove training texts that are in the validation or test text; they are reported in any case."""

    max_length: int = Field(256, ge=3)
    """Tokens of a text, begin and end included, above which its end is left out."""

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        return self


def read_labeled_splits(data: LabeledDataConfig, *, seed: int) -> Splits[LabeledText]:
    """All texts, in parts; `seed` draws what is held out. Raises DataError as `read_labelled` and `read_parts` do."""

    def text_of(example: LabeledText) -> str:
        return example.text

    return read_splits(data, read_labeled, SplitKeys(text_of, text_of), seed=seed)


@final
@dataclass(frozen=True)
class Labels:
    """The labels that a network tells apart, by id."""

    names: tuple[str, ...]

    @classmethod
    def collect(cls, labels: Iterable[str]) -> Self:
        """All that occur, sorted. Raises DataError where there are not two."""
        names = tuple(sorted(set(labels)))
        if len(names) < 2:
            only = f"the label {names[0]!r} alone" if names else "no label"
            raise DataError(
                f"the training text has {only}; there must be two at least to be told apart; give text with another"
            )
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, label: str) -> int | None:
        """The id of a label, or None where it never occurred."""
        return self.names.index(label) if label in self.names else None

    def save(self, path: Path) -> None:
        """Write the file whole or not at all. Raises RunError where the disk refuses."""
        tree = {"format": FORMAT, "format_version": FORMAT_VERSION, "labels": list(self.names)}
        write_atomically(path, json.dumps(tree, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file written by `save`. Raises DataError where it is missing or damaged."""
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            names = tuple(tree["labels"])
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: damaged labels; {_REMEDY}") from error
        if (tree.get("format"), tree.get("format_version")) != (FORMAT, FORMAT_VERSION) or not all(
            isinstance(n, str) for n in names
        ):
            raise DataError(f"{path}: not the labels of a run; {_REMEDY}")
        return cls(names)


_REMEDY = "copy the file again from the run it belongs to, or train anew"


def wrap_in_bos_eos(ids: Sequence[int], *, max_length: int) -> list[int]:
    """BEGIN, the ids, END; of more than `longest` the last ids are left out."""
    return [BOS, *ids[: max_length - 2], EOS]


@final
@dataclass(frozen=True)
class LabeledBatch:
    """Labelled texts side by side."""

    tokens: Int[Tensor, "batch places"]
    """BEGIN, the ids of a text and END, padded with PAD."""
    lengths: Lengths
    """Tokens of each text, symbols included."""
    labels: Int[Tensor, " batch"]
    """The label of each."""
    rows: Rows
    """The index of each text among the encoded ones."""

    def __len__(self) -> int:
        """Texts."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """Labels to be predicted: what a loss is the mean over."""
        return len(self.rows)

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        return type(self)(
            tokens=self.tokens.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            rows=self.rows,
        )


@final
@dataclass(frozen=True)
class LabeledDataset:
    """Labelled texts as ids."""

    tokens: RaggedArray
    labels: NDArray[np.int64]
    lines: tuple[int, ...]
    """Where each text stands in its corpus."""
    num_truncated: int
    """Texts whose end was left out."""
    num_unknown: int
    """Texts left out because their label is none of those that are told apart."""

    @classmethod
    def build(cls, examples: Sequence[LabeledText], encode: Encode, labels: Labels, *, max_length: int) -> Self:
        """Texts of other labels than `labels` are left out, for no loss can be taken of them."""
        known = [(example, found) for example in examples if (found := labels.id_of(example.label)) is not None]
        encoded = encode([example.text for example, _ in known])
        return cls(
            tokens=to_ragged([wrap_in_bos_eos(ids, max_length=max_length) for ids in encoded]),
            labels=np.array([label for _, label in known], dtype=np.int64),
            lines=tuple(example.line for example, _ in known),
            num_truncated=sum(len(ids) + 2 > max_length for ids in encoded),
            num_unknown=len(examples) - len(known),
        )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def lengths(self) -> LengthArray:
        """Tokens of each text, symbols included."""
        return self.tokens.lengths

    def collate(self, rows: Rows) -> LabeledBatch:
        """The texts of `rows`, padded to the longest among them."""
        return LabeledBatch(
            tokens=torch.from_numpy(pad_batch(self.tokens, rows, padding=PAD)),
            lengths=torch.from_numpy(self.lengths[rows].astype(np.int64)),
            labels=torch.from_numpy(self.labels[rows]),
            rows=rows,
        )
