"""Answers of completions and chats from what a generator returns, whole or in pieces."""

import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, final

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.hypothesis import TokenAlternatives
from dragoman.inference import Completion, CompletionPiece, Generator
from dragoman.inference.generation.completion_result import GeneratedToken, token_texts
from dragoman.inference.generation.prompts import Prompt
from dragoman.serving.protocols.openai.generation_answers import (
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    CompletionChoice,
    CompletionLogprobs,
    FinishReason,
    TextCompletion,
    TokenLogprob,
    TopLogprob,
    Usage,
)

_ALTERNATIVE_CONTEXT = 16
"""Tokens before an alternative that its text may depend on, such as those of one character."""


class _Token(NamedTuple):
    """Text of a token, its log-probability, and the character at which it begins."""

    text: str
    log_prob: float | None
    begin: int
    alternatives: tuple[tuple[str, float], ...] = ()
    """Texts and log-probabilities of the most probable tokens."""


@final
class _TokenReader:
    """Generated tokens of completions, up to a stop string."""

    def __init__(self, generator: Generator, prompts: Sequence[Prompt], *, num_samples: int) -> None:
        self._tokenizer = generator.tokenizer.target
        self._before = [[*one.context[-_ALTERNATIVE_CONTEXT:]] for one in prompts for _ in range(num_samples)]
        """Ids before the next token of each completion."""
        self._ends = [0] * len(self._before)
        """End of the last token of each completion, in characters."""

    def read(self, piece: CompletionPiece) -> list[_Token]:
        """Return the tokens of a piece."""
        whole, number = piece.completion, piece.number
        last = len(whole.text) if whole is not None and whole.finish_reason == "stop" else None
        found = []
        for one in piece.tokens:
            begin = self._ends[number]
            self._ends[number] += len(one.text)
            if last is None or begin < last:
                found.append(_Token(one.text, one.log_prob, begin, self._read_alternatives(one, number)))
            self._before[number].append(one.id)
        return found

    def _read_alternatives(self, token: GeneratedToken, number: int) -> tuple[tuple[str, float], ...]:
        return _alternatives(self._tokenizer, token, self._before[number])


def as_pieces(completions: Sequence[Completion]) -> list[CompletionPiece]:
    """Return completions as pieces, one for each."""
    return [CompletionPiece(number, one.text, one.generated, one) for number, one in enumerate(completions)]


def _alternatives(
    tokenizer: LanguageTokenizer, token: GeneratedToken, before: Sequence[int]
) -> tuple[tuple[str, float], ...]:
    """Return the texts that the alternatives of a token would add after ids, or their names where they add none."""

    def text(index: int) -> str:
        decoder = tokenizer.streaming_decoder(after=before[-_ALTERNATIVE_CONTEXT:])
        return decoder.add(index) + decoder.finish() or tokenizer.ids_to_tokens([index])[0]

    return tuple((token.text if index == token.id else text(index), value) for index, value in token.alternatives)


def _prompt_tokens(
    generator: Generator, prompt: Prompt, log_probs: Sequence[float], alternatives: Sequence[TokenAlternatives]
) -> list[_Token]:
    """Return the tokens of a prompt; a first one that the model does not predict has no log-probability."""
    side, ids = generator.tokenizer.source, prompt.context
    texts = token_texts(side, ids)
    begins = list(accumulate(map(len, texts), initial=0))
    skipped = len(ids) - len(log_probs)
    found = [_Token(text, None, begin) for text, begin in zip(texts[:skipped], begins, strict=False)]
    for place, (log_prob, best) in enumerate(zip(log_probs, alternatives, strict=True), start=skipped):
        token = GeneratedToken(ids[place], texts[place], log_prob, best)
        found.append(_Token(token.text, log_prob, begins[place], _alternatives(side, token, ids[:place])))
    return found


def count_tokens(completions: Sequence[Completion], *, num_samples: int) -> Usage:
    """Return the counts of tokens of a request; each prompt is counted once."""
    prompts = sum(one.prompt_length for one in completions[::num_samples])
    generated = sum(len(one.tokens) for one in completions)
    return Usage(prompt_tokens=prompts, completion_tokens=generated, total_tokens=prompts + generated)


class _EchoedPrompt(NamedTuple):
    """Prompt that is returned before its completions."""

    text: str
    tokens: Sequence[_Token] = ()
    """Tokens where log-probabilities are returned."""


@final
class TextAnswer:
    """Answer of `/v1/completions`."""

    def __init__(
        self,
        model: str,
        generator: Generator,
        prompts: Sequence[Prompt],
        *,
        num_samples: int,
        echo: bool,
        logprobs: int | None,
    ) -> None:
        """With `echo`, completions follow their prompts, each of which has `num_samples` of them.

        `logprobs` is the number of alternatives of each token; without it, there are no log-probabilities.
        """
        self._head: dict[str, Any] = _head("cmpl", model)
        self._generator = generator
        self._prompts = prompts
        self._num_samples = num_samples
        self._logprobs = logprobs
        self._before = [_EchoedPrompt(one.text if echo else "") for one in prompts]
        self._echo = echo
        self._tokens = _TokenReader(generator, prompts, num_samples=num_samples)
        self._begun: set[int] = set()

    async def prepare(self) -> None:
        """Score the prompts where log-probabilities of them are returned. Raises ConfigError if the model cannot."""
        if not self._echo or self._logprobs is None:
            return
        rows = await self._generator.score_prompts_async(self._prompts)
        best: list[list[TokenAlternatives]] = [[()] * len(row) for row in rows]
        if self._logprobs:
            best = await self._generator.prompt_alternatives_async(self._prompts, self._logprobs)
        self._before = [
            _EchoedPrompt(prompt.text, _prompt_tokens(self._generator, prompt, log_probs, alternatives))
            for prompt, log_probs, alternatives in zip(self._prompts, rows, best, strict=True)
        ]

    def whole(self, completions: Sequence[Completion], usage: Usage) -> TextCompletion:
        """Return the answer."""
        choices = [choice for piece in as_pieces(completions) for choice in self._choices(piece)]
        return TextCompletion(**self._head, choices=choices, usage=usage)

    def chunks(self, piece: CompletionPiece) -> Iterator[TextCompletion]:
        """Yield the chunk of a piece."""
        for choice in self._choices(piece):
            yield TextCompletion(**self._head, choices=[choice])

    def last_chunk(self, usage: Usage) -> TextCompletion:
        """Return the last piece, with the counts of tokens."""
        return TextCompletion(**self._head, choices=[], usage=usage)

    def _choices(self, piece: CompletionPiece) -> Iterator[CompletionChoice]:
        before = self._before[piece.number // self._num_samples]
        tokens = [one._replace(begin=len(before.text) + one.begin) for one in self._tokens.read(piece)]
        text = piece.text
        if piece.number not in self._begun:
            self._begun.add(piece.number)
            text = before.text + text
            tokens = [*before.tokens, *tokens]
        logprobs = CompletionLogprobs(
            tokens=[one.text for one in tokens],
            token_logprobs=[one.log_prob for one in tokens],
            text_offset=[one.begin for one in tokens],
            top_logprobs=[_by_text(one) for one in tokens] if self._logprobs else None,
        )
        yield CompletionChoice(
            index=piece.number,
            text=text,
            logprobs=None if self._logprobs is None else logprobs,
            finish_reason=_finish_reason(piece.completion),
        )


@final
class ChatAnswer:
    """Answer of `/v1/chat/completions`."""

    def __init__(
        self, model: str, generator: Generator, prompts: Sequence[Prompt], *, num_samples: int, logprobs: bool
    ) -> None:
        self._head: dict[str, Any] = _head("chatcmpl", model)
        self._logprobs = logprobs
        self._tokens = _TokenReader(generator, prompts, num_samples=num_samples)
        self._begun: set[int] = set()

    def whole(self, completions: Sequence[Completion], usage: Usage) -> ChatCompletion:
        """Return the answer."""
        choices = [
            ChatChoice(
                index=piece.number,
                message=AnswerMessage(content=piece.text),
                logprobs=self._read_logprobs(piece),
                finish_reason=_finish_reason(piece.completion) or "length",
            )
            for piece in as_pieces(completions)
        ]
        return ChatCompletion(**self._head, choices=choices, usage=usage)

    def chunks(self, piece: CompletionPiece) -> Iterator[ChatChunk]:
        """Yield the chunks of a piece: the role before the first one, the text, and the reason of the end."""
        if piece.number not in self._begun:
            self._begun.add(piece.number)
            yield self._chunk(piece.number, ChatDelta(role="assistant", content=""))
        logprobs = self._read_logprobs(piece)
        if piece.text or (logprobs is not None and logprobs.content):
            yield self._chunk(piece.number, ChatDelta(content=piece.text), logprobs=logprobs)
        if piece.completion is not None:
            yield self._chunk(piece.number, ChatDelta(), finish_reason=_finish_reason(piece.completion))

    def last_chunk(self, usage: Usage) -> ChatChunk:
        """Return the last piece, with the counts of tokens."""
        return ChatChunk(**self._head, choices=[], usage=usage)

    def _chunk(self, number: int, delta: ChatDelta, **options: Any) -> ChatChunk:
        return ChatChunk(**self._head, choices=[ChatChunkChoice(index=number, delta=delta, **options)])

    def _read_logprobs(self, piece: CompletionPiece) -> ChatLogprobs | None:
        content = [
            TokenLogprob(
                **_token_fields(one.text, one.log_prob or 0.0),
                top_logprobs=[TopLogprob(**_token_fields(*best)) for best in one.alternatives],
            )
            for one in self._tokens.read(piece)
        ]
        return ChatLogprobs(content=content) if self._logprobs else None


def _token_fields(text: str, log_prob: float) -> dict[str, Any]:
    return {"token": text, "logprob": log_prob, "bytes": list(text.encode())}


def _by_text(token: _Token) -> dict[str, float] | None:
    """Return the log-probabilities of the most probable tokens by their texts, and that of the token itself."""
    if token.log_prob is None:
        return None
    found: dict[str, float] = {}
    for text, log_prob in (*token.alternatives, (token.text, token.log_prob)):
        found.setdefault(text, log_prob)  # of tokens with the same text, the most probable one
    return found


def _head(kind: str, model: str) -> dict[str, Any]:
    """Return the fields of an answer and of all its pieces."""
    return {"id": f"{kind}-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}


def _finish_reason(completion: Completion | None) -> FinishReason | None:
    """Return why a completion has ended; None where it has not."""
    if completion is None:
        return None
    return "length" if completion.finish_reason == "length" else "stop"
