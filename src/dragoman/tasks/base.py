"""The task protocol, and what all tasks share: cached data, tokenizer, validation by likelihood."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, final

import torch
from torch import Tensor, nn

from dragoman.data.batching.epochs import BatchStream
from dragoman.data.cleaning import CleaningReport
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import RunError
from dragoman.evaluation import Score, perplexity
from dragoman.models.quantization import SCALE_SUFFIX
from dragoman.models.weights import load_tensors, set_weights
from dragoman.training.step import B, LossFunction
from dragoman.training.trainer import Validator

N = TypeVar("N", bound=nn.Module)

MAX_LISTED = 5
"""Number of lines that messages list."""


class RunFiles(Protocol):
    """The files of a run folder that tasks read and write."""

    @property
    def path(self) -> Path: ...

    @property
    def tokenizer(self) -> Path: ...

    @property
    def labels(self) -> Path: ...

    @property
    def weights(self) -> Path: ...

    @property
    def checkpoints(self) -> Path: ...

    def read_tokenizer(self) -> Tokenizer: ...

    def read_environment(self) -> dict[str, Any]: ...

    def read_config(self) -> Any:
        """Return the experiment of the run. Raises RunError if there is no run."""
        ...

    def check_finished(self) -> None:
        """Raise RunError if the training has not ended."""
        ...

    def open(self, path: Path) -> Self:
        """Return the files of another run."""
        ...


@final
@dataclass(frozen=True)
class TrainingSetup(Generic[B]):
    """Model, batches, loss and validation of a training."""

    model: nn.Module
    stream: BatchStream[B]
    loss_function: LossFunction[Any, B]
    validator: Validator
    final_validator: Validator
    """Validator that selects the final weights."""
    scorers: Mapping[str, Callable[[], Sequence[Score]]]
    """For each held-out set, a function that scores the model as it currently is."""
    describe_rows: Callable[[Sequence[int]], str]
    """Function that names the examples in the rows of a batch."""
    export_weights: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict
    """Function from the trained weights to the weights for inference, which merges adapters."""
    write_sample: Callable[[], str] | None = None
    """Function that generates a sample text for the model card."""


class TaskData(Protocol):
    """Tokenized data of a run."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """SHA-256 of every corpus file, by path."""
        ...

    @property
    def cleaning_report(self) -> CleaningReport | None:
        """Result of cleaning; None for tasks that do not clean."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the data, for the display and the model card."""
        ...

    @property
    def summary(self) -> str:
        """Sizes of the training and held-out sets, in words."""
        ...

    @property
    def tokens_per_epoch(self) -> int:
        """Tokens of an epoch without padding, for time estimates."""
        ...


@final
@dataclass(frozen=True)
class TaskDescription:
    """Words that describe a task in model cards and on the display."""

    noun: str
    """Kind of model, such as `translation model`."""
    loss_unit: str
    """Unit that the loss is averaged over, such as `target tokens`."""
    unit: str
    """Unit of the training speed, such as `tokens`."""
    command: str
    """Command that uses a run, which it calls `RUN`."""
    python_usage: str | None
    """Method call on the result of `dragoman.load`; None for tasks without inference."""


class Task(Protocol):
    """Task of an experiment: data, training setup, and loading.

    `prepare_data` and `setup_training` of one task share a type of data.
    """

    @property
    def description(self) -> TaskDescription: ...

    def prepare_data(self, folder: RunFiles, *, report: Callable[[str], None]) -> Any:
        """Read and tokenize the corpora; a new run trains its tokenizer.

        `report` receives status messages. Raises DataError on unusable texts, and RunError if a corpus has changed
        since the run started.
        """
        ...

    def setup_training(self, data: Any, *, device: torch.device) -> TrainingSetup[Any]:
        """Build model, batches, loss and validation; the initial weights are the same on every device for one seed."""
        ...

    def build_model(self, folder: RunFiles, *, device: torch.device) -> nn.Module:
        """Build the model of a run with untrained weights."""
        ...

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Any:
        """Load the trained model of a run for inference."""
        ...


def load_weights(model: N, folder: RunFiles) -> N:
    """Load the weights of a finished run, int8 weights as float32, and set evaluation mode.

    Raises RunError if they do not fit the model.
    """
    tensors = load_tensors(folder.weights)
    for name, quantized in [(name, tensor) for name, tensor in tensors.items() if tensor.dtype == torch.int8]:
        tensors[name] = quantized * tensors.pop(name + SCALE_SUFFIX)[:, None]
    set_weights(model, tensors, where=str(folder.weights))
    return model.eval()


def cache_dir() -> Path:
    """Return the folder of cached tokenized corpora: `DRAGOMAN_CACHE`, or a folder in the user's cache."""
    if chosen := os.environ.get("DRAGOMAN_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman"


def load_or_create_tokenizer(
    folder: RunFiles, create: Callable[[], Tokenizer], *, report: Callable[[str], None]
) -> Tokenizer:
    """Load the tokenizer of the run; a new run creates and saves it."""
    if folder.tokenizer.exists():
        return folder.read_tokenizer()
    report("preparing the tokenizer")
    tokenizer = create()
    tokenizer.save(folder.tokenizer)
    return tokenizer


def check_unchanged(fingerprints: Mapping[str, str], folder: RunFiles) -> None:
    """Raise RunError if the content of a corpus has changed since the run started; its path may change."""
    corpora = folder.read_environment().get("corpora")
    if corpora is None:
        return
    known = {corpus["sha256"] for corpus in corpora}
    for name, digest in fingerprints.items():
        if digest not in known:
            raise RunError(
                f"{name}: has changed since the run in {folder.path} started. Restore the file, or start a new run."
            )


def format_list(items: Sequence[object], *, what: str = "lines") -> str:
    """Format the first items, such as `lines 3, 5, …`."""
    return f"{what} {', '.join(map(str, items[:MAX_LISTED]))}{', …' if len(items) > MAX_LISTED else ''}"


@final
@dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of held-out data."""

    total: float
    """Sum over all predicted tokens, in nats."""
    num_tokens: int

    @property
    def loss(self) -> float:
        """Mean per predicted token."""
        return self.total / self.num_tokens

    @property
    def perplexity(self) -> float:
        """Exponential of the loss; infinity on overflow."""
        return perplexity(self.loss)

    def bits_per(self, units: int) -> float:
        """Return the bits per unit of text, which do not depend on the tokenizer if the units are characters."""
        return self.total / math.log(2) / units

    def scores(self, *, signature: str, detail: str = "", characters: int | None = None) -> list[Score]:
        """Return loss and perplexity, and bits per character if the number of characters is known.

        Scores with the same `signature` are comparable.
        """
        scores = [
            Score("loss", self.loss, f"unit:nats|{signature}", detail, higher_is_better=False),
            Score("perplexity", self.perplexity, signature, detail, higher_is_better=False),
        ]
        if characters:
            bits = self.bits_per(characters)
            scores.append(Score("bits/character", bits, f"characters:{characters}", detail, higher_is_better=False))
        return scores


def measure_likelihood(
    model: Any, batches: Iterable[B], loss_function: LossFunction[Any, B], *, device: torch.device
) -> Likelihood:
    """Sum the negative log-likelihood of all batches. Raises ValueError if they contain no targets."""
    total, count = 0.0, 0
    for batch in batches:
        total += float(loss_function(model, batch.to(device)).negative_log_likelihood)
        count += batch.target_count
    if not count:
        raise ValueError("the batches contain no targets")
    return Likelihood(total, count)


def loss_validator(
    batches: Callable[[], Iterable[B]], loss_function: LossFunction[Any, B], *, device: torch.device
) -> Validator:
    """Return a validator that reports loss and perplexity of the batches and selects by the loss."""

    def validate(model: nn.Module) -> dict[str, float]:
        likelihood = measure_likelihood(model, batches(), loss_function, device=device)
        return {"loss": likelihood.loss, "perplexity": likelihood.perplexity}

    return Validator(validate, metric="loss", higher_is_better=False)
