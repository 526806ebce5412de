"""Extractive questions as ids and batches.

The input is BOS, question, EOS (segment 0), context, EOS (segment 1). A longer context is split into overlapping
windows (Devlin et al., 2019). A window without the whole answer has the answer at position 0, which means no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.array_types import Int, Rows
from dragoman.config import Config
from dragoman.data.batching.example_batches import RaggedExamples, SequenceBatch, to_ragged
from dragoman.data.readers.qa import AnswerSpan, Question, QuestionCorpus, read_questions
from dragoman.data.splits import SplitConfig, Splits, read_splits
from dragoman.data.tokenizers import BOS, EOS, LanguageTokenizer
from dragoman.data.tokenizers.offsets import Span

NUM_SPECIAL = 3
"""BOS, and EOS after the question and after the context, where one separates them."""


class WindowConfig(Config):
    """Windows of question and context."""

    max_length: int = Field(default=384, ge=NUM_SPECIAL + 2)
    """Tokens of a window: question, context and three special tokens."""
    max_question_length: int = Field(default=64, ge=1)
    """Maximum number of tokens of a question; longer questions are truncated."""
    stride: int = Field(default=128, ge=1)
    """Tokens of the context between the starts of two windows."""
    training_length: int | None = Field(default=None, ge=NUM_SPECIAL + 2)
    """Tokens of a window in training, cropped around its answer at random in each epoch; none: `max_length`."""
    separators: int = Field(default=1, ge=1, le=2)
    """EOS between question and context; RoBERTa has two."""

    @property
    def num_special(self) -> int:
        """Special tokens of a window: BOS, the separators, and EOS after the context."""
        return NUM_SPECIAL - 1 + self.separators

    @model_validator(mode="after")
    def _check_training_length(self) -> Self:
        shortest = self.num_special + self.max_question_length + 1
        if self.training_length is not None and not shortest <= self.training_length <= self.max_length:
            raise ValueError(
                f"training_length = {self.training_length} is not between max_question_length + "
                f"{self.num_special + 1} = {shortest} and max_length = {self.max_length}; choose a number between them"
            )
        return self

    @model_validator(mode="after")
    def _check_stride(self) -> Self:
        window_size = self.max_length - self.num_special - self.max_question_length
        if self.stride > window_size:
            raise ValueError(
                f"stride = {self.stride} skips tokens of the context between two windows, which hold "
                f"{max(window_size, 0)} of them with a question of {self.max_question_length}; "
                "lower stride, or raise max_length"
            )
        return self


class QuestionDataConfig(SplitConfig[QuestionCorpus]):
    """Questions of a run; a held-out part consists of whole contexts."""

    windows: WindowConfig = WindowConfig()
    """Windows of question and context."""


def read_question_splits(data: QuestionDataConfig, *, seed: int) -> Splits[Question]:
    """Read all questions; `seed` draws the held-out part. Raises DataError as `read_questions` and `read_splits` do."""

    def content(question: Question) -> str:
        return f"{question.question}\t{question.context}"

    return read_splits(data, read_questions, group=lambda question: question.context, content=content, seed=seed)


class Window(NamedTuple):
    """Question with a part of its context: token `first_token + n` of the context is at `context_start + n`."""

    tokens: list[int]
    context_start: int
    first_token: int

    @property
    def num_context_tokens(self) -> int:
        return len(self.tokens) - self.context_start - 1

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the positions of the tokens `start` to `end` (inclusive) of the context, or (0, 0)."""
        if self.first_token <= start and end < self.first_token + self.num_context_tokens:
            return self.context_start + start - self.first_token, self.context_start + end - self.first_token
        return 0, 0


def make_windows(question: Sequence[int], context: Sequence[int], settings: WindowConfig) -> list[Window]:
    """Return the windows of a context from left to right, at least one; together they hold every token."""
    head = [BOS, *question[: settings.max_question_length], *[EOS] * settings.separators]
    window_size = settings.max_length - len(head) - 1
    last = max(0, len(context) - window_size)
    starts = [*range(0, last, settings.stride), last] if last else [0]
    return [Window([*head, *context[start : start + window_size], EOS], len(head), start) for start in starts]


def answer_tokens(answer: AnswerSpan, spans: Sequence[Span]) -> tuple[int, int] | None:
    """Return the first and the last token of an answer, or None if it has none, such as white space."""
    begin, end = answer.start, answer.start + len(answer.text)
    touched = [place for place, (start, stop) in enumerate(spans) if stop > begin and start < end and stop > start]
    return (touched[0], touched[-1]) if touched else None


@final
@dataclass(frozen=True)
class SpanBatch(SequenceBatch):
    """Padded windows, BOS, question, EOS, context, EOS, with the positions of answers."""

    segments: Int[Tensor, "batch places"]
    """1 for the context and the EOS after it, else 0."""
    starts: Int[Tensor, " batch"]
    """Position of the first token of the answer, or 0."""
    ends: Int[Tensor, " batch"]
    """Position of the last token of the answer, or 0."""


def segment_ids(context_starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 1 from the start of the context to the end of each row, else 0."""
    places = np.arange(int(lengths.max()))
    return ((places >= context_starts[:, None]) & (places < lengths[:, None])).astype(np.int64)


@final
@dataclass(frozen=True)
class QuestionDataset(RaggedExamples):
    """Questions as windows of ids, with the positions of their answers."""

    context_starts: NDArray[np.int64]
    """First position of the context in each window."""
    spans: NDArray[np.int64]
    """First and last position of the answer in each window, or zeros."""
    question_ids: NDArray[np.int64]
    """Index of the question of each window."""
    locations: tuple[str, ...]
    """Location of each question in its corpus."""
    num_truncated: int
    """Number of truncated questions."""

    @classmethod
    def build(cls, questions: Sequence[Question], side: LanguageTokenizer, settings: WindowConfig) -> Self:
        """Encode the questions; the first of several accepted answers is the target."""
        contexts: dict[str, tuple[list[int], list[Span]]] = {}
        question_ids = side.encode_batch([question.question for question in questions])
        windows: list[Window] = []
        answers, owners = [], []
        for owner, (question, ids) in enumerate(zip(questions, question_ids, strict=True)):
            if question.context not in contexts:
                contexts[question.context] = side.encode_with_offsets(question.context)
            context, spans = contexts[question.context]
            answer = answer_tokens(question.answers[0], spans) if question.answers else None
            for window in make_windows(ids, context, settings):
                windows.append(window)
                answers.append((0, 0) if answer is None else window.locate(*answer))
                owners.append(owner)
        return cls(
            tokens=to_ragged([window.tokens for window in windows]),
            context_starts=np.array([window.context_start for window in windows], dtype=np.int64),
            spans=np.array(answers, dtype=np.int64).reshape(-1, 2),
            question_ids=np.array(owners, dtype=np.int64),
            locations=tuple(question.location for question in questions),
            num_truncated=sum(len(ids) > settings.max_question_length for ids in question_ids),
        )

    def crop(self, max_length: int, generator: np.random.Generator) -> Self:
        """Crop the context of each window to a random part that holds the answer: `max_length` tokens at most in all.

        An answer that is longer than the part is lost, as in a window without it.
        """
        first, (starts, ends) = self.context_starts, self.spans.T
        size = max_length - first - 1
        last = np.maximum(self.lengths.astype(np.int64) - max_length, 0)
        latest = np.where(ends > 0, np.minimum(last, starts - first), last)
        earliest = np.where(ends > 0, np.maximum(ends + 1 - first - size, 0), 0)
        skipped = generator.integers(np.minimum(earliest, latest), latest, endpoint=True)
        spans = self.spans - skipped[:, None]
        spans[(ends == 0) | (spans[:, 1] > first + size - 1)] = 0
        rows = zip(self.tokens.rows(0, len(self)), first, first + skipped, size, strict=True)
        cropped = [[*row[:head], *row[start:-1][:count], EOS] for row, head, start, count in rows]
        return replace(self, tokens=to_ragged(cropped), spans=spans)

    def collate(self, rows: Rows) -> SpanBatch:
        """Return the windows of `rows`, padded to the longest of them."""
        lengths = self.lengths[rows].astype(np.int64)
        return SpanBatch(
            **self.pad(rows),
            segments=torch.from_numpy(segment_ids(self.context_starts[rows], lengths)),
            starts=torch.from_numpy(self.spans[rows, 0]),
            ends=torch.from_numpy(self.spans[rows, 1]),
        )
