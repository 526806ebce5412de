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

from dragoman.data.batching.in_memory import Encoded, batches_once, example_stream
from dragoman.data.datasets.labeled import Labels
from dragoman.data.splits import Parts
from dragoman.data.tokenizers import Tokenizer, TokenizerSettings
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation import Score
from dragoman.inference.length_warnings import ReadingWarning
from dragoman.models.config import CausalConfig, EncoderConfig
from dragoman.models.encoder_only import EncoderTransformer
from dragoman.models.factory import build_causal, build_encoder
from dragoman.models.model_with_head import CausalTrunk, Headed
from dragoman.models.task_heads import Head
from dragoman.runs.folder import RunFolder
from dragoman.runs.init_from import begin_with, begun_with, lasting
from dragoman.tasks.base import Work
from dragoman.tasks.config import ReaderConfig
from dragoman.tasks.prepared_data import listed, own_tokenizer
from dragoman.tasks.validation import likelihood
from dragoman.training.config import TrainingConfig
from dragoman.training.seeding import seeded
from dragoman.training.step import B, Objective
from dragoman.training.trainer import Judge

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Examples(Generic[T, B]):
    """Examples in parts, as they are and as ids."""

    what: str
    """What they are called, in the plural."""
    parts: Parts[T]
    tokenizer: Tokenizer
    train: Encoded[B]
    valid: Encoded[B]
    places: Sequence[object]
    """Where each of `train` stands in its corpus."""
    notes: tuple[str, ...]
    labels: Labels
    """What is told apart; nothing where answers are looked for."""
    weights: Mapping[str, Tensor] | None
    """What the network begins with, if not with chance."""
    anew: Callable[[int], Encoded[B]] | None = None
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
        return f"{listed([self.places[row] for row in rows])} of the training corpus"


def tokenizer_of(
    start: Path | None,
    settings: TokenizerSettings,
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
        if lasting(settings) != lasting(begun_with(start).tokenizer):
            raise ConfigError(f"tokenizer: is that of the run in {start}, whose words the network knows; leave it out")
        return RunFolder(start).read_tokenizer()

    return own_tokenizer(folder, learn, tell=tell)


def own_labels(folder: RunFolder, labels: Iterable[str]) -> Labels:
    """The labels of the run, or those that occur, which from then on are the run's."""
    if folder.labels.exists():
        return Labels.load(folder.labels)
    learnt = Labels.learn(labels)
    learnt.save(folder.labels)
    return learnt


def require_examples(train: Encoded[Any], valid: Encoded[Any]) -> None:
    """Raises DataError where nothing is left to learn from or to be judged by."""
    for name, part in (("learn from", train), ("validate by", valid)):
        if not len(part.lengths):
            raise DataError(f"no example is left to {name}, with a label that the training text has; check the corpus")


def build_encoder_network(
    config: EncoderConfig, tokenizer: Tokenizer, *, seed: int, device: torch.device
) -> EncoderTransformer:
    """An encoder with its first weights; the symbol that hides words stands after the vocabulary."""
    with seeded(seed, device=torch.device("cpu")):
        model = build_encoder(config, vocabulary=len(tokenizer.source) + 1)
    return model.to(device)


def build_reader(
    config: ReaderConfig,
    tokenizer: Tokenizer,
    head: Callable[[], Head],
    *,
    seed: int,
    device: torch.device,
    weights: Mapping[str, Tensor] | None = None,
) -> Headed:
    """A network with its first weights, or those that are given for all but its head."""
    words = len(tokenizer.source)
    with seeded(seed, device=torch.device("cpu")):
        match config:
            case EncoderConfig():  # of the symbol that hides words only the row is kept, for nothing guesses them here
                encoder = build_encoder(config.model_copy(update={"predict_hidden": False}), vocabulary=words + 1)
                _begin(encoder, weights)
                return Headed(encoder, head()).to(device)
            case CausalConfig():
                causal = build_causal(config, vocabulary=words)
                _begin(causal, weights)
                return Headed(CausalTrunk(causal), head()).to(device)
            case _:
                assert_never(config)


def _begin(model: nn.Module, weights: Mapping[str, Tensor] | None) -> None:
    if weights is not None:
        begin_with(model, weights, where="start")


def work_on(
    examples: Examples[T, B],
    model: Headed,
    objective: Callable[[float], Objective[Any, B]],
    training: TrainingConfig,
    *,
    score: Callable[[nn.Module, Sequence[T]], list[Score]],
    deciding: str,
    device: torch.device,
) -> Work[B]:
    """The training of a network that reads; `objective` is that for a label smoothing, and `score` judges its use."""

    def validate(network: nn.Module) -> Mapping[str, float]:
        batches = batches_once(examples.valid, budget=training.budget)
        loss = likelihood(network, batches, objective(0.0), device=device).loss
        return {"loss": loss} | {one.metric: one.value for one in score(network, examples.parts.valid)}

    judge = Judge(validate, deciding=deciding, higher_is_better=True)
    return Work(
        model=model,
        stream=example_stream(examples.anew or examples.train, budget=training.budget, seed=training.seed),
        objective=objective(training.label_smoothing),
        judge=judge,
        last_judge=judge,
        scores={name: partial(score, model, part) for name, part in examples.held_out.items()},
        name=examples.name,
    )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Inside, nothing is said of texts that are too long: the materials have said it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        yield
