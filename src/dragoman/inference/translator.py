"""Translator: texts in, translations out."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from typing import Any, final, overload

import numpy as np

from dragoman.config import merge, parse
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding import DecodingConfig, Hypothesis, search
from dragoman.decoding.config import DecodingMethod, LengthPenalty, LengthPenaltyKind
from dragoman.errors import ConfigError, DataError, warn
from dragoman.inference.backends.protocol import Seq2SeqBackend
from dragoman.inference.batching import batch_by_length
from dragoman.inference.engine import Engine
from dragoman.inference.scheduler import Request, Scheduler, run_in_order
from dragoman.inference.segmentation import (
    Layout,
    Segment,
    SegmentedText,
    Sentence,
    Split,
    build_splitter,
    split_into_sentences,
    split_long_text,
    split_tree,
    whole_text,
)
from dragoman.inference.source_features import TextFeatures, check_all_used, check_source_features, read_chunks
from dragoman.inference.translation import Translation, TranslationResult

DEFAULT_CONFIG = DecodingConfig()
BATCH_TOKENS = 4096
MAX_SEGMENT_LENGTH = 512
"""Source tokens above which a text is translated in segments, cut between sentences where there are any."""
MAX_LINE_LENGTH = 65_536
"""Tokens above which a line is refused as a mistake: it is no sentence or paragraph."""
STREAM_CHUNK = 4096
"""Lines of a stream that are read ahead of the translation yielded next, or sorted and batched together."""
ENCODE_CHUNK = 256
"""Lines of a stream that are tokenized together."""


class TranslationWarning(UserWarning):
    """Warning about the translation of one line; the message names the line."""


@final
class Translator:
    """Encoder-decoder model with its tokenizer. It may be used by several threads.

    Every text is translated, whole or in segments, and never cut short without a `TranslationWarning` that names its
    line. The result for a text does not depend on other texts. Options that a call leaves out are those of `config`,
    for a trained run the decoding section of its configuration.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        max_segment_length: int = MAX_SEGMENT_LENGTH,
        config: DecodingConfig = DEFAULT_CONFIG,
        engine: Engine | None = None,
    ) -> None:
        """`batch_tokens` bounds the source tokens of a batch, padding included.

        The model is a `Seq2SeqBackend`, or an `EncoderDecoder` of PyTorch on `device`. With an engine, requests go
        there.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self.config = config
        self.backend = _backend_of(model, tokenizer, device)
        self._engine = engine
        self._lock = threading.RLock()
        self._concurrent: Translator | None = None
        self.device = self.backend.device
        self._positions = self.backend.max_length
        # One position is for the end symbol of a source, and for the begin symbol of a target.
        self.max_segment_length = (
            max_segment_length if self._positions is None else min(max_segment_length, self._positions - 1)
        )
        """Tokens of the longest text that is translated at once; longer ones are translated in segments."""

    def fits_model(self, text: str) -> bool:
        """Return whether a text is translated at once and not in segments."""
        return len(self.tokenizer.source.encode(text)) <= self.max_segment_length

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings, too
        self,
        texts: str,
        config: DecodingConfig | None = ...,
        *,
        beam_size: int | None = ...,
        n_best: int | None = ...,
        length_penalty: float | None = ...,
        length_penalty_kind: LengthPenaltyKind | None = ...,
        method: DecodingMethod | None = ...,
        min_length: int | None = ...,
        max_length: int | None = ...,
        max_length_ratio: float | None = ...,
        source_features: TextFeatures | None = ...,
        split: Split | None = ...,
        language: str | None = ...,
    ) -> TranslationResult: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        config: DecodingConfig | None = ...,
        *,
        beam_size: int | None = ...,
        n_best: int | None = ...,
        length_penalty: float | None = ...,
        length_penalty_kind: LengthPenaltyKind | None = ...,
        method: DecodingMethod | None = ...,
        min_length: int | None = ...,
        max_length: int | None = ...,
        max_length_ratio: float | None = ...,
        source_features: TextFeatures | None = ...,
        split: Split | None = ...,
        language: str | None = ...,
    ) -> list[TranslationResult]: ...

    def translate(
        self,
        texts: str | Sequence[str],
        config: DecodingConfig | None = None,
        *,
        source_features: TextFeatures | None = None,
        split: Split | None = None,
        language: str | None = None,
        **options: Any,
    ) -> TranslationResult | list[TranslationResult]:
        """Translate a text, or a list of texts; an empty text has an empty translation.

        With `split="sentences"` a text of any length is translated sentence by sentence, and the white space between
        sentences is kept, blank lines and indentation included; `language` is the code of its language, "en" by
        default. A model with tree positions needs `source_features`, the dependency heads of each text: for each of its words,
        separated by white space, the number of its head, counted from 1, and 0 for a root. Raises ConfigError on
        invalid options, DataError on a text longer than `MAX_LINE_LENGTH` and on missing or invalid source_features, and
        MissingExtraError where the splitter is not installed.
        """
        config = self.decoding_config(base=config, **options)
        if isinstance(texts, str):
            found = self.translate_n_best(
                [texts], config, source_features=source_features, split=split, language=language
            )
            return TranslationResult(tuple(found[0]))
        found = self.translate_n_best(texts, config, source_features=source_features, split=split, language=language)
        return [TranslationResult(tuple(one)) for one in found]

    async def translate_async(
        self, texts: str | Sequence[str], config: DecodingConfig | None = None, **options: Any
    ) -> TranslationResult | list[TranslationResult]:
        """Translate as `translate` does, in one running batch with all other concurrent calls."""
        with self._lock:
            if self._concurrent is None:
                self._concurrent = self._with_engine(self._build_engine())
        concurrent = self._concurrent
        found: TranslationResult | list[TranslationResult] = await asyncio.to_thread(
            lambda: concurrent.translate(texts, config, **options)
        )
        return found

    def translate_stream(
        self,
        lines: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        chunk: int = STREAM_CHUNK,
        source_features: Iterable[Sequence[int]] | None = None,
        split: Split | None = None,
        language: str | None = None,
        **options: Any,
    ) -> Iterator[TranslationResult]:
        """Translate any number of lines, in the memory of `chunk` of them; options are those of `translate`."""
        config = self.decoding_config(base=config, **options)
        for found in self.stream_n_best(
            lines, config, chunk=chunk, source_features=source_features, split=split, language=language
        ):
            yield TranslationResult(tuple(found))

    def decoding_config(self, *, where: str = "", base: DecodingConfig | None = None, **options: Any) -> DecodingConfig:
        """Return its configuration (or `base`) with the options that are not None in place of its own.

        Raises ConfigError, whose message begins with `where`.
        """
        given = {name: value for name, value in options.items() if value is not None}
        config = base or self.config
        if not given:
            return config
        tree = merge(config.model_dump(), given)
        if given.get("length_penalty_kind", config.length_penalty_kind) != config.length_penalty_kind:
            tree["length_penalty"] = given.get("length_penalty")  # an exponent belongs to its kind
        return parse(DecodingConfig, tree, where=where)

    def translate_n_best(
        self,
        texts: Sequence[str],
        config: DecodingConfig | None = None,
        *,
        first_line: int = 1,
        source_features: TextFeatures | None = None,
        split: Split | None = None,
        language: str | None = None,
    ) -> list[list[Translation]]:
        """Return the `config.n_best` best translations of each text, best first, at least one for each.

        A text translated in segments has the sum of their log-probabilities; its best translation joins their best
        ones, its second their second ones, and so on. Messages number the texts from `first_line`. Raises as
        `translate` does.
        """
        config = config or self.config
        splitter = build_splitter(split, language)
        heads = self._check_features(texts, source_features, first_line)
        lines = list(self._segment_lines(texts, heads, first_line, splitter=splitter))
        found = iter(self._decode([segment for line in lines for segment in line.segments()], config))
        results = [line.join(found, config) for line in lines]
        for number, translations in enumerate(results, start=first_line):
            _warn_unless_finished(translations, number)
        return results

    def stream_n_best(
        self,
        lines: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        chunk: int = STREAM_CHUNK,
        source_features: Iterable[Sequence[int]] | None = None,
        split: Split | None = None,
        language: str | None = None,
    ) -> Iterator[list[Translation]]:
        """Yield what `translate_n_best` returns, for any number of lines in the memory of `chunk` of them.

        With continuous batching a line is read whenever one has been yielded, and the batch never runs empty;
        otherwise `chunk` lines are translated after the other. An invalid line raises its error in its place.
        """
        config = config or self.config
        features_left = None if source_features is None else iter(source_features)
        splitter = build_splitter(split, language)
        if self._engine is not None or not self.backend.continuous_batching:
            for first_line, texts, some in read_chunks(lines, features_left, size=chunk):
                yield from self.translate_n_best(
                    texts, config, first_line=first_line, source_features=some, split=split, language=language
                )
            return
        pending: deque[SegmentedText] = deque()

        def jobs() -> Iterator[list[Request]]:
            for first_line, texts, some in read_chunks(lines, features_left, size=min(chunk, ENCODE_CHUNK)):
                heads = self._check_features(texts, some, first_line)
                for line in self._segment_lines(texts, heads, first_line, splitter=splitter):
                    pending.append(line)
                    yield self._requests(line.segments(), config)

        results = run_in_order(self._scheduler(), jobs(), ahead=chunk)
        for number in count(1):
            with self._lock, self.backend.inference_mode():
                result = next(results, None)
            if result is None:
                return
            translations = pending.popleft().join(map(self._translations, result), config)
            _warn_unless_finished(translations, number)
            yield translations

    @contextmanager
    def concurrent(self) -> Iterator["Translator"]:
        """Provide a translator whose texts, from any number of threads, run in one batch as they come.

        Results do not depend on other callers; callers that ask for too much at a time wait.
        """
        with self._build_engine() as engine:
            yield self._with_engine(engine)

    def with_backend(self, backend: Seq2SeqBackend[Any, Any]) -> "Translator":
        """Return the same translator with another backend, such as a wrapper of its own."""
        return Translator(
            backend,
            self.tokenizer,
            device=self.device,
            batch_tokens=self.batch_tokens,
            max_segment_length=self.max_segment_length,
            config=self.config,
        )

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        penalty: LengthPenalty | None = None,
        first_line: int = 1,
        source_features: TextFeatures | None = None,
    ) -> list[Hypothesis]:
        """Score each target as a translation of its source, by forced decoding.

        `source_features` are those of the sources, as for `translate`. Raises DataError when there are not as many targets as
        sources, a line is too long for the model, or source features are missing or invalid.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources but {len(targets)} targets, from line {first_line} on; give one for each"
            )
        heads = self._check_features(sources, source_features, first_line)
        source_ids = self.tokenizer.source.encode_batch(list(sources))
        target_ids = self.tokenizer.target.encode_batch(list(_check_list(targets)))
        lengths = [max(len(one), len(other)) + 1 for one, other in zip(source_ids, target_ids, strict=True)]
        for number, length in enumerate(lengths, start=first_line):
            self._check_length(self._positions or MAX_LINE_LENGTH, length, number)
        results: dict[int, Hypothesis] = {}
        with self._lock, self.backend.inference_mode():
            for rows in batch_by_length(lengths, batch_tokens=self.batch_tokens):
                scored = self.backend.score(
                    [source_ids[row] for row in rows],
                    [target_ids[row] for row in rows],
                    penalty=penalty or self.config.penalty,
                    source_features=_present([heads[row] for row in rows]),
                )
                results |= dict(zip(rows, scored, strict=True))
        return [results[row] for row in range(len(lengths))]

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        penalty: LengthPenalty | None = None,
        chunk: int = STREAM_CHUNK,
        source_features: Iterable[Sequence[int]] | None = None,
    ) -> Iterator[Hypothesis]:
        """Yield what `score` returns, for any number of (source, target) pairs in the memory of `chunk` of them."""
        iterator, first_line = iter(pairs), 1
        features_left = None if source_features is None else iter(source_features)
        while some := list(islice(iterator, chunk)):
            sources, targets = zip(*some, strict=True)
            some_features = None if features_left is None else list(islice(features_left, len(some)))
            yield from self.score(
                sources, targets, penalty=penalty, first_line=first_line, source_features=some_features
            )
            first_line += len(some)
        check_all_used(features_left, texts=first_line - 1)

    def _build_engine(self) -> Engine:
        return Engine(self.backend, max_tokens=self.batch_tokens, lock=self._lock)

    def _with_engine(self, engine: Engine) -> "Translator":
        return Translator(
            self.model,
            self.tokenizer,
            device=self.device,
            batch_tokens=self.batch_tokens,
            max_segment_length=self.max_segment_length,
            config=self.config,
            engine=engine,
        )

    def _scheduler(self) -> Scheduler:
        return Scheduler(self.backend, max_tokens=self.batch_tokens)

    def _check_features(
        self, texts: Sequence[str], source_features: TextFeatures | None, first_line: int
    ) -> list[Heads | None]:
        return check_source_features(
            _check_list(texts), source_features, first_line, needs_source_features=self.backend.needs_source_features
        )

    def _segment_lines(
        self,
        texts: Sequence[str],
        source_features: Sequence[Heads | None],
        first_line: int,
        *,
        splitter: Callable[[str], Layout],
    ) -> Iterator[SegmentedText]:
        """Yield the segments of each text; a text that is too long raises its error after the texts before it."""
        layouts = list(map(splitter, _check_list(texts)))
        lines = split_into_sentences(layouts, texts, source_features, first_line)
        segments = self._segments(
            [sentence for line in lines for sentence in line], is_split=splitter is not whole_text
        )
        for layout, line in zip(layouts, lines, strict=True):
            yield SegmentedText(layout, [next(segments) for _ in line])

    def _segments(self, sentences: Sequence[Sentence], *, is_split: bool) -> Iterator[list[Segment]]:
        """Yield the segments of each sentence: none of an empty one, several of one that is too long."""
        encoded = self.tokenizer.source.encode_batch([sentence.text for sentence in sentences])
        for ids, sentence in zip(encoded, sentences, strict=True):
            if len(ids) > self.max_segment_length:
                yield self._split_long(sentence, len(ids), is_split=is_split)
            else:
                yield [Segment(ids, sentence.heads)] * bool(ids)

    def _split_long(self, sentence: Sentence, length: int, *, is_split: bool) -> list[Segment]:
        """Split a sentence that is too long, with a warning."""
        encode = self.tokenizer.source.encode_batch
        self._check_length(MAX_LINE_LENGTH, length, sentence.line)
        parts = split_long_text(sentence.text, lambda text: len(encode([text])[0]) <= self.max_segment_length)
        heads = split_tree(sentence.heads, sentence.text, parts)
        segments = [Segment(*one) for one in zip(encode(parts), heads, strict=True) if one[0]]
        beginning = f"a sentence of {length} tokens is" if is_split else f"{length} tokens are"
        name, remedy = ("it", "") if is_split else ("the line", "; split it by sentences")
        warn(
            f"line {sentence.line}: {beginning} too long to be translated at once (at most {self.max_segment_length}); "
            f"{name} was translated in {len(segments)} segments{remedy}",
            TranslationWarning,
        )
        return segments

    def _check_length(self, limit: int, length: int, number: int) -> None:
        if length > limit:
            raise DataError(
                f"line {number}: {length} tokens, more than the {limit} that a line may have; "
                "put one sentence or paragraph on each line"
            )

    def _decode(self, segments: Sequence[Segment], config: DecodingConfig) -> list[list[Translation]]:
        requests = self._requests(segments, config)
        if self._engine is not None:
            return [self._translations(hypotheses) for hypotheses in self._engine.stream(requests)]
        with self._lock, self.backend.inference_mode():
            if self.backend.continuous_batching:
                jobs = ([request] for request in requests)
                results = run_in_order(self._scheduler(), jobs, ahead=len(requests) + 1)
                return [self._translations(found) for [found] in results]
            batches = self._decode_in_batches(requests)
        return [self._translations(batches[request]) for request in requests]

    def _requests(self, segments: Sequence[Segment], config: DecodingConfig) -> list[Request]:
        return [Request(segment.ids, config, self._limit(segment, config), segment.heads) for segment in segments]

    def _decode_in_batches(self, requests: Sequence[Request]) -> dict[Request, list[Hypothesis]]:
        """Decode in batches of similar length."""
        found: dict[Request, list[Hypothesis]] = {}
        for rows in batch_by_length([request.tokens for request in requests], batch_tokens=self.batch_tokens):
            batch = [requests[row] for row in rows]
            hypotheses = search(
                self.backend,
                self.backend.encode([one.ids for one in batch], _present([one.heads for one in batch])),
                limits=np.array([one.limit for one in batch]),
                config=batch[0].config,
            )
            found |= dict(zip(batch, hypotheses, strict=True))
        return found

    def _limit(self, segment: Segment, config: DecodingConfig) -> int:
        """Return the most output tokens of a segment."""
        limit = config.output_limit(len(segment.ids))
        if self._positions is not None and config.min_length > self._positions - 1:
            raise ConfigError(
                f"min_length = {config.min_length}: an output of this model has at most "
                f"{self._positions - 1} tokens; lower min_length"
            )
        return limit if self._positions is None else min(limit, self._positions - 1)

    def _translations(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        side = self.tokenizer.target
        return [Translation(side.decode(one.tokens), one, tuple(side.ids_to_tokens(one.tokens))) for one in hypotheses]


def _backend_of(model: Any, tokenizer: Tokenizer, device: Any) -> Seq2SeqBackend[Any, Any]:
    """Return the model as a backend; PyTorch is imported for its own models only."""
    if isinstance(model, Seq2SeqBackend):
        return model
    from dragoman.inference.backends.torch_backend import TorchBackend

    return TorchBackend(model, tokenizer.source, target_vocabulary=len(tokenizer.target), device=device)


def _present(source_features: Sequence[Heads | None]) -> list[Heads]:
    """Return the features where there are any: every text has some, or none has."""
    return [heads for heads in source_features if heads is not None]


def _check_list(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts


def _warn_unless_finished(translations: Sequence[Translation], number: int) -> None:
    if not translations[0].hypothesis.finished:
        warn(
            f"line {number}: the translation was cut off at its length limit ({len(translations[0].tokens)} tokens); "
            "to allow longer ones, raise decoding.max_length or decoding.max_length_ratio",
            TranslationWarning,
        )
