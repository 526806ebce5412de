"""Document of one text in which the units are spans: HTML, XHTML, and the XML of office files."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from dragoman.data.documents.document import Markup, Unit, UnitTranslation, check_count
from dragoman.data.documents.inline_units import InlineUnit, Piece


@final
@dataclass(frozen=True)
class Edit:
    """New content of a span, computed when it is written: it may contain other spans with edits."""

    start: int
    end: int
    write: Callable[[], str]


@final
class EditedText:
    """Text of a document with edits, which may be nested but may not overlap otherwise."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._text = text
        self._edits = sorted(edits, key=lambda edit: (edit.start, -edit.end))
        self._starts = [edit.start for edit in self._edits]

    def slice(self, start: int, end: int) -> str:
        """Return a part of the text with the edits inside of it."""
        written: list[str] = []
        place = start
        for number in range(bisect.bisect_left(self._starts, start), bisect.bisect_left(self._starts, end)):
            edit = self._edits[number]
            if edit.start >= place and edit.end <= end:
                written.append(self._text[place : edit.start])
                written.append(edit.write())
                place = edit.end
        written.append(self._text[place:end])
        return "".join(written)

    def whole(self) -> str:
        """Return the text with all edits."""
        return self.slice(0, len(self._text))


class SpanUnit(Protocol):
    """Unit of a text by its place."""

    @property
    def start(self) -> int:
        """Return the place of the first character that a translation replaces."""
        ...

    @property
    def end(self) -> int:
        """Return the place behind the last character that a translation replaces."""
        ...

    @property
    def unit(self) -> Unit:
        """Return the text to translate."""
        ...

    def write(self, translation: str, text: EditedText) -> str:
        """Return what replaces the span; `text` gives the bytes of the codes, in which there may be edits."""
        ...


@final
@dataclass(frozen=True)
class InlineSpan:
    """Unit with inline codes; `escape` writes characters in the format of the document."""

    inline: InlineUnit
    escape: Callable[[str], str]
    context: str = ""

    @property
    def start(self) -> int:
        """Return the place of the first character that a translation replaces."""
        return self.inline.start

    @property
    def end(self) -> int:
        """Return the place behind the last character that a translation replaces."""
        return self.inline.end

    @property
    def unit(self) -> Unit:
        """Return the text to translate."""
        markup: Markup | None = "xml" if self.inline.has_codes else None
        return Unit(source=self.inline.source, markup=markup, context=self.context)

    def write(self, translation: str, text: EditedText) -> str:
        """Return the translation with the bytes of the codes."""

        def code(piece: Piece) -> str:
            return text.slice(piece.start, piece.end)

        return self.inline.render(translation, code, self.escape)


@final
@dataclass(frozen=True)
class ValueSpan:
    """Unit without codes, such as the value of an attribute."""

    start: int
    end: int
    source: str
    escape: Callable[[str], str]
    context: str = ""

    @property
    def unit(self) -> Unit:
        """Return the text to translate."""
        return Unit(source=self.source, context=self.context)

    def write(self, translation: str, text: EditedText) -> str:  # noqa: ARG002
        """Return the translation, escaped."""
        return self.escape(translation)


@final
class SpanText:
    """Text with units by place, and with fixed edits, such as another language code."""

    def __init__(self, text: str, spans: Sequence[SpanUnit], *, fixed: Sequence[Edit] = ()) -> None:
        self.text = text
        self.spans = sorted(spans, key=lambda span: span.start)
        self.units = [span.unit for span in self.spans]
        self._fixed = tuple(fixed)

    def fill(self, translations: Sequence[UnitTranslation | None]) -> str:
        """Return the text with translations. A span whose translation equals its source keeps its characters."""
        check_count(translations, self.units)
        edits: list[Edit] = list(self._fixed)
        edited: list[EditedText] = []

        def add(span: SpanUnit, translation: str) -> None:
            edits.append(Edit(span.start, span.end, lambda: span.write(translation, edited[0])))

        for span, unit, translation in zip(self.spans, self.units, translations, strict=True):
            if translation is not None and translation.text != unit.source:
                add(span, translation.text)
        edited.append(EditedText(self.text, edits))
        return edited[0].whole()
