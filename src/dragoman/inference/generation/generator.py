"""Generator: prompts in, completions out."""

import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Unpack, final, overload

from dragoman.data.chat_template import ChatTemplate, Message, MessageDict, PromptFormat, format_chat
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import DecodingConfig, SamplingConfig, require_config
from dragoman.decoding.hypothesis import Hypothesis, OutputStart, TokenAlternatives
from dragoman.errors import ConfigError, DataError, one_warning_per_problem
from dragoman.inference.backends.protocol import as_backend, describe_backend
from dragoman.inference.backends.sliding_context_backend import SlidingContext
from dragoman.inference.concurrent_calls import EngineStatistics, ThreadQueue, run_beside, run_in_thread
from dragoman.inference.engine_thread import PendingResult, RequestRunner
from dragoman.inference.generation.completion_result import (
    Completion,
    CompletionPiece,
    CompletionStream,
    build_completion,
    text_stream,
)
from dragoman.inference.generation.generation_options import GenerationConfig, GenerationOptions, Limits, OptionReader
from dragoman.inference.generation.perplexity import (
    Perplexity,
    ScoringText,
    most_probable_tokens,
    score_texts,
    scoring_texts,
)
from dragoman.inference.generation.prompts import Prompt, encode_prompt, encode_prompts, prompt_list
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    check_text,
    one_or_more_texts,
    require_iterable,
    run_in_batches,
    text_list,
)
from dragoman.inference.scheduler import Request
from dragoman.inference.stream_chunks import number_chunks

_DEFAULT_CONFIG = SamplingConfig()
_PLAIN_PROMPT = PromptFormat()
_STREAM_CHUNK = 256
"""Prompts of a stream that are sorted and batched together."""


class _Call(NamedTuple):
    """Prompts of one call, read and checked, and the requests for all of them, `counts` for each."""

    config: GenerationConfig
    limits: Limits
    prompts: list[Prompt]
    counts: list[int]
    requests: list[Request]


class _CompletedRequest(NamedTuple):
    """Completed request of a stream."""

    number: int
    result: PendingResult


@final
class Generator:
    """Decoder-only model with its tokenizer.

    A model of running text continues a prompt; one of `pairs` (prompt and continuation) answers it. The model attends
    to at most `context` tokens; of longer texts the oldest are dropped, as described in
    `backends.sliding_context_backend`. The result for a prompt does not depend on other prompts: exactly with the CPU
    library, and up to rounding with PyTorch. Options that a call leaves out are those of `config`, for a trained or
    imported run the generation section of its configuration; its `end_tokens` end the outputs of every call.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: Any = "cpu",
        context: int,
        pairs: bool = False,
        template: ChatTemplate | None = None,
        prompt_format: PromptFormat = _PLAIN_PROMPT,
        batch_tokens: int = BATCH_TOKENS,
        config: SamplingConfig = _DEFAULT_CONFIG,
    ) -> None:
        """`batch_tokens` bounds the tokens of prompts and outputs in a batch.

        The model is an `InferenceBackend`, or a `DecoderOnly` model of PyTorch on `device`. Raises ConfigError on a
        context beyond the model's positions.
        """
        self.backend = as_backend(model, device=device, decoder_only=True)
        longest = self.backend.max_length
        if context < 1 or (longest is not None and context > longest):
            most = longest or "any number of"
            raise ConfigError(f"context = {context}: the model attends to 1 to {most} tokens; choose within these")
        self.model = model
        self.tokenizer = tokenizer
        self.device = self.backend.device
        self.context = context
        self.pairs = pairs
        self.template = template
        self.prompt_format = prompt_format
        self.batch_tokens = batch_tokens
        self.config = config
        self._sliding = SlidingContext(self.backend, context=context)
        self._samples = RequestRunner(self._sliding, batch_tokens=batch_tokens)
        self._searches = RequestRunner(self.backend, batch_tokens=batch_tokens)

    def __repr__(self) -> str:
        size, kind = len(self.tokenizer.target), ", pairs=True" if self.pairs else ""
        return f"Generator({describe_backend(self.backend)}, vocabulary={size}, context={self.context}{kind})"

    @property
    def _options(self) -> OptionReader:
        return OptionReader(self.config, self.tokenizer.target, self.context)

    @property
    def statistics(self) -> EngineStatistics:
        """Measurements of the concurrent calls, those of `generate_async`."""
        return self._samples.statistics + self._searches.statistics

    @overload
    def generate(  # type: ignore[overload-overlap]  # a string is an iterable of strings, too
        self, prompts: str, config: GenerationConfig | None = ..., **options: Unpack[GenerationOptions]
    ) -> Completion: ...

    @overload
    def generate(
        self, prompts: Iterable[str], config: GenerationConfig | None = ..., **options: Unpack[GenerationOptions]
    ) -> list[Completion]: ...

    @one_warning_per_problem()
    def generate(
        self,
        prompts: str | Iterable[str],
        config: GenerationConfig | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Completion | list[Completion]:
        """Return one completion for a prompt, or for each in a list, sampled or (with a `DecodingConfig`) searched for.

        A completion ends before the first `stop` string, given as one or several, and has at most `max_new_tokens`
        tokens. Sampling options that are given replace those of `config`. Raises ConfigError on invalid options.
        """
        call = self._read(prompts, config, options)
        found = self._completions(call, self._runner(call.config).run(call.requests))
        return _best(found, prompts)

    @overload
    async def generate_async(  # type: ignore[overload-overlap]
        self, prompts: str, config: GenerationConfig | None = ..., **options: Unpack[GenerationOptions]
    ) -> Completion: ...

    @overload
    async def generate_async(
        self, prompts: Iterable[str], config: GenerationConfig | None = ..., **options: Unpack[GenerationOptions]
    ) -> list[Completion]: ...

    async def generate_async(
        self,
        prompts: str | Iterable[str],
        config: GenerationConfig | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Completion | list[Completion]:
        """Generate as `generate` does, in one running batch with all other concurrent calls, which take turns.

        A call that is cancelled, as by `asyncio.timeout`, leaves the batch before its next step. A beam has at
        most 100 hypotheses, so that no step takes long.
        """
        return _best(
            await self._complete_async(await run_beside(prompts, self._read, prompts, config, options)), prompts
        )

    async def _complete_async(self, call: _Call) -> list[list[Completion]]:
        found = await self._runner(call.config).run_async(call.requests)
        return await run_in_thread(self._completions, call, found)

    def _read(
        self,
        prompts: str | Prompt | Iterable[str | Prompt],
        config: GenerationConfig | None,
        options: GenerationOptions,
        num_samples: int | None = None,
    ) -> _Call:
        """Return a checked call; one without `num_samples` has no such parameter."""
        config = self.config if config is None else config
        others = () if num_samples is None else ("num_samples",)
        config, limits = self._options.read(
            config, options, num_samples=1 if num_samples is None else num_samples, others=others
        )
        return self._prepare(prompt_list(prompts), config, limits)

    @one_warning_per_problem()
    def generate_n_best(
        self,
        prompts: Iterable[str],
        config: GenerationConfig | None = None,
        *,
        num_samples: int = 1,
        first: int = 0,
        **options: Unpack[GenerationOptions],
    ) -> list[list[Completion]]:
        """Return several completions for each prompt: `num_samples` samples, or the `config.n_best` best.

        Options are those of `generate`. Samples depend on the seed and on the numbers of the prompt (from `first`) and
        of the sample. A search keeps every hypothesis in the context: its prompts lose tokens that leave no space for
        `max_new_tokens`, and its stop strings cut the hypotheses found.
        """
        others = ("num_samples", "first")
        config = self.config if config is None else config
        config, limits = self._options.read(config, options, num_samples=num_samples, others=others)
        return self._complete(text_list(prompts, name="prompts"), config, limits, first=first)

    async def generate_n_best_async(
        self,
        prompts: Iterable[str | Prompt],
        config: GenerationConfig | None = None,
        *,
        num_samples: int = 1,
        **options: Unpack[GenerationOptions],
    ) -> list[list[Completion]]:
        """Generate as `generate_n_best` does, in one running batch with all other concurrent calls.

        The prompts are texts, or results of `read_prompt`.
        """
        require_iterable(prompts, name="prompts")
        call = await run_beside(prompts, self._read, prompts, config, options, num_samples)
        return await self._complete_async(call)

    def _complete(
        self, prompts: list[str], config: GenerationConfig, limits: Limits, *, first: int = 0
    ) -> list[list[Completion]]:
        call = self._prepare(prompts, config, limits, first=first)
        return self._completions(call, self._runner(config).run(call.requests))

    def _prepare(
        self, prompts: list[str] | list[Prompt], config: GenerationConfig, limits: Limits, *, first: int = 0
    ) -> _Call:
        read = self._read_prompts(prompts, config, limits, first=first)
        rows = [self._requests(prompt, config, limits, row) for row, prompt in enumerate(read, first)]
        return _Call(config, limits, read, [len(row) for row in rows], [request for row in rows for request in row])

    def _completions(self, call: _Call, hypotheses: Iterable[Sequence[Hypothesis]]) -> list[list[Completion]]:
        found = iter(hypotheses)
        return [
            [
                build_completion(self.tokenizer.target, prompt, call.limits, one)
                for _ in range(count)
                for one in next(found)
            ]
            for prompt, count in zip(call.prompts, call.counts, strict=True)
        ]

    def _runner(self, config: GenerationConfig) -> RequestRunner:
        return self._samples if isinstance(config, SamplingConfig) else self._searches

    def generate_stream(
        self,
        prompts: Iterable[str],
        config: GenerationConfig | None = None,
        *,
        num_samples: int = 1,
        chunk: int = _STREAM_CHUNK,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[list[Completion]]:
        """Yield what `generate_n_best` returns, for any number of prompts in the memory of `chunk` of them."""
        others = ("num_samples", "chunk")
        config = self.config if config is None else config
        config, limits = self._options.read(config, options, num_samples=num_samples, others=others)
        chunks = number_chunks(prompts, size=chunk, first=0, name="prompts", check=check_text)
        return (one for first, some in chunks for one in self._complete(some, config, limits, first=first))

    def stream_text(
        self, prompt: str, config: SamplingConfig | None = None, **options: Unpack[GenerationOptions]
    ) -> Iterator[str]:
        """Yield the text that `generate` returns for one prompt, in pieces, as soon as they are certain."""
        config, limits = self._options.read(self.config if config is None else config, options)
        [read] = self._read_prompts(text_list([prompt], name="prompts"), config, limits)
        return self._stream(read, config, limits)

    async def stream_text_async(
        self, prompt: str, config: SamplingConfig | None = None, **options: Unpack[GenerationOptions]
    ) -> AsyncGenerator[str, None]:
        """Yield the pieces of `stream_text`, generated in one running batch with all other concurrent calls.

        Where the caller closes the iterator, its request leaves the batch before the next step.
        """
        text_list([prompt], name="prompts")
        async with aclosing(self.stream_pieces_async(prompt, config, **options)) as pieces:
            async for piece in pieces:
                if piece.text:
                    yield piece.text

    async def stream_pieces_async(
        self,
        prompts: str | Iterable[str | Prompt],
        config: SamplingConfig | None = None,
        *,
        num_samples: int = 1,
        **options: Unpack[GenerationOptions],
    ) -> AsyncGenerator[CompletionPiece, None]:
        """Yield the completions of `generate_n_best` in pieces, generated in one running batch with all other calls.

        Samples are numbered, those of a prompt one after the other; the last piece of each has the whole completion.
        Where the caller closes the iterator, its requests leave the batch before the next step.
        """
        require_config(self.config if config is None else config, SamplingConfig)
        call = await run_beside(prompts, self._read, prompts, config, options, num_samples)
        prompts_read = [prompt for prompt in call.prompts for _ in range(num_samples)]
        target, limits = self.tokenizer.target, call.limits
        events = ThreadQueue[CompletionPiece | _CompletedRequest]()
        texts = [partial(text_stream, target, prompt, limits) for prompt in prompts_read]
        streams = [CompletionStream(number, text, events.put) for number, text in enumerate(texts)]
        requests = [
            replace(request, start=replace(request.start, observe=stream.start))
            for request, stream in zip(call.requests, streams, strict=True)
        ]
        async with self._samples.running(requests) as results:
            for number, result in enumerate(results):
                result.add_done_callback(partial(_announce, events.put, number))
            for _ in results:
                while isinstance(event := await events.get(), CompletionPiece):
                    yield event
                [found] = event.result.result()
                whole = await run_in_thread(build_completion, target, prompts_read[event.number], limits, found)
                yield streams[event.number].last_piece(whole)

    def _stream(self, prompt: Prompt, config: SamplingConfig, limits: Limits) -> Iterator[str]:
        """Yield the text of the first sample for a prompt; between the pieces the caller is not in inference mode."""
        text = text_stream(self.tokenizer.target, prompt, limits)
        [request] = self._requests(prompt, config, limits, 0)
        request = replace(request, start=replace(request.start, observe=lambda: text.observe))
        for _ in self._samples.steps(request):
            if piece := text.take():
                yield piece
        text.finish()
        if piece := text.take():
            yield piece

    def chat(
        self,
        messages: Sequence[Message | MessageDict],
        config: GenerationConfig | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Completion:
        """Return the assistant's answer to a conversation, by the chat template of the model.

        Options are those of `generate`; the answer also ends before the next turn of the template.

        Raises ConfigError where the model has none, DataError on a conversation that does not fit the template.
        """
        prompt = self._conversation(messages, options)
        return self.generate(prompt, config, **options)

    async def chat_async(
        self,
        messages: Sequence[Message | MessageDict],
        config: GenerationConfig | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Completion:
        """Answer as `chat` does, in one running batch with all other concurrent calls."""
        prompt = self._conversation(messages, options)
        return await self.generate_async(prompt, config, **options)

    def _conversation(self, messages: Sequence[Message | MessageDict], options: GenerationOptions) -> str:
        """Return the prompt of a conversation, and add the beginning of the next turn to the stop strings."""
        prompt, given = self.chat_prompt(messages), options.get("stop")
        options["stop"] = [*self.chat_stop, *one_or_more_texts(() if given is None else given, name="stop")]
        return prompt

    @property
    def chat_stop(self) -> tuple[str, ...]:
        """Stop strings of an answer in a chat: the ends of turns that the model writes as text."""
        if self.template is None or self.pairs:
            return ()
        return tuple(filter(self._options.can_generate, self.template.stop))

    def build_prompt(self, source: str, form: PromptFormat | None = None) -> str:
        """Return the prompt of a source, in the form of the training pairs or in another.

        Raises ConfigError if a chat has no template, DataError if the source contains a marker of the template.
        """
        form = self.prompt_format if form is None else form
        return form.build(source, self.template, reserved=self.tokenizer.source.control_tokens)

    def chat_prompt(self, messages: Sequence[Message | MessageDict]) -> str:
        """Return the prompt for the assistant's answer to a conversation, by the chat template of the model.

        Raises ConfigError where the model has none, DataError on a conversation that does not fit the template.
        """
        if self.template is None:
            raise ConfigError("this model was trained without a chat template; use generate with a prompt")
        return format_chat(messages, self.template, reserved=self.tokenizer.source.control_tokens)

    @one_warning_per_problem()
    def score(
        self, texts: Iterable[str], *, prompts: Iterable[str] | None = None, overlap: int = 0
    ) -> list[Hypothesis]:
        """Score each text with the log-probability of its tokens and its end; the score is their mean.

        A model of pairs needs the prompt of each text, which is not scored. A text longer than the context is scored in
        windows, whose first tokens see `overlap` tokens of the window before. Raises DataError where prompts are
        missing or too many, ConfigError on an overlap that a window cannot have.
        """
        given = None if prompts is None else text_list(prompts, name="prompts")
        return self._score(scoring_texts(self.tokenizer, text_list(texts), given, pairs=self.pairs), overlap=overlap)

    async def score_async(
        self, texts: Iterable[str], *, prompts: Iterable[str] | None = None, overlap: int = 0
    ) -> list[Hypothesis]:
        """Score as `score` does, in a thread of its own."""
        return await run_in_thread(self.score, texts, prompts=prompts, overlap=overlap)

    async def score_prompts_async(self, prompts: Sequence[Prompt]) -> list[list[float]]:
        """Return the log-probability of each token of prompts in running text but the first that the model reads.

        Prompts of more tokens than the context are scored in windows. Raises ConfigError for a model of pairs, which
        does not predict its prompts.
        """
        if self.pairs:
            raise ConfigError("this model answers prompts and does not predict them; leave their scores out")
        texts = [ScoringText([*one.ids[:1]], [*one.ids[1:]]) for one in prompts if len(one.ids) > 1]
        scored = iter(await run_in_thread(self._score, texts, overlap=0))
        return [list(next(scored).token_log_probs) if len(one.ids) > 1 else [] for one in prompts]

    async def prompt_alternatives_async(self, prompts: Sequence[Prompt], count: int) -> list[list[TokenAlternatives]]:
        """Return the `count` most probable tokens at the place of each token that `score_prompts_async` scores."""
        rows = [one.ids for one in prompts]
        run = partial(most_probable_tokens, self.backend, count=count)
        lengths = [len(ids) for ids in rows]
        return await run_in_thread(
            run_in_batches, rows, lengths, run, batch_tokens=self.batch_tokens, turn=self._searches.turn
        )

    def _score(self, texts: list[ScoringText], *, overlap: int) -> list[Hypothesis]:
        return score_texts(
            self.backend,
            texts,
            context=self.context,
            overlap=overlap,
            batch_tokens=self.batch_tokens,
            turn=self._searches.turn,
        )

    def perplexity(self, texts: Iterable[str], *, prompts: Iterable[str] | None = None, overlap: int = 0) -> Perplexity:
        """Measure perplexity on texts, predicted as `score` does. Raises DataError where there is no text."""
        texts = text_list(texts)
        if not texts:
            raise DataError("there is no text to measure perplexity on; give one at least")
        scored = self.score(texts, prompts=prompts, overlap=overlap)
        return Perplexity(
            nats=-math.fsum(one.log_prob for one in scored),
            tokens=sum(one.length for one in scored),
            bytes=sum(len(text.encode()) for text in texts),
        )

    def read_prompt(self, prompt: str | Sequence[int]) -> Prompt:
        """Return a prompt, a text or token ids without a begin symbol, as the model reads it.

        Ids are those of the tokenizer; of an imported model, those of the other program. A prompt may be longer than
        the context. Raises DataError if an id is not in the vocabulary.
        """
        return encode_prompt(self.tokenizer, prompt, pairs=self.pairs)

    def _read_prompts(
        self, prompts: list[str] | list[Prompt], config: GenerationConfig, limits: Limits, *, first: int = 0
    ) -> list[Prompt]:
        sampled = isinstance(config, SamplingConfig)
        longest = self.context if sampled else self.context - limits.max_new_tokens
        read = [replace(one, truncated=len(one.ids) > longest) for one in prompts if isinstance(one, Prompt)]
        texts = [one for one in prompts if isinstance(one, str)]
        kept = self._sliding.kept if sampled else None
        return read or encode_prompts(
            self.tokenizer, texts, pairs=self.pairs, max_length=longest, kept=kept, first=first
        )

    def _requests(self, prompt: Prompt, config: GenerationConfig, limits: Limits, number: int) -> list[Request]:
        """Return the requests for the samples, or the search, of a prompt with this number."""
        ids, most = prompt.ids, limits.max_new_tokens
        if isinstance(config, DecodingConfig):
            ids = ids[-(self.context - most) :]
            return [Request(ids, config, most, start=OutputStart(ids[-1]), size=len(ids) + most)]
        observe = (lambda: text_stream(self.tokenizer.target, prompt, limits).observe) if limits.stop else None
        keys = [(number, sample) for sample in range(limits.num_samples)]
        start = OutputStart(
            ids[-1], context=prompt.context, seed=config.seed, observe=observe, alternatives=limits.alternatives
        )
        config = config.model_copy(update={"seed": 0})  # requests of one configuration take their steps together
        starts = [replace(start, key=key) for key in keys]
        return [Request(ids, config, most, start=start, size=min(len(ids) + most, self.context)) for start in starts]


def _best(found: list[list[Completion]], prompts: object) -> Completion | list[Completion]:
    """Return the best completion of one prompt, or of each in a list."""
    best = [one for [one, *_] in found]
    return best[0] if isinstance(prompts, str) else best


def _announce(put: Callable[[_CompletedRequest], None], number: int, result: PendingResult) -> None:
    put(_CompletedRequest(number, result))
