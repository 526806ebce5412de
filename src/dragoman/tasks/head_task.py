"""Tasks of a model with a head: classification, tagging and question answering differ in the fields of `HeadTask`."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never, final

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.data.batching.example_batches import ExampleDataset, example_stream, examples_in_order
from dragoman.data.datasets.labeled import Labels
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import BpeConfig, LanguageTokenizer, Tokenizer
from dragoman.errors import DataError
from dragoman.evaluation import Score
from dragoman.inference.length_batches import InputWarning
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.models.factory import build_decoder_only, build_encoder_only
from dragoman.models.task_heads import Backbone, DecoderOnlyBackbone, ModelWithHead, build_head
from dragoman.number_words import counted
from dragoman.tasks import task
from dragoman.tasks.build_training import TrainingSetup, measure_likelihood
from dragoman.tasks.config import ClassificationConfig, QuestionAnsweringConfig, ReaderModelConfig, TaggingConfig
from dragoman.tasks.initial_weights import (
    export_weights,
    initialize_model,
    read_initial_tokenizer,
    read_initial_weights,
)
from dragoman.training.step import LossFunction, seeded_rng
from dragoman.training.trainer import Validator

SCORING_BATCH_TOKENS = 4096
Encoder = Callable[..., Any]
"""Function from texts to their tokens: `encode_batch` of a tokenizer, or the same with BPE dropout."""


@final
@dataclass(frozen=True, kw_only=True)
class ExampleData(task.TaskData):
    """Examples as text and as token ids."""

    splits: Splits[Any]
    train: ExampleDataset[Any]
    valid: ExampleDataset[Any]
    labels: Labels
    """Empty for question answering."""
    weights: Mapping[str, Tensor] | None
    """Initial weights from another run."""


@final
@dataclass(frozen=True)
class HeadTask:
    """Task of a model with a head."""

    experiment: ClassificationConfig | TaggingConfig | QuestionAnsweringConfig
    description: task.TaskDescription
    plural: str
    """Plural noun for the examples."""
    limit: int
    """Maximum number of tokens of an example, or of its question; the rest is truncated."""
    metric: str
    """Metric that selects the weights."""
    loss_function: Callable[[float], LossFunction[Any, Any]]
    """Function from the label smoothing to the loss."""
    read: Callable[..., Splits[Any]]
    """Function from the data settings and `seed` to the examples."""
    texts: Callable[[Sequence[Any]], Iterable[str]]
    """Function to the texts that a tokenizer is trained on."""
    labels_of: Callable[[Sequence[Any]], Iterable[str]] | None
    tokenize: Callable[[Sequence[Any], LanguageTokenizer, Labels, Encoder], Any]
    """Function to the tokens of examples; some tasks support an encoder with BPE dropout."""
    locations: Callable[[Any], Sequence[object]]
    """Function to the line, or the name, of each training example in its corpus."""
    build_pipeline: Callable[..., Any]
    """Class, or function, of model, tokenizer, labels, `device` and `batch_tokens`."""
    score: Callable[[Any, Sequence[Any]], list[Score]]
    augment: Callable[[Any, np.random.Generator], Any] | None = None
    """Function that changes the training examples anew in each epoch."""

    def prepare_data(self, folder: task.RunFiles, *, report: Callable[[str], None]) -> ExampleData:
        experiment = self.experiment
        report("reading the corpus")
        splits = self.read(experiment.data, seed=experiment.training.seed)
        task.check_unchanged(splits.fingerprints, folder)
        weights = read_initial_weights(experiment.init_from, experiment.model, folder)
        tokenizer = task.load_or_create_tokenizer(
            folder, lambda: self._new_tokenizer(folder, splits.train), report=report
        )
        if self.labels_of is not None and not folder.labels.exists():
            Labels.collect(self.labels_of(splits.train)).save(folder.labels)
        labels, side = self._load_labels(folder), tokenizer.source
        report("tokenizing")
        train, valid = (self.tokenize(some, side, labels, side.encode_batch) for some in (splits.train, splits.valid))
        for purpose, split in (("training", train), ("validation", valid)):
            if not len(split.lengths):
                raise DataError(
                    f"No example with a label of the training data is left for {purpose}. Check the corpus."
                )
        locations, test = self.locations(train), splits.test
        num_train = len(splits.train)
        advice = self.description.advice if self.experiment.init_from is None else None
        return ExampleData(
            tokenizer=tokenizer,
            fingerprints=splits.fingerprints,
            notes=(
                *(advice.notes(num_train, self.plural) if advice else ()),
                *splits.notes,
                *self._notes(train, valid),
            ),
            summary=task.describe_sizes(
                f"{num_train:,} {self.plural}", len(splits.valid), None if test is None else len(test)
            ),
            tokens_per_epoch=int(self._augmented(train, 0).lengths.sum()),
            describe_rows=lambda rows: f"{task.format_list([locations[row] for row in rows])} of the training corpus",
            splits=splits,
            train=train,
            valid=valid,
            labels=labels,
            weights=weights,
        )

    def setup_training(self, data: ExampleData, *, device: torch.device) -> TrainingSetup[Any]:
        training, tokenizer = self.experiment.training, data.tokenizer
        model = self._build(tokenizer, data.labels, device=device, weights=data.weights, adapts=True)

        def score(model: nn.Module, examples: Sequence[Any]) -> list[Score]:
            options = {"device": device, "batch_tokens": SCORING_BATCH_TOKENS}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InputWarning)  # the notes of the data mention long texts
                return self.score(self.build_pipeline(model, tokenizer.source, data.labels, **options), examples)

        def validate(model: nn.Module) -> Mapping[str, float]:
            batches = examples_in_order(data.valid, budget=training.token_budget)
            loss = measure_likelihood(model, batches, self.loss_function(0.0), device=device).loss
            return {"loss": loss} | {one.metric: one.value for one in score(model, data.splits.valid)}

        validator = Validator(validate, metric=self.metric, higher_is_better=True)
        held_out = {"valid": data.splits.valid, "test": data.splits.test}
        return TrainingSetup(
            model=model,
            stream=example_stream(self._train_set(data), budget=training.token_budget, seed=training.seed),
            loss_function=self.loss_function(training.label_smoothing),
            validator=validator,
            final_validator=validator,
            scorers={name: partial(score, model, split) for name, split in held_out.items() if split is not None},
            describe_rows=data.describe_rows,
            export_weights=export_weights(training),
        )

    def build_model(self, folder: task.RunFiles, *, device: torch.device) -> ModelWithHead:
        return self._build(folder.read_tokenizer(), self._load_labels(folder), device=device)

    def load(self, folder: task.RunFiles, *, device: torch.device, batch_tokens: int) -> Any:
        tokenizer, labels = folder.read_tokenizer(), self._load_labels(folder)
        model = task.load_model(partial(self._build, tokenizer, labels), folder, device=device)
        return self.build_pipeline(model, tokenizer.source, labels, device=device, batch_tokens=batch_tokens)

    def _new_tokenizer(self, folder: task.RunFiles, examples: Sequence[Any]) -> Tokenizer:
        """Return the tokenizer of the initial run, or train one. Raises ConfigError if the settings differ."""
        start, config = self.experiment.init_from, self.experiment.tokenizer
        if start is None:
            return Tokenizer.train_on_texts(lambda: self.texts(examples), config)
        return read_initial_tokenizer(folder.open(start), config)

    def _load_labels(self, folder: task.RunFiles) -> Labels:
        return Labels(()) if self.labels_of is None else Labels.load(folder.labels)

    def _notes(self, train: Any, valid: Any) -> Iterator[str]:
        """Yield remarks on truncated training examples, and on validation units with unknown labels."""
        if train.num_truncated:
            yield f"truncated to {self.limit:,} tokens: {counted(train.num_truncated, f'training {self.plural}')}"
        if self.labels_of is not None and valid.num_unknown:
            yield (
                f"{valid.num_unknown:,} validation {self.description.unit} have a label without training examples and "
                "count as errors"
            )

    def _train_set(self, data: ExampleData) -> ExampleDataset[Any] | Callable[[int], ExampleDataset[Any]]:
        """Return the training data, or the function from the epoch to data that BPE dropout or `augment` changes."""
        config, seed, side = self.experiment.tokenizer, self.experiment.training.seed, data.tokenizer.source
        probability = config.dropout if isinstance(config, BpeConfig) else 0.0
        if not probability and self.augment is None:
            return data.train

        def examples(epoch: int) -> ExampleDataset[Any]:
            if not probability:
                return self._augmented(data.train, epoch)
            generator = np.random.default_rng([seed, epoch])
            encode = partial(side.encode_with_dropout, probability=probability, generator=generator)
            return self._augmented(self.tokenize(data.splits.train, side, data.labels, encode), epoch)

        return examples

    def _augmented(self, train: ExampleDataset[Any], epoch: int) -> ExampleDataset[Any]:
        """Return the training examples of an epoch."""
        if self.augment is None:
            return train
        changed: ExampleDataset[Any] = self.augment(
            train, np.random.default_rng([self.experiment.training.seed, epoch])
        )
        return changed

    def _build(
        self,
        tokenizer: Tokenizer,
        labels: Labels,
        *,
        device: torch.device,
        weights: Mapping[str, Tensor] | None = None,
        adapts: bool = False,
    ) -> ModelWithHead:
        """Build the model with new weights; to train it (`adapts`), with those of the initial run and with adapters."""
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
            if adapts:
                initialize_model(model, weights, self.experiment.training, where="init_from")
            head = build_head(self.experiment.head, d_model=config.d_model, num_labels=len(labels))
            return ModelWithHead(backbone, head).to(device)
