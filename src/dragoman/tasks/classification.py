"""From labelled texts to a classifier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Encode, LabeledBatch, LabeledDataset, Labels, read_labeled_splits
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.classifier import BATCH_TOKENS, Classifier
from dragoman.models.model_with_head import ModelWithHead
from dragoman.models.task_heads import build_sequence_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import read_initial_weights
from dragoman.tasks.base import TaskDescription, TrainingSetup, load_weights
from dragoman.tasks.config import ClassificationConfig
from dragoman.tasks.encoder_tasks import (
    ExampleData,
    build_model_with_head,
    load_or_collect_labels,
    check_not_empty,
    load_or_train_tokenizer,
    suppress_length_warnings,
    setup_head_training,
)
from dragoman.tasks.prepared_data import check_unchanged
from dragoman.training.losses import sequence_classification_loss


@final
@dataclass(frozen=True)
class ClassificationTask:
    """Labelled texts, a network with a head for them, and how often it finds the label."""

    experiment: ClassificationConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="text classifier",
            loss_unit="texts",
            unit="texts",
            command="dragoman classify RUN --input FILE",
            python_usage='classify(["…"])',
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> ExampleData[LabeledText, LabeledBatch]:
        experiment, longest = self.experiment, self.experiment.data.max_length
        tell("reading the corpus")
        parts = read_labeled_splits(experiment.data, seed=experiment.training.seed)
        check_unchanged(parts.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = load_or_train_tokenizer(
            experiment.init_from, experiment.tokenizer, folder, lambda: (one.text for one in parts.train), tell=tell
        )
        labels = load_or_collect_labels(folder, (one.label for one in parts.train))
        tell("turning texts into tokens")
        build = partial(LabeledDataset.build, labels=labels, max_length=longest)
        train, valid = (build(part, tokenizer.source.encode_batch) for part in (parts.train, parts.valid))
        check_not_empty(train, valid)
        cut = f"{train.num_truncated:,} texts to learn from have more than {longest:,} tokens; their ends are not read"
        unknown = f"{valid.num_unknown:,} validation texts have a label that is never learnt; they count as wrong"
        return ExampleData(
            what="texts",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=train.lines,
            notes=(*((cut,) if train.num_truncated else ()), *((unknown,) if valid.num_unknown else ())),
            labels=labels,
            weights=weights,
            anew=self._anew(partial(build, parts.train), tokenizer),
        )

    def _anew(
        self, build: Callable[[Encode], LabeledDataset], tokenizer: Tokenizer
    ) -> Callable[[int], LabeledDataset] | None:
        """Under BPE dropout, what is learnt from in each epoch."""
        settings, seed = self.experiment.tokenizer, self.experiment.training.seed
        if not isinstance(settings, BpeConfig) or not settings.dropout:
            return None
        encode = partial(tokenizer.source.encode_with_dropout, probability=settings.dropout)
        return lambda epoch: build(partial(encode, generator=np.random.default_rng([seed, epoch])))

    def setup_training(self, materials: ExampleData[LabeledText, LabeledBatch], *, device: torch.device) -> TrainingSetup[LabeledBatch]:
        tokenizer, labels = materials.tokenizer, materials.labels

        def score(network: nn.Module, examples: Sequence[LabeledText]) -> list[Score]:
            classifier = self._classifier(network, tokenizer, labels, device=device, batch_tokens=BATCH_TOKENS)
            with suppress_length_warnings():
                found = classifier.classify([one.text for one in examples])
            return classification_scores([one.label for one in found], [one.label for one in examples])

        return setup_head_training(
            materials,
            self._build(tokenizer, labels, device=device, weights=materials.weights),
            sequence_classification_loss,
            self.experiment.training,
            score=score,
            deciding="accuracy",
            device=device,
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> ModelWithHead:
        return self._build(folder.read_tokenizer(), Labels.load(folder.labels), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Classifier:
        tokenizer, labels = folder.read_tokenizer(), Labels.load(folder.labels)
        model = load_weights(self._build(tokenizer, labels, device=device), folder)
        return self._classifier(model, tokenizer, labels, device=device, batch_tokens=batch_tokens)

    def _build(
        self,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        device: torch.device,
        weights: Mapping[str, Tensor] | None = None,
    ) -> ModelWithHead:
        config = self.experiment.model
        return build_model_with_head(
            config,
            tokenizer,
            lambda: build_sequence_head(self.experiment.head, size=config.d_model, labels=len(labels)),
            seed=self.experiment.training.seed,
            device=device,
            weights=weights,
        )

    def _classifier(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Classifier:
        longest = self.experiment.data.max_length
        return Classifier(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, longest=longest)
