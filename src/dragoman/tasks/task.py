"""Protocols of a task and the files of its run; data, tokenizer, weights and checks that all tasks share."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, final

import torch
from torch import Tensor, nn

from dragoman.data.cleaning_rules import CleaningReport
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import RunError
from dragoman.models.weight_initialization import without_numbers
from dragoman.models.weight_quantization import dequantize_weights, load_arrays
from dragoman.models.weight_storage import parameter_shapes, set_weights
from dragoman.models.weight_validation import Shapes
from dragoman.number_words import counted, singular
from dragoman.tasks.build_training import TrainingSetup

_N = TypeVar("_N", bound=nn.Module)

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

    def write_config(self, experiment: Any) -> None: ...

    def check_finished(self) -> None:
        """Raise RunError if the training has not ended."""

    def open(self, path: Path) -> Self:
        """Return the files of another run."""


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """Tokenized data of a run; each task adds its sets."""

    tokenizer: Tokenizer
    fingerprints: Mapping[str, str]
    """SHA-256 of every corpus file, by path."""
    notes: tuple[str, ...]
    """Remarks on the data, for the display and the model card."""
    summary: str
    """Sizes of the training and held-out sets, in words."""
    tokens_per_epoch: int
    """Tokens of an epoch without padding, for time estimates."""
    describe_rows: Callable[[Sequence[int]], str]
    """Function that names the examples in the rows of a batch."""
    cleaning_report: CleaningReport | None = None
    """Result of cleaning; None for tasks that do not clean."""


@final
@dataclass(frozen=True)
class CorpusAdvice:
    """Advice on corpora that are too small for a useful model."""

    enough: int
    """Number of training examples below which a model from scratch is rarely useful."""
    outlook: str
    """Result to expect from a smaller corpus."""
    remedy: str
    """Remedy, before and after training."""

    def notes(self, count: int, unit: str) -> tuple[str, ...]:
        """Return a note on the number of training examples if they are too few."""
        number = counted(count, f"{unit} for training are", f"{singular(unit)} for training is")
        few = f"{number} few: {self.outlook}. {self.remedy}"
        return () if count >= self.enough else (few,)


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
    """Python expression that uses a run, which it calls `RUN`; None for tasks without inference."""
    advice: CorpusAdvice


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

    def setup_training(self, data: Any, *, device: torch.device) -> TrainingSetup[Any]:
        """Build model, batches, loss and validation; the initial weights are the same on every device for one seed."""

    def build_model(self, folder: RunFiles, *, device: torch.device) -> nn.Module:
        """Build the model of a run with untrained weights."""

    def load(self, folder: RunFiles, *, device: torch.device, batch_tokens: int) -> Any:
        """Load the trained model of a run for inference."""


def load_model(build: Callable[..., _N], folder: RunFiles, *, device: torch.device) -> _N:
    """Build the model of a finished run by `build(device=...)`, with its weights and in evaluation mode.

    Raises RunError if the weights do not fit the model, before memory is allocated for either.
    """
    with without_numbers() as meta:
        shapes = parameter_shapes(build(device=meta))
    tensors = read_weights(folder, shapes)
    model = build(device=device)
    set_weights(model, tensors, where=str(folder.weights))
    return model.eval()


def read_weights(folder: RunFiles, shapes: Shapes | None = None) -> dict[str, Tensor]:
    """Read the weights of a finished run as float32. Raises RunError as `load_arrays` does."""
    arrays = dequantize_weights(load_arrays(folder.weights, shapes))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


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


def describe_sizes(train: str, valid: int, test: int | None) -> str:
    """Describe the sizes of the sets, such as `1,000 pairs for training, 50 for validation`."""
    sizes = f"{train} for training, {valid:,} for validation"
    return sizes if test is None else f"{sizes}, {test:,} for testing"
