"""Sequence classification: one label per text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from dragoman.data.datasets.labeled import LabeledDataset, Labels, read_labeled_splits
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.classifier import Classifier
from dragoman.models.heads import Head, build_sequence_head
from dragoman.tasks.base import TaskDescription
from dragoman.tasks.config import ClassificationConfig
from dragoman.tasks.heads import Encoder
from dragoman.training.losses import classification_loss


@final
@dataclass(frozen=True)
class ClassificationSpec:
    """Head, loss and metric of sequence classification."""

    experiment: ClassificationConfig
    plural = "texts"
    has_labels = True
    metric = "accuracy"
    loss_function = staticmethod(classification_loss)
    description = TaskDescription(
        noun="text classifier",
        loss_unit="texts",
        unit="texts",
        command="dragoman classify RUN --input FILE",
        python_usage='classify(["…"])',
    )

    def read(self) -> Splits[LabeledText]:
        return read_labeled_splits(self.experiment.data, seed=self.experiment.training.seed)

    def texts(self, examples: Sequence[LabeledText]) -> Iterator[str]:
        return (one.text for one in examples)

    def labels(self, examples: Sequence[LabeledText]) -> Iterable[str]:
        return (one.label for one in examples)

    def tokenize(
        self, examples: Sequence[LabeledText], tokenizer: Tokenizer, labels: Labels, *, encode: Encoder | None = None
    ) -> LabeledDataset:
        return LabeledDataset.build(
            examples, encode or tokenizer.source.encode_batch, labels=labels, max_length=self.experiment.data.max_length
        )

    def notes(self, train: LabeledDataset, valid: LabeledDataset) -> Iterator[str]:
        if train.num_truncated:
            limit = self.experiment.data.max_length
            yield f"{train.num_truncated:,} training texts are truncated to {limit:,} tokens"
        if valid.num_unknown:
            yield f"{valid.num_unknown:,} validation texts have a label without training examples and count as errors"

    def locations(self, train: LabeledDataset) -> Sequence[object]:
        return train.lines

    def build_head(self, labels: Labels) -> Head:
        return build_sequence_head(self.experiment.head, d_model=self.experiment.model.d_model, num_labels=len(labels))

    def build_pipeline(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Classifier:
        longest = self.experiment.data.max_length
        return Classifier(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, max_length=longest)

    def score(self, pipeline: Any, examples: Sequence[LabeledText]) -> list[Score]:
        predicted = pipeline.classify([one.text for one in examples])
        return classification_scores([one.label for one in predicted], [one.label for one in examples])
