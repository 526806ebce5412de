"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.qa import QuestionDataset, read_question_splits
from dragoman.data.readers.qa import Question
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.squad_metrics import span_scores
from dragoman.inference.question_answerer import QuestionAnswerer
from dragoman.models.task_heads import build_span_head
from dragoman.tasks.config import QuestionAnsweringConfig
from dragoman.tasks.head_task import HeadTask
from dragoman.tasks.task import TaskDescription
from dragoman.training.losses import question_answering_loss

_DESCRIPTION = TaskDescription(
    noun="question answerer",
    loss_unit="windows of text",
    unit="windows",
    command="dragoman answer RUN --question TEXT --context FILE",
    python_usage='answer("…?", "…")',
)


def question_answering_task(experiment: QuestionAnsweringConfig) -> HeadTask[Any, Any]:
    """Return the task with head, loss and metrics of question answering."""
    windows = experiment.data.windows

    def texts(examples: Sequence[Question]) -> Iterator[str]:
        """Yield every context once, then every question."""
        yield from dict.fromkeys(one.context for one in examples)
        yield from (one.question for one in examples)

    def tokenize(examples: Sequence[Question], tokenizer: Tokenizer, _: Labels, __: object) -> QuestionDataset:
        return QuestionDataset.build(examples, side=tokenizer.source, settings=windows)

    def notes(train: QuestionDataset, _: QuestionDataset) -> Iterator[str]:
        if train.num_truncated:
            limit = windows.max_question_length
            yield f"{train.num_truncated:,} training questions are truncated to {limit:,} tokens"

    def build_pipeline(model: nn.Module, side: LanguageTokenizer, _: Labels, **options: Any) -> QuestionAnswerer:
        return QuestionAnswerer(model, side, windows=windows, config=experiment.answers, **options)

    def score(answerer: QuestionAnswerer, examples: Sequence[Question]) -> list[Score]:
        answers = answerer.answer_batch([(one.question, one.context) for one in examples])
        return span_scores([best[0].text for best in answers], [one.accepted_answers for one in examples])

    return HeadTask(
        experiment=experiment,
        description=_DESCRIPTION,
        plural="questions",
        metric="F1",
        loss_function=question_answering_loss,
        read=partial(read_question_splits, experiment.data, seed=experiment.training.seed),
        texts=texts,
        labels_of=None,
        tokenize=tokenize,
        notes=notes,
        locations=lambda train: [train.locations[question] for question in train.question_ids],
        build_head=lambda _: build_span_head(experiment.head, d_model=experiment.model.d_model),
        build_pipeline=build_pipeline,
        score=score,
    )
