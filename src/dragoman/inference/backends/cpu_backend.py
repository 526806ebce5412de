"""CPU backends: models computed by the `dragoman-cpu` library, alone or as an ensemble, without PyTorch."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, final

import numpy as np

from dragoman import cpu_library
from dragoman.array_types import Float, Int
from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.data.readers.conllu import Heads
from dragoman.data.shortlist import Shortlist
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.decoding.numpy_logits_operations import NumpyOperations, log_normalizers, top_k_with_extra
from dragoman.decoding.sampling import SamplingStep, sample_next
from dragoman.decoding.search_base import RowBatch
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.inference.backends.protocol import InferenceBackend, Sources, TokenIds
from dragoman.inference.concurrent_calls import hand_over
from dragoman.models.alignment_head import AlignmentHead, no_alignment_error
from dragoman.models.protocols import EnsembleParts, LastTokens, TopK, non_finite_logits_error
from dragoman.models.special_symbols import BOS, EOS, PAD
from dragoman.models.weight_quantization import ComputeType

Shortlists = tuple[Int[np.ndarray, "_"], ...]
SENTENCES_PER_BLOCK = 16
"""Sentences whose logits an ensemble averages together: intermediate results stay in a cache."""
MAX_THREADS_PER_CORE = 4
"""Threads above one per core wait for each other; this many are a mistake."""
THREADS = "DRAGOMAN_THREADS"
"""Environment variable with the number of threads of the library; by default all cores."""


def unsupported_reason(config: Mapping[str, Any]) -> str | None:
    """Return why the library cannot compute a model of this configuration, or None; it must be importable."""
    return import_module(cpu_library.MODULE).unsupported_reason(dict(config))


def instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that the library can use on this processor, best first."""
    return tuple(import_module(cpu_library.MODULE).instruction_sets())


class CpuModel(InferenceBackend[Any, Any]):
    """Base class of the backends on the CPU library, which samples and scores by the `step` of a subclass."""

    device = "cpu"
    needs_source_features = False
    continuous_batching = True
    decoder_only = False
    shortlist: Shortlist | None = None

    def inference_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def step(
        self, tokens: LastTokens, memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        """Return the logits of all tokens and the next state."""
        raise NotImplementedError

    def sample(self, tokens: LastTokens, memory: Any, state: Any, *, step: SamplingStep) -> NextTokens[Any]:
        logits, after = self.step(tokens, memory, state)
        return *sample_next(logits[:, 0], step, NumpyOperations), after

    def score(
        self, sources: Sources, targets: Sources, *, penalty: LengthPenalty, source_features: Sequence[Heads] = ()
    ) -> list[Hypothesis]:
        """Score step by step, from the begin symbol or from the first token of the prompt on."""
        memory = self.encode([ids[:1] for ids in sources] if self.decoder_only else sources, source_features)
        pairs = list(zip(sources if self.decoder_only else [[BOS]] * len(sources), targets, strict=True))
        expected = pad_ids([[*prefix[1:], *target] for prefix, target in pairs])
        columns = []
        for position, logits in enumerate(self.stepwise_logits(memory, [[*one, *two[:-1]] for one, two in pairs])):
            tokens = expected[:, position]
            columns.append(logits[np.arange(len(tokens)), tokens] - log_normalizers(logits))
        rows = np.stack(columns, axis=1).tolist()
        return [
            build_hypothesis(list(zip(target, row[len(prefix) - 1 :], strict=False)), penalty)
            for (prefix, target), row in zip(pairs, rows, strict=True)
        ]

    def align(
        self,
        sources: Sources,
        targets: Sources,
        *,
        head: AlignmentHead | None = None,
        source_features: Sequence[Heads] = (),
    ) -> list[Float[np.ndarray, "target source"]]:
        """Align by the `cross_attention` of each step."""
        if not sources:
            return []
        head = head or self.default_alignment_head()
        memory = self.encode(sources, source_features)
        state = self.start(memory, beam_size=1)
        inputs = pad_ids([[BOS, *target] for target in targets])
        lengths = np.array([len(target) + 1 for target in targets])
        attention: Float[np.ndarray, "batch heads target source"] | None = None
        active = np.arange(len(targets))
        for position in range(inputs.shape[1]):
            hand_over()
            if (lengths[active] > position).mean() < _ACTIVE_SHARE:
                kept = np.flatnonzero(lengths[active] > position)
                active, memory, state = active[kept], memory.select(kept), state.select(kept)
            weights, state = self.cross_attention(inputs[active, position], memory, state, head=head)
            if attention is None:
                attention = np.zeros((len(targets), weights.shape[1], inputs.shape[1], weights.shape[2]), np.float32)
            attention[active, :, position, : weights.shape[2]] = weights
        assert attention is not None, "targets have end symbols"
        found = []
        for weights, source, target in zip(attention, sources, targets, strict=True):
            rows = head.read(weights[:, : len(target) + 1, : len(source) + 1])
            # A model that does not see the end symbol of sources has no column for it.
            found.append(np.pad(rows, ((0, 0), (0, len(source) + 1 - rows.shape[1]))))
        return found

    def default_alignment_head(self) -> AlignmentHead:
        """Return the cross-attention that aligns words. Raises DataError if there is none."""
        raise no_alignment_error()

    def cross_attention(
        self,
        tokens: Int[np.ndarray, " batch"],
        memory: Any,
        state: Any,
        *,
        head: AlignmentHead,
    ) -> tuple[Float[np.ndarray, "batch heads source"], Any]:
        """Return the attention of one step in the layer of `head`, with the index of its heads, and the next state."""
        raise NotImplementedError

    def stepwise_logits(self, memory: Any, inputs: Sources) -> Iterator[Float[np.ndarray, "batch vocabulary"]]:
        """Yield the logits after each input token, step by step."""
        state = self.start(memory, beam_size=1)
        tokens = pad_ids(inputs)
        for position in range(tokens.shape[1]):
            hand_over()
            logits, state = self.step(tokens[:, position : position + 1], memory, state)
            yield logits[:, 0]


@final
class CpuBackend(CpuModel):
    """Model of the CPU library; implements `InferenceBackend`."""

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
        self.decoder_only = config["kind"] == "decoder_only"
        self._decoder_layers = 0 if self.decoder_only else int(config["decoder_layers"])
        self._is_ssru = config.get("decoder_layer") == "ssru"
        self._hides_source_eos = not config.get("source_eos", True)
        sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
        if self.decoder_only:
            sizes = {"vocabulary": target_vocabulary}
        options = library_options()
        library = import_module(cpu_library.MODULE)
        try:
            self._model = library.Model({**config, **sizes}, dict(weights), compute_type=compute_type, **options)
        except ValueError as error:
            raise RunError(f"{where}: the weights belong to another configuration ({error})") from error
        self.compute_type = compute_type
        self._vocabulary = target_vocabulary
        positions = config["positions"]
        self.max_length = int(positions["max_length"]) if positions["kind"] == "learned" else None

    @property
    def instruction_set(self) -> str:
        """Instruction set in use, by the library's name."""
        return str(self._model.instruction_set)

    @property
    def threads(self) -> int:
        return int(self._model.num_threads)

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> Any:
        if source_features:
            raise DataError(
                "source features have no effect on this model, which has no tree positions. Leave them out."
            )
        rows = sources if self.decoder_only else [[*source, EOS] for source in sources]
        if self._hides_source_eos:
            rows = [row[:-1] or row for row in rows]
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        chosen = {} if self.shortlist is None else {"shortlists": self.shortlist.tokens_for_each(sources, needed)}
        return self._model.encode(pad_ids(rows), lengths, **chosen)

    def start(self, memory: Any, *, beam_size: int) -> Any:
        return self._model.start(memory, beam_size)

    def step(
        self, tokens: LastTokens, memory: Any, state: Any
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], Any]:
        return self._model.step(_int32(tokens), memory, state)

    def top_k(
        self,
        tokens: LastTokens,
        memory: Any,
        state: Any,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
        extra_tokens: TokenIds = (),
    ) -> TopK[Any]:
        k = min(k, self._vocabulary - len(suppress_tokens))
        # The library converts integers of other sizes one by one.
        suppressed, extra = (np.array(ids, dtype=np.int32) for ids in (suppress_tokens, extra_tokens))
        try:
            return self._model.top_k(_int32(tokens), memory, state, k, suppressed, extra)
        except ValueError as error:
            # Other refusals mean invalid arguments, an error of this program.
            raise (non_finite_logits_error() if "finite" in str(error) else error) from error

    def default_alignment_head(self) -> AlignmentHead:
        return AlignmentHead.default(self._decoder_layers, ssru=self._is_ssru)

    def cross_attention(
        self, tokens: Int[np.ndarray, " batch"], memory: Any, state: Any, *, head: AlignmentHead
    ) -> tuple[Float[np.ndarray, "batch heads source"], Any]:
        return self._model.cross_attention(tokens, memory, state, layer=head.layer)

    def log_probs(self, source: TokenIds, output: TokenIds) -> Float[np.ndarray, "steps vocabulary"]:
        """Return the log-probabilities of all tokens at each step of an output, its end symbol the last."""
        logits = np.concatenate(list(self.stepwise_logits(self.encode([source]), [[BOS, *output]])))
        return logits - log_normalizers(logits)[..., None]


_ACTIVE_SHARE: Final = 0.9
"""Share of targets with tokens left below which the others leave the batch of an alignment."""


@final
@dataclass(frozen=True)
class EnsembleMemory(RowBatch):
    """Memories of all members, and the shortlist of each sentence."""

    members: EnsembleParts
    shortlists: Shortlists | None


@final
class CpuEnsemble(CpuModel):
    """Ensemble of `CpuBackend`s with one vocabulary, whose token probabilities it averages as `models.ensemble` does.

    It implements `InferenceBackend`, with log-probabilities as logits.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)
        known = [model.max_length for model in models if model.max_length is not None]
        self.max_length: int | None = min(known, default=None)

    def encode(
        self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()
    ) -> EnsembleMemory:
        members = EnsembleParts(tuple(model.encode(sources, source_features) for model in self.models))
        shortlist = self.shortlist
        return EnsembleMemory(members, None if shortlist is None else tuple(shortlist.tokens_for_each(sources, needed)))

    def align(
        self,
        sources: Sources,
        targets: Sources,
        *,
        head: AlignmentHead | None = None,
        source_features: Sequence[Heads] = (),
    ) -> list[Float[np.ndarray, "target source"]]:
        """Align by the first member."""
        found: list[np.ndarray] = self.models[0].align(sources, targets, head=head, source_features=source_features)
        return found

    def start(self, memory: EnsembleMemory, *, beam_size: int) -> EnsembleParts:
        pairs = zip(self.models, memory.members.parts, strict=True)
        return EnsembleParts(tuple(model.start(part, beam_size=beam_size) for model, part in pairs))

    def step(
        self, tokens: LastTokens, memory: EnsembleMemory, state: EnsembleParts
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], EnsembleParts]:
        logits, after = self._logits(tokens, memory, state)
        return mean_probability(logits), after

    def top_k(
        self,
        tokens: LastTokens,
        memory: EnsembleMemory,
        state: EnsembleParts,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
        extra_tokens: TokenIds = (),
    ) -> TopK[EnsembleParts]:
        logits, after = self._logits(tokens, memory, state)
        found = []
        for begin in range(0, len(tokens), SENTENCES_PER_BLOCK):
            block = slice(begin, begin + SENTENCES_PER_BLOCK)
            with np.errstate(invalid="ignore"):
                log_probs = mean_probability([one[block] for one in logits])
            if np.isnan(log_probs).any():
                raise non_finite_logits_error()
            if memory.shortlists is not None:
                log_probs = restrict(log_probs, memory.shortlists[block])
            found.append(top_k_with_extra(log_probs, k, suppress_tokens, extra_tokens))
        best, ids = (np.concatenate(column) for column in zip(*found, strict=True))
        return best, ids, after

    def _logits(
        self, tokens: LastTokens, memory: EnsembleMemory, state: EnsembleParts
    ) -> tuple[list[Float[np.ndarray, "batch beam vocabulary"]], EnsembleParts]:
        """Return the logits of each model."""
        parts = zip(self.models, memory.members.parts, state.parts, strict=True)
        logits, after = zip(*(model.step(tokens, its, own) for model, its, own in parts), strict=True)
        return list(logits), EnsembleParts(after)


def mean_probability(logits: Sequence[Float[np.ndarray, "*rows vocabulary"]]) -> Float[np.ndarray, "*rows vocabulary"]:
    """Return the logarithm of the mean of the distributions with these logits."""
    log_probs = [one - log_normalizers(one)[..., None] for one in logits]
    most: np.ndarray = np.maximum.reduce(log_probs)
    return most + np.log(sum(np.exp(one - most) for one in log_probs) / np.float32(len(logits)))


def restrict(
    log_probs: Float[np.ndarray, "batch beam vocabulary"], shortlists: Shortlists
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """Restrict each sentence to its shortlist, whose probabilities then sum to one."""
    restricted = np.full_like(log_probs, -math.inf)
    for row, known, tokens in zip(restricted, log_probs, shortlists, strict=True):
        row[:, tokens] = known[:, tokens] - log_normalizers(known[:, tokens])[..., None]
    return restricted


def pad_ids(rows: Sources) -> Int[np.ndarray, "batch places"]:
    """Return ids padded at the end."""
    padded = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int32)
    for empty, row in zip(padded, rows, strict=True):
        empty[: len(row)] = row
    return padded


def library_options() -> dict[str, Any]:
    """Return the options set by environment variables. Raises ConfigError on invalid values."""
    options: dict[str, Any] = {}
    if value := os.environ.get(INSTRUCTION_SET):
        if value not in instruction_sets():
            available = ", ".join(instruction_sets())
            raise ConfigError(
                f"{INSTRUCTION_SET} = {value} is not available here; choose one of {available}, or unset it"
            )
        options["instruction_set"] = value
    if (threads := requested_threads()) is not None:
        options["num_threads"] = threads
    return options


def requested_threads() -> int | None:
    """Return the number of threads that the environment asks for, or None. Raises ConfigError if it is invalid."""
    value = os.environ.get(THREADS)
    if not value:
        return None
    most = MAX_THREADS_PER_CORE * (cores := os.cpu_count() or 1)
    if re.fullmatch("[1-9][0-9]{0,6}", value) is None or int(value) > most:
        raise ConfigError(
            f"{THREADS} = {value} is not a number of threads from 1 to {most}, {MAX_THREADS_PER_CORE} for each of the "
            f"{cores} cores of this machine; unset it to use all cores"
        )
    return int(value)


def _int32(tokens: LastTokens) -> LastTokens:
    return np.ascontiguousarray(tokens, dtype=np.int32)
