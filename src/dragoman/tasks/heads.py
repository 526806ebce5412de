"""Tasks of a model with a head: classification, tagging and question answering differ in their `HeadSpec` alone."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, assert_never, final

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.batching.in_memory import InMemoryDataset, example_stream, examples_in_order
from dragoman.data.datasets.labeled import Labels
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Score
from dragoman.inference.batching import InputWarning
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.factory import build_decoder_only, build_encoder_only
from dragoman.models.heads import DecoderOnlyBackbone, Head, ModelWithHead
from dragoman.tasks.base import (
    RunFiles,
    TaskDescription,
    check_unchanged,
    format_list,
    load_or_create_tokenizer,
    load_weights,
)
from dragoman.tasks.config import ClassificationConfig, QuestionAnsweringConfig, ReaderModelConfig, TaggingConfig
from dragoman.tasks.initialization import (
    read_initial_experiment,
    read_initial_weights,
    set_initial_weights,
    without_dropout,
)
from dragoman.tasks.setup import TrainingSetup, measure_likelihood
from dragoman.training.step import B, LossFunction, seeded_rng
from dragoman.training.trainer import Validator

T = TypeVar("T")
SCORING_BATCH_TOKENS = 4096
Encoder = Callable[..., Any]
"""Function from texts to their tokens: `encode_batch` of a tokenizer, or the same with BPE dropout."""


class HeadSpec(Protocol[T, B]):
    """What distinguishes one task with a head from the others."""

    @property
    def experiment(self) -> ClassificationConfig | TaggingConfig | QuestionAnsweringConfig: ...

    @property
    def description(self) -> TaskDescription: ...

    @property
    def plural(self) -> str:
        """Plural noun for the examples."""
        ...

    @property
    def has_labels(self) -> bool: ...

    @property
    def metric(self) -> str:
        """Metric that selects the weights."""
        ...

    @property
    def loss_function(self) -> Callable[[float], LossFunction[Any, B]]:
        """Function from the label smoothing to the loss."""
        ...

    def read(self) -> Splits[T]: ...

    def texts(self, examples: Sequence[T]) -> Iterable[str]:
        """Return the texts that a tokenizer is trained on."""
        ...

    def labels(self, examples: Sequence[T]) -> Iterable[str]: ...

    def tokenize(
        self, examples: Sequence[T], tokenizer: Tokenizer, labels: Labels, *, encode: Encoder | None = None
    ) -> InMemoryDataset[B]: ...

    def notes(self, train: Any, valid: Any) -> Iterable[str]:
        """Return remarks on truncated examples and unknown labels."""
        ...

    def locations(self, train: Any) -> Sequence[object]:
        """Return the line, or the name, of each training example in its corpus."""
        ...

    def build_head(self, labels: Labels) -> Head: ...

    def build_pipeline(
        self, model: nn.Module, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, batch_tokens: int
    ) -> Any: ...

    def score(self, pipeline: Any, examples: Sequence[T]) -> list[Score]: ...


@final
@dataclass(frozen=True)
class ExampleData(Generic[T, B]):
    """Examples as text and as token ids."""

    plural: str
    splits: Splits[T]
    tokenizer: Tokenizer
    train: InMemoryDataset[B]
    valid: InMemoryDataset[B]
    locations: Sequence[object]
    task_notes: tuple[str, ...]
    labels: Labels
    """Empty for question answering."""
    weights: Mapping[str, Tensor] | None
    """Initial weights from another run."""
    retokenize: Callable[[int], InMemoryDataset[B]] | None = None
    """Training data of an epoch, under BPE dropout."""

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return self.splits.fingerprints

    @property
    def cleaning_report(self) -> None:
        """None: only examples that leak into the held-out sets are removed, which `notes` says."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.splits.notes, *self.task_notes)

    @property
    def summary(self) -> str:
        splits = self.splits
        test = f", {len(splits.test):,} for testing" if splits.test is not None else ""
        return f"{len(splits.train):,} {self.plural} for training, {len(splits.valid):,} for validation{test}"

    @property
    def tokens_per_epoch(self) -> int:
        return int(self.train.lengths.sum())

    @property
    def held_out(self) -> dict[str, Sequence[T]]:
        """The held-out sets by name."""
        return {"valid": self.splits.valid} | ({"test": self.splits.test} if self.splits.test is not None else {})

    def describe_rows(self, rows: Sequence[int]) -> str:
        """Name the lines of the corpus that the rows of a batch come from."""
        return f"{format_list([self.locations[row] for row in rows])} of the training corpus"


@final
@dataclass(frozen=True)
class HeadTask(Generic[T, B]):
    """Task of a model with a head."""

    spec: HeadSpec[T, B]

    @property
    def description(self) -> TaskDescription:
        return self.spec.description

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> ExampleData[T, B]:
        spec, experiment = self.spec, self.spec.experiment
        report("reading the corpus")
        splits = spec.read()
        check_unchanged(splits.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = load_or_create_tokenizer(folder, lambda: self._new_tokenizer(folder, splits.train), report=report)
        labels = self._labels(folder, splits.train)
        report("tokenizing")
        train, valid = (spec.tokenize(split, tokenizer, labels) for split in (splits.train, splits.valid))
        for purpose, split in (("training", train), ("validation", valid)):
            if not len(split.lengths):
                raise DataError(
                    f"No example with a label of the training data is left for {purpose}. Check the corpus."
                )
        return ExampleData(
            plural=spec.plural,
            splits=splits,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            locations=spec.locations(train),
            task_notes=tuple(spec.notes(train, valid)),
            labels=labels,
            weights=weights,
            retokenize=self._retokenize(splits.train, tokenizer, labels),
        )

    def setup_training(self, data: ExampleData[T, B], *, device: torch.device) -> TrainingSetup[B]:
        spec, training = self.spec, self.spec.experiment.training
        model = self._build(data.tokenizer, data.labels, device=device, weights=data.weights)

        def score(model: nn.Module, examples: Sequence[T]) -> list[Score]:
            pipeline = spec.build_pipeline(
                model, data.tokenizer, data.labels, device=device, batch_tokens=SCORING_BATCH_TOKENS
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputWarning)  # the notes of the data mention long texts
                return spec.score(pipeline, examples)

        def validate(model: nn.Module) -> Mapping[str, float]:
            batches = examples_in_order(data.valid, budget=training.token_budget)
            loss = measure_likelihood(model, batches, spec.loss_function(0.0), device=device).loss
            return {"loss": loss} | {one.metric: one.value for one in score(model, data.splits.valid)}

        validator = Validator(validate, metric=spec.metric, higher_is_better=True)
        return TrainingSetup(
            model=model,
            stream=example_stream(data.retokenize or data.train, budget=training.token_budget, seed=training.seed),
            loss_function=spec.loss_function(training.label_smoothing),
            validator=validator,
            final_validator=validator,
            scorers={name: partial(score, model, split) for name, split in data.held_out.items()},
            describe_rows=data.describe_rows,
        )

    def build_model(self, folder: RunFiles, *, device: torch.device) -> ModelWithHead:
        return self._build(folder.read_tokenizer(), self._load_labels(folder), device=device)

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Any:
        tokenizer, labels = folder.read_tokenizer(), self._load_labels(folder)
        model = load_weights(self._build(tokenizer, labels, device=device), folder)
        return self.spec.build_pipeline(model, tokenizer, labels, device=device, batch_tokens=batch_tokens)

    def _new_tokenizer(self, folder: RunFiles, examples: Sequence[T]) -> Tokenizer:
        """Return the tokenizer of the initial run, or train one. Raises ConfigError if the settings differ."""
        start, config = self.spec.experiment.init_from, self.spec.experiment.tokenizer
        if start is None:
            return Tokenizer.train_on_texts(lambda: self.spec.texts(examples), config)
        run = folder.open(start)
        if without_dropout(config) != without_dropout(read_initial_experiment(run).tokenizer):
            raise ConfigError(
                f"tokenizer: differs from the tokenizer of {start}, which the model was trained with. Leave it out."
            )
        return run.read_tokenizer()

    def _load_labels(self, folder: RunFiles) -> Labels:
        return Labels.load(folder.labels) if self.spec.has_labels else Labels(())

    def _labels(self, folder: RunFiles, examples: Sequence[T]) -> Labels:
        """Return the labels of the run; a new run collects and saves them."""
        if self.spec.has_labels and not folder.labels.exists():
            Labels.collect(self.spec.labels(examples)).save(folder.labels)
        return self._load_labels(folder)

    def _retokenize(
        self, examples: Sequence[T], tokenizer: Tokenizer, labels: Labels
    ) -> Callable[[int], InMemoryDataset[B]] | None:
        """Return the function that tokenizes the training data of each epoch, under BPE dropout."""
        config, seed = self.spec.experiment.tokenizer, self.spec.experiment.training.seed
        if not isinstance(config, BpeConfig) or not config.dropout:
            return None
        encode = partial(tokenizer.source.encode_with_dropout, probability=config.dropout)
        return lambda epoch: self.spec.tokenize(
            examples, tokenizer, labels, encode=partial(encode, generator=np.random.default_rng([seed, epoch]))
        )

    def _build(
        self,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        device: torch.device,
        weights: Mapping[str, Tensor] | None = None,
    ) -> ModelWithHead:
        """Build the model with new weights, or with the given weights for all but its head."""
        config: ReaderModelConfig = self.spec.experiment.model
        vocabulary = len(tokenizer.source)
        with seeded_rng(self.spec.experiment.training.seed, device=torch.device("cpu")):
            match config:
                case EncoderOnlyConfig():  # the mask symbol keeps its embedding row, without the masked-LM layers
                    encoder = build_encoder_only(
                        config.model_copy(update={"mlm_transform": False}), vocabulary=vocabulary + 1
                    )
                    _set_weights(encoder, weights)
                    return ModelWithHead(encoder, self.spec.build_head(labels)).to(device)
                case DecoderOnlyConfig():
                    decoder = build_decoder_only(config, vocabulary=vocabulary)
                    _set_weights(decoder, weights)
                    return ModelWithHead(DecoderOnlyBackbone(decoder), self.spec.build_head(labels)).to(device)
                case _:
                    assert_never(config)


def build_masked_lm(
    config: EncoderOnlyConfig, tokenizer: Tokenizer, *, seed: int, device: torch.device
) -> EncoderOnlyTransformer:
    """Build an encoder with new weights; the mask symbol follows the vocabulary."""
    with seeded_rng(seed, device=torch.device("cpu")):
        model = build_encoder_only(config, vocabulary=len(tokenizer.source) + 1)
    return model.to(device)


def _set_weights(model: nn.Module, weights: Mapping[str, Tensor] | None) -> None:
    if weights is not None:
        set_initial_weights(model, weights, where="init_from")
