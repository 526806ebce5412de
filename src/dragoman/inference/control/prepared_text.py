"""Texts as a model reads them, after steps that are undone in their translations.

A step replaces parts of a text, such as placeholders by words that the model can write, and puts them back into each
translation. It may demand words of the translation of each segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

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
    """Text of a caller, the steps that change it in their order, and what its translations begin with and contain."""

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
        return translation


def _first_constraints(step: TextStep, segment: str) -> Sequence[Constraint]:
    """Return the constraints of a step but those on terms, which a search without them often meets."""
    return step.forbidden(segment) if isinstance(step, GlossaryStep) else step.constraints(segment)
