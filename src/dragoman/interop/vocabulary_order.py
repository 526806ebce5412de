"""Order of an imported vocabulary: the special symbols of the other program take the places of ours.

Our special symbols have the ids 0 to 3 (PAD, UNK, BOS, EOS). The symbols that play these roles in the other program
move there, and all other symbols keep their order behind them; the mask symbol of a masked language model is the last.
A symbol may play several roles, as the end symbol of GPT-2 does, and is then copied to the place of each; a role
without a symbol gets an added row.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, final

import numpy as np

from dragoman.array_types import Int
from dragoman.errors import ConfigError, DataError, shorten

Rows = Literal["source", "target", "output_bias"]
"""Vocabulary that the rows of a tensor follow; `output_bias` are the biases of the target vocabulary's logits."""
ROLES: Final = ("pad", "unk", "bos", "eos")
"""Roles of the special symbols, in the order of our ids."""
NEVER: Final = -1e4
"""Bias of a logit whose probability is 0 in float32, so that the probabilities of the other symbols do not change."""
ADDED: Final = -1
"""Foreign id of a row that the other program does not have."""
MAX_VOCABULARY = 1_000_000
"""Maximum number of symbols, as for tokenizers."""


@final
@dataclass(frozen=True)
class VocabularyOrder:
    """Foreign ids of the special symbols, which determine the order of all ids.

    Raises DataError if an id is outside of the vocabulary.
    """

    size: int
    """Number of symbols of the other program: rows of its embedding."""
    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    """Symbol before the first token of an output: the decoder's start symbol."""
    eos: int | None = None
    mask: int | None = None
    """Mask symbol, which plays no other role."""
    ends: tuple[int, ...] = field(default=(), kw_only=True)
    """Symbols that end an output as `eos` does. They keep a place of their own; padding and begin symbol are copies."""

    def __post_init__(self) -> None:
        if not 0 < self.size <= MAX_VOCABULARY:
            raise DataError(
                f"The vocabulary has {shorten(self.size)} symbols, and dragoman reads 1 to {MAX_VOCABULARY:,}. "
                "Check the configuration of the model."
            )
        for role in (*ROLES, "mask"):
            if (index := getattr(self, role)) is not None and not 0 <= index < self.size:
                raise DataError(
                    f"The {role} symbol has the id {shorten(index)}, and the vocabulary has {self.size:,} symbols. "
                    "Check the configuration of the model."
                )
        if any(not 0 <= index < self.size for index in self.ends):
            raise DataError(
                f"The end symbols have the ids {shorten(self.ends)}, and the vocabulary has {self.size:,} symbols. "
                "Check the configuration of the model."
            )
        if self.mask is not None and self.mask in self.special:
            raise DataError(f"The mask symbol {self.mask} has another role too. Check the configuration of the model.")

    def __len__(self) -> int:
        """Return the number of our ids: the symbols of the other program, copies and added rows."""
        return len(self.foreign_ids)

    @property
    def special(self) -> tuple[int | None, ...]:
        """Foreign id of our PAD, UNK, BOS and EOS; None for an added row."""
        return tuple(getattr(self, role) for role in ROLES)

    @cached_property
    def foreign_ids(self) -> Int[np.ndarray, " ours"]:
        """Foreign id of each of our ids; `ADDED` for an added row."""
        head = np.array([ADDED if index is None else index for index in self.special])
        tail = np.array([] if self.mask is None else [self.mask], dtype=np.int64)
        moved = np.setdiff1d([*head, *tail], self.ends)
        return np.concatenate([head, np.setdiff1d(np.arange(self.size), moved), tail])

    @cached_property
    def our_ids(self) -> Int[np.ndarray, " theirs"]:
        """Our id of each foreign id; of several copies, the one whose logit counts."""
        found = np.empty(self.size, dtype=np.int64)
        counted = [index for index in range(len(self)) if index not in self.silent_ids]
        found[self.foreign_ids[counted]] = counted
        return found

    @cached_property
    def silent_ids(self) -> frozenset[int]:
        """Our ids that are never predicted: added rows, and all copies of a symbol but the last one."""
        special = self.special
        later = [{*special[place + 1 :], *self.ends} for place in range(len(special))]
        return frozenset(place for place, index in enumerate(special) if index is None or index in later[place])

    @property
    def needs_output_bias(self) -> bool:
        """Return whether the logits need a bias, which keeps added rows and copies from being predicted."""
        return bool(self.silent_ids)

    def reorder(self, table: np.ndarray, *, is_output_bias: bool = False) -> np.ndarray:
        """Return the rows of a foreign table in our order: (theirs, …) to (ours, …).

        Added rows are zero, copies are equal. In an output bias, both are `NEVER` where the logit does not count.
        """
        ids = self.foreign_ids
        rows: np.ndarray = table[np.maximum(ids, 0)]
        rows[ids == ADDED] = 0
        if is_output_bias:
            rows[sorted(self.silent_ids)] = NEVER
        return rows

    def restore(self, table: np.ndarray, *, is_output_bias: bool = False) -> np.ndarray:
        """Return the rows of our table in the foreign order: (ours, …) to (theirs, …), the inverse of `reorder`.

        Raises ConfigError if the copies of a symbol differ, as after a training: the other program has one row.
        """
        found: np.ndarray = table[self.our_ids]
        for place in () if is_output_bias else sorted(self.silent_ids):
            index = self.foreign_ids[place]
            if index != ADDED and not np.array_equal(table[place], found[index]):
                other = ROLES[self.our_ids[index]] if self.our_ids[index] < len(ROLES) else "end"
                raise ConfigError(
                    f"The symbols {ROLES[place]} and {other} have different embeddings since a training here, and are "
                    "one symbol in the other program. Export the model to another format."
                )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the record of the order."""
        return asdict(self) | {"ends": list(self.ends)}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "VocabularyOrder":
        """Return the order of a record, whose types were checked."""
        return cls(tree["size"], *(tree[role] for role in (*ROLES, "mask")), ends=tuple(tree.get("ends", ())))
