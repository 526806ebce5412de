"""From questions about a text to ids and batches.

Question and context are read side by side: BEGIN, the question, END (segment 0), the context, END (segment 1). A
context too long for that is read in windows that overlap (Devlin et al., 2019); a window that does not hold the whole
answer has it at place 0, which means: not here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batching.epochs import Rows
from dragoman.data.batching.in_memory import pad_batch, to_ragged
from dragoman.data.batching.token_batches import LengthArray
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.data.readers.qa import AnswerSpan, Question, QuestionCorpus, SkippedAnswers, read_questions
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.data.splits import SplitKeys, Splits, read_splits
from dragoman.data.tokenizers import BOS, EOS, PAD, LanguageTokenizer
from dragoman.data.tokenizers.offsets import Span
from dragoman.typing import Int, Lengths

NUM_SPECIAL = 3
"""BEGIN, and END after the question and after the context."""


class WindowConfig(Config):
    """How a question and a context are laid side by side."""

    max_length: int = Field(384, ge=NUM_SPECIAL + 2)
    """Tokens of a window: question, context and three symbols."""

    max_question_length: int = Field(64, ge=1)
    """Tokens of a question above which its end is left out."""

    stride: int = Field(128, ge=1)
    """Tokens of the context from the beginning of a window to that of the next."""

    @model_validator(mode="after")
    def _nothing_between(self) -> Self:
        room = self.max_length - NUM_SPECIAL - self.max_question_length
        if self.stride > room:
            raise ValueError(
                f"stride = {self.stride} leaves tokens of the context out between two windows, which hold "
                f"{max(room, 0)} of them beside a question of {self.max_question_length}; lower it, or raise longest"
            )
        return self


class QuestionDataConfig(Config):
    """The questions of a run."""

    train: QuestionCorpus
    """What is learnt from."""

    valid: QuestionCorpus | None = None
    """What training is watched and chosen by; without it a part of `train` is held out, whole contexts."""

    valid_size: int | None = Field(None, ge=1)
    """Different contexts of `train` that are held out where `valid` is not given; by default 5 %, at most 2,000."""

    test: QuestionCorpus | None = None
    """What is scored at the end."""

    remove_leaks: bool = True
    """Remove training questions that stand, with their context, in the validation or test text; they are reported in
    any case."""

    windows: WindowConfig = WindowConfig()
    """How question and context are read together."""

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        return self


def read_question_splits(data: QuestionDataConfig, *, seed: int) -> Splits[Question]:
    """All questions, in parts; `seed` draws what is held out. Raises DataError as `read_questions` and `read_parts`."""
    skipped = SkippedAnswers()

    def read(corpus: QuestionCorpus, repairs: ReadWarnings) -> list[Question]:
        return list(read_questions(corpus, repairs, skipped))

    keys = SplitKeys[Question](group=lambda one: one.context, content=lambda one: f"{one.question}\t{one.context}")
    parts = read_splits(data, read, keys, seed=seed)
    return Splits(parts.train, parts.valid, parts.test, (*parts.notes, *skipped.messages()), parts.fingerprints)


class Window(NamedTuple):
    """A question with a part of its context: the token `first + n` of the context stands at place `begin + n`."""

    tokens: list[int]
    context_start: int
    first_token: int

    @property
    def num_context_tokens(self) -> int:
        """How many tokens of the context it holds."""
        return len(self.tokens) - self.context_start - 1

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Where the tokens `start` to `end` (the last) of the context stand; (0, 0) where not both are here."""
        if self.first_token <= start and end < self.first_token + self.num_context_tokens:
            return self.context_start + start - self.first_token, self.context_start + end - self.first_token
        return 0, 0


def make_windows(question: Sequence[int], context: Sequence[int], settings: WindowConfig) -> list[Window]:
    """The windows of a context, from the left to the right; together they hold every token, and there is always one."""
    head = [BOS, *question[: settings.max_question_length], EOS]
    room = settings.max_length - len(head) - 1
    last = max(0, len(context) - room)
    firsts = [*range(0, last, settings.stride), last] if last else [0]
    return [Window([*head, *context[first : first + room], EOS], len(head), first) for first in firsts]


def answer_tokens(answer: AnswerSpan, spans: Sequence[Span]) -> tuple[int, int] | None:
    """The first and the last token that an answer touches; None where it touches none, as white space does."""
    begin, end = answer.start, answer.start + len(answer.text)
    touched = [place for place, (start, stop) in enumerate(spans) if stop > begin and start < end and stop > start]
    return (touched[0], touched[-1]) if touched else None


@final
@dataclass(frozen=True)
class SpanBatch:
    """Windows side by side."""

    tokens: Int[Tensor, "batch places"]
    """BEGIN, question, END, context, END, padded with PAD."""
    lengths: Lengths
    """Tokens of each window, symbols included."""
    segments: Int[Tensor, "batch places"]
    """1 at the context and the END after it, else 0."""
    starts: Int[Tensor, " batch"]
    """The place of the first token of the answer, or 0."""
    ends: Int[Tensor, " batch"]
    """The place of its last token, or 0."""
    rows: Rows
    """The index of each window among all."""

    def __len__(self) -> int:
        """Windows."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """Spans to be predicted: what a loss is the mean over."""
        return len(self.rows)

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        return type(self)(
            tokens=self.tokens.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            segments=self.segments.to(device, non_blocking=True),
            starts=self.starts.to(device, non_blocking=True),
            ends=self.ends.to(device, non_blocking=True),
            rows=self.rows,
        )


def segment_ids(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 from the place where the context begins to the end of the row, else 0."""
    places = np.arange(int(lengths.max()))
    return ((places >= begins[:, None]) & (places < lengths[:, None])).astype(np.int64)


@final
@dataclass(frozen=True)
class QuestionDataset:
    """Questions as windows of ids, with the places of their answers."""

    tokens: RaggedArray
    context_starts: NDArray[np.int64]
    """The place where the context begins, of each window."""
    spans: NDArray[np.int64]
    """First and last place of the answer, of each window; zeros where it is not there."""
    question_ids: NDArray[np.int64]
    """Which question each window belongs to."""
    locations: tuple[str, ...]
    """Where each question stands in its corpus."""
    num_truncated: int
    """Questions whose end was left out."""

    @classmethod
    def build(cls, questions: Sequence[Question], side: LanguageTokenizer, settings: WindowConfig) -> Self:
        """Encode; of several accepted answers the first is the one to be found."""
        contexts: dict[str, tuple[list[int], list[Span]]] = {}
        asked = side.encode_batch([one.question for one in questions])
        found: list[Window] = []
        answers, owners = [], []
        for owner, (question, ids) in enumerate(zip(questions, asked, strict=True)):
            if question.context not in contexts:
                contexts[question.context] = side.encode_with_offsets(question.context)
            context, spans = contexts[question.context]
            answer = answer_tokens(question.answers[0], spans) if question.answers else None
            for window in make_windows(ids, context, settings):
                found.append(window)
                answers.append((0, 0) if answer is None else window.locate(*answer))
                owners.append(owner)
        return cls(
            tokens=to_ragged([window.tokens for window in found]),
            context_starts=np.array([window.context_start for window in found], dtype=np.int64),
            spans=np.array(answers, dtype=np.int64).reshape(-1, 2),
            question_ids=np.array(owners, dtype=np.int64),
            locations=tuple(question.location for question in questions),
            num_truncated=sum(len(ids) > settings.max_question_length for ids in asked),
        )

    def __len__(self) -> int:
        return len(self.question_ids)

    @property
    def lengths(self) -> LengthArray:
        """Tokens of each window, symbols included."""
        return self.tokens.lengths

    def collate(self, rows: Rows) -> SpanBatch:
        """The windows of `rows`, padded to the longest among them."""
        lengths = self.lengths[rows].astype(np.int64)
        return SpanBatch(
            tokens=torch.from_numpy(pad_batch(self.tokens, rows, padding=PAD)),
            lengths=torch.from_numpy(lengths),
            segments=torch.from_numpy(segment_ids(self.context_starts[rows], lengths)),
            starts=torch.from_numpy(self.spans[rows, 0]),
            ends=torch.from_numpy(self.spans[rows, 1]),
            rows=rows,
        )
