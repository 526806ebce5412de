"""Tables of tensor names, which convert weights in both directions and account for every tensor.

A row of a table, `TensorPair`, names a tensor of the network and the foreign tensor, its counterpart in the other
program. Names hold `{layer}` for the number of a layer, counted from 0, or `{number}`, counted from 1:

    TensorPair("encoder.{layer}.attention.query.weight", "encoder_l{number}_self_Wq", TRANSPOSE)
    TensorPair(
        tuple("decoder.{layer}.attention." + part + ".weight" for part in ("query", "key", "value")),
        "h.{layer}.attn.c_attn.weight",
        TRANSPOSE,
    )

Rows of parts that a model does not have are skipped, so that one table serves all models of a family.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from dragoman.errors import ConfigError, DataError, shorten_text
from dragoman.interop.vocabulary_order import Rows, VocabularyOrder
from dragoman.number_words import counted

Shapes = Mapping[str, tuple[int, ...]]
Orders = Mapping[str, VocabularyOrder]
"""Order of the vocabulary by side, `source` and `target`."""
_PLACEHOLDER = re.compile(r"\\\{(layer|number)\\\}")
_SHOWN = 5
"""Names in an error message."""


@final
@dataclass(frozen=True)
class Conversion:
    """Two inverse functions between a foreign tensor and one of the network."""

    to_network: Callable[[np.ndarray], np.ndarray]
    to_foreign: Callable[[np.ndarray], np.ndarray]


TRANSPOSE: Final = Conversion(np.transpose, np.transpose)
"""Foreign matrices are (inputs, outputs), and those of the network (outputs, inputs)."""
SINGLE_ROW: Final = Conversion(lambda array: array.reshape(-1), lambda array: array.reshape(1, -1))
"""Foreign vectors are matrices of one row."""


@final
@dataclass(frozen=True)
class TensorPair:
    """Row of a table: a tensor of the network and the foreign one.

    Several names on one side are the equal or, in the network, differently sized parts of the tensor on the other side,
    concatenated along the first axis after the conversion.
    """

    network: str | tuple[str, ...]
    foreign: str | tuple[str, ...]
    """Name, or names; none for a tensor that the other program does not have, which needs a `default`.

    A tensor that is one with another one there has no name, and the name of the other one as an alias.
    """
    conversion: Conversion | None = None
    rows: Rows | None = None
    """Vocabulary that the rows follow, which are reordered."""
    default: float | None = None
    """Value of all numbers if the other program has no such tensor; by default it is missing."""
    aliases: tuple[str, ...] = ()
    """Other foreign names of the same tensor, such as a tied one; one of the names exists, and all hold equal values.

    They are not written.
    """


@final
@dataclass(frozen=True)
class LeftOver:
    """Foreign tensors that are not used: a name, which may hold `{layer}`, and the reason."""

    name: str
    reason: str


@final
@dataclass(frozen=True)
class TensorAccount:
    """Account of the tensors of another program."""

    used: tuple[str, ...] = ()
    """Foreign names, in the order of their file."""
    left_over: Mapping[str, str] = field(default_factory=dict)
    """Reason by foreign name."""
    filled: Mapping[str, float] = field(default_factory=dict)
    """Value by the name of each tensor of the network that the other program does not have."""

    def to_json(self) -> dict[str, Any]:
        """Return the record of the account."""
        return {"used": len(self.used), "left_over": dict(self.left_over), "filled": dict(self.filled)}


@final
@dataclass(frozen=True)
class _Row:
    """Row of a table for one layer."""

    pair: TensorPair
    network: tuple[str, ...]
    foreign: tuple[str, ...]
    aliases: tuple[str, ...]


@final
@dataclass(frozen=True)
class TensorTable:
    """Table of the names of a family of models."""

    pairs: Sequence[TensorPair]
    left_over: Sequence[LeftOver] = ()

    def read(
        self,
        foreign: Mapping[str, np.ndarray],
        shapes: Shapes,
        *,
        where: str,
        orders: Orders | None = None,
        allow_unused: Collection[str] = (),
        integers: Collection[str] = (),
    ) -> tuple[dict[str, np.ndarray], TensorAccount]:
        """Convert foreign tensors to those of a network in float32, with the given names and shapes.

        `orders` are those of the vocabularies; without, rows keep their order. `allow_unused` names foreign tensors
        that the user leaves out, `integers` those that are not among `foreign`; `where` begins messages. Raises
        DataError if tensors are missing, left over without a reason, or of another shape, and ConfigError if
        `allow_unused` names no tensor.
        """
        if unknown := set(allow_unused) - {*foreign, *integers}:
            raise ConfigError(f"{where}: has no tensor {_names(unknown)}, which --allow-unused names. Leave it out.")
        rows = list(_expand(self.pairs, shapes))
        used, filled, found = set[str](), dict[str, float](), dict[str, np.ndarray]()
        _check_missing(rows, foreign, shapes, where=where, integers=integers)
        for row in rows:
            names = _present(row, foreign)
            if not names:
                assert row.pair.default is not None, "checked"
                filled |= dict.fromkeys(row.network, row.pair.default)
            used |= names
            found |= _read_row(row, foreign, shapes, orders or {}, where=where)
        left_over = self._account_left_over(foreign.keys() - used, allow_unused=allow_unused, where=where)
        left_over |= dict.fromkeys(sorted(integers), "integers, which no part of the network reads")
        return found, TensorAccount(tuple(name for name in foreign if name in used), left_over, filled)

    def write(self, weights: Mapping[str, np.ndarray], *, orders: Orders | None = None) -> dict[str, np.ndarray]:
        """Convert the tensors of a network to foreign ones, the inverse of `read`.

        Raises ConfigError if the table has no row for a tensor, or the other program lacks it and its values matter.
        """
        rows = list(_expand(self.pairs, {name: array.shape for name, array in weights.items()}))
        if unknown := weights.keys() - {name for row in rows for name in row.network}:
            raise ConfigError(f"{_names(unknown)}: the format has no such weights. Export the model to another format.")
        found: dict[str, np.ndarray] = {}
        for row in rows:
            if row.foreign or not row.aliases:
                found |= _write_row(row, weights, orders or {})
        for row in rows:
            if row.aliases and not row.foreign:
                _check_copy(row, weights, found, orders or {})
        return found

    def _account_left_over(
        self, names: Collection[str], *, allow_unused: Collection[str], where: str
    ) -> dict[str, str]:
        """Return the reason for each tensor that is not used. Raises DataError if there is none."""
        patterns = [(_pattern(one.name), one.reason) for one in self.left_over]
        reasons = dict.fromkeys(allow_unused, "left out by the user")
        found = {}
        for name in sorted(names):
            known = (reason for pattern, reason in patterns if pattern.fullmatch(name))
            if (reason := reasons.get(name) or next(known, None)) is not None:
                found[name] = reason
        if unknown := sorted(set(names) - found.keys()):
            raise DataError(
                f"{where}: {counted(len(unknown), 'tensors')} would not be used ({_names(unknown)}). Is the model of "
                "another kind? Leave them out with --allow-unused NAME if it works without them."
            )
        return found


def _expand(pairs: Sequence[TensorPair], tensors: Collection[str]) -> Iterator[_Row]:
    """Yield the rows of a table for each layer of a model with these tensors, without parts that it lacks."""
    for pair in pairs:
        names = _tuple(pair.network)
        pattern = _pattern(names[0])
        for match in filter(None, map(pattern.fullmatch, tensors)):
            layer = next((int(text) - (key == "number") for key, text in match.groupdict().items()), 0)
            fill = {"layer": str(layer), "number": str(layer + 1)}
            yield _Row(
                pair,
                tuple(_fill(name, fill) for name in names),
                tuple(_fill(name, fill) for name in _tuple(pair.foreign)),
                tuple(_fill(name, fill) for name in pair.aliases),
            )


def _check_missing(
    rows: Sequence[_Row], foreign: Collection[str], shapes: Shapes, *, where: str, integers: Collection[str]
) -> None:
    """Raise DataError if the foreign file lacks tensors; the table has a row for each tensor of the network."""
    unnamed = shapes.keys() - {name for row in rows for name in row.network}
    assert not unnamed, f"the table of names lacks {sorted(unnamed)}"
    missing = [
        name
        for row in rows
        if row.pair.default is None and not _present(row, foreign)
        for name in (set(row.foreign) - set(foreign) or row.foreign)
    ]
    if quantized := [name for name in missing if name in integers]:
        raise DataError(
            f"{where}: {_names(quantized)} are integers, so that the weights are quantized. Import the model with "
            "weights of floating-point numbers."
        )
    if missing:
        raise DataError(
            f"{where}: {counted(len(missing), 'tensors')} of the model are missing ({_names(missing)}). Is the file "
            "complete, and does the configuration belong to it?"
        )


def _present(row: _Row, foreign: Collection[str]) -> set[str]:
    """Return the foreign names that a row uses; none if a part is missing."""
    found = {name for name in row.aliases if name in foreign}
    return found | set(row.foreign) if row.foreign and all(name in foreign for name in row.foreign) else found


def _read_row(
    row: _Row, foreign: Mapping[str, np.ndarray], shapes: Shapes, orders: Orders, *, where: str
) -> dict[str, np.ndarray]:
    """Return the tensors of the network of a row."""
    present = _present(row, foreign)
    order, is_bias = _order(row, orders), row.pair.rows == "output_bias"
    if not present:
        found = {name: np.full(shapes[name], row.pair.default, dtype=np.float32) for name in row.network}
        if is_bias and order is not None:
            found = {name: order.reorder(array[: order.size], is_output_bias=True) for name, array in found.items()}
        return found
    wholes = [
        _convert(row, [foreign[name] for name in names], where=where)
        for names in (row.foreign, *((alias,) for alias in row.aliases))
        if names and present.issuperset(names)
    ]
    if any(not np.array_equal(whole, wholes[0]) for whole in wholes[1:]):
        raise DataError(
            f"{where}: {_names(present)} are one tensor in this kind of model, and have different values. "
            "Is the configuration that of another model?"
        )
    whole = wholes[0]
    if order is not None:
        if whole.shape[:1] != (order.size,):
            raise DataError(
                f"{where}: {_names(present)} has {whole.shape[0] if whole.ndim else 0:,} rows, and the vocabulary "
                f"{order.size:,} symbols. Do the files belong together?"
            )
        whole = order.reorder(whole, is_output_bias=is_bias)
    return _split(row, whole, shapes, names=present, where=where)


def _convert(row: _Row, arrays: Sequence[np.ndarray], *, where: str) -> np.ndarray:
    """Return the parts of a foreign tensor as one, converted to float32."""
    convert = row.pair.conversion.to_network if row.pair.conversion is not None else np.asarray
    try:
        parts = [convert(array) for array in arrays]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    except ValueError as error:
        raise DataError(
            f"{where}: {_names(row.foreign)} has an unexpected shape {[one.shape for one in arrays]}. "
            "Does the configuration belong to it?"
        ) from error
    return np.array(whole, dtype=np.float32, order="C")


def _split(
    row: _Row, whole: np.ndarray, shapes: Shapes, *, names: Collection[str], where: str
) -> dict[str, np.ndarray]:
    """Return the parts of a tensor. Raises DataError if their shapes are not those of the model."""
    expected = [shapes[name] for name in row.network]
    sizes = [shape[0] if shape else 1 for shape in expected]
    total = expected[0] if len(expected) == 1 else (sum(sizes), *expected[0][1:])
    if whole.shape != total:
        raise DataError(
            f"{where}: {_names(names)} has the shape {list(whole.shape)}, and the configuration needs {list(total)}. "
            "Do the files belong together?"
        )
    if len(expected) == 1:
        return {row.network[0]: whole}
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    return {name: np.ascontiguousarray(part) for name, part in zip(row.network, parts, strict=True)}


def _write_row(row: _Row, weights: Mapping[str, np.ndarray], orders: Orders) -> dict[str, np.ndarray]:
    """Return the foreign tensors of a row."""
    parts = [weights[name] for name in row.network]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if (order := _order(row, orders)) is not None:
        whole = order.restore(whole, is_output_bias=row.pair.rows == "output_bias")
    if not row.foreign:
        if not np.all(whole == row.pair.default):
            raise ConfigError(
                f"{_names(row.network)}: the format has no such weights, and a training here has changed them. Export "
                "the model to another format."
            )
        return {}
    conversion = row.pair.conversion
    pieces = np.split(whole, len(row.foreign)) if len(row.foreign) > 1 else [whole]
    return {
        name: np.ascontiguousarray(piece if conversion is None else conversion.to_foreign(piece))
        for name, piece in zip(row.foreign, pieces, strict=True)
    }


def _check_copy(row: _Row, weights: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], orders: Orders) -> None:
    """Raise ConfigError if a tensor without a foreign name of its own differs from its written copy."""
    whole, order = weights[row.network[0]], _order(row, orders)
    foreign = whole if order is None else order.restore(whole)
    for alias in row.aliases:
        if alias in found and not np.array_equal(foreign, found[alias]):
            raise ConfigError(
                f"{_names(row.network)} and {alias} are one tensor in the format, and differ since a training here. "
                "Export the model to another format."
            )


def _order(row: _Row, orders: Orders) -> VocabularyOrder | None:
    if row.pair.rows is None:
        return None
    return orders.get("target" if row.pair.rows == "output_bias" else row.pair.rows)


def _pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of the names that a name with placeholders stands for."""
    return re.compile(_PLACEHOLDER.sub(r"(?P<\1>0|[1-9][0-9]{0,4})", re.escape(name)))


def _fill(name: str, numbers: Mapping[str, str]) -> str:
    return name.replace("{layer}", numbers["layer"]).replace("{number}", numbers["number"])


def _tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _names(names: Collection[str]) -> str:
    """Return the first of some names for a message."""
    shown = [shorten_text(name) for name in sorted(names)[:_SHOWN]]
    return ", ".join(shown) + (f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
