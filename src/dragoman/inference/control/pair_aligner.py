"""Alignment of the tokens of texts with those of their translations, in a forced pass of the model."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.markup import TokenAlignment
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.errors import DataError
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.models.alignment_head import AlignmentHead

TextPair = tuple[str, str]
"""Text of a segment, and its translation."""
Encoded = tuple[list[int], list[tuple[int, int]]]
"""Tokens of a text, and their characters."""
_PAIRS_AT_ONCE = 128
MAX_WEIGHTS = 2**22
"""Tokens of a text times those of its translation above which they are not aligned: 2,048 tokens each."""


@final
class PairAligner:
    """Aligns pairs of texts by the cross-attention of a model, for one direction."""

    def __init__(
        self,
        backend: InferenceBackend[Any, Any],
        tokenizer: Tokenizer,
        direction: Direction,
        turn: Callable[[], AbstractContextManager[None]],
        *,
        head: AlignmentHead | None = None,
    ) -> None:
        """`turn` waits until the backend is free; `head` is that of the backend by default."""
        self._backend = backend
        self._tokenizer = tokenizer
        self._direction = direction
        self.turn = turn
        self._head = head
        self._ahead: dict[TextPair, Float[np.ndarray, "target source"]] = {}
        """Weights of the pairs that the last call of `align_ahead` has aligned."""

    def align_ahead(self, pairs: Sequence[TextPair]) -> None:
        """Align pairs of segments together, which takes less time than one by one.

        A model without cross-attention aligns nothing.
        """
        self._ahead = {}
        some = sorted(dict.fromkeys(pairs), key=lambda pair: len(pair[1]))
        for first in range(0, len(some), _PAIRS_AT_ONCE):
            chunk = some[first : first + _PAIRS_AT_ONCE]
            sides = [(self._encode_source(source), self._encode_target(target)) for source, target in chunk]
            try:
                found = self._run(sides)
            except DataError:
                return
            self._ahead.update(zip(chunk, found, strict=True))

    def _encode_source(self, text: str) -> Encoded:
        return self._tokenizer.source.encode_with_offsets(self._direction.surround(text))

    def _encode_target(self, text: str) -> Encoded:
        return self._tokenizer.target.encode_with_offsets(text)

    def _run(self, sides: Sequence[tuple[Encoded, Encoded]]) -> list[Float[np.ndarray, "target source"]]:
        """Return the weights of pairs, prefixes and end symbols included."""
        with self.turn():
            return self._backend.align(
                [self._direction.wrap_source(ids) for (ids, _), _ in sides],
                [[*self._direction.target, *ids] for _, (ids, _) in sides],
                head=self._head,
            )

    def align(self, source: str, translation: str, parts: Sequence[TextPair]) -> TokenAlignment | None:
        """Align a text with its translation, which the model wrote in the `parts`, one for each segment.

        Texts of more than `MAX_WEIGHTS` weights are not aligned. Raises DataError if the model has no cross-attention.
        """
        places = _find_parts(source, translation, parts)
        if places is None:
            parts, places = [(source, translation)], [(0, 0)]
        sources = [self._encode_source(one) for one, _ in parts]
        targets = [self._encode_target(one) for _, one in parts]
        before = len(self._direction.text)
        rows, columns = (sum(len(ids) for ids, _ in side) for side in (targets, sources))
        if rows * columns > MAX_WEIGHTS:
            return None
        ahead = [self._ahead.get(pair) for pair in parts]
        found = [one for one in ahead if one is not None]
        if len(found) < len(parts):
            found = self._run(list(zip(sources, targets, strict=True)))
        weights = np.zeros((rows, columns))
        source_spans: list[tuple[int, int]] = []
        target_spans: list[tuple[int, int]] = []
        for own, source_part, target_part, (start, target_start) in zip(found, sources, targets, places, strict=True):
            (ids, spans), (target_ids, own_target_spans) = source_part, target_part
            first_row, first_column = len(self._direction.target), len(self._direction.source)
            block = own[first_row : first_row + len(target_ids), first_column : first_column + len(ids)]
            row, column = len(target_spans), len(source_spans)
            weights[row : row + len(target_ids), column : column + len(ids)] = block
            source_spans += [(start + begin - before, start + end - before) for begin, end in spans]
            target_spans += [(target_start + begin, target_start + end) for begin, end in own_target_spans]
        return TokenAlignment(tuple(source_spans), tuple(target_spans), weights)


def _find_parts(source: str, translation: str, parts: Sequence[TextPair]) -> list[tuple[int, int]] | None:
    """Return where the parts of a text and of its translation begin; None if other steps changed the texts."""
    places = []
    end = target_end = 0
    for part, target_part in parts:
        begin, target_begin = source.find(part, end), translation.find(target_part, target_end)
        if begin < 0 or target_begin < 0:
            return None
        places.append((begin, target_begin))
        end, target_end = begin + len(part), target_begin + len(target_part)
    return places or None
