"""Networks that read texts, and the examples that they learn from: what classifiers, taggers and answerers share."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, assert_never, final

import torch
from torch import Tensor, nn

from dragoman.data.batching.in_memory import InMemoryDataset, examples_in_order, example_stream
from dragoman.data.datasets.labeled import Labels
from dragoman.data.splits import Splits
from dragoman.data.tokenizers import Tokenizer, TokenizerConfig
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Score
from dragoman.inference.length_warnings import ReadingWarning
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.factory import build_decoder_only, build_encoder_only
from dragoman.models.model_with_head import DecoderOnlyBackbone, ModelWithHead
from dragoman.models.task_heads import Head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import set_initial_weights, read_initial_experiment, without_dropout
from dragoman.tasks.base import TrainingSetup
from dragoman.tasks.config import ReaderModelConfig
from dragoman.tasks.prepared_data import format_list, load_or_create_tokenizer
from dragoman.tasks.validation import measure_likelihood
from dragoman.training.config import TrainingConfig
from dragoman.training.step import seeded_rng
from dragoman.training.step import B, LossFunction
from dragoman.training.trainer import Validator

T = TypeVar("T")


@final
@dataclass(frozen=True)
class ExampleData(Generic[T, B]):
    """Examples in parts, as they are and as ids."""

    what: str
    """What they are called, in the plural."""
    parts: Splits[T]
    tokenizer: Tokenizer
    train: InMemoryDataset[B]
    valid: InMemoryDataset[B]
    places: Sequence[object]
    """Where each of `train` stands in its corpus."""
    notes: tuple[str, ...]
    labels: Labels
    """What is told apart; nothing where answers are looked for."""
    weights: Mapping[str, Tensor] | None
    """What the network begins with, if not with chance."""
    anew: Callable[[int], InMemoryDataset[B]] | None = None
    """What is learnt from in an epoch, where its texts are segmented anew each time."""

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return self.parts.fingerprints

    @property
    def report(self) -> None:
        """Only leaks are removed, and noted."""

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*self.parts.notes, *self.notes)

    @property
    def sizes(self) -> str:
        parts = self.parts
        test = f", {len(parts.test):,} to test" if parts.test is not None else ""
        return f"{len(parts.train):,} {self.what} to learn from, {len(parts.valid):,} to validate{test}"

    @property
    def tokens(self) -> int:
        return int(self.train.lengths.sum())

    @property
    def held_out(self) -> dict[str, Sequence[T]]:
        """What is scored at the end, by name."""
        return {"valid": self.parts.valid} | ({"test": self.parts.test} if self.parts.test is not None else {})

    def name(self, rows: Sequence[int]) -> str:
        """Where the rows of a batch stand in the corpus, in words."""
        return f"{format_list([self.places[row] for row in rows])} of the training corpus"


def load_or_train_tokenizer(
    start: Path | None,
    settings: TokenizerConfig,
    folder: RunFolder,
    texts: Callable[[], Iterable[str]],
    *,
    tell: Callable[[str], None],
) -> Tokenizer:
    """The run's own tokenizer: that of the run it begins with, or one learnt from its texts.

    Raises ConfigError where the settings are not those of the run to begin with.
    """

    def learn() -> Tokenizer:
        if start is None:
            return Tokenizer.train_on_texts(texts, settings)
        if without_dropout(settings) != without_dropout(read_initial_experiment(start).tokenizer):
            raise ConfigError(f"tokenizer: is that of the run in {start}, whose words the network knows; leave it out")
        return RunFolder(start).read_tokenizer()

    return load_or_create_tokenizer(folder, learn, tell=tell)


def load_or_collect_labels(folder: RunFolder, labels: Iterable[str]) -> Labels:
    """The labels of the run, or those that occur, which from then on are the run's."""
    if folder.labels.exists():
        return Labels.load(folder.labels)
    learnt = Labels.collect(labels)
    learnt.save(folder.labels)
    return learnt


def check_not_empty(train: InMemoryDataset[Any], valid: InMemoryDataset[Any]) -> None:
    """Raises DataError where nothing is left to learn from or to be judged by."""
    for name, part in (("learn from", train), ("validate by", valid)):
        if not len(part.lengths):
            raise DataError(f"no example is left to {name}, with a label that the training text has; check the corpus")


def build_masked_lm(
    config: EncoderOnlyConfig, tokenizer: Tokenizer, *, seed: int, device: torch.device
) -> EncoderOnlyTransformer:
    """An encoder with its first weights; the symbol that hides words stands after the vocabulary."""
    with seeded_rng(seed, device=torch.device("cpu")):
        model = build_encoder_only(config, vocabulary=len(tokenizer.source) + 1)
    return model.to(device)


def build_model_with_head(
    config: ReaderModelConfig,
    tokenizer: Tokenizer,
    head: Callable[[], Head],
    *,
    seed: int,
    device: torch.device,
    weights: Mapping[str, Tensor] | None = None,
) -> ModelWithHead:
    """A network with its first weights, or those that are given for all but its head."""
    words = len(tokenizer.source)
    with seeded_rng(seed, device=torch.device("cpu")):
        match config:
            case EncoderOnlyConfig():  # of the symbol that hides words only the row is kept, for nothing guesses them here
                encoder = build_encoder_only(config.model_copy(update={"predict_hidden": False}), vocabulary=words + 1)
                _set_weights(encoder, weights)
                return ModelWithHead(encoder, head()).to(device)
            case DecoderOnlyConfig():
                causal = build_decoder_only(config, vocabulary=words)
                _set_weights(causal, weights)
                return ModelWithHead(DecoderOnlyBackbone(causal), head()).to(device)
            case _:
                assert_never(config)


def _set_weights(model: nn.Module, weights: Mapping[str, Tensor] | None) -> None:
    if weights is not None:
        set_initial_weights(model, weights, where="start")


def setup_head_training(
    examples: ExampleData[T, B],
    model: ModelWithHead,
    objective: Callable[[float], LossFunction[Any, B]],
    training: TrainingConfig,
    *,
    score: Callable[[nn.Module, Sequence[T]], list[Score]],
    deciding: str,
    device: torch.device,
) -> TrainingSetup[B]:
    """The training of a network that reads; `objective` is that for a label smoothing, and `score` judges its use."""

    def validate(network: nn.Module) -> Mapping[str, float]:
        batches = examples_in_order(examples.valid, budget=training.token_budget)
        loss = measure_likelihood(network, batches, objective(0.0), device=device).loss
        return {"loss": loss} | {one.metric: one.value for one in score(network, examples.parts.valid)}

    judge = Validator(validate, metric=deciding, higher_is_better=True)
    return TrainingSetup(
        model=model,
        stream=example_stream(examples.anew or examples.train, budget=training.token_budget, seed=training.seed),
        loss_function=objective(training.label_smoothing),
        validator=judge,
        final_validator=judge,
        scorers={name: partial(score, model, part) for name, part in examples.held_out.items()},
        describe_rows=examples.name,
    )


@contextmanager
def suppress_length_warnings() -> Iterator[None]:
    """Inside, nothing is said of texts that are too long: the materials have said it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        yield
