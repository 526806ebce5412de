"""Tables of the keys of another library's configuration, with what an import does with each key.

A table lists every key that the library knows. A key that no table lists stops the import, because it may change
outputs; so does a value that a row does not accept. The documentation shows the same tables.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never, final

from dragoman.errors import ConfigError, nearest, shorten, shorten_text


@final
@dataclass(frozen=True)
class Computed:
    """Key that the import reads."""

    meaning: str
    """Part of the network, or of the search, that the key becomes."""


@final
@dataclass(frozen=True)
class NoEffect:
    """Key that changes no output."""

    reason: str


@final
@dataclass(frozen=True)
class Only:
    """Key that the import accepts with some values, and refuses with all others."""

    values: tuple[Any, ...]
    """Accepted values; none if every value but null is refused."""
    meaning: str


@final
@dataclass(frozen=True)
class Alias:
    """Second name of a key, which takes precedence over it."""

    key: str


Treatment = Computed | NoEffect | Only | Alias
KeyTable = Mapping[str, Treatment]
"""Treatment of each key by its name."""
LEAVE_OUT: Final = "To import the model without it, use --allow-unused"


def check_keys(tree: Mapping[str, Any], table: KeyTable, *, where: str, allow_unused: Collection[str] = ()) -> None:
    """Raise ConfigError for the first key that the table does not list, or whose value it does not accept.

    Keys without a value (null) and those of `allow_unused` are not checked; `where` begins messages.
    """
    for key, value in tree.items():
        if value is None or key in allow_unused:
            continue
        treatment = table.get(key)
        if treatment is None:
            near = nearest(key, table)
            hint = f"; do you mean {near[0]}" if near else ""
            raise ConfigError(
                f"{where}{shorten_text(key)} = {shorten(value)} is unknown, and may change outputs{hint}. "
                f"{LEAVE_OUT} {shorten_text(key)}."
            )
        if isinstance(treatment, Only) and not any(is_same(value, accepted) for accepted in treatment.values):
            accepted = " or ".join(map(repr, treatment.values))
            rule = f"but {accepted} is" if accepted else f"which is {treatment.meaning}"
            raise ConfigError(f"{where}{key} = {shorten(value)} is not supported, {rule}. {LEAVE_OUT} {key}.")


def is_same(value: Any, other: Any) -> bool:
    """Return whether two values of JSON are equal; a truth value is no number."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def without_aliases(tree: Mapping[str, Any], table: KeyTable) -> dict[str, Any]:
    """Return the settings by the first names of their keys."""
    aliases = {key: row.key for key, row in table.items() if isinstance(row, Alias) and tree.get(key) is not None}
    return {**tree, **{name: tree[alias] for alias, name in aliases.items()}}


def no_effect(reason: str, keys: str | Iterable[str]) -> dict[str, Treatment]:
    """Return rows of keys that have no effect for one reason; the keys are separated by white space."""
    return dict.fromkeys(keys.split() if isinstance(keys, str) else keys, NoEffect(reason))


def computed(meanings: Mapping[str, str]) -> dict[str, Treatment]:
    """Return rows of keys that the import reads, by what they become."""
    return {key: Computed(meaning) for key, meaning in meanings.items()}


def describe(treatment: Treatment) -> tuple[str, str]:
    """Return what happens to a key, and the reason, in words."""
    match treatment:
        case Computed():
            return "computed", treatment.meaning
        case NoEffect():
            return "no effect", treatment.reason
        case Only(values=()):
            return "refused", treatment.meaning
        case Only():
            accepted = " or ".join(
                f"`{str(value).lower() if isinstance(value, bool) else value}`" for value in treatment.values
            )
            return f"only {accepted}", treatment.meaning
        case Alias():
            return "computed", f"as `{treatment.key}`, over which it takes precedence"
        case _:
            assert_never(treatment)
