"""Inline tags of texts: the model reads the words, and each translation gets the tags by word alignment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final, get_args

from dragoman.data.markup import InlineText, Markup, MarkupRules, TokenAlignment
from dragoman.errors import ConfigError, DataError
from dragoman.inference.control.pair_aligner import MAX_WEIGHTS, PairAligner, TextPair
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.translation_result import Translation

AnyMarkup = Markup | MarkupRules
TextMarkup = AnyMarkup | Sequence[AnyMarkup | None]
"""Markup of all texts, or that of each text, None of a plain one."""


@final
@dataclass(frozen=True, slots=True)
class MarkupStep:
    """Tags that are taken out of a text."""

    inline: InlineText
    aligner: PairAligner

    @property
    def text(self) -> str:
        """The text without tags."""
        return self.inline.text

    def constraints(self, segment: str) -> Sequence[Constraint]:  # noqa: ARG002  # tags demand no words
        """Return no constraints."""
        return ()

    def restore(self, translation: Translation) -> Translation:
        """Return the translation with the tags; its `markup_problems` name tags whose places are guesses."""
        inline, text = self.inline, translation.text
        alignment, problems = None, list(inline.problems)
        if inline.items and text not in ("", inline.text):
            try:
                alignment = self.aligner.align(inline.text, text, translation.parts)
            except DataError as error:  # a model without cross-attention
                problems.append(f"{error} Tags are placed in proportion to the length of the text.")
                if len(inline.text) * len(text) <= MAX_WEIGHTS:
                    alignment = TokenAlignment.proportional(inline.text, text)
            else:
                if alignment is None:
                    problems.append("the text is too long to be aligned; tags are placed in proportion to its length")
        placed = inline.place(text, alignment)
        problems += (f"no word is aligned to {tag:.60}, so that its place is a guess" for tag in placed.unplaced)
        return replace(translation, text=placed.content, markup_problems=tuple(problems))


def align_ahead(texts: Iterable[tuple[PreparedText, Sequence[Translation]]]) -> None:
    """Align the translations of texts with tags together, which takes less time than one by one."""
    pairs: dict[PairAligner, list[TextPair]] = {}
    for text, translations in texts:
        for step in text.steps:
            if isinstance(step, MarkupStep) and step.inline.items:
                pairs.setdefault(step.aligner, []).extend(
                    pair for one in translations if one.text not in ("", step.text) for pair in one.parts
                )
    for aligner, some in pairs.items():
        aligner.align_ahead(some)


def read_markup(given: AnyMarkup | None) -> MarkupRules | None:
    """Return the rules of a markup, None without any. Raises ConfigError on an unknown markup."""
    if given is None or isinstance(given, MarkupRules):
        return given
    if given not in get_args(Markup):
        raise ConfigError(f"markup = {given!r:.40} is unknown. Choose xml or html, or give MarkupRules.")
    return MarkupRules(markup=given)
