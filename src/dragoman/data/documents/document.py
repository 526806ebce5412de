"""Contract of documents: the texts of a file as units, and the file with their translations."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

from dragoman.errors import DataError
from dragoman.number_words import counted

Markup = Literal["xml", "html"]
"""How the source of a unit is written: as an XML fragment, with escaped text, or as a part of an HTML page."""
State = Literal["untranslated", "needs_review", "translated", "final"]
"""State of the target that a file has; `needs_review` is fuzzy in PO, and `final` may not be changed."""
Origin = Literal["machine", "memory", "fuzzy_memory", "copy"]
"""Whether a model wrote a translation, a translation memory has it for an equal or a similar text, or it is the source.
"""

MAX_BYTES = 256 * 2**20
"""Size of the largest document, unpacked."""
MAX_KEY: Final = 500
"""Characters of the key of a unit inside of other objects, which may have long names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Text of a document that is translated as one: a paragraph, a string of a user interface, a cell."""

    source: str
    """Text to translate, without escapes of the file format; with `markup`, a fragment in that language."""
    markup: Markup | None = None
    """Language of the source and of its translation; None is plain text."""
    target: str | None = None
    """Existing translation, in the form of the source; None in formats with one language and where it is missing."""
    state: State = "untranslated"
    """State of the existing translation."""
    key: str = ""
    """Name of the unit in its file, such as the key of a string; empty where the format has none."""
    context: str = ""
    """What distinguishes equal sources, such as msgctxt."""
    notes: str = ""
    """Comments for translators."""
    plural: str | None = None
    """Plural category (`one`, `other`, …) or number of the plural form; None for all other texts."""
    max_length: int | None = None
    """Most characters that the translation may have."""
    line: int | None = None
    """Line of the unit in its file, from 1."""
    numbering: bool = False
    """Whether the format allows numbers in placeholders that get their values by their order, as `%2$s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTranslation:
    """Translation of a unit, in the form of its source, and what a report says about it.

    The form is plain text, or a fragment in the `markup` of the unit.
    """

    text: str
    needs_review: bool = False
    """Whether the file says, where its format can, that a person should look at the translation."""
    origin: Origin = "machine"
    key: str = ""
    """Name of the unit in its file."""
    line: int | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()
    similarity: float | None = None
    """Similarity of the source in the memory."""
    confidence: float | None = None
    """Confidence of the model in the part that it is least sure of."""
    placeholders: int = 0
    """Placeholders in the source."""
    terms: int = 0
    """Terms of the glossary in the source."""
    missing_terms: tuple[str, ...] = ()
    """Terms that the translation lacks, or has in a forbidden form."""
    unmet: tuple[str, ...] = ()
    """Words of constraints that the translation lacks, repeats, or should not have."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record of a report."""
        record = asdict(self)
        first = {"key": self.key, "line": self.line, "source": self.source, "translation": self.text}
        return first | {name: value for name, value in record.items() if name != "text"}


class Document(Protocol):
    """File with texts to translate."""

    @property
    def format(self) -> str:
        """Name of the format, such as `po`."""
        ...

    @property
    def units(self) -> Sequence[Unit]:
        """Texts to translate, in the order of the file."""
        ...

    def fill(self, translations: Sequence[UnitTranslation | None]) -> bytes:
        """Return the file with a translation for each unit; None keeps what the file has.

        The same text as before leaves the bytes of its unit as they are. Raises DataError where the number of
        translations is not that of the units.
        """
        ...


def join_key(outer: str, name: str) -> str:
    """Return the key of a unit inside of an object with a key: both with a dot between them, or the end of that.

    Each unit has its own copy, so that many units inside of an object with a long name would fill the memory.
    """
    key = f"{outer[-MAX_KEY:]}.{name}"
    return key if len(outer) + len(name) < MAX_KEY else f"…{key[1 - MAX_KEY :]}"


def check_count(translations: Sequence[UnitTranslation | None], units: Sequence[Unit]) -> None:
    """Raise DataError unless there is one translation for each unit."""
    if len(translations) != len(units):
        raise DataError(
            f"{counted(len(translations), 'translations')} for {counted(len(units), 'units')}: each unit has one "
            "translation or None. Give as many translations as the document has units."
        )


def identity(document: Document) -> bytes:
    """Return a document whose units are filled with what they have: their targets, or else their sources.

    Formats with one language replace their sources, and get the same texts again. In formats with two languages, units
    without a target stay as they are.
    """
    return document.fill([_same(unit) for unit in document.units])


def _same(unit: Unit) -> UnitTranslation | None:
    if unit.target is None:
        return UnitTranslation(text=unit.source)
    if unit.state == "untranslated":
        return None
    return UnitTranslation(text=unit.target, needs_review=unit.state == "needs_review")
