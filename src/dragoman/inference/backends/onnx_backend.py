"""Backend on ONNX Runtime: graphs that `dragoman export --format onnx` wrote, with the searches of dragoman.

PyTorch is not imported. `encoder.onnx` or `prompt.onnx` runs once for a batch, `decoder.onnx` for each step.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.numpy_logits_operations import log_normalizers, top_k_sorted
from dragoman.errors import DataError, MissingExtraError, RunError
from dragoman.inference.backends.cpu_backend import CpuModel, Shortlists, pad_ids, requested_threads, restrict
from dragoman.inference.backends.protocol import Sources, TokenIds
from dragoman.models.protocols import LastTokens, TopK, non_finite_logits_error
from dragoman.models.special_symbols import EOS
from dragoman.untrusted_files import MEBIBYTE, FileKind

Tensors = tuple[np.ndarray, ...]
ENCODER, PROMPT, DECODER = "encoder.onnx", "prompt.onnx", "decoder.onnx"
_GRAPH = FileKind(2048 * MEBIBYTE, error=RunError, remedy="export the model again")


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
        self._first = _load_graph(folder / (PROMPT if self.decoder_only else ENCODER))
        self._decoder = _load_graph(folder / DECODER)
        longest = self._decoder.get_modelmeta().custom_metadata_map.get("max_length", "")
        self.max_length = int(longest) if re.fullmatch("[0-9]{1,9}", longest) else None
        self._past = [one for one in self._decoder.get_inputs() if one.name.startswith("past.")]
        self._memory = [one.name for one in self._decoder.get_inputs() if one.name.startswith("memory.")]
        if not self._fits(vocabulary):
            raise RunError(f"{folder / DECODER}: belongs to other graphs or another tokenizer. {_GRAPH.remedy}.")

    def _fits(self, vocabulary: int) -> bool:
        """Return whether the decoder takes what the other graph returns, and knows the vocabulary."""
        logits, *after = self._decoder.get_outputs()
        before = [one.name for one in self._first.get_outputs()]
        passes_state = before == [one.name for one in after] if self.decoder_only else before == self._memory
        return passes_state and len(after) == len(self._past) > 0 and logits.shape[-1] == vocabulary

    def encode(self, sources: Sources, source_features: Sequence[Heads] = ()) -> OnnxMemory:
        if source_features:
            raise DataError(
                "source features have no effect on this model, which has no tree positions. Leave them out."
            )
        shortlists = None if self.shortlist is None else tuple(map(self.shortlist.tokens_for, sources))
        rows = [ids[:-1] for ids in sources] if self.decoder_only else [[*ids, EOS] for ids in sources]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        if not lengths.any():  # prompts of one token
            return OnnxMemory(self._empty_state(len(rows)), lengths, shortlists)
        names = ("tokens", "lengths") if self.decoder_only else ("source", "source_lengths")
        found = _run(self._first, dict(zip(names, (pad_ids(rows).astype(np.int64), lengths), strict=True)))
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
        inputs |= {one.name: tensor for one, tensor in zip(self._past, state.tensors, strict=True)}
        if not self.decoder_only:
            inputs |= dict(zip(self._memory, (memory.lengths, *memory.tensors), strict=True))
        logits, *present = _run(self._decoder, inputs)
        return logits, OnnxState(tuple(present), state.lengths + 1, state.beam_size)

    def top_k(
        self, tokens: LastTokens, memory: OnnxMemory, state: OnnxState, *, k: int, suppress_tokens: TokenIds = ()
    ) -> TopK[OnnxState]:
        logits, after = self.step(tokens, memory, state)
        if not np.isfinite(logits).all():
            raise non_finite_logits_error()
        log_probs = logits - log_normalizers(logits)[..., None]
        if memory.shortlists is not None:
            log_probs = restrict(log_probs, memory.shortlists)
        log_probs[..., list(suppress_tokens)] = -math.inf
        return *top_k_sorted(log_probs, min(k, self._vocabulary - len(suppress_tokens))), after

    def _empty_state(self, rows: int) -> Tensors:
        """Return the state of the layers before the first token: without positions, or a cell of zeros."""
        shapes = ([size if isinstance(size, int) else 0 for size in one.shape[1:]] for one in self._past)
        return tuple(np.zeros((rows, *shape), dtype=np.float32) for shape in shapes)


def _load_graph(path: Path) -> Any:
    """Return the session of a graph, which holds its weights: no other file is read.

    Raises RunError if the file is no such graph.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(feature="Running graphs of ONNX", extra="onnx") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, too
    options.intra_op_num_threads = requested_threads() or os.cpu_count() or 1
    content = _GRAPH.read_bytes(path)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of classes that the library does not export
        raise RunError(f"{path}: is not a graph that ONNX Runtime computes. {_GRAPH.remedy}.") from error


def _run(graph: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a graph. Raises RunError where it does not compute them."""
    try:
        return list(graph.run(None, dict(inputs)))
    except Exception as error:  # of classes that the library does not export
        raise RunError("A graph of ONNX failed: it is damaged, or of another model. Export the model again.") from error
