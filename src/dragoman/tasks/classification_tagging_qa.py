"""Classification (one label per text), tagging (one label per word) and extractive question answering (a span)."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dragoman.data.datasets.labeled import LabeledDataset, read_labeled_splits
from dragoman.data.datasets.qa import QuestionDataset, read_question_splits
from dragoman.data.datasets.tagged import TaggedDataset, read_tagged_splits
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.readers.qa import Question
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.evaluation import Score
from dragoman.evaluation.classification_metrics import classification_scores
from dragoman.evaluation.squad_metrics import span_scores
from dragoman.inference.classifier_and_tagger import Classifier, Tagger
from dragoman.inference.question_answerer import QuestionAnswerer
from dragoman.tasks.config import ClassificationConfig, QuestionAnsweringConfig, TaggingConfig
from dragoman.tasks.head_task import HeadTask
from dragoman.tasks.task import CorpusAdvice, TaskDescription
from dragoman.training.losses import classification_loss, question_answering_loss

LABELS_REMEDY = "Add examples, or start from a masked language model of much more text (init_from)."


def classification_task(experiment: ClassificationConfig) -> HeadTask:
    """Return the task with head, loss and metrics of sequence classification."""
    limit = experiment.data.max_length

    def score(classifier: Classifier, examples: Sequence[LabeledText]) -> list[Score]:
        predicted = classifier.classify([one.text for one in examples])
        return classification_scores([one.label for one in predicted], [one.label for one in examples])

    return HeadTask(
        experiment=experiment,
        description=TaskDescription(
            noun="text classifier",
            loss_unit="texts",
            unit="texts",
            command="dragoman classify RUN --input FILE",
            python_usage='dragoman.load("RUN", dragoman.Classifier).classify(["…"])',
            advice=CorpusAdvice(1_000, "a few hundred texts rarely give a useful classifier", LABELS_REMEDY),
        ),
        plural="texts",
        limit=limit,
        metric="accuracy",
        loss_function=classification_loss,
        read=read_labeled_splits,
        texts=lambda examples: (one.text for one in examples),
        labels_of=lambda examples: (one.label for one in examples),
        tokenize=lambda examples, _, labels, encode: LabeledDataset.build(examples, encode, labels, max_length=limit),
        locations=lambda train: train.lines,
        build_pipeline=partial(Classifier, max_length=limit),
        score=score,
    )


def tagging_task(experiment: TaggingConfig) -> HeadTask:
    """Return the task with head, loss and metrics of tagging."""
    limit = experiment.data.max_length

    def score(tagger: Tagger, examples: Sequence[TaggedSentence]) -> list[Score]:
        predicted = [tag.label for sentence in tagger.tag([one.words for one in examples]) for tag in sentence]
        return classification_scores(predicted, [label for one in examples for label in one.labels])

    return HeadTask(
        experiment=experiment,
        description=TaskDescription(
            noun="tagger",
            loss_unit="words",
            unit="words",
            command="dragoman classify RUN --input FILE",
            python_usage='dragoman.load("RUN", dragoman.Tagger).tag([["…", "…"]])',
            advice=CorpusAdvice(1_000, "a few hundred sentences rarely give a useful tagger", LABELS_REMEDY),
        ),
        plural="sentences",
        limit=limit,
        metric="accuracy",
        loss_function=classification_loss,
        read=read_tagged_splits,
        texts=lambda examples: (" ".join(one.words) for one in examples),
        labels_of=lambda examples: (label for one in examples for label in one.labels),
        tokenize=lambda examples, side, labels, _: TaggedDataset.build(examples, side, labels, max_length=limit),
        locations=lambda train: train.lines,
        build_pipeline=partial(Tagger, max_length=limit),
        score=score,
    )


def question_answering_task(experiment: QuestionAnsweringConfig) -> HeadTask:
    """Return the task with head, loss and metrics of question answering."""
    windows = experiment.data.windows

    def texts(examples: Sequence[Question]) -> Iterator[str]:
        """Yield every context once, then every question."""
        yield from dict.fromkeys(one.context for one in examples)
        yield from (one.question for one in examples)

    def crop(train: QuestionDataset, generator: np.random.Generator) -> QuestionDataset:
        assert windows.training_length is not None
        return train.crop(windows.training_length, generator)

    def build_pipeline(model: Any, side: Any, _: object, **options: Any) -> QuestionAnswerer:
        return QuestionAnswerer(model, side, windows=windows, config=experiment.answers, **options)

    def score(answerer: QuestionAnswerer, examples: Sequence[Question]) -> list[Score]:
        answers = answerer.answer_batch([(one.question, one.context) for one in examples])
        return span_scores([best[0].text for best in answers], [one.accepted_answers for one in examples])

    return HeadTask(
        experiment=experiment,
        description=TaskDescription(
            noun="question answerer",
            loss_unit="windows of text",
            unit="windows",
            command="dragoman answer RUN --question TEXT --context FILE",
            python_usage='dragoman.load("RUN", dragoman.QuestionAnswerer).answer("…?", "…")',
            advice=CorpusAdvice(20_000, "9,000 questions of SQuAD gave an F1 of 14 percent", LABELS_REMEDY),
        ),
        plural="questions",
        limit=windows.max_question_length,
        metric="F1",
        loss_function=question_answering_loss,
        read=read_question_splits,
        texts=texts,
        labels_of=None,
        tokenize=lambda examples, side, *_: QuestionDataset.build(examples, side, windows),
        locations=lambda train: [train.locations[question] for question in train.question_ids],
        build_pipeline=build_pipeline,
        score=score,
        augment=None if windows.training_length is None else crop,
    )
