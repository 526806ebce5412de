"""From sentences with a label for every word to a tagger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TaggedBatch, TaggedDataset, read_tagged_splits
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.tagger import BATCH_TOKENS, Tagger
from dragoman.models.model_with_head import ModelWithHead
from dragoman.models.task_heads import build_token_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import read_initial_weights
from dragoman.tasks.base import TaskDescription, TrainingSetup, load_weights
from dragoman.tasks.config import TaggingConfig
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
from dragoman.training.losses import token_classification_loss


@final
@dataclass(frozen=True)
class TaggingTask:
    """Sentences, a network with a head for their words, and how often it finds the label of a word."""

    experiment: TaggingConfig

    @property
    def description(self) -> TaskDescription:
        return TaskDescription(
            noun="tagger",
            loss_unit="words",
            unit="words",
            command="dragoman classify RUN --input FILE",
            python_usage='tag([["…", "…"]])',
        )

    def prepare_data(self, folder: RunFolder, *, tell: Callable[[str], None]) -> ExampleData[TaggedSentence, TaggedBatch]:
        experiment, longest = self.experiment, self.experiment.data.max_length
        tell("reading the corpus")
        parts = read_tagged_splits(experiment.data, seed=experiment.training.seed)
        check_unchanged(parts.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = load_or_train_tokenizer(
            experiment.init_from,
            experiment.tokenizer,
            folder,
            lambda: map(" ".join, (one.words for one in parts.train)),
            tell=tell,
        )
        labels = load_or_collect_labels(folder, (label for one in parts.train for label in one.labels))
        tell("turning texts into tokens")
        encode = partial(TaggedDataset.build, side=tokenizer.source, labels=labels, max_length=longest)
        train, valid = encode(parts.train), encode(parts.valid)
        check_not_empty(train, valid)
        cut = f"{train.num_truncated:,} sentences to learn from have more than {longest:,} tokens; their ends are not read"
        unknown = f"{valid.num_unknown:,} validation words have a label that is never learnt; they count as wrong"
        return ExampleData(
            what="sentences",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=train.lines,
            notes=(*((cut,) if train.num_truncated else ()), *((unknown,) if valid.num_unknown else ())),
            labels=labels,
            weights=weights,
        )

    def setup_training(self, materials: ExampleData[TaggedSentence, TaggedBatch], *, device: torch.device) -> TrainingSetup[TaggedBatch]:
        tokenizer, labels = materials.tokenizer, materials.labels

        def score(network: nn.Module, examples: Sequence[TaggedSentence]) -> list[Score]:
            tagger = self._tagger(network, tokenizer, labels, device=device, batch_tokens=BATCH_TOKENS)
            with suppress_length_warnings():
                found = tagger.tag([one.words for one in examples])
            predicted = [tag.label for sentence in found for tag in sentence]
            return classification_scores(predicted, [label for one in examples for label in one.labels])

        return setup_head_training(
            materials,
            self._build(tokenizer, labels, device=device, weights=materials.weights),
            token_classification_loss,
            self.experiment.training,
            score=score,
            deciding="accuracy",
            device=device,
        )

    def build_model(self, folder: RunFolder, *, device: torch.device) -> ModelWithHead:
        return self._build(folder.read_tokenizer(), Labels.load(folder.labels), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Tagger:
        tokenizer, labels = folder.read_tokenizer(), Labels.load(folder.labels)
        model = load_weights(self._build(tokenizer, labels, device=device), folder)
        return self._tagger(model, tokenizer, labels, device=device, batch_tokens=batch_tokens)

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
            lambda: build_token_head(self.experiment.head, size=config.d_model, labels=len(labels)),
            seed=self.experiment.training.seed,
            device=device,
            weights=weights,
        )

    def _tagger(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Tagger:
        longest = self.experiment.data.max_length
        return Tagger(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, longest=longest)
