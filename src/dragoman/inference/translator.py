"""Translator: texts in, translations out."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack, cast, final, overload

from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import (
    DecodingConfig,
    LengthPenalty,
    replace_options,
    require_config,
    require_end_tokens,
    require_options,
)
from dragoman.decoding.hypothesis import Hypothesis, without_forced
from dragoman.errors import ConfigError, DataError, one_warning_per_problem
from dragoman.inference.alternatives import Alternative, NextToken, next_tokens
from dragoman.inference.backends.protocol import as_backend, describe_backend
from dragoman.inference.check_source_features import TextFeatures, check_source_features, read_chunks
from dragoman.inference.concurrent_calls import EngineStatistics, run_beside, run_in_thread
from dragoman.inference.control.pair_aligner import PairAligner
from dragoman.inference.control.prepare_texts import ControlOptions, check_length, control_of_part
from dragoman.inference.encode_pairs import encode_pairs
from dragoman.inference.engine_thread import RequestRunner
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    check_pair,
    check_positive,
    check_text,
    one_or_more_texts,
    run_in_batches,
    text_list,
)
from dragoman.inference.line_translations import join_segments, restore_text, restore_texts
from dragoman.inference.model_facts import NO_FACTS
from dragoman.inference.preceding_sentences import TextContext, join_sources
from dragoman.inference.scheduler import Request
from dragoman.inference.stream_chunks import FlatStream, number_chunks
from dragoman.inference.text_requests import RequestBuilder, SearchRounds, TextRequests
from dragoman.inference.text_segmentation import build_splitter
from dragoman.inference.translation_options import DecodingOptions, LanguageOptions, StreamOptions, TranslationOptions
from dragoman.inference.translation_result import Translation, TranslationResult
from dragoman.inference.typography import Typography
from dragoman.models.special_symbols import EOS
from dragoman.number_words import counted

_DEFAULT_CONFIG = DecodingConfig()
MAX_SEGMENT_LENGTH = 512
"""Source tokens above which a text is translated in segments, cut between sentences where there are any."""
MAX_SCORED_LENGTH = 4096
"""Tokens above which a text is not scored: it is scored as a whole, in time quadratic in its length."""
STREAM_CHUNK = 4096
"""Texts of a stream that are read ahead of the translation yielded next, or sorted and batched together."""
ENCODE_CHUNK = 256
"""Texts of a stream that are tokenized together."""
ALIGNED_AT_ONCE = 128
"""Texts of a stream whose tags are placed together, unless it pauses."""


class _Call(NamedTuple):
    """Texts of one call, read and checked."""

    lines: list[TextRequests]
    config: DecodingConfig
    is_single: bool

    @property
    def requests(self) -> list[Request]:
        """The requests for the segments of all texts."""
        return [request for line in self.lines for request in line.requests]


@final
class Translator:
    """Encoder-decoder model with its tokenizer. It may be used by several threads.

    Every text is translated, whole or in segments, and never cut short without a `TranslationWarning` that names it.
    The result for a text does not depend on other texts: exactly with the CPU library, and up to rounding with PyTorch,
    where one of two almost equally probable tokens may replace the other. Options that a call leaves out are those of
    `config`, for a trained run the decoding section of its configuration.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        max_segment_length: int = MAX_SEGMENT_LENGTH,
        config: DecodingConfig = _DEFAULT_CONFIG,
    ) -> None:
        """`batch_tokens` bounds the source tokens of a batch, padding included.

        The model is an `InferenceBackend`, or an `EncoderDecoder` of PyTorch on `device`.
        """
        self.model = model
        self.tokenizer = tokenizer
        self._typography = Typography(tokenizer)
        self.batch_tokens = batch_tokens
        self.config = config
        self.facts = NO_FACTS
        """What is recorded about the model."""
        self.backend = as_backend(model, tokenizer=tokenizer, device=device)
        self.device = self.backend.device
        self.runner = RequestRunner(self.backend, batch_tokens=batch_tokens)
        self._positions = self.backend.max_length
        # One position is for the end symbol of a source, and for the begin symbol of a target.
        self.max_segment_length = (
            max_segment_length if self._positions is None else min(max_segment_length, self._positions - 1)
        )
        """Tokens of the longest text that is translated at once; longer ones are translated in segments."""

    def __repr__(self) -> str:
        sizes = f"{len(self.tokenizer.source)} to {len(self.tokenizer.target)}"
        return f"Translator({describe_backend(self.backend)}, vocabulary={sizes}, beam_size={self.config.beam_size})"

    @property
    def statistics(self) -> EngineStatistics:
        """Measurements of the concurrent calls, those of `translate_async`."""
        return self.runner.statistics

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings, too
        self, texts: str, config: DecodingConfig | None = ..., **options: Unpack[TranslationOptions]
    ) -> TranslationResult: ...

    @overload
    def translate(
        self, texts: Iterable[str], config: DecodingConfig | None = ..., **options: Unpack[TranslationOptions]
    ) -> list[TranslationResult]: ...

    @one_warning_per_problem()
    def translate(
        self, texts: str | Iterable[str], config: DecodingConfig | None = None, **options: Unpack[TranslationOptions]
    ) -> TranslationResult | list[TranslationResult]:
        """Return the `n_best` best translations of a text, or of each in a list; an empty text has an empty
        translation. Other options are those of decoding, such as `beam_size`, `length_penalty`, `n_best` and
        `max_length`: the fields of `DecodingConfig`, which `config` gives all at once.

        A text translated in segments has the sum of their log-probabilities; its best translation joins their best
        ones, its second their second ones, and so on. `first_line` is the number, from 1, of the first text, where
        texts are parts of a longer list; messages use it.

        With `split="sentences"` a text of any length is translated sentence by sentence, and the white space between
        sentences is kept, blank lines and indentation included; `language` is the code of its language, by default
        that of the model. A model with tree positions needs `source_features`, the dependency heads of each text: for
        each of its words, separated by white space, the number of its head, counted from 1, and 0 for a root. Raises
        ConfigError on invalid options, DataError on a text longer than `MAX_LINE_LENGTH` and on missing or invalid
        source features.

        `source_language` and `target_language` are codes of a multilingual model. One without languages raises
        ConfigError, as does an unknown code; a direction that was not trained warns.

        `target_prefix` is what each translation, or that of each text, begins with; the search continues it. Its tokens
        have log-probabilities of 0. Raises DataError on a prefix of a text that is translated in several segments.

        `constraints` are words that the translations, or that of each text, must have or may not: `Constraint`s. The
        search meets them where that is possible within the length limit, and otherwise `Translation.unmet` names
        the words, as does a warning. With a `beam_size` of 1, texts with constraints have one of 5.

        With `placeholders`, each of `%s`, `{name}`, `<b>`, URLs and the like is in the translation exactly once, byte
        for byte, and each branch of an ICU message is translated. Where the search cannot write one, it is put in
        place by its order, and `Translation.unmet` names it. `PlaceholderRules`, for all texts or in a list for each,
        say which formats number their placeholders, mark accelerators, and need all plural categories.

        `glossary` gives terms and their translations: a `Glossary`, a mapping of source to target phrases, or a list
        with one or none for each text. With the `glossary_mode` "hard", the default, a segment whose translation lacks
        terms is translated again with constraints on them, and an unlikely term replaces the words that its source is
        aligned to; with "soft" terms are preferred, and with "annotated" the model reads them in its source, and must
        have been trained so (`data.augmentation.terminology`).

        `markup` is "xml" or "html", or `MarkupRules`, or a list with one or None for each text. Tags of the texts are
        then not translated, and stand in the translations around the words that the cross-attention aligns:
        well-formed, each element once. `Translation.markup_problems` names tags whose places are guesses, as all
        are where the model has no cross-attention. Malformed texts warn. Blocks of HTML, such as paragraphs, and the
        elements that the rules name as `splitting` are translated one by one.

        `context` gives a model that was trained with `data.context` the sentences before the texts: a list for all
        texts, or a list for each, or "previous", where the texts are consecutive sentences of documents, and a blank
        text ends a document. A segment of a text that is split has the segments before it as context, too.
        """
        call = self._read(texts, config, **options)
        return self._results(call, self._run(call.requests))

    @overload
    async def translate_async(  # type: ignore[overload-overlap]
        self, texts: str, config: DecodingConfig | None = ..., **options: Unpack[TranslationOptions]
    ) -> TranslationResult: ...

    @overload
    async def translate_async(
        self, texts: Iterable[str], config: DecodingConfig | None = ..., **options: Unpack[TranslationOptions]
    ) -> list[TranslationResult]: ...

    async def translate_async(
        self, texts: str | Iterable[str], config: DecodingConfig | None = None, **options: Unpack[TranslationOptions]
    ) -> TranslationResult | list[TranslationResult]:
        """Translate as `translate` does, in one running batch with all other concurrent calls, which take turns.

        A call that is cancelled, as by `asyncio.timeout`, leaves the batch before its next step. A beam has at
        most 100 hypotheses, so that no step takes long. For thousands of texts in one call,
        `asyncio.to_thread(translator.translate, texts)` keeps the event loop more responsive.
        """
        call = await run_beside(texts, self._read, texts, config, **options)
        rounds = SearchRounds(call.requests)
        while rounds.requests:
            found = await self.runner.run_async(rounds.requests)
            if rounds.is_simple:
                rounds.receive(found)
            else:
                await run_in_thread(rounds.receive, found)
        return await run_beside(texts, self._results, call, rounds.results)

    def alternatives(
        self,
        text: str,
        config: DecodingConfig | None = None,
        *,
        count: int = 5,
        **options: Unpack[TranslationOptions],
    ) -> list[Alternative]:
        """Return the most probable tokens after the `target_prefix`, and the best translation that begins with each.

        There are at most `count`, the most probable first. Options are those of `translate`, except `n_best`.
        Raises DataError on an empty text, and one that is translated in several segments.
        """
        call, tokens = self._read_alternatives(text, config, count, options)
        return self._alternatives(call, tokens, self.runner.run(call.requests))

    async def alternatives_async(
        self,
        text: str,
        config: DecodingConfig | None = None,
        *,
        count: int = 5,
        **options: Unpack[TranslationOptions],
    ) -> list[Alternative]:
        """Return what `alternatives` does, decoded in one running batch with all other concurrent calls."""
        call, tokens = await run_in_thread(self._read_alternatives, text, config, count, options)
        return self._alternatives(call, tokens, await self.runner.run_async(call.requests))

    def _read_alternatives(
        self, text: str, config: DecodingConfig | None, count: int, options: TranslationOptions
    ) -> tuple[_Call, list[NextToken]]:
        """Return the next tokens, and the requests for the translations that begin with each of them."""
        check_positive(count=count)
        options["n_best"] = 1
        call = self._read(text, config, **options)
        if len(call.requests) != 1:
            raise DataError("Alternatives are those of one sentence that is not empty. Give its text alone.")
        [line], [request] = call.lines, call.requests
        if line.writes_context:
            raise ConfigError("context: this model begins with its translation, not with alternatives. Leave it out.")
        if request.terms is not None:
            request = request.terms.request()
        with self.runner.turn():
            tokens = next_tokens(self.backend, request, count=count)
        limit = request.limit + 1 if self._positions is None else min(request.limit + 1, self._positions - 1)
        starts = [replace(request.start, forced=(*request.start.forced, one.token)) for one in tokens]
        requests = [replace(request, limit=limit, start=start) for start in starts]
        lines = [line.with_request(one) for one in requests]
        return call._replace(lines=lines), tokens

    def _alternatives(
        self, call: _Call, tokens: Sequence[NextToken], found: Iterable[Sequence[Hypothesis]]
    ) -> list[Alternative]:
        names = self.tokenizer.target.ids_to_tokens([one.token for one in tokens])
        joined = [self._join(line, [some], call.config) for line, some in zip(call.lines, found, strict=True)]
        translations = [restore_text(*one, call.config)[0] for one in zip(call.lines, joined, strict=True)]
        rows = zip(names, tokens, translations, strict=True)
        return [Alternative(name, one.probability, translation) for name, one, translation in rows]

    def _read(
        self,
        texts: str | Iterable[str],
        config: DecodingConfig | None,
        *,
        first_line: int = 1,
        source_features: TextFeatures | None = None,
        **options: Unpack[StreamOptions],
    ) -> _Call:
        require_options(options, TranslationOptions.__annotations__)
        builder, control = self._builder(config, options)
        given = one_or_more_texts(texts)
        builder.context.check_count(len(given))
        lines = list(builder.build(given, control, source_features, first_line))
        return _Call(lines, builder.config, is_single=isinstance(texts, str))

    def _builder(self, config: DecodingConfig | None, options: StreamOptions) -> tuple[RequestBuilder, ControlOptions]:
        """Return what builds the requests of a call, and the options that control the words."""
        decoding, languages, control = (
            {name: value for name, value in options.items() if name in group.__annotations__}
            for group in (DecodingOptions, LanguageOptions, ControlOptions)
        )
        chosen = replace_options(require_config(self.config if config is None else config, DecodingConfig), decoding)
        require_end_tokens(chosen, len(self.tokenizer.target))
        direction = self.tokenizer.prefixes.resolve(**cast(LanguageOptions, languages))
        builder = RequestBuilder(
            self._typography.tokenizer,
            self.backend,
            chosen,
            direction=direction,
            splitter=build_splitter(options.get("split"), options.get("language"), default=self.facts.source_language),
            max_segment_length=self.max_segment_length,
            aligner=PairAligner(
                self.backend, self._typography.aligned, direction, self.runner.turn, head=self.facts.alignment_head
            ),
            context=options.get("context"),
        )
        return builder, cast(ControlOptions, control)

    def _run(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request, or of those in its place where they fail a check."""
        rounds = SearchRounds(requests)
        while rounds.requests:
            rounds.receive(self.runner.run(rounds.requests))
        return rounds.results

    def _results(
        self, call: _Call, hypotheses: Iterable[Sequence[Hypothesis]]
    ) -> TranslationResult | list[TranslationResult]:
        found = iter(hypotheses)
        joined = [self._join(line, [next(found) for _ in line.requests], call.config) for line in call.lines]
        results = restore_texts(list(zip(call.lines, joined, strict=True)), call.config)
        return results[0] if call.is_single else results

    def translate_stream(
        self,
        texts: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        chunk: int = STREAM_CHUNK,
        source_features: Iterable[Sequence[int]] | None = None,
        **options: Unpack[StreamOptions],
    ) -> Iterator[TranslationResult]:
        """Translate any number of texts, in the memory of `chunk` of them; options are those of `translate`.

        With continuous batching a text is read whenever one has been yielded, and the batch never runs empty;
        otherwise `chunk` texts are translated after the other. From a slow iterator, such as lines that a user types,
        read one text at a time, with `chunk=1`. An invalid text raises its error after the results of all texts before
        it, and ends the stream.
        """
        check_positive(chunk=chunk)
        require_options(options, [*StreamOptions.__annotations__, "source_features", "chunk"])
        builder, control = self._builder(config, options)
        pending: deque[TextRequests] = deque()
        controlled = any(control.get(name) for name in ("placeholders", "glossary", "constraints"))
        guarded = controlled or builder.context.writes_context

        def read(first_line: int, some: list[str], features: TextFeatures | None) -> Iterator[list[Request]]:
            own = control_of_part(control, first_line - 1, len(some))
            for line in builder.build(some, own, features, first_line):
                pending.append(line)
                yield line.requests

        def join() -> Iterator[tuple[TextRequests, list[list[Translation]]]]:
            count = 0
            for found in self._run_stream(jobs, chunk, guarded=guarded):
                line = pending.popleft()
                yield line, self._join(line, found, builder.config)
                count += 1
            check_length(control, count)
            builder.context.check_count(count)

        size = min(chunk, ENCODE_CHUNK)
        chunks = read_chunks(texts, source_features, size=size, name="texts", check=check_text)
        jobs = FlatStream(((len(some), read(first, some, features)) for first, some, features in chunks), texts)
        joined = FlatStream(((1, iter([one])) for one in join()), texts)
        together = number_chunks(joined, size=min(chunk, ALIGNED_AT_ONCE) if control.get("markup") else 1)
        return (result for _, some in together for result in restore_texts(some, builder.config))

    def _run_stream(
        self, jobs: FlatStream[list[Request]], chunk: int, *, guarded: bool
    ) -> Iterator[list[list[Hypothesis]]]:
        """Yield the hypotheses of each job, continuously or chunk by chunk, as the backend does.

        Requests that are `guarded` run chunk by chunk, since outputs that fail their check take a second search.
        """
        if self.backend.continuous_batching and not guarded:
            yield from self.runner.stream(jobs, ahead=chunk)
            return
        for _, some in number_chunks(jobs, size=chunk):
            found = iter(self._run([request for job in some for request in job]))
            yield from ([next(found) for _ in job] for job in some)

    @one_warning_per_problem()
    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        penalty: LengthPenalty | None = None,
        first_line: int = 1,
        source_features: TextFeatures | None = None,
        context: TextContext | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> list[Hypothesis]:
        """Score each target as a translation of its source, by forced decoding.

        `source_features`, `context` and languages are those of `translate`. Raises DataError when there are not as many
        targets as sources, a text has more than `MAX_SCORED_LENGTH` tokens or is too long for the model, or source
        features are missing or invalid.
        """
        names = ["penalty", "first_line", "source_features", "context"]
        require_options(languages, [*names, *LanguageOptions.__annotations__])
        direction = self.tokenizer.prefixes.resolve(**languages)
        penalty = self._choose_penalty(penalty)
        sources, targets = text_list(sources, name="sources"), text_list(targets, name="targets")
        if len(sources) != len(targets):
            raise DataError(f"{counted(len(sources), 'sources')} but {len(targets)} targets; give one for each")
        trees = self._check_features(sources, source_features, first_line)
        sources = join_sources(sources, context, self.tokenizer, direction, max_length=self.max_segment_length)
        limit = min(self._positions or MAX_SCORED_LENGTH, MAX_SCORED_LENGTH)
        pairs = encode_pairs(self.tokenizer, direction, sources, targets, first_line=first_line, max_length=limit)
        rows = [(*pair, heads) for pair, heads in zip(pairs, trees, strict=True)]

        def run(rows: list[tuple[list[int], list[int], Heads | None]]) -> list[Hypothesis]:
            ids, targets, heads = zip(*rows, strict=True)
            features = [one for one in heads if one is not None]
            ended = [[*target, EOS] for target in targets]
            found = self.backend.score(ids, ended, penalty=penalty, source_features=features)
            return [without_forced(one, len(direction.target), penalty) for one in found]

        lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
        return run_in_batches(rows, lengths, run, batch_tokens=self.batch_tokens, turn=self.runner.turn)

    async def score_async(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        penalty: LengthPenalty | None = None,
        source_features: TextFeatures | None = None,
        context: TextContext | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> list[Hypothesis]:
        """Score as `score` does, in a thread of its own."""
        options: Any = {"penalty": penalty, "source_features": source_features, "context": context}
        options |= languages
        return await run_in_thread(self.score, sources, targets, **options)

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        penalty: LengthPenalty | None = None,
        chunk: int = STREAM_CHUNK,
        source_features: Iterable[Sequence[int]] | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> Iterator[Hypothesis]:
        """Yield what `score` returns, for any number of (source, target) pairs in the memory of `chunk` of them."""
        penalty = self._choose_penalty(penalty)
        chunks = read_chunks(pairs, source_features, size=chunk, name="pairs", check=check_pair)

        def score(first_line: int, some: list[tuple[str, str]], features: TextFeatures | None) -> list[Hypothesis]:
            sources, targets = zip(*some, strict=True)
            options: Any = {"first_line": first_line, "source_features": features, **languages}
            return self.score(sources, targets, penalty=penalty, **options)

        return (one for some in chunks for one in score(*some))

    def _check_features(
        self, texts: Sequence[str], source_features: TextFeatures | None, first_line: int
    ) -> list[Heads | None]:
        needed = self.backend.needs_source_features
        return check_source_features(texts, source_features, first_line, needs_source_features=needed)

    def _choose_penalty(self, penalty: LengthPenalty | None) -> LengthPenalty:
        if penalty is not None and not isinstance(penalty, LengthPenalty):
            raise TypeError(
                f"penalty = {penalty!r:.60} is no LengthPenalty. Give that of a DecodingConfig, `.penalty`."
            )
        return penalty or self.config.penalty

    def _join(
        self, line: TextRequests, found: Iterable[Sequence[Hypothesis]], config: DecodingConfig
    ) -> list[list[Translation]]:
        """Return the translations of the blocks of a text as the model wrote them."""
        return join_segments(
            line,
            found,
            config=config,
            target=self.tokenizer.target,
            typography=self._typography,
            facts=self.facts,
        )
