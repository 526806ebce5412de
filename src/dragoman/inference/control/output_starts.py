"""Starts of outputs: the prefix and the constraints of each segment, as tokens."""

from collections.abc import Sequence
from typing import final

from dragoman.data.tokenizers import Direction, LanguageTokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.errors import ConfigError, DataError
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import MAX_CONSTRAINTS, Constraint, build_automaton
from dragoman.inference.text_segmentation import Segment, SegmentedText
from dragoman.models.special_symbols import EOS


@final
class OutputStarts:
    """Builds the starts of the outputs of segments for one direction and search."""

    def __init__(self, tokenizer: LanguageTokenizer, direction: Direction, config: DecodingConfig) -> None:
        """`tokenizer` is that of the targets."""
        self._tokenizer = tokenizer
        self._direction = direction
        self._config = config

    def of_segments(self, text: PreparedText, segmented: SegmentedText, *, line: int) -> list[OutputStart]:
        """Return the start of the output of each segment of a text; `line` is the number of the text in messages.

        Raises ConfigError where the search cannot meet constraints.
        """
        segments = [segment for sentence in segmented.sentences for segment in sentence]
        [forced] = self._direction.encode_targets(self._tokenizer, [text.prefix])
        starts = []
        for segment in segments:
            if not text.prefix and not text.given and (known := text.known_translation(segment.text)) is not None:
                [tokens] = self._direction.encode_targets(self._tokenizer, [known])
                starts.append(OutputStart(forced=(*tokens, EOS)))
                continue
            constraints = text.first_constraints(segment.text)
            has_terms = text.glossary is not None and text.glossary.control.required(segment.text)
            if (constraints or has_terms) and self._config.renormalize:
                raise ConfigError("renormalize has no effect with constraints. Leave one of them out.")
            starts.append(self.build(forced, constraints, line=line))
        return starts

    def with_placeholders(
        self, text: PreparedText, segment: Segment, start: OutputStart, *, line: int
    ) -> OutputStart | None:
        """Return the start of an output that must have the placeholders of its segment; None where it has none.

        `start` is that of the first search.
        """
        if text.placeholders is None or not text.placeholders.constraints(segment.text):
            return None
        return self.build(start.forced, text.constraints_without_terms(segment.text)[:MAX_CONSTRAINTS], line=line)

    def build(self, forced: Sequence[int], constraints: Sequence[Constraint], *, line: int) -> OutputStart:
        """Return the start of an output with the tokens that it begins with, and constraints."""
        automaton = build_automaton(self._tokenizer, constraints, text=f"text {line}")
        return OutputStart(forced=tuple(forced), constraints=automaton)


def check_one_segment(number: int, blocks: Sequence[PreparedText]) -> None:
    """Raise DataError where it is not clear which segment of a text a prefix or a constraint belongs to."""
    has_prefix = any(block.prefix for block in blocks)
    if has_prefix or any(one.kind != "forbidden" for block in blocks for one in block.given):
        name = "target_prefix" if has_prefix else "constraint"
        raise DataError(
            f"text {number}: is translated in several segments, and a {name} belongs to one. "
            "Translate its sentences one by one."
        )
