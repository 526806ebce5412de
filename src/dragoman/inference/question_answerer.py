"""Extractive question answering: questions and contexts in, spans of the contexts out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import exp
from typing import Any, NamedTuple, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.array_types import Bool, Float
from dragoman.data.datasets.qa import Window, WindowConfig, make_windows, segment_ids
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.offsets import Span
from dragoman.decoding.config import AnswerConfig, require_config
from dragoman.decoding.forced_decoding import pad_batch
from dragoman.errors import ConfigError, one_warning_per_problem
from dragoman.html_tables import html_table
from dragoman.inference.backends.torch_backend import inference_mode
from dragoman.inference.concurrent_calls import OwnerProcess, run_in_thread
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    check_pair,
    run_in_batches,
    text_pairs,
    warn_input,
    warn_unknown,
)
from dragoman.inference.stream_chunks import number_chunks
from dragoman.models.task_heads import SpanLogits

_STREAM_CHUNK = 256
"""Questions of a stream that are sorted and batched together."""


_DEFAULT_CONFIG = AnswerConfig()


@dataclass(frozen=True, slots=True)
class Answer:
    """Span of a context, `context[start:end]`, or the result that there is no answer.

    `score` is the log-probability of its first and last token together, `probability` its exponential, in the window
    where the answer was found. `truncated` says that the question was too long, so that its end was ignored.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float
    no_answer: bool
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the object of this answer in the records of `dragoman answer --format jsonl`."""
        return asdict(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        found = "no_answer=True" if self.no_answer else f"text={self.text!r}, start={self.start}, end={self.end}"
        return f"Answer({found}, probability={self.probability:.4f})"

    def _repr_html_(self) -> str:
        answer = "no answer" if self.no_answer else self.text
        return html_table(["answer", "start", "end", "probability"], [[answer, self.start, self.end, self.probability]])


class TokenSpan(NamedTuple):
    """First and last token of a span, and the sum of their log-probabilities."""

    start: int
    end: int
    score: float


class _Context(NamedTuple):
    """Context as ids, with the character span of each token."""

    text: str
    ids: list[int]
    spans: list[Span]


_WindowResult = tuple[list[TokenSpan], float]
"""Best spans of one window, by tokens of the context, and the score of no answer."""


@final
class QuestionAnswerer:
    """Model for extractive question answering with its tokenizer.

    The result for a question depends on other questions by rounding only.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor, Tensor], SpanLogits],
        tokenizer: LanguageTokenizer,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        windows: WindowConfig | None = None,
        config: AnswerConfig = _DEFAULT_CONFIG,
    ) -> None:
        """The model, a `ModelWithHead`, is on `device`; `windows` are those of its training.

        `config` applies where a call gives none. Raises ConfigError where a window exceeds the model's positions.
        """
        self.windows = windows or WindowConfig()
        positions: int | None = getattr(model, "max_length", None)
        if positions is not None and self.windows.max_length > positions:
            raise ConfigError(
                f"windows.max_length = {self.windows.max_length}: the model has {positions} positions only; lower it"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self._process = OwnerProcess()
        self.config = config

    def __repr__(self) -> str:
        return f"QuestionAnswerer(device={self.device}, max_length={self.windows.max_length})"

    def answer(self, question: str, context: str, config: AnswerConfig | None = None) -> Answer:
        """Return the best answer to one question."""
        return self.answer_batch([(question, context)], config)[0][0]

    async def answer_async(self, question: str, context: str, config: AnswerConfig | None = None) -> Answer:
        """Answer as `answer` does, in a thread of its own."""
        return await run_in_thread(self.answer, question, context, config)

    async def answer_batch_async(
        self, pairs: Iterable[tuple[str, str]], config: AnswerConfig | None = None
    ) -> list[list[Answer]]:
        """Answer as `answer_batch` does, in a thread of its own."""
        return await run_in_thread(self.answer_batch, pairs, config)

    @one_warning_per_problem()
    def answer_batch(
        self, pairs: Iterable[tuple[str, str]], config: AnswerConfig | None = None, *, first_line: int = 1
    ) -> list[list[Answer]]:
        """Return the `config.n_best` best answers to each question about its context, best first, at least one.

        A blank context has no answer even where one is required. A question that is too long is truncated with an
        `InputWarning`. `first_line` is the number, from 1, of
        the first pair, where pairs are parts of a longer list.
        """
        self._process.check()
        config = require_config(self.config if config is None else config, AnswerConfig)
        pairs = text_pairs(pairs)
        limit = self.windows.max_question_length
        questions = self.tokenizer.encode_batch([question for question, _ in pairs])
        warn_unknown([question for question, _ in pairs], questions, self.tokenizer, unit="question", first=first_line)
        for number, ids in enumerate(questions, start=first_line):
            if len(ids) > limit:
                warn_input(
                    "question",
                    number,
                    f"the question has {len(ids)} tokens, more than the limit of {limit}; its end is ignored",
                    problem=f"questions have more than {limit} tokens and their ends were ignored",
                )
        different = dict.fromkeys(context for _, context in pairs)
        encoded = {text: _Context(text, *self.tokenizer.encode_with_offsets(text)) for text in different}
        contexts = [encoded[context] for _, context in pairs]
        context_ids = [one.ids for one in contexts]
        warn_unknown([one.text for one in contexts], context_ids, self.tokenizer, unit="context", first=first_line)
        windows = [make_windows(ids, one.ids, self.windows) for ids, one in zip(questions, contexts, strict=True)]
        flat = [(window, context) for some, context in zip(windows, contexts, strict=True) for window in some]
        read = partial(self._read_batch, config=config)
        with inference_mode(self.model):
            lengths = [len(window.tokens) for window, _ in flat]
            results = iter(run_in_batches(flat, lengths, read, batch_tokens=self.batch_tokens))
        ranked = [
            _rank([next(results) for _ in some], context, config)
            for some, context in zip(windows, contexts, strict=True)
        ]
        is_long = [len(ids) > limit for ids in questions]
        return [
            [replace(one, truncated=truncated) for one in answers]
            for answers, truncated in zip(ranked, is_long, strict=True)
        ]

    def answer_stream(
        self, pairs: Iterable[tuple[str, str]], config: AnswerConfig | None = None, *, chunk: int = _STREAM_CHUNK
    ) -> Iterator[list[Answer]]:
        """Yield what `answer_batch` returns, for any number of questions in the memory of `chunk` of them."""
        config = require_config(self.config if config is None else config, AnswerConfig)
        chunks = number_chunks(pairs, size=chunk, name="pairs", check=check_pair)
        return (one for first_line, some in chunks for one in self.answer_batch(some, config, first_line=first_line))

    def _read_batch(self, batch: Sequence[tuple[Window, _Context]], config: AnswerConfig) -> list[_WindowResult]:
        tokens, lengths = pad_batch([window.tokens for window, _ in batch], device=self.device)
        begins = np.array([window.context_start for window, _ in batch])
        sizes = np.array([len(window.tokens) for window, _ in batch])
        segments = torch.from_numpy(segment_ids(begins, sizes)).to(self.device)
        logits = self.model(tokens, lengths, segments)
        starts, ends = (side.cpu().double().log_softmax(dim=-1) for side in logits)
        allowed = torch.zeros(tokens.shape, dtype=torch.bool)
        for row, (window, context) in enumerate(batch):
            spans = context.spans[window.first_token : window.first_token + window.num_context_tokens]
            # No answer begins or ends with a token of white space only.
            visible = [bool(context.text[start:end].strip()) for start, end in spans]
            allowed[row, window.context_start : window.context_start + window.num_context_tokens] = torch.tensor(
                visible
            )
        found = best_spans(starts, ends, allowed, max_length=config.max_answer_length, count=config.n_best)
        no_answer = (starts[:, 0] + ends[:, 0]).tolist()
        shifts = [window.first_token - window.context_start for window, _ in batch]
        return [
            ([TokenSpan(one.start + shift, one.end + shift, one.score) for one in best], score)
            for best, shift, score in zip(found, shifts, no_answer, strict=True)
        ]


def best_spans(
    starts: Float[Tensor, "windows places"],
    ends: Float[Tensor, "windows places"],
    allowed: Bool[Tensor, "windows places"],
    *,
    max_length: int,
    count: int,
) -> list[list[TokenSpan]]:
    """Return the `count` best spans of each window, best first, or all; ties keep the first and shortest.

    A span begins and ends at allowed positions, in this order, and has at most `max_length` tokens.
    """
    impossible = -torch.inf
    begins = starts.masked_fill(~allowed, impossible)
    last = F.pad(ends.masked_fill(~allowed, impossible), (0, max_length - 1), value=impossible)
    scores = begins[:, :, None] + last.unfold(1, max_length, 1)  # by window, first position, and positions after it
    ranked = scores.flatten(1).sort(dim=1, descending=True, stable=True)
    found = []
    for values, indices in zip(ranked.values[:, :count].tolist(), ranked.indices[:, :count].tolist(), strict=True):
        spans = [
            TokenSpan(index // max_length, index // max_length + index % max_length, value)
            for value, index in zip(values, indices, strict=True)
        ]
        found.append([span for span in spans if span.score > impossible])
    return found


def _rank(results: Sequence[_WindowResult], context: _Context, config: AnswerConfig) -> list[Answer]:
    """Return the best answers of all windows; a span found in two windows counts once, with the higher score.

    The score of no answer is the lowest among the windows.
    """
    scores: dict[Span, float] = {}
    for spans, _ in results:
        for found in spans:
            span = context.spans[found.start][0], context.spans[found.end][1]
            scores[span] = max(found.score, scores.get(span, found.score))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    answers = [Answer(context.text[slice(*span)], *span, score, exp(score), no_answer=False) for span, score in ranked]
    no_answer = min(score for _, score in results)
    threshold = config.no_answer_threshold
    wins = threshold is not None and bool(answers) and no_answer - answers[0].score > threshold
    if wins or not answers:
        answers.insert(0, Answer("", 0, 0, no_answer, exp(no_answer), no_answer=True))
    return answers[: config.n_best]
