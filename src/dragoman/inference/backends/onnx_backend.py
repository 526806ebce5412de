"""Backend on ONNX Runtime: graphs that `dragoman export --format onnx` wrote, with the searches of dragoman.

PyTorch is not imported. `encoder.onnx` or `prompt.onnx` runs once for a batch, `decoder.onnx` for each step.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.numpy_logits_operations import log_normalizers, top_k_with_extra
from dragoman.errors import DataError, RunError
from dragoman.inference.backends.cpu_backend import CpuModel, Shortlists, pad_ids, restrict
from dragoman.inference.backends.onnx_graph import GRAPH, load_graph, run_graph, wrong_sizes_error
from dragoman.inference.backends.protocol import Sources, TokenIds
from dragoman.models.protocols import LastTokens, TopK, non_finite_logits_error
from dragoman.models.special_symbols import EOS

Tensors = tuple[np.ndarray, ...]
ENCODER, PROMPT, DECODER = "encoder.onnx", "prompt.onnx", "decoder.onnx"
_REMEDY = "Export the model again."
_MAX_SIZE = 2**20
"""Maximum number of heads, or numbers of a head or cell."""


@final
@dataclass(frozen=True)
class OnnxMemory:
    """Keys and values of sources for each decoder layer, padded at the end; of prompts, the state after them."""

    tensors: Tensors
    lengths: Int[np.ndarray, " sentences"]
    shortlists: Shortlists | None = None

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        chosen = None if self.shortlists is None else tuple(self.shortlists[row] for row in rows)
        return type(self)(tuple(one[rows] for one in self.tensors), self.lengths[rows], chosen)

    def concat(self, other: Self) -> Self:
        raise NotImplementedError("sentences do not enter a running batch")


@final
@dataclass(frozen=True)
class OnnxState:
    """State of the decoder layers, `beam_size` rows for each sentence; prefixes of prompts are padded at the start."""

    tensors: Tensors
    lengths: Int[np.ndarray, " sentences"]
    """Tokens before the next one."""
    beam_size: int

    def reorder(self, parents: Int[np.ndarray, "sentences beam"]) -> Self:
        rows = (np.arange(len(parents))[:, None] * self.beam_size + parents).ravel()
        return type(self)(tuple(one[rows] for one in self.tensors), self.lengths, parents.shape[1])

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        flat = (rows[:, None] * self.beam_size + np.arange(self.beam_size)).ravel()
        return type(self)(tuple(one[flat] for one in self.tensors), self.lengths[rows], self.beam_size)

    def concat(self, other: Self) -> Self:
        raise NotImplementedError("sentences do not enter a running batch")


@final
class OnnxBackend(CpuModel):
    """Graphs in a folder; implements `InferenceBackend`."""

    continuous_batching = False
    compute_type = "float32"

    def __init__(self, folder: Path, *, vocabulary: int) -> None:
        """Load the graphs. Raises RunError if one is damaged, MissingExtraError without ONNX Runtime."""
        self.decoder_only = not (folder / ENCODER).exists()
        self._vocabulary = vocabulary
        self._first = load_graph(folder / (PROMPT if self.decoder_only else ENCODER))
        self._decoder = load_graph(folder / DECODER)
        longest = self._decoder.get_modelmeta().custom_metadata_map.get("max_length", "")
        self.max_length = int(longest) if re.fullmatch("[0-9]{1,9}", longest) else None
        past, memory = (_inputs(self._decoder, prefix) for prefix in ("past.", "memory."))
        self._past = [one.name for one in past]
        self._memory = [one.name for one in memory]
        present = [name.replace("past.", "present.", 1) for name in self._past]
        first, outputs = self._first.get_outputs(), self._decoder.get_outputs()
        if (
            [one.name for one in first] != (present if self.decoder_only else self._memory)
            or [one.name for one in outputs] != ["logits", *present]
            or outputs[0].shape[-1:] != [vocabulary]
            or not past
        ):
            raise RunError(f"{folder}: its graphs do not belong to each other, or to its tokenizer. {_REMEDY}")
        self._state_shapes = [_state_shape(one.shape, where=folder / DECODER) for one in past]

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> OnnxMemory:
        if source_features:
            raise DataError(
                "source features have no effect on this model, which has no tree positions. Leave them out."
            )
        shortlists = None if self.shortlist is None else tuple(self.shortlist.tokens_for_each(sources, needed))
        rows = [ids[:-1] for ids in sources] if self.decoder_only else [[*ids, EOS] for ids in sources]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        if not lengths.any():  # prompts of one token
            return OnnxMemory(self._empty_state(len(rows)), lengths, shortlists)
        names = ("tokens", "lengths") if self.decoder_only else ("source", "source_lengths")
        found = run_graph(self._first, dict(zip(names, (pad_ids(rows).astype(np.int64), lengths), strict=True)))
        _check_rows(found, len(rows))
        if not self.decoder_only:
            seen, *found = found
            lengths = seen.astype(np.int64)  # of two types with 64 bits, ONNX Runtime returns the other one
        return OnnxMemory(tuple(found), lengths, shortlists)

    def start(self, memory: OnnxMemory, *, beam_size: int) -> OnnxState:
        count = len(memory.lengths)
        if self.decoder_only:
            first = OnnxState(memory.tensors, memory.lengths, beam_size=1)
            return first.reorder(np.zeros((count, beam_size), dtype=np.int64))
        return OnnxState(self._empty_state(count * beam_size), np.zeros_like(memory.lengths), beam_size)

    def step(
        self, tokens: LastTokens, memory: OnnxMemory, state: OnnxState
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], OnnxState]:
        inputs = {"tokens": tokens.astype(np.int64), "lengths": state.lengths}
        inputs |= dict(zip(self._past, state.tensors, strict=True))
        if not self.decoder_only:
            inputs |= dict(zip(self._memory, (memory.lengths, *memory.tensors), strict=True))
        logits, *present = run_graph(self._decoder, inputs)
        _check_rows(present, tokens.size)
        if logits.shape != (*tokens.shape, self._vocabulary):
            raise wrong_sizes_error()
        return logits, OnnxState(tuple(present), state.lengths + 1, state.beam_size)

    def top_k(
        self,
        tokens: LastTokens,
        memory: OnnxMemory,
        state: OnnxState,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
        extra_tokens: TokenIds = (),
    ) -> TopK[OnnxState]:
        logits, after = self.step(tokens, memory, state)
        if not np.isfinite(logits).all():
            raise non_finite_logits_error()
        log_probs = logits - log_normalizers(logits)[..., None]
        if memory.shortlists is not None:
            log_probs = restrict(log_probs, memory.shortlists)
        k = min(k, self._vocabulary - len(suppress_tokens))
        return *top_k_with_extra(log_probs, k, suppress_tokens, extra_tokens), after

    def _empty_state(self, rows: int) -> Tensors:
        """Return the state of the layers before the first token: without positions, or a cell of zeros."""
        return tuple(np.zeros((rows, *shape), dtype=np.float32) for shape in self._state_shapes)


def _inputs(graph: Any, prefix: str) -> list[Any]:
    return [one for one in graph.get_inputs() if one.name.startswith(prefix)]


def _state_shape(shape: list[Any], *, where: Path) -> tuple[int, ...]:
    """Return the shape of a row of a state before the first token. Raises RunError if there is no such state."""
    match shape:
        case [_, int(heads), str(), int(size)] if 0 < heads <= _MAX_SIZE and 0 < size <= _MAX_SIZE:
            return heads, 0, size
        case [_, int(size)] if 0 < size <= _MAX_SIZE:
            return (size,)
    raise GRAPH.damaged(where, "its states have other sizes than those of a decoder")


def _check_rows(tensors: Sequence[np.ndarray], rows: int) -> None:
    if any(one.shape[:1] != (rows,) for one in tensors):
        raise wrong_sizes_error()
