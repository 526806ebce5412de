"""Questions and contexts in, answers cut from the contexts out: the way of a trained answerer's user."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import NamedTuple, final

import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from dragoman.config import Config
from dragoman.data.datasets.qa import Window, WindowSettings, segments_of, windows
from dragoman.data.tokenizers import Side
from dragoman.data.tokenizers.offsets import Span
from dragoman.errors import ConfigError
from dragoman.inference.answer_spans import Found, best_spans
from dragoman.inference.inference_mode import in_use
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.length_warnings import warn
from dragoman.inference.padding import rectangle
from dragoman.models.task_heads import SpanLogits

BATCH_TOKENS = 4096
STREAM_CHUNK = 256
"""Questions of a stream that are sorted and batched together."""


class AnswerSettings(Config):
    """What is taken for an answer."""

    best: PositiveInt = Field(1, description="how many answers are given, the best first")
    longest_answer: PositiveInt = Field(30, description="tokens of an answer at most")
    threshold: float | None = Field(
        None,
        description="no answer is given where its log-probability is greater than that of the best answer by more than "
        "this; none: there is always an answer",
    )


DEFAULTS = AnswerSettings()


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of a context, `context[start:end]`, or the finding that the answer is not there.

    `score` is the log-probability of its first and of its last token together, `probability` what that amounts to, in
    the window where the answer was found.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float
    no_answer: bool


class _Context(NamedTuple):
    """A context as ids, with the span of the text that each stands for."""

    text: str
    ids: list[int]
    spans: list[Span]

    def visible(self, window: Window) -> list[bool]:
        """Of each token of the context in a window, whether it is more than white space."""
        spans = self.spans[window.first : window.first + window.held]
        return [bool(self.text[start:end].strip()) for start, end in spans]


class _Read(NamedTuple):
    """What a network found in one window: the best spans by tokens of the context, and the score of no answer."""

    spans: list[Found]
    nothing: float


@final
class Answerer:
    """A network with a head for spans, and its tokenizer, for use.

    What is found for a question does not depend on the questions beside it.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor, Tensor], SpanLogits],
        side: Side,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        layout: WindowSettings | None = None,
        settings: AnswerSettings = DEFAULTS,
    ) -> None:
        """The model, a `Headed`, is on `device` already; `layout` is how it was trained to read.

        `settings` hold where a call gives none. Raises ConfigError where the network knows fewer places than a window.
        """
        self.layout = layout or WindowSettings()
        places: int | None = getattr(model, "maximum_length", None)
        if places is not None and self.layout.longest > places:
            raise ConfigError(
                f"windows.longest = {self.layout.longest}: the network knows {places} places only; lower it"
            )
        self.model = model
        self.side = side
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.settings = settings

    def answer(self, question: str, context: str, settings: AnswerSettings | None = None) -> Answer:
        """The best answer to one question."""
        return self.answers([(question, context)], settings)[0][0]

    def answers(
        self, asked: Sequence[tuple[str, str]], settings: AnswerSettings | None = None, *, first_line: int = 1
    ) -> list[list[Answer]]:
        """The `settings.best` best answers to each question about its context, best first, one at least.

        Where there must be an answer and the context is blank, there is none all the same. A question that is too long
        is read from its beginning, with a `ReadingWarning`; lines are numbered from `first_line`.
        """
        chosen = settings or self.settings
        questions = self.side.encode_batch([question for question, _ in asked])
        for number, ids in enumerate(questions, start=first_line):
            if len(ids) > self.layout.longest_question:
                warn(
                    f"line {number}: the question has {len(ids)} tokens, more than the {self.layout.longest_question} "
                    "that are read; its end has no part in the answer"
                )
        different = dict.fromkeys(context for _, context in asked)
        encoded = {context: _Context(context, *self.side.encode_with_offsets(context)) for context in different}
        contexts = [encoded[context] for _, context in asked]
        laid = [windows(ids, context.ids, self.layout) for ids, context in zip(questions, contexts, strict=True)]
        pairs = [(window, context) for some, context in zip(laid, contexts, strict=True) for window in some]
        read = iter(self._read(pairs, chosen))
        return [
            _ranked([next(read) for _ in some], context, chosen) for some, context in zip(laid, contexts, strict=True)
        ]

    def stream(
        self, asked: Iterable[tuple[str, str]], settings: AnswerSettings | None = None, *, chunk: int = STREAM_CHUNK
    ) -> Iterator[list[Answer]]:
        """What `answers` returns, for any number of questions in the memory of `chunk` of them."""
        iterator, first_line = iter(asked), 1
        while some := list(islice(iterator, chunk)):
            yield from self.answers(some, settings, first_line=first_line)
            first_line += len(some)

    def _read(self, laid: Sequence[tuple[Window, _Context]], settings: AnswerSettings) -> list[_Read]:
        results: dict[int, _Read] = {}
        with in_use(self.model):
            for batch in batches_by_length([len(window.tokens) for window, _ in laid], budget=self.batch_tokens):
                results |= dict(zip(batch, self._read_batch([laid[row] for row in batch], settings), strict=True))
        return [results[row] for row in range(len(laid))]

    def _read_batch(self, batch: Sequence[tuple[Window, _Context]], settings: AnswerSettings) -> list[_Read]:
        tokens, lengths = rectangle([window.tokens for window, _ in batch], device=self.device)
        begins = np.array([window.begin for window, _ in batch])
        sizes = np.array([len(window.tokens) for window, _ in batch])
        segments = torch.from_numpy(segments_of(begins, sizes)).to(self.device)
        logits = self.model(tokens, lengths, segments)
        starts, ends = (side.cpu().double().log_softmax(dim=-1) for side in logits)
        allowed = torch.zeros(tokens.shape, dtype=torch.bool)
        for row, (window, context) in enumerate(batch):
            allowed[row, window.begin : window.begin + window.held] = torch.tensor(context.visible(window))
        found = best_spans(starts, ends, allowed, longest=settings.longest_answer, count=settings.best)
        nothing = (starts[:, 0] + ends[:, 0]).tolist()
        return [
            _Read([_in_context(span, window) for span in spans], score)
            for spans, (window, _), score in zip(found, batch, nothing, strict=True)
        ]


def _in_context(span: Found, window: Window) -> Found:
    """The span by tokens of the whole context."""
    shift = window.first - window.begin
    return Found(span.start + shift, span.end + shift, span.score)


def _ranked(read: Sequence[_Read], context: _Context, settings: AnswerSettings) -> list[Answer]:
    """The best answers over all windows of a context; what two windows found counts once, as the surer of them has it.

    The score of no answer is that of the window which believes in it least.
    """
    scores: dict[Span, float] = {}
    for window in read:
        for found in window.spans:
            span = context.spans[found.start][0], context.spans[found.end][1]
            scores[span] = max(found.score, scores.get(span, found.score))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    answers = [Answer(context.text[slice(*span)], *span, score, exp(score), no_answer=False) for span, score in ranked]
    nothing = min(window.nothing for window in read)
    wins = settings.threshold is not None and bool(answers) and nothing - answers[0].score > settings.threshold
    if wins or not answers:
        answers.insert(0, Answer("", 0, 0, nothing, exp(nothing), no_answer=True))
    return answers[: settings.best]
