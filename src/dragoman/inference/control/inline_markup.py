"""Inline tags of texts: the model reads the words, and each translation gets the tags by word alignment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, final, get_args

from dragoman.data.markup import InlineText, Markup, MarkupRules, TokenAlignment, parse_inline, split_blocks
from dragoman.errors import ConfigError, DataError
from dragoman.inference.control.pair_aligner import MAX_WEIGHTS, PairAligner, TextPair
from dragoman.inference.control.placeholders import PART_BREAK
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import Constraint
from dragoman.inference.translation_result import Translation, TranslationWarning

AnyMarkup = Markup | MarkupRules
TextMarkup = AnyMarkup | Sequence[AnyMarkup | None]
"""Markup of all texts, or that of each text, None of a plain one."""
_GUESS: Final = "no word is aligned to"


@final
@dataclass(frozen=True, slots=True)
class MarkupStep:
    """Tags that are taken out of a text, and out of each of its blocks, which line separators divide."""

    pieces: tuple[str, ...]
    """Blocks, and the markup before each and after the last."""
    blocks: tuple[InlineText, ...]
    aligner: PairAligner

    @classmethod
    def parse(cls, fragment: str, rules: MarkupRules, aligner: PairAligner) -> Self:
        """Take the tags out of a fragment, which is split where the rules and the elements of HTML say so.

        Raises DataError on elements nested too deep.
        """
        pieces: tuple[str, ...] = ("", fragment, "")
        if "<" in fragment and PART_BREAK not in fragment:
            # What stands next to no text in a fragment of XML may be inline, such as codes next to each other.
            own = rules if rules.markup == "html" else replace(rules, outline_detection=False)
            found = split_blocks(fragment, own)
            pieces = found if len(found) > 1 else pieces
        return cls(pieces, tuple(parse_inline(one, rules) for one in pieces[1::2]), aligner)

    @property
    def text(self) -> str:
        """The text without tags."""
        return PART_BREAK.join(one.text for one in self.blocks)

    def constraints(self, segment: str) -> Sequence[Constraint]:  # noqa: ARG002  # tags demand no words
        """Return no constraints."""
        return ()

    def restore(self, translation: Translation) -> Translation:
        """Return the translation with the tags; its `markup_problems` name tags whose places are guesses."""
        pieces, problems = list(self.pieces), list[str]()
        for place, (block, text, parts) in enumerate(self.translated_blocks(translation)):
            pieces[2 * place + 1], own = self._restore_block(block, text, parts)
            problems += own
        return replace(translation, text="".join(pieces), markup_problems=tuple(dict.fromkeys(problems)))

    def translated_blocks(self, translation: Translation) -> Iterator[tuple[InlineText, str, list[TextPair]]]:
        """Yield each block, its translation, and its segments with their translations."""
        texts = translation.text.split(PART_BREAK, len(self.blocks) - 1)
        parts: list[list[TextPair]] = [[] for _ in self.blocks]
        place, end = 0, 0
        for part in translation.parts:
            while place + 1 < len(self.blocks) and self.blocks[place].text.find(part[0], end) < 0:
                place, end = place + 1, 0
            end = max(0, self.blocks[place].text.find(part[0], end)) + len(part[0])
            parts[place].append(part)
        for number, block in enumerate(self.blocks):
            yield block, texts[number] if number < len(texts) else "", parts[number]

    def _restore_block(self, block: InlineText, text: str, parts: Sequence[TextPair]) -> tuple[str, list[str]]:
        """Return the translation of a block with its tags, and the problems."""
        alignment, problems = None, list(block.problems)
        if block.items and text not in ("", block.text):
            try:
                alignment = self.aligner.align(block.text, text, parts)
            except DataError as error:  # a model without cross-attention
                problems.append(f"{error} Tags are placed in proportion to the length of the text.")
                if len(block.text) * len(text) <= MAX_WEIGHTS:
                    alignment = TokenAlignment.proportional(block.text, text)
            else:
                if alignment is None:
                    problems.append("the text is too long to be aligned; tags are placed in proportion to its length")
        placed = block.place(text, alignment)
        problems += (f"{_GUESS} {tag:.60}, so that its place is a guess" for tag in placed.unplaced)
        return placed.content, problems


def align_ahead(texts: Iterable[tuple[PreparedText, Sequence[Translation]]]) -> None:
    """Align the translations of texts with tags together, which takes less time than one by one."""
    pairs: dict[PairAligner, list[TextPair]] = {}
    for text, translations in texts:
        for step in text.steps:
            if isinstance(step, MarkupStep) and any(block.items for block in step.blocks):
                pairs.setdefault(step.aligner, []).extend(
                    part
                    for one in translations
                    for block, translated, parts in step.translated_blocks(one)
                    if block.items and translated not in ("", block.text)
                    for part in parts
                )
    for aligner, some in pairs.items():
        aligner.align_ahead(some)


class MarkupWarning(TranslationWarning):
    """Warning about the tags of a text, which `Translation.markup_problems` names."""


def markup_warning(translation: Translation, line: int) -> MarkupWarning | None:
    """Return a warning about the markup of a text that is malformed, or whose tags no alignment places."""
    problems = [one for one in translation.markup_problems if not one.startswith(_GUESS)]
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
