"""Token classification (tagging): one label per word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TaggedDataset, read_tagged_splits
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.tagger import Tagger
from dragoman.models.heads import Head, build_token_head
from dragoman.tasks.base import TaskDescription
from dragoman.tasks.config import TaggingConfig
from dragoman.tasks.heads import Encoder
from dragoman.training.losses import classification_loss


@final
@dataclass(frozen=True)
class TaggingSpec:
    """Head, loss and metric of tagging."""

    experiment: TaggingConfig
    plural = "sentences"
    has_labels = True
    metric = "accuracy"
    loss_function = staticmethod(classification_loss)
    description = TaskDescription(
        noun="tagger",
        loss_unit="words",
        unit="words",
        command="dragoman classify RUN --input FILE",
        python_usage='tag([["…", "…"]])',
    )

    def read(self) -> Splits[TaggedSentence]:
        return read_tagged_splits(self.experiment.data, seed=self.experiment.training.seed)

    def texts(self, examples: Sequence[TaggedSentence]) -> Iterator[str]:
        return (" ".join(one.words) for one in examples)

    def labels(self, examples: Sequence[TaggedSentence]) -> Iterator[str]:
        return (label for one in examples for label in one.labels)

    def tokenize(
        self,
        examples: Sequence[TaggedSentence],
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        encode: Encoder | None = None,  # noqa: ARG002
    ) -> TaggedDataset:
        limit = self.experiment.data.max_length
        return TaggedDataset.build(examples, side=tokenizer.source, labels=labels, max_length=limit)

    def notes(self, train: TaggedDataset, valid: TaggedDataset) -> Iterator[str]:
        if train.num_truncated:
            limit = self.experiment.data.max_length
            yield f"{train.num_truncated:,} training sentences are truncated to {limit:,} tokens"
        if valid.num_unknown:
            yield f"{valid.num_unknown:,} validation words have a label without training examples and count as errors"

    def locations(self, train: TaggedDataset) -> Sequence[object]:
        return train.lines

    def build_head(self, labels: Labels) -> Head:
        return build_token_head(self.experiment.head, d_model=self.experiment.model.d_model, num_labels=len(labels))

    def build_pipeline(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Tagger:
        longest = self.experiment.data.max_length
        return Tagger(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, max_length=longest)

    def score(self, pipeline: Any, examples: Sequence[TaggedSentence]) -> list[Score]:
        tagged = pipeline.tag([one.words for one in examples])
        predicted = [tag.label for sentence in tagged for tag in sentence]
        return classification_scores(predicted, [label for one in examples for label in one.labels])
