"""Keyboard accelerators in translations: removed from the text that the model reads, and put back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from dragoman.data.placeholders.accelerators import MarkedText
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.translation_result import Translation


@final
@dataclass(frozen=True, slots=True)
class AcceleratorStep:
    """Text without its accelerator."""

    marked: MarkedText

    @property
    def text(self) -> str:
        """The text without the mark."""
        return self.marked.text

    def constraints(self, segment: str) -> Sequence[Constraint]:  # noqa: ARG002  # an accelerator demands no words
        """Return no constraints."""
        return ()

    def restore(self, translation: Translation) -> Translation:
        """Return the translation with the accelerator; an empty one stays empty."""
        if not translation.text.strip():
            return translation
        return replace(translation, text=self.marked.restore(translation.text))
