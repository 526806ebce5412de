"""Requests for the translations of texts: prepared, segmented, and with what their outputs begin with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, final

from dragoman.data.document_context import count_context_tokens
from dragoman.data.terminology.word_units import find_copies, literal_texts
from dragoman.data.tokenizers import Direction, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.constraints import PhraseAutomaton
from dragoman.decoding.hypothesis import Hypothesis, OutputStart, without_first
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.inference.check_source_features import TextFeatures, check_source_features
from dragoman.inference.constrained_searches import search_until_satisfied
from dragoman.inference.control.check_phrases import is_satisfied
from dragoman.inference.control.output_check import OutputCheck
from dragoman.inference.control.output_starts import OutputStarts, check_one_segment
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.placeholders import PART_BREAK
from dragoman.inference.control.prepare_texts import ControlOptions, prepare_texts
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import MAX_CONSTRAINTS, Constraint
from dragoman.inference.preceding_sentences import PrecedingSentences, TextContext
from dragoman.inference.scheduler import Guard, Request
from dragoman.inference.term_searches import Searches, SegmentTerms, TermPlacer
from dragoman.inference.text_segmentation import Layout, Segment, SegmentedText, Segmenter
from dragoman.models.special_symbols import EOS

CONSTRAINED_BEAM = 5
"""Beam of a search with constraints where a beam of 1 is asked for, which cannot meet them."""


class BlockRequests(NamedTuple):
    """Block of a text, and the requests for its segments."""

    text: PreparedText
    segmented: SegmentedText
    requests: list[Request]


class TextRequests(NamedTuple):
    """Text, its number in messages, and the requests for the segments of its blocks."""

    number: int
    around: tuple[str, ...]
    """Markup before each block and after the last."""
    blocks: list[BlockRequests]
    writes_context: bool = False
    """Whether outputs may begin with the translations of the sentences before."""

    @property
    def requests(self) -> list[Request]:
        """The requests for the segments of all blocks."""
        return [request for block in self.blocks for request in block.requests]

    def with_request(self, request: Request) -> Self:
        """Return the text with another request in place of its only one."""
        return self._replace(blocks=[block._replace(requests=[request] * len(block.requests)) for block in self.blocks])


def unmet_names(constraints: PhraseAutomaton | None, source: str, text: str) -> tuple[str, ...]:
    """Return the names of the constraints that the translation of a source violates."""
    if constraints is None:
        return ()
    literals = find_copies(text, literal_texts(source))
    return tuple(phrase.name for phrase in constraints.phrases if not is_satisfied(phrase, text, literals))


def split_parts(text: str, splitter: Callable[[str], Layout]) -> Layout:
    """Return the sentences of the parts of a text, which line separators divide."""
    layouts = [splitter(part) for part in text.split(PART_BREAK)]
    sentences, gaps = list(layouts[0].sentences), list(layouts[0].gaps)
    for one in layouts[1:]:
        gaps[-1] += PART_BREAK + one.gaps[0]
        gaps += one.gaps[1:]
        sentences += one.sentences
    return Layout(tuple(sentences), tuple(gaps))


@final
class SearchRounds:
    """Searches of requests, round by round: again with constraints where an output fails its check or lacks terms."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.results: list[list[Hypothesis]] = []
        """The hypotheses of each request, when no request is left."""
        self._steps = _search(requests, self.results)
        self.requests = next(self._steps, [])
        """Requests of this round; none after the last."""
        self.is_simple = all(one.guard is None and one.terms is None and one.check is None for one in requests)
        """Whether there is one round."""

    def receive(self, found: list[list[Hypothesis]]) -> None:
        """Receive the hypotheses of each request of this round, and set those of the next."""
        try:
            self.requests = self._steps.send(found)
        except StopIteration:
            self.requests = []


def _search(requests: Sequence[Request], results: list[list[Hypothesis]]) -> Searches:
    """Append the hypotheses of each request to `results`."""
    results += yield from search_until_satisfied(requests)
    failed = [place for place, request in enumerate(requests) if not _passes(request, results[place])]
    guards = [requests[place].guard for place in failed]
    yield from _run_again(failed, [one.request for one in guards if one is not None], results)
    free = list(results)
    lacking = dict(_lacking_terms(requests, results))
    yield from _run_again(list(lacking), [terms.request() for terms in lacking.values()], results)
    placed = {}
    for place, (request, outputs) in enumerate(zip(requests, results, strict=True)):
        if request.terms is None or not request.terms.terms:
            continue
        if place in lacking and not request.terms.is_fluent(outputs[0]):
            placed[place] = request.terms, free[place][0]
        elif not request.terms.has_each(outputs[0]):
            placed[place] = request.terms, outputs[0]
    if placed:
        found: list[Hypothesis] = []
        yield from next(iter(placed.values()))[0].placer.place(list(placed.values()), found)
        for place, one in zip(placed, found, strict=True):
            if placed[place][0].is_met(one) and _passes(requests[place], [one]):
                others = [other for other in results[place] if other.tokens != one.tokens]
                results[place] = [one, *others][: len(results[place])]


def _run_again(places: Sequence[int], requests: list[Request], results: list[list[Hypothesis]]) -> Searches:
    """Replace the results at places by those of other requests."""
    if requests:
        found = yield from search_until_satisfied(requests)
        for place, some in zip(places, found, strict=True):
            results[place] = some


def _passes(request: Request, outputs: Sequence[Hypothesis]) -> bool:
    return request.guard is None or all(map(request.guard.is_met, outputs))


def _lacking_terms(
    requests: Sequence[Request], results: Sequence[Sequence[Hypothesis]]
) -> Iterator[tuple[int, SegmentTerms]]:
    """Yield the places of requests with an output that lacks terms."""
    for place, (request, outputs) in enumerate(zip(requests, results, strict=True)):
        if request.terms is not None and not all(map(request.terms.is_met, outputs)):
            yield place, request.terms


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
        self._backend, self._direction = backend, direction
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
        read = [[block.text for block in text.blocks] for text in prepared]
        has_parts = bool(control.get("placeholders")) and any(
            PART_BREAK in block for blocks in read for block in blocks
        )
        splitter = partial(split_parts, splitter=self._splitter) if has_parts else self._splitter
        segmented = self._segmenter.segment(read, heads, first_line, splitter=splitter)
        for number, (text, alone) in enumerate(zip(prepared, segmented, strict=True), first_line):
            if sum(len(sentence) for block in alone for sentence in block.sentences) > 1:
                check_one_segment(number, text.blocks)
            blocks = [
                self._block(*block, number)
                for block in zip(text.blocks, self.context.add(text.original, alone), strict=True)
            ]
            yield TextRequests(number, text.around, blocks, self.context.writes_context)

    def _block(self, text: PreparedText, segmented: SegmentedText, number: int) -> BlockRequests:
        """Return the requests for a block of the text with a number."""
        if self.context.writes_context and text.prefix:
            raise ConfigError(
                "target_prefix: outputs of this model begin with the translation of their context. Leave "
                "target_prefix or context out."
            )
        starts = self._starts.of_segments(text, segmented, line=number)
        segments = [segment for sentence in segmented.sentences for segment in sentence]
        requests = [
            self._guarded(text, segment, start, number) for segment, start in zip(segments, starts, strict=True)
        ]
        return BlockRequests(text, segmented, requests)

    def _guarded(self, text: PreparedText, segment: Segment, start: OutputStart, line: int) -> Request:
        """Return the request for a segment, with another one for outputs that lack what they must have."""
        if segment.alone is not None and start.forced[-1:] == (EOS,):  # the translation is known
            segment = segment.alone
        if segment.alone is None or not self.context.writes_context:
            return self._controlled(text, segment, start, line)
        request = self._controlled(text, segment.alone, start, line)
        terms = request.terms
        other = request if request.guard is None else request.guard.request
        if terms is not None:
            other, terms = terms.request(), replace(terms, terms=())

        check = self._check(segment.alone)

        def is_met(hypothesis: Hypothesis) -> bool:
            written = self._tokenizer.target.ids_to_tokens(hypothesis.tokens)
            count = count_context_tokens(written)
            rest = without_first(hypothesis, count, self.config.penalty)
            has_phrases = start.constraints is None or check.is_met(start.constraints.phrases, rest)
            has_terms = terms is None or terms.is_met(rest)
            return count > 0 and has_phrases and has_terms and (request.guard is None or request.guard.is_met(rest))

        return replace(self._request(segment, start), guard=Guard(is_met, other), terms=terms)

    def _controlled(self, text: PreparedText, segment: Segment, start: OutputStart, line: int) -> Request:
        """Return the request for a segment, with those for searches that must write its placeholders and terms."""
        request = self._request(segment, start)
        if start.forced[-1:] == (EOS,):  # the whole output is known
            return request
        terms = self._terms(text, segment, start, line)
        step, guarded = text.placeholders, self._starts.with_placeholders(text, segment, start, line=line)
        if step is None or guarded is None:
            return replace(request, terms=terms)

        def is_met(hypothesis: Hypothesis) -> bool:
            return step.is_met(segment.text, self._tokenizer.target.decode(hypothesis.tokens))

        return replace(request, guard=Guard(is_met, self._constrained(segment, guarded)), terms=terms)

    def _terms(self, text: PreparedText, segment: Segment, start: OutputStart, line: int) -> SegmentTerms | None:
        """Return the terms of a segment, and the searches that write terms that its output lacks."""
        control = None if text.glossary is None else text.glossary.control
        if control is None or not (wanted := control.required(segment.text)):
            return None
        needed = [Constraint(one.forms) for one in wanted]
        check = self._starts.build(start.forced, [*text.first_constraints(segment.text), *needed], line=line)
        assert check.constraints is not None, "there are terms"

        def request() -> Request:
            whole = self._starts.build(start.forced, text.constraints(segment.text)[:MAX_CONSTRAINTS], line=line)
            return self._constrained(segment, whole)

        can_place = control.mode == "hard" and segment.heads is None
        reported = check.constraints if control.mode == "hard" else start.constraints
        return SegmentTerms(
            check.constraints.phrases,
            reported,
            self._check(segment),
            control.without_plural(segment.text),
            request,
            segment,
            tuple(control.source_terms(segment.text)) if can_place else (),
            tuple(text.constraints_without_terms(segment.text)),
            start.forced,
            text.prefix,
            self._placer,
        )

    @cached_property
    def _placer(self) -> TermPlacer:
        return TermPlacer(
            self._backend,
            self._tokenizer,
            self._direction,
            self.config,
            aligner=self._aligner,
            turn=self._aligner.turn,
            request=lambda segment, forced, constraints: replace(
                self._constrained(segment, self._starts.build(forced, constraints[:MAX_CONSTRAINTS], line=1)),
                check=None,  # the whole output is checked, with its terms in place
            ),
        )

    def _constrained(self, segment: Segment, start: OutputStart) -> Request:
        """Return the request for a search with constraints, whatever search is asked for."""
        wide = max(self.config.beam_size, CONSTRAINED_BEAM)
        config = self.config.model_copy(update={"beam_size": wide, "method": "beam_search", "renormalize": False})
        return replace(self._request(segment, start), config=config)

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
        ordinary, limit = (
            len(forced) + min(self.config.output_limit(len(read.ids)) + more, longest) for more in (0, needed)
        )
        config = self.config
        if start.constraints is not None and config.beam_size == 1:
            config = config.model_copy(update={"beam_size": CONSTRAINED_BEAM})
        check = None if start.constraints is None else self._check(segment, limit=ordinary)
        return Request(segment.ids, config, limit, segment.heads, start, check=check)

    def _check(self, segment: Segment, *, limit: int = 0) -> OutputCheck:
        """Return the check of the constraints on the outputs of a segment."""
        return OutputCheck(
            self._tokenizer.target, segment.text, self.config, limit, writes_context=self.context.writes_context
        )
