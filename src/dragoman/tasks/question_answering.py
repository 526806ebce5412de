"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.qa import QuestionDataset, read_question_splits
from dragoman.data.readers.qa import Question
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.squad import span_scores
from dragoman.inference.question_answerer import QuestionAnswerer
from dragoman.models.heads import Head, build_span_head
from dragoman.tasks.base import TaskDescription
from dragoman.tasks.config import QuestionAnsweringConfig
from dragoman.tasks.heads import Encoder
from dragoman.training.losses import question_answering_loss


@final
@dataclass(frozen=True)
class QuestionAnsweringSpec:
    """Head, loss and metric of question answering."""

    experiment: QuestionAnsweringConfig
    plural = "questions"
    has_labels = False
    metric = "F1"
    loss_function = staticmethod(question_answering_loss)
    description = TaskDescription(
        noun="question answerer",
        loss_unit="windows of text",
        unit="windows",
        command="dragoman answer RUN --question TEXT --context FILE",
        python_usage='answer("…?", "…")',
    )

    def read(self) -> Splits[Question]:
        return read_question_splits(self.experiment.data, seed=self.experiment.training.seed)

    def texts(self, examples: Sequence[Question]) -> Iterator[str]:
        """Return every context once, then every question."""
        yield from dict.fromkeys(one.context for one in examples)
        yield from (one.question for one in examples)

    def labels(self, examples: Sequence[Question]) -> Sequence[str]:  # noqa: ARG002
        return ()

    def tokenize(
        self,
        examples: Sequence[Question],
        tokenizer: Tokenizer,
        labels: Labels,  # noqa: ARG002
        *,
        encode: Encoder | None = None,  # noqa: ARG002
    ) -> QuestionDataset:
        return QuestionDataset.build(examples, side=tokenizer.source, settings=self.experiment.data.windows)

    def notes(self, train: QuestionDataset, valid: QuestionDataset) -> Iterator[str]:  # noqa: ARG002
        if train.num_truncated:
            limit = self.experiment.data.windows.max_question_length
            yield f"{train.num_truncated:,} training questions are truncated to {limit:,} tokens"

    def locations(self, train: QuestionDataset) -> Sequence[object]:
        return [train.locations[question] for question in train.question_ids]

    def build_head(self, labels: Labels) -> Head:  # noqa: ARG002
        return build_span_head(self.experiment.head, d_model=self.experiment.model.d_model)

    def build_pipeline(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        labels: Labels,  # noqa: ARG002
        *,
        device: torch.device,
        batch_tokens: int,
    ) -> QuestionAnswerer:
        return QuestionAnswerer(
            model,
            tokenizer.source,
            device=device,
            batch_tokens=batch_tokens,
            windows=self.experiment.data.windows,
            config=self.experiment.answers,
        )

    def score(self, pipeline: Any, examples: Sequence[Question]) -> list[Score]:
        answers = pipeline.answer_batch([(one.question, one.context) for one in examples])
        return span_scores([best[0].text for best in answers], [one.accepted_answers for one in examples])
