"""Inline tags of texts: the model reads the words, and each translation gets the tags by word alignment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final, get_args

from dragoman.data.markup import InlineText, Markup, MarkupRules, TokenAlignment
from dragoman.data.markup.elements import emptied_elements
from dragoman.errors import ConfigError, DataError
from dragoman.inference.control.pair_aligner import MAX_WEIGHTS, PairAligner, TextPair
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.quality_signals import ModelTexts
from dragoman.inference.translation_result import Translation, TranslationWarning

AnyMarkup = Markup | MarkupRules
TextMarkup = AnyMarkup | Sequence[AnyMarkup | None]
"""Markup of all texts, or that of each text, None of a plain one."""
_GUESS: Final = "no word is aligned to"
_EMPTIED: Final = "the translation has no text in"


@final
@dataclass(frozen=True, slots=True)
class MarkupStep:
    """Tags that are taken out of an inline fragment."""

    inline: InlineText
    aligner: PairAligner
    rules: MarkupRules

    @property
    def text(self) -> str:
        """The text without tags."""
        return self.inline.text

    def constraints(self, segment: str) -> Sequence[Constraint]:  # noqa: ARG002  # tags demand no words
        """Return no constraints."""
        return ()

    def needs_alignment(self, translation: Translation) -> bool:
        """Return whether the words of a translation are aligned to place the tags."""
        return bool(self.inline.items) and translation.text not in ("", self.inline.text)

    def restore(self, translation: Translation) -> Translation:
        """Return the translation with the tags; its `markup_problems` name tags whose places are guesses."""
        alignment, problems = None, list(self.inline.problems)
        text, trace = translation.text, translation.trace
        read = translation.model_texts or ModelTexts(self.inline.text, text)
        if self.needs_alignment(translation):
            try:
                alignment = self.aligner.align(read.source, read.output, translation.parts)
            except DataError as error:  # a model without cross-attention
                problems.append(f"{error} Tags are placed in proportion to the length of the text.")
                if len(read.source) * len(read.output) <= MAX_WEIGHTS:
                    alignment = TokenAlignment.proportional(read.source, read.output)
            else:
                if alignment is None:
                    problems.append("the text is too long to be aligned; tags are placed in proportion to its length")
        if alignment is not None and trace is not None:
            alignment = alignment.moved(trace)
        placed = self.inline.place(text, alignment, () if trace is None else trace.kept)
        problems += (f"{_GUESS} {tag:.60}, so that its place is a guess" for tag in placed.unplaced)
        if self.inline.items and text:
            emptied = emptied_elements(self.inline.fragment, placed.content, self.rules)
            problems += (emptied_problem(tag) for tag in emptied)
        return replace(translation, text=placed.content, markup_problems=tuple(dict.fromkeys(problems)), trace=None)


def align_ahead(texts: Iterable[tuple[PreparedText, Sequence[Translation]]]) -> None:
    """Align the translations of texts with tags together, which takes less time than one by one."""
    pairs: dict[PairAligner, list[TextPair]] = {}
    for text, translations in texts:
        for step in text.steps:
            if isinstance(step, MarkupStep):
                pairs.setdefault(step.aligner, []).extend(
                    part for one in translations if step.needs_alignment(one) for part in one.parts
                )
    for aligner, some in pairs.items():
        if some:
            aligner.align_ahead(some)


def emptied_problem(start_tag: str) -> str:
    """Return the message about an element that has text, but none in the translation."""
    return f"{_EMPTIED} {start_tag:.60}"


class MarkupWarning(TranslationWarning):
    """Warning about the tags of a text, which `Translation.markup_problems` names."""


def markup_warning(translation: Translation, line: int) -> MarkupWarning | None:
    """Return a warning about the markup of a text that is malformed, or whose tags no alignment places."""
    problems = [one for one in translation.markup_problems if not one.startswith((_GUESS, _EMPTIED))]
    if not problems:
        return None
    problem = "texts have tags whose places in the translations are guesses"
    return MarkupWarning("line", line, f"places of tags are guesses: {'; '.join(problems)}", problem=problem)


def read_markup(given: AnyMarkup | None) -> MarkupRules | None:
    """Return the rules of a markup, None without any. Raises ConfigError on an unknown markup."""
    if given is None or isinstance(given, MarkupRules):
        return given
    if given not in get_args(Markup):
        raise ConfigError(f"markup = {given!r:.40} is unknown. Choose xml or html, or give MarkupRules.")
    return MarkupRules(markup=given)
