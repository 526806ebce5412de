"""Requests for the translations of texts: prepared, segmented, and with what their outputs begin with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, final

from dragoman.data.document_context import count_context_tokens
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import Hypothesis, OutputStart, without_first
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.check_source_features import TextFeatures, check_source_features
from dragoman.inference.control.output_starts import OutputStarts
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.placeholders import PART_BREAK
from dragoman.inference.control.prepare_texts import ControlOptions, prepare_texts
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.preceding_sentences import PrecedingSentences, TextContext
from dragoman.inference.scheduler import Guard, Request
from dragoman.inference.text_segmentation import Layout, Segment, SegmentedText, Segmenter
from dragoman.models.special_symbols import EOS

CONSTRAINED_BEAM = 5
"""Beam of a search with constraints where a beam of 1 is asked for, which cannot meet them."""


class TextRequests(NamedTuple):
    """Text, its number in messages, and the requests for its segments."""

    number: int
    text: PreparedText
    segmented: SegmentedText
    requests: list[Request]
    writes_context: bool = False
    """Whether outputs may begin with the translations of the sentences before."""


def split_parts(text: str, splitter: Callable[[str], Layout]) -> Layout:
    """Return the sentences of the parts of a text, which line separators divide."""
    layouts = [splitter(part) for part in text.split(PART_BREAK)]
    sentences, gaps = list(layouts[0].sentences), list(layouts[0].gaps)
    for one in layouts[1:]:
        gaps[-1] += PART_BREAK + one.gaps[0]
        gaps += one.gaps[1:]
        sentences += one.sentences
    return Layout(tuple(sentences), tuple(gaps))


def failed_requests(requests: Sequence[Request], found: Sequence[Sequence[Hypothesis]]) -> dict[int, Request]:
    """Return, by their places, the requests in place of those with an output that fails its check."""
    pairs = enumerate(zip(requests, found, strict=True))
    return {
        place: request.guard.request
        for place, (request, outputs) in pairs
        if request.guard is not None and not all(map(request.guard.is_met, outputs))
    }


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
        aligner: PairAligner,
        context: TextContext | None = None,
    ) -> None:
        """`aligner` aligns the words of translations with tags; `context` is that of all texts that are built."""
        self.config = config
        self._tokenizer = tokenizer
        self._splitter = splitter
        self._needs_source_features = backend.needs_source_features
        self._positions = backend.max_length
        self._segmenter = Segmenter(tokenizer.source, max_length=max_segment_length, direction=direction)
        self._aligner = aligner
        self._starts = OutputStarts(tokenizer.target, direction, config)
        self.context = PrecedingSentences(
            context, tokenizer, direction=direction, max_length=max_segment_length, splitter=splitter
        )

    def build(
        self, texts: Sequence[str], control: ControlOptions, source_features: TextFeatures | None, first_line: int
    ) -> Iterator[TextRequests]:
        """Yield the requests for each text; an invalid text raises its error after the texts before it."""
        prepared = prepare_texts(texts, self._tokenizer, self._aligner, **control)
        heads = check_source_features(
            texts, source_features, first_line, needs_source_features=self._needs_source_features
        )
        read = [one.text for one in prepared]
        divides = control.get("placeholders") or control.get("markup")
        has_parts = bool(divides) and any(PART_BREAK in text for text in read)
        splitter = partial(split_parts, splitter=self._splitter) if has_parts else self._splitter
        segmented = self._segmenter.segment(read, heads, first_line, splitter=splitter)
        for number, (text, alone) in enumerate(zip(prepared, segmented, strict=True), first_line):
            line = self.context.add(text.original, alone)
            if self.context.writes_context and text.prefix:
                raise ConfigError(
                    "target_prefix: outputs of this model begin with the translation of their context. Leave "
                    "target_prefix or context out."
                )
            starts = self._starts.of_segments(text, line, line=number)
            segments = [segment for sentence in line.sentences for segment in sentence]
            requests = [
                self._guarded(text, segment, start, number) for segment, start in zip(segments, starts, strict=True)
            ]
            yield TextRequests(number, text, line, requests, self.context.writes_context)

    def _guarded(self, text: PreparedText, segment: Segment, start: OutputStart, line: int) -> Request:
        """Return the request for a segment, with another one for outputs that lack what they must have."""
        if segment.alone is not None and start.forced[-1:] == (EOS,):  # the translation is known
            segment = segment.alone
        if segment.alone is None or not self.context.writes_context:
            return self._with_placeholders(text, segment, start, line)
        request = self._with_placeholders(text, segment.alone, start, line)
        other = request if request.guard is None else request.guard.request

        def is_met(hypothesis: Hypothesis) -> bool:
            written = self._tokenizer.target.ids_to_tokens(hypothesis.tokens)
            count = count_context_tokens(written)
            rest = without_first(hypothesis, count, self.config.penalty)
            has_phrases = start.constraints is None or not start.constraints.unmet(rest.tokens)
            return count > 0 and has_phrases and (request.guard is None or request.guard.is_met(rest))

        return replace(self._request(segment, start), guard=Guard(is_met, other))

    def _with_placeholders(self, text: PreparedText, segment: Segment, start: OutputStart, line: int) -> Request:
        """Return the request for a segment, with one for a search that must write its placeholders."""
        request = self._request(segment, start)
        step, guarded = text.placeholders, self._starts.with_placeholders(text, segment, start, line=line)
        if step is None or guarded is None:
            return request

        def is_met(hypothesis: Hypothesis) -> bool:
            return step.is_met(segment.text, self._tokenizer.target.decode(hypothesis.tokens))

        wide = max(self.config.beam_size, CONSTRAINED_BEAM)
        config = self.config.model_copy(update={"beam_size": wide, "method": "beam_search", "renormalize": False})
        second = replace(self._request(segment, guarded), config=config)
        return replace(request, guard=Guard(is_met, second))

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
        read = segment if segment.alone is None or self.context.writes_context else segment.alone
        limit = len(forced) + min(self.config.output_limit(len(read.ids)) + needed, longest)
        config = self.config
        if start.constraints is not None and config.beam_size == 1:
            config = config.model_copy(update={"beam_size": CONSTRAINED_BEAM})
        return Request(segment.ids, config, limit, segment.heads, start)
