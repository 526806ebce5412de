"""What a training needs of its task, and what every task offers: nothing here knows what is learnt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from torch import Tensor, nn

from dragoman.data.batching.epochs import Stream
from dragoman.data.cleaning import Report
from dragoman.data.tokenizers import Tokenizer
from dragoman.evaluation import Score
from dragoman.models.quantization import SCALE
from dragoman.models.weights import load_tensors, set_weights
from dragoman.runs.folder import RunFolder
from dragoman.training.step import B, Objective
from dragoman.training.trainer import Judge

N = TypeVar("N", bound=nn.Module)


@final
@dataclass(frozen=True)
class Work(Generic[B]):
    """A network, what it learns from, and how it is judged."""

    model: nn.Module
    stream: Stream[B]
    objective: Objective[Any, B]
    judge: Judge
    """How training is watched."""
    last_judge: Judge
    """How the weights are chosen at the end."""
    scores: Mapping[str, Callable[[], Sequence[Score]]]
    """For each set of examples, a function that scores the network as it then is."""
    name: Callable[[Sequence[int]], str]
    """Which examples the rows of a batch are, in words."""
    finished: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict
    """The weights of the network as it was trained, as those of the network that is used."""
    specimen: Callable[[], str] | None = None
    """What the network as it then is writes, for the model card."""


class Materials(Protocol):
    """What a run learns from, made ready on disk."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """SHA-256 of every corpus file, by path."""
        ...

    @property
    def report(self) -> Report | None:
        """What cleaning did to the examples, where they are cleaned."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences to be printed, and to stand in the model card."""
        ...

    @property
    def sizes(self) -> str:
        """How much there is to learn from and to judge by, in words."""
        ...

    @property
    def tokens(self) -> int:
        """Tokens of an epoch, padding aside, for an estimate of the time."""
        ...


@final
@dataclass(frozen=True)
class Description:
    """The words of a task, for model cards and for what is printed."""

    noun: str
    """What is trained, such as `translation model`."""
    counted: str
    """What the loss is the mean over, such as `target tokens`."""
    unit: str
    """The same in a word, for a speed."""
    command: str
    """How to use a run, with `RUN` in its place."""
    python: str | None
    """How to use what `dragoman.load` gives, such as `translate(["…"])`; None where it gives nothing."""


class Task(Protocol):
    """An experiment of one kind, from its settings to materials, to a training, and to use.

    `gather` and `work` belong together: each task has materials of its own.
    """

    @property
    def description(self) -> Description: ...

    def gather(self, folder: RunFolder, *, tell: Callable[[str], None]) -> Any:
        """Read the texts, learn the tokenizer or take the run's own, and turn the texts into ids.

        Raises DataError on texts that cannot be used, and RunError where they are not those the run began with.
        """
        ...

    def work(self, materials: Any, *, device: torch.device) -> Work[Any]:
        """The training of a network whose first weights are the same on every device for one seed."""
        ...

    def network(self, folder: RunFolder, *, device: torch.device) -> nn.Module:
        """The network of a run with fresh weights, for what the folder holds beside its weights."""
        ...

    def load(self, folder: RunFolder, *, device: torch.device, batch_tokens: int) -> Any:
        """The trained network of a run, for use."""
        ...


def with_weights(model: N, folder: RunFolder) -> N:
    """The network with the weights of a finished run, in evaluation mode; raises RunError where they do not fit.

    Weights that were exported as int8 are given as the float32 that they stand for.
    """
    tensors = load_tensors(folder.weights)
    for name, whole in [(name, tensor) for name, tensor in tensors.items() if tensor.dtype == torch.int8]:
        tensors[name] = whole * tensors.pop(name + SCALE)[:, None]
    set_weights(model, tensors, where=str(folder.weights))
    return model.eval()
