"""Texts as a model reads them, after steps that are undone in their translations.

A step replaces parts of a text, such as placeholders by words that the model can write, and puts them back into each
translation. It may demand words of the translation of each segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

from dragoman.data.terminology.glossary import Term
from dragoman.data.terminology.matching import TermMatch
from dragoman.inference.control.glossary_terms import GlossaryStep
from dragoman.inference.control.placeholders import PlaceholderStep
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.translation_result import Translation


@runtime_checkable
class TextStep(Protocol):
    """Change of a text before its translation, undone in the translations."""

    @property
    def text(self) -> str:
        """The text as the next step, or the model, reads it."""
        ...

    def constraints(self, segment: str) -> Sequence[Constraint]:
        """Return the constraints on the translation of a segment of the text."""
        ...

    def restore(self, translation: Translation) -> Translation:
        """Return the translation of the text as it was before the step."""
        ...


@runtime_checkable
class KnowsTranslations(Protocol):
    """Step that knows the whole translation of some segments."""

    def translation(self, segment: str) -> str | None:
        """Return the translation of a segment, None where it is not known."""
        ...


@final
@dataclass(frozen=True, slots=True)
class PreparedText:
    """Text, or block of a text, the steps that change it in their order, and what its translations begin with."""

    original: str
    steps: tuple[TextStep, ...] = ()
    prefix: str = ""
    given: tuple[Constraint, ...] = ()
    """Constraints of the caller."""

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.steps[-1].text if self.steps else self.original

    def constraints(self, segment: str) -> list[Constraint]:
        """Return all constraints on the translation of a segment of the text that the model reads."""
        return [*self.given, *(one for step in self.steps for one in step.constraints(segment))]

    def known_translation(self, segment: str) -> str | None:
        """Return the translation of a segment that a step knows, None without one."""
        known = (step.translation(segment) for step in self.steps if isinstance(step, KnowsTranslations))
        return next((one for one in known if one is not None), None)

    def first_constraints(self, segment: str) -> list[Constraint]:
        """Return the constraints of the first search for a segment: all but those on placeholders and on its terms."""
        steps = [step for step in self.steps if not isinstance(step, PlaceholderStep)]
        return [*self.given, *(one for step in steps for one in _first_constraints(step, segment))]

    def constraints_without_terms(self, segment: str) -> list[Constraint]:
        """Return the constraints on the translation of a segment but those on its terms."""
        return [*self.given, *(one for step in self.steps for one in _first_constraints(step, segment))]

    @property
    def glossary(self) -> GlossaryStep | None:
        """The step of the terms that the search meets or prefers."""
        found = (step for step in self.steps if isinstance(step, GlossaryStep) and step.control.mode != "annotated")
        return next(found, None)

    @property
    def placeholders(self) -> PlaceholderStep | None:
        """The step that protects placeholders."""
        return next((step for step in self.steps if isinstance(step, PlaceholderStep)), None)

    def restore(self, translation: Translation) -> Translation:
        """Return the translation of the original text."""
        for step in reversed(self.steps):
            translation = step.restore(translation)
        return replace(translation, terms=self._locate(translation.terms)) if translation.terms else translation

    def _locate(self, terms: Sequence[TermMatch[Term]]) -> tuple[TermMatch[Term], ...]:
        """Return terms by their places in the original text, of which steps have changed other parts."""
        text, place = self.original, 0
        for name in () if self.placeholders is None else self.placeholders.names:
            place = text.find(name, place)
            if place >= 0 and len(name) < len(text):  # terms inside of placeholders are none
                text = f"{text[:place]}{chr(0) * len(name)}{text[place + len(name) :]}"
            place = max(0, place)
        located: list[TermMatch[Term]] = []
        place = 0
        for term in terms:
            start = text.find(term.text, place)
            if start >= 0:
                term = replace(term, start=start, end=start + len(term.text))
                place = term.end
            located.append(term)
        return tuple(located)


@final
@dataclass(frozen=True, slots=True)
class PreparedBlocks:
    """Text of a caller as blocks, each of which is translated by itself, and the markup around the blocks."""

    original: str
    around: tuple[str, ...]
    """Markup before each block and after the last."""
    blocks: tuple[PreparedText, ...]
    """One of a text without markup."""


def _first_constraints(step: TextStep, segment: str) -> Sequence[Constraint]:
    """Return the constraints of a step but those on terms, which a search without them often meets."""
    return step.forbidden(segment) if isinstance(step, GlossaryStep) else step.constraints(segment)
