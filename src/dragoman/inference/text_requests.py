"""Requests for the translations of texts: prepared, segmented, and with what their outputs begin with."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, final

from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.check_source_features import TextFeatures, check_source_features
from dragoman.inference.control.output_starts import OutputStarts
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.prepare_texts import ControlOptions, prepare_texts
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.scheduler import Request
from dragoman.inference.text_segmentation import Layout, Segment, SegmentedText, Segmenter


class TextRequests(NamedTuple):
    """Text, its number in messages, and the requests for its segments."""

    number: int
    text: PreparedText
    segmented: SegmentedText
    requests: list[Request]


@final
class RequestBuilder:
    """Builds the requests for texts of one call."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        backend: InferenceBackend[Any, Any],
        config: DecodingConfig,
        *,
        direction: Direction,
        splitter: Callable[[str], Layout],
        max_segment_length: int,
        turn: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`turn` waits until the backend is free to align the words of translations with tags."""
        self.config = config
        self._tokenizer = tokenizer
        self._splitter = splitter
        self._needs_source_features = backend.needs_source_features
        self._positions = backend.max_length
        self._segmenter = Segmenter(tokenizer.source, max_length=max_segment_length, direction=direction)
        self._aligner = PairAligner(backend, tokenizer, direction, turn)
        has_shortlist = backend.shortlist is not None
        self._starts = OutputStarts(tokenizer.target, direction, config, has_shortlist=has_shortlist)

    def build(
        self, texts: Sequence[str], control: ControlOptions, source_features: TextFeatures | None, first_line: int
    ) -> Iterator[TextRequests]:
        """Yield the requests for each text; an invalid text raises its error after the texts before it."""
        prepared = prepare_texts(texts, self._tokenizer, self._aligner, **control)
        heads = check_source_features(
            texts, source_features, first_line, needs_source_features=self._needs_source_features
        )
        read = [one.text for one in prepared]
        segmented = self._segmenter.segment(read, heads, first_line, splitter=self._splitter)
        for number, (text, line) in enumerate(zip(prepared, segmented, strict=True), first_line):
            starts = self._starts.of_segments(text, line, line=number)
            segments = [segment for sentence in line.sentences for segment in sentence]
            requests = [self._request(*one) for one in zip(segments, starts, strict=True)]
            yield TextRequests(number, text, line, requests)

    def _request(self, segment: Segment, start: OutputStart) -> Request:
        forced, needed = start.forced, 0 if start.constraints is None else start.constraints.total
        longest = self.config.max_length if self._positions is None else self._positions - 1 - len(forced)
        if longest < 1:
            raise DataError(f"target_prefix has {len(forced)} tokens, too many for this model; shorten it")
        if self.config.min_length > longest:
            raise ConfigError(
                f"min_length = {self.config.min_length}: an output of this model has at most {longest} tokens; "
                "lower min_length"
            )
        limit = len(forced) + min(self.config.output_limit(len(segment.ids)) + needed, longest)
        return Request(segment.ids, self.config, limit, segment.heads, start)
