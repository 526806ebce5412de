"""From sentences with a label for every word to a tagger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import TagBatch, TaggedIds, read_tagged_parts
from dragoman.data.readers.tagged import Tagged
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.evaluation.classification import classification_scores
from dragoman.inference.tagger import BATCH_TOKENS, Tagger
from dragoman.models.model_with_head import Headed
from dragoman.models.task_heads import build_token_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import weights_to_begin_with
from dragoman.tasks.base import Description, Work, with_weights
from dragoman.tasks.config import Tagging
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
from dragoman.training.classification_losses import token_labels


@final
@dataclass(frozen=True)
class TaggingTask:
    """Sentences, a network with a head for their words, and how often it finds the label of a word."""

    experiment: Tagging

    @property
    def description(self) -> Description:
        return Description(
            noun="tagger",
            counted="words",
            unit="words",
            command="dragoman classify RUN --input FILE",
            python='tag([["…", "…"]])',
        )

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Examples[Tagged, TagBatch]:
        experiment, longest = self.experiment, self.experiment.data.longest
        tell("reading the corpus")
        parts = read_tagged_parts(experiment.data, seed=experiment.training.seed)
        check_same(parts.fingerprints, folder)
        weights = weights_to_begin_with(experiment.start, experiment.model, folder)
        tokenizer = tokenizer_of(
            experiment.start,
            experiment.tokenizer,
            folder,
            lambda: map(" ".join, (one.words for one in parts.train)),
            tell=tell,
        )
        labels = own_labels(folder, (label for one in parts.train for label in one.labels))
        tell("turning texts into tokens")
        encode = partial(TaggedIds.build, side=tokenizer.source, labels=labels, longest=longest)
        train, valid = encode(parts.train), encode(parts.valid)
        require_examples(train, valid)
        cut = f"{train.cut:,} sentences to learn from have more than {longest:,} tokens; their ends are not read"
        unknown = f"{valid.unknown:,} validation words have a label that is never learnt; they count as wrong"
        return Examples(
            what="sentences",
            parts=parts,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            places=train.lines,
            notes=(*((cut,) if train.cut else ()), *((unknown,) if valid.unknown else ())),
            labels=labels,
            weights=weights,
        )

    def work(self, materials: Examples[Tagged, TagBatch], *, device: torch.device) -> Work[TagBatch]:
        tokenizer, labels = materials.tokenizer, materials.labels

        def score(network: nn.Module, examples: Sequence[Tagged]) -> list[Score]:
            tagger = self._tagger(network, tokenizer, labels, device=device, batch_tokens=BATCH_TOKENS)
            with without_warnings():
                found = tagger.tag([one.words for one in examples])
            predicted = [tag.label for sentence in found for tag in sentence]
            return classification_scores(predicted, [label for one in examples for label in one.labels])

        return work_on(
            materials,
            self._build(tokenizer, labels, device=device, weights=materials.weights),
            token_labels,
            self.experiment.training,
            score=score,
            deciding="accuracy",
            device=device,
        )

    def network(self, folder: RunFolder, *, device: torch.device) -> Headed:
        return self._build(folder.read_tokenizer(), Labels.load(folder.labels), device=device)

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Tagger:
        tokenizer, labels = folder.read_tokenizer(), Labels.load(folder.labels)
        model = with_weights(self._build(tokenizer, labels, device=device), folder)
        return self._tagger(model, tokenizer, labels, device=device, batch_tokens=batch_tokens)

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
            lambda: build_token_head(self.experiment.head, size=config.size, labels=len(labels)),
            seed=self.experiment.training.seed,
            device=device,
            weights=weights,
        )

    def _tagger(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Tagger:
        longest = self.experiment.data.longest
        return Tagger(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens, longest=longest)
