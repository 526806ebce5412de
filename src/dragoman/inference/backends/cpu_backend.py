"""CPU backend: encoder-decoder models computed by the `dragoman-cpu` library, without PyTorch."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from dragoman import cpu_library
from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.inference.backends.protocol import Ids, Shortlists
from dragoman.models.protocols import TopK, non_finite_logits_error
from dragoman.models.quantization import ComputeType
from dragoman.models.special_symbols import BOS, EOS, PAD
from dragoman.typing import Float, Int

MAX_THREADS = 1024
THREADS = "DRAGOMAN_THREADS"
"""Environment variable with the number of threads of the library; by default all cores."""


def unsupported_reason(config: Mapping[str, Any]) -> str | None:
    """Return why the library cannot compute a model of this configuration, or None; it must be importable."""
    reason: str | None = import_module(cpu_library.MODULE).unsupported_reason(dict(config))
    return reason


def instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that the library can use on this processor, best first."""
    return tuple(import_module(cpu_library.MODULE).instruction_sets())


@final
class CpuModel:
    """Model in the CPU library, addressed by ids; implements `Backend`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute_type: ComputeType,
        vocabulary: int,
        where: str,
    ) -> None:
        """`config` is that of the model with its vocabulary sizes; `vocabulary` is the number of logits."""
        options = _environment_options()
        library = import_module(cpu_library.MODULE)
        try:
            self._model = library.Model(dict(config), dict(weights), compute_type=compute_type, **options)
        except ValueError as error:
            raise RunError(f"{where}: the weights belong to another configuration ({error})") from error
        self.compute_type = compute_type
        self._vocabulary = vocabulary
        positions = config["positions"]
        self.max_length = int(positions["max_length"]) if positions["kind"] == "learned" else None

    @property
    def instruction_set(self) -> str:
        """Instruction set in use, by the library's name."""
        return str(self._model.instruction_set)

    @property
    def threads(self) -> int:
        return int(self._model.num_threads)

    def encode(self, rows: Sequence[Ids], shortlists: Shortlists | None = None) -> Any:
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        chosen = {} if shortlists is None else {"shortlists": shortlists}
        return self._model.encode(pad_ids(rows), lengths, **chosen)

    def start(self, memory: Any, *, beam_size: int) -> Any:
        return self._model.start(memory, beam_size)

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        """Return all logits and the next state."""
        found: tuple[Float[np.ndarray, "batch beam vocabulary"], Any] = self._model.step(_int32(tokens), memory, state)
        return found

    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: Any,
        state: Any,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[Any]:
        k = min(k, self._vocabulary - len(suppress_tokens))
        # The library converts integers of other sizes one by one.
        suppressed = np.array(suppress_tokens, dtype=np.int32)
        try:
            found: TopK[Any] = self._model.top_k(_int32(tokens), memory, state, k, suppressed)
        except ValueError as error:
            # Other refusals mean invalid arguments, an error of this program.
            raise (non_finite_logits_error() if "finite" in str(error) else error) from error
        return found


@final
class CpuBackend:
    """Encoder-decoder model of the CPU library; implements `Seq2SeqBackend`."""

    device = "cpu"
    needs_source_features = False
    continuous_batching = True

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        compute_type: ComputeType,
        source_vocabulary: int,
        target_vocabulary: int,
        where: str = "these weights",
    ) -> None:
        """`config` is that of the model, which the library must support; `weights` are arrays by name.

        Raises RunError where the weights belong to another configuration, ConfigError where the environment requires
        instructions that are not available.
        """
        sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
        self.model = CpuModel(
            {**config, **sizes}, weights, compute_type=compute_type, vocabulary=target_vocabulary, where=where
        )
        self.max_length = self.model.max_length
        self.start, self.step, self.top_k = self.model.start, self.model.step, self.model.top_k

    def inference_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def encode(
        self, sources: Sequence[Ids], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> Any:
        if source_features:
            raise DataError(
                "source features have no effect on this model, which has no tree positions. Leave them out."
            )
        return self.model.encode([[*source, EOS] for source in sources], shortlists)

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return score_by_logits(self, sources, outputs, penalty=penalty, source_features=source_features)

    def log_probs(self, source: Ids, output: Ids) -> Float[np.ndarray, "steps vocabulary"]:
        """Return the log-probabilities of all tokens at each step of an output, its end symbol the last."""
        logits = np.concatenate(list(stepwise_logits(self, self.encode([source]), [output])))
        return logits - log_normalizers(logits)[..., None]


@runtime_checkable
class LogitsBackend(Protocol):
    """Encoder-decoder model with all logits of a step as numpy arrays."""

    @property
    def max_length(self) -> int | None:
        """As in `Seq2SeqBackend`."""
        ...

    def encode(self, sources: Sequence[Ids], source_features: Sequence[Heads] = ()) -> Any:
        """Encode sources, given without end symbols."""
        ...

    def start(self, memory: Any, *, beam_size: int) -> Any:
        """Return the state before the first step."""
        ...

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        """Return all logits and the next state."""
        ...


def score_by_logits(
    model: LogitsBackend,
    sources: Sequence[Ids],
    outputs: Sequence[Ids],
    *,
    penalty: LengthPenalty,
    source_features: Sequence[Heads] = (),
) -> list[Hypothesis]:
    """Implement `Seq2SeqBackend.score` step by step."""
    ended = [[*output, EOS] for output in outputs]
    expected = pad_ids(ended)
    columns = []
    for position, logits in enumerate(stepwise_logits(model, model.encode(sources, source_features), outputs)):
        tokens = expected[:, position]
        columns.append(logits[np.arange(len(tokens)), tokens] - log_normalizers(logits))
    rows = np.stack(columns, axis=1).tolist()
    return [
        build_hypothesis(list(zip(row, numbers, strict=False)), penalty)
        for row, numbers in zip(ended, rows, strict=True)
    ]


def stepwise_logits(
    model: LogitsBackend, memory: Any, outputs: Sequence[Ids]
) -> Iterator[Float[np.ndarray, "batch vocabulary"]]:
    """Yield the logits after each token of the outputs, step by step."""
    state = model.start(memory, beam_size=1)
    tokens = pad_ids([[BOS, *output] for output in outputs])
    for position in range(tokens.shape[1]):
        logits, state = model.step(tokens[:, position : position + 1], memory, state)
        yield logits[:, 0]


def log_normalizers(logits: Float[np.ndarray, "*rows vocabulary"]) -> Float[np.ndarray, "*rows"]:
    """Return the log-sum-exp of each row."""
    most: np.ndarray = logits.max(axis=-1)
    return most + np.log(np.exp(logits - most[..., None]).sum(axis=-1))


def pad_ids(rows: Sequence[Ids]) -> Int[np.ndarray, "batch places"]:
    """Return ids padded at the end."""
    padded = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int32)
    for empty, row in zip(padded, rows, strict=True):
        empty[: len(row)] = row
    return padded


def _environment_options() -> dict[str, Any]:
    """Return the options set by environment variables. Raises ConfigError on invalid values."""
    options: dict[str, Any] = {}
    if value := os.environ.get(INSTRUCTION_SET):
        if value not in instruction_sets():
            available = ", ".join(instruction_sets())
            raise ConfigError(
                f"{INSTRUCTION_SET} = {value} is not available here; choose one of {available}, or unset it"
            )
        options["instruction_set"] = value
    if value := os.environ.get(THREADS):
        if re.fullmatch("[1-9][0-9]{0,3}", value) is None or int(value) > MAX_THREADS:
            raise ConfigError(f"{THREADS} = {value} is not a number of threads from 1 to {MAX_THREADS}; unset it")
        options["num_threads"] = int(value)
    return options


def _int32(tokens: Int[np.ndarray, "batch beam"]) -> Int[np.ndarray, "batch beam"]:
    return np.ascontiguousarray(tokens, dtype=np.int32)
