"""Tasks of a model with a head: classification, tagging and question answering differ in the fields of `HeadTask`."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, assert_never, final

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.batching.in_memory_batches import InMemoryDataset, example_stream, examples_in_order
from dragoman.data.datasets.labeled import Labels
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.errors import DataError
from dragoman.evaluation import Score
from dragoman.inference.length_batches import InputWarning
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.factory import build_decoder_only, build_encoder_only
from dragoman.models.task_heads import Backbone, DecoderOnlyBackbone, Head, ModelWithHead
from dragoman.tasks.build_training import TrainingSetup, measure_likelihood
from dragoman.tasks.config import ClassificationConfig, QuestionAnsweringConfig, ReaderModelConfig, TaggingConfig
from dragoman.tasks.initial_weights import (
    read_initial_tokenizer,
    read_initial_weights,
    set_initial_weights,
)
from dragoman.tasks.task import (
    RunFiles,
    TaskDescription,
    check_unchanged,
    format_list,
    load_or_create_tokenizer,
    load_weights,
)
from dragoman.training.step import B, LossFunction, seeded_rng
from dragoman.training.trainer import Validator

_T = TypeVar("_T")
SCORING_BATCH_TOKENS = 4096
Encoder = Callable[..., Any]
"""Function from texts to their tokens: `encode_batch` of a tokenizer, or the same with BPE dropout."""


@final
@dataclass(frozen=True)
class ExampleData(Generic[_T, B]):
    """Examples as text and as token ids."""

    plural: str
    splits: Splits[_T]
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
    def held_out(self) -> dict[str, Sequence[_T]]:
        """The held-out sets by name."""
        return {"valid": self.splits.valid} | ({"test": self.splits.test} if self.splits.test is not None else {})

    def describe_rows(self, rows: Sequence[int]) -> str:
        """Name the lines of the corpus that the rows of a batch come from."""
        return f"{format_list([self.locations[row] for row in rows])} of the training corpus"


@final
@dataclass(frozen=True)
class HeadTask(Generic[_T, B]):
    """Task of a model with a head; `T` is the type of an example, `B` of a batch."""

    experiment: ClassificationConfig | TaggingConfig | QuestionAnsweringConfig
    description: TaskDescription
    plural: str
    """Plural noun for the examples."""
    metric: str
    """Metric that selects the weights."""
    loss_function: Callable[[float], LossFunction[Any, B]]
    """Function from the label smoothing to the loss."""
    read: Callable[[], Splits[_T]]
    texts: Callable[[Sequence[_T]], Iterable[str]]
    """Function to the texts that a tokenizer is trained on."""
    labels_of: Callable[[Sequence[_T]], Iterable[str]] | None
    tokenize: Callable[[Sequence[_T], Tokenizer, Labels, Encoder | None], InMemoryDataset[B]]
    """Function to the tokens of examples; some tasks support an encoder with BPE dropout."""
    notes: Callable[[Any, Any], Iterable[str]]
    """Function from training and validation data to remarks on truncated examples and unknown labels."""
    locations: Callable[[Any], Sequence[object]]
    """Function to the line, or the name, of each training example in its corpus."""
    build_head: Callable[[Labels], Head]
    build_pipeline: Callable[..., Any]
    """Class, or function, of model, tokenizer, labels, `device` and `batch_tokens`."""
    score: Callable[[Any, Sequence[_T]], list[Score]]

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> ExampleData[_T, B]:
        experiment = self.experiment
        report("reading the corpus")
        splits = self.read()
        check_unchanged(splits.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = load_or_create_tokenizer(folder, lambda: self._new_tokenizer(folder, splits.train), report=report)
        if self.labels_of is not None and not folder.labels.exists():
            Labels.collect(self.labels_of(splits.train)).save(folder.labels)
        labels = self._load_labels(folder)
        report("tokenizing")
        train, valid = (self.tokenize(split, tokenizer, labels, None) for split in (splits.train, splits.valid))
        for purpose, split in (("training", train), ("validation", valid)):
            if not len(split.lengths):
                raise DataError(
                    f"No example with a label of the training data is left for {purpose}. Check the corpus."
                )
        return ExampleData(
            plural=self.plural,
            splits=splits,
            tokenizer=tokenizer,
            train=train,
            valid=valid,
            locations=self.locations(train),
            task_notes=tuple(self.notes(train, valid)),
            labels=labels,
            weights=weights,
            retokenize=self._retokenize(splits.train, tokenizer, labels),
        )

    def setup_training(self, data: ExampleData[_T, B], *, device: torch.device) -> TrainingSetup[B]:
        training, tokenizer = self.experiment.training, data.tokenizer
        model = self._build(tokenizer, data.labels, device=device, weights=data.weights)

        def score(model: nn.Module, examples: Sequence[_T]) -> list[Score]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputWarning)  # the notes of the data mention long texts
                return self.score(
                    self.build_pipeline(
                        model, tokenizer.source, data.labels, device=device, batch_tokens=SCORING_BATCH_TOKENS
                    ),
                    examples,
                )

        def validate(model: nn.Module) -> Mapping[str, float]:
            batches = examples_in_order(data.valid, budget=training.token_budget)
            loss = measure_likelihood(model, batches, self.loss_function(0.0), device=device).loss
            return {"loss": loss} | {one.metric: one.value for one in score(model, data.splits.valid)}

        validator = Validator(validate, metric=self.metric, higher_is_better=True)
        return TrainingSetup(
            model=model,
            stream=example_stream(data.retokenize or data.train, budget=training.token_budget, seed=training.seed),
            loss_function=self.loss_function(training.label_smoothing),
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
        return self.build_pipeline(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens)

    def _new_tokenizer(self, folder: RunFiles, examples: Sequence[_T]) -> Tokenizer:
        """Return the tokenizer of the initial run, or train one. Raises ConfigError if the settings differ."""
        start, config = self.experiment.init_from, self.experiment.tokenizer
        if start is None:
            return Tokenizer.train_on_texts(lambda: self.texts(examples), config)
        return read_initial_tokenizer(folder.open(start), config)

    def _load_labels(self, folder: RunFiles) -> Labels:
        return Labels(()) if self.labels_of is None else Labels.load(folder.labels)

    def _retokenize(
        self, examples: Sequence[_T], tokenizer: Tokenizer, labels: Labels
    ) -> Callable[[int], InMemoryDataset[B]] | None:
        """Return the function that tokenizes the training data of each epoch, under BPE dropout."""
        config, seed = self.experiment.tokenizer, self.experiment.training.seed
        if not isinstance(config, BpeConfig) or not config.dropout:
            return None
        encode = partial(tokenizer.source.encode_with_dropout, probability=config.dropout)
        return lambda epoch: self.tokenize(
            examples, tokenizer, labels, partial(encode, generator=np.random.default_rng([seed, epoch]))
        )

    def _build(
        self, tokenizer: Tokenizer, labels: Labels, *, device: torch.device, weights: Mapping[str, Tensor] | None = None
    ) -> ModelWithHead:
        """Build the model with new weights, or with the given weights for all but its head."""
        config: ReaderModelConfig = self.experiment.model
        vocabulary = len(tokenizer.source)
        with seeded_rng(self.experiment.training.seed, device=torch.device("cpu")):
            match config:
                case EncoderOnlyConfig():  # the mask symbol keeps its embedding row, without the masked-LM layers
                    config = config.model_copy(update={"mlm_transform": False})
                    model: Any = build_encoder_only(config, vocabulary=vocabulary + 1)
                    backbone: Backbone = model
                case DecoderOnlyConfig():
                    model = build_decoder_only(config, vocabulary=vocabulary)
                    backbone = DecoderOnlyBackbone(model)
                case _:
                    assert_never(config)
            if weights is not None:
                set_initial_weights(model, weights, where="init_from")
            return ModelWithHead(backbone, self.build_head(labels)).to(device)


def label_notes(train: Any, valid: Any, *, examples: str, units: str, limit: int) -> Iterator[str]:
    """Yield remarks on truncated training examples, and on validation units with unknown labels."""
    if train.num_truncated:
        yield f"{train.num_truncated:,} training {examples} are truncated to {limit:,} tokens"
    if valid.num_unknown:
        yield f"{valid.num_unknown:,} validation {units} have a label without training examples and count as errors"


def build_masked_lm(
    config: EncoderOnlyConfig, tokenizer: Tokenizer, *, seed: int, device: torch.device
) -> EncoderOnlyTransformer:
    """Build an encoder with new weights; the mask symbol follows the vocabulary."""
    with seeded_rng(seed, device=torch.device("cpu")):
        model = build_encoder_only(config, vocabulary=len(tokenizer.source) + 1)
    return model.to(device)
