"""Sequence classification: one label per text."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dragoman.data.datasets.labeled import LabeledDataset, Labels, read_labeled_splits
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification_metrics import classification_scores
from dragoman.inference.classifier import Classifier
from dragoman.models.task_heads import build_sequence_head
from dragoman.tasks.config import ClassificationConfig
from dragoman.tasks.head_task import Encoder, HeadTask, label_notes
from dragoman.tasks.task import TaskDescription
from dragoman.training.losses import classification_loss

_DESCRIPTION = TaskDescription(
    noun="text classifier",
    loss_unit="texts",
    unit="texts",
    command="dragoman classify RUN --input FILE",
    python_usage='classify(["…"])',
)


def classification_task(experiment: ClassificationConfig) -> HeadTask[Any, Any]:
    """Return the task with head, loss and metrics of sequence classification."""
    data, limit = experiment.data, experiment.data.max_length

    def tokenize(
        examples: Sequence[LabeledText], tokenizer: Tokenizer, labels: Labels, encode: Encoder | None
    ) -> LabeledDataset:
        encode = encode or tokenizer.source.encode_batch
        return LabeledDataset.build(examples, encode, labels=labels, max_length=limit)

    def score(classifier: Classifier, examples: Sequence[LabeledText]) -> list[Score]:
        predicted = classifier.classify([one.text for one in examples])
        return classification_scores([one.label for one in predicted], [one.label for one in examples])

    return HeadTask(
        experiment=experiment,
        description=_DESCRIPTION,
        plural="texts",
        metric="accuracy",
        loss_function=classification_loss,
        read=partial(read_labeled_splits, data, seed=experiment.training.seed),
        texts=lambda examples: (one.text for one in examples),
        labels_of=lambda examples: (one.label for one in examples),
        tokenize=tokenize,
        notes=partial(label_notes, examples="texts", units="texts", limit=limit),
        locations=lambda train: train.lines,
        build_head=lambda labels: build_sequence_head(
            experiment.head, d_model=experiment.model.d_model, num_labels=len(labels)
        ),
        build_pipeline=partial(Classifier, max_length=limit),
        score=score,
    )
