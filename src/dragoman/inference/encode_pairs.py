"""Pairs of sources and targets as token ids, checked, for scoring."""

from collections.abc import Sequence

from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.inference.length_batches import warn_unknown
from dragoman.inference.text_segmentation import check_line_length
from dragoman.inference.translation_result import TranslationWarning

TokenPair = tuple[list[int], list[int]]
"""Tokens of a source and of a target, without their end symbols."""


def encode_pairs(
    tokenizer: Tokenizer,
    direction: Direction,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    first_line: int,
    max_length: int,
) -> list[TokenPair]:
    """Return the tokens of each pair, with the symbols of its languages.

    Warns of characters that the vocabularies lack. Raises DataError on a text of more than `max_length` tokens.
    """
    source_ids = direction.encode_sources(tokenizer.source, sources)
    target_ids = direction.encode_targets(tokenizer.target, targets)
    sides = (("source", sources, source_ids, tokenizer.source), ("target", targets, target_ids, tokenizer.target))
    for unit, texts, ids, side in sides:
        warn_unknown(texts, ids, side, category=TranslationWarning, unit=unit, first=first_line)
    pairs = list(zip(source_ids, target_ids, strict=True))
    for number, (source, target) in enumerate(pairs, start=first_line):
        check_line_length(max_length, max(len(source), len(target)) + 1, number)
    return pairs
