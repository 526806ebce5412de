"""From labelled texts to a classifier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Encode, LabelBatch, LabelledIds, Labels, read_labelled_parts
from dragoman.data.readers.labeled import Labelled
from dragoman.data.tokenizers import Bpe, Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.classifier import BATCH_TOKENS, Classifier
from dragoman.models.model_with_head import Headed
from dragoman.models.task_heads import build_sequence_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import weights_to_begin_with
from dragoman.tasks.base import Description, Work, with_weights
from dragoman.tasks.config import Classification
from dragoman.tasks.encoder_tasks import (
    Examples,
    build_reader,
    own_labels,
    require_examples,
    tokenizer_of,
    without_warnings,
    work_on,
)
from dragoman.tasks.prepared_data import check_same
from dragoman.training.classification_losses import sequence_labels


@final
@dataclass(frozen=True)
class ClassificationTask:
    """Labelled texts, a network with a head for them, and how often it finds the label."""

    experiment: Classification

    @property
    def description(self) -> Description:
        return Description(
            noun="text classifier",
            counted="texts",
            unit="texts",
            command="dragoman classify RUN --input FILE",
            python='classify(["…"])',
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Examples[Labelled, LabelBatch]:
        experiment, longest = self.experiment, self.experiment.data.longest
        tell("reading the corpus")
        parts = read_labelled_parts(experiment.data, seed=experiment.training.seed)
        check_same(parts.fingerprints, folder)
        weights = weights_to_begin_with(experiment.start, experiment.model, folder)
        tokenizer = tokenizer_of(
            experiment.start, experiment.tokenizer, folder, lambda: (one.text for one in parts.train), tell=tell
        )
        labels = own_labels(folder, (one.label for one in parts.train))
        tell("turning texts into tokens")
        build = partial(LabelledIds.build, labels=labels, longest=longest)
        train, valid = (build(part, tokenizer.source.encode_batch) for part in (parts.train, parts.valid))
        require_examples(train, valid)
        cut = f"{train.cut:,} texts to learn from have more than {longest:,} tokens; their ends are not read"
        unknown = f"{valid.unknown:,} validation texts have a label that is never learnt; they count as wrong"
        return Examples(
            what="texts",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=train.lines,
            notes=(*((cut,) if train.cut else ()), *((unknown,) if valid.unknown else ())),
            labels=labels,
            weights=weights,
            anew=self._anew(partial(build, parts.train), tokenizer),
        )

    def _anew(
        self, build: Callable[[Encode], LabelledIds], tokenizer: Tokenizer
    ) -> Callable[[int], LabelledIds] | None:
        """Under BPE dropout, what is learnt from in each epoch."""
        settings, seed = self.experiment.tokenizer, self.experiment.training.seed
        if not isinstance(settings, Bpe) or not settings.dropout:
            return None
        encode = partial(tokenizer.source.encode_with_dropout, probability=settings.dropout)
        return lambda epoch: build(partial(encode, generator=np.random.default_rng([seed, epoch])))

    def work(self, materials: Examples[Labelled, LabelBatch], *, device: torch.device) -> Work[LabelBatch]:
        tokenizer, labels = materials.tokenizer, materials.labels

        def score(network: nn.Module, examples: Sequence[Labelled]) -> list[Score]:
            classifier = self._classifier(network, tokenizer, labels, device=device, batch_tokens=BATCH_TOKENS)
            with without_warnings():
                found = classifier.classify([one.text for one in examples])
            return classification_scores([one.label for one in found], [one.label for one in examples])

        return work_on(
            materials,
            self._build(tokenizer, labels, device=device, weights=materials.weights),
            sequence_labels,
            self.experiment.training,
            score=score,
            deciding="accuracy",
            device=device,
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> Headed:
        return self._build(folder.read_tokenizer(), Labels.load(folder.labels), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Classifier:
        tokenizer, labels = folder.read_tokenizer(), Labels.load(folder.labels)
        model = with_weights(self._build(tokenizer, labels, device=device), folder)
        return self._classifier(model, tokenizer, labels, device=device, batch_tokens=batch_tokens)

    def _build(
        self,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        device: torch.device,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Headed:
        config = self.experiment.model
        return build_reader(
            config,
            tokenizer,
            lambda: build_sequence_head(self.experiment.head, size=config.size, labels=len(labels)),
            seed=self.experiment.training.seed,
            device=device,
            weights=weights,
        )

    def _classifier(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Classifier:
        longest = self.experiment.data.longest
        return Classifier(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, longest=longest)
