r"""Backend in the 8-bit arithmetic of Firefox's engine, bit by bit: compute type `int8_shift`.

Marian calls it `int8shiftAlphaAll`. The inputs $x$ of each product are rounded to $\mathrm{round}(a x)$ with a fixed
multiplier $a$, shifted by 127, and multiplied by integers; sums of two products saturate at 16 bits, but for those of
the output layer, which the engine computes without vector instructions. Sums of float32 numbers run from the first to
the last (Bogoychev et al., 2020).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, final

import numpy as np

from dragoman import cpu_library
from dragoman.array_types import Float, Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.numpy_logits_operations import append_extra, log_normalizers, top_k_sorted
from dragoman.decoding.search_base import RowBatch
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.cpu_backend import CpuModel, Shortlists, instruction_sets, library_options
from dragoman.inference.backends.protocol import Sources, TokenIds
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.protocols import LastTokens, TopK, non_finite_logits_error
from dragoman.models.special_symbols import BOS, EOS

MAX_LENGTH: Final = 2048
"""Positions of the table of sinusoids."""
EMBEDDING: Final = "source_embedding.tokens.weight"
Product = tuple[np.ndarray, float, float]
"""Integers (inputs, outputs), their multiplier, and that of the inputs of their product."""
F = np.float32


@final
@dataclass(frozen=True)
class Memory(RowBatch):
    """Keys and values of all decoder layers for each sentence, and its candidates."""

    parts: tuple[np.ndarray, ...]
    shortlists: Shortlists | None


@final
@dataclass(frozen=True)
class State(RowBatch):
    """Cells of each hypothesis, and the number of its tokens."""

    cells: Float[np.ndarray, "batch beam layers size"]
    lengths: Int[np.ndarray, " batch"]

    def reorder(self, parents: Int[np.ndarray, "batch beam"]) -> "State":
        """Make beam `j` of a sentence continue hypothesis `parents[:, j]`."""
        return State(self.cells[np.arange(len(parents))[:, None], parents], self.lengths)


@final
class Int8ShiftBackend(CpuModel):
    """Encoder-decoder of Marian's student models: post-norm, ReLU, tied embeddings and SSRU decoder."""

    compute_type = "int8_shift"

    def __init__(
        self, config: Mapping[str, Any], weights: Mapping[str, np.ndarray], products: Mapping[str, Product]
    ) -> None:
        """`products` are those of all matrices by their names; the integers of the embedding are (tokens, features)."""
        options = library_options()
        self.max_length: int | None = MAX_LENGTH
        self.instruction_set = options.get("instruction_set", instruction_sets()[0])
        size = self._size = int(config["d_model"])
        self._layers = int(config["decoder_layers"])
        parts: dict[str, Any] = {
            name: np.ascontiguousarray(array, F) for name, array in weights.items() if ".norm." in name
        }
        for name, product in products.items():
            if name != EMBEDDING:
                base = name.removesuffix(".weight")
                parts[base] = _prepare(product, weights.get(f"{base}.bias"))
        values, multiplier, input_multiplier = products[EMBEDDING]
        self._every = np.arange(len(values), dtype=np.int32)
        _, activation, scale, bias = _prepare((values.T, multiplier, input_multiplier), weights.get("unembedding.bias"))
        unit, factor = float(F(1) / F(multiplier)), float(F(np.sqrt(size)))
        integers = np.ascontiguousarray(values, np.int8)
        parts["vocabulary"] = (integers, unit, factor, activation, scale, bias)
        self._model = import_module(cpu_library.MODULE).Int8ShiftModel(
            parts,
            size=size,
            hidden=int(config["d_ff"]),
            heads=int(config["num_heads"]),
            encoder_layers=int(config["encoder_layers"]),
            decoder_layers=self._layers,
            positions=_positions(size),
            num_threads=options.get("num_threads", 0),
            instruction_set=self.instruction_set,
        )

    @property
    def threads(self) -> int:
        return int(self._model.num_threads)

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> Memory:
        if source_features:
            raise DataError("source features have no effect on this model. Leave them out.")
        share = 2 * self._layers * self._size
        parts = tuple(np.empty((len(source) + 1) * share, F) for source in sources)
        tokens = np.array([token for source in sources for token in [*source, EOS]], np.int32)
        self._model.encode(tokens, list(parts))
        shortlist = self.shortlist
        return Memory(parts, None if shortlist is None else tuple(shortlist.tokens_for_each(sources, needed)))

    def start(self, memory: Memory, *, beam_size: int) -> State:
        count = len(memory.parts)
        return State(np.zeros((count, beam_size, self._layers, self._size), F), np.zeros(count, np.int64))

    def step(
        self, tokens: LastTokens, memory: Memory, state: State
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], State]:
        hidden, after = self._decode(tokens, memory, state)
        return np.stack(self._logits(hidden, [self._every] * len(hidden))).reshape(*tokens.shape, -1), after

    def top_k(
        self,
        tokens: LastTokens,
        memory: Memory,
        state: State,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
        extra_tokens: TokenIds = (),
    ) -> TopK[State]:
        beam = tokens.shape[1]
        hidden, after = self._decode(tokens, memory, state)
        shortlists = memory.shortlists or [self._every] * len(tokens)
        candidates = [one for one in shortlists for _ in range(beam)]
        k = min(k, len(self._every) - len(suppress_tokens))
        best, ids = np.full((len(hidden), k), -np.inf, F), np.zeros((len(hidden), k), np.int64)
        extra = np.full((len(hidden), len(extra_tokens)), -np.inf, F)
        for row, (logits, own) in enumerate(zip(self._logits(hidden, candidates), candidates, strict=True)):
            if not np.isfinite(logits).all():
                raise non_finite_logits_error()
            normalizer = log_normalizers(logits[None])[0]
            inside, places = _places(own, extra_tokens)
            extra[row, inside] = logits[places] - normalizer
            logits[_places(own, suppress_tokens)[1]] = -np.inf
            if k == 1:
                place = int(logits.argmax())
                best[row, 0], ids[row, 0] = logits[place] - normalizer, own[place]
                continue
            found, chosen = top_k_sorted(logits[None] - normalizer, min(k, len(own)))
            best[row, : len(chosen[0])], ids[row, : len(chosen[0])] = found[0], own[chosen[0]]
        best, ids = best.reshape(*tokens.shape, k), ids.reshape(*tokens.shape, k)
        return *append_extra(best, ids, extra.reshape(*tokens.shape, -1), extra_tokens), after

    def default_alignment_head(self) -> AlignmentHead:
        return AlignmentHead.default(self._layers, ssru=True)

    def cross_attention(
        self, tokens: Int[np.ndarray, " batch"], memory: Memory, state: State, *, head: AlignmentHead
    ) -> tuple[Float[np.ndarray, "batch heads source"], State]:
        if head != self.default_alignment_head():
            raise ConfigError(
                f"alignment head {head} is not computed; models of this kind align by the first head of "
                "their last layer only. Leave it out."
            )
        lengths = [part.size // (2 * self._layers * self._size) for part in memory.parts]
        weights = np.zeros((len(tokens), 1, max(lengths)), F)
        rows = [np.empty(length, F) for length in lengths]
        _, after = self._decode(tokens[:, None], memory, state, rows)
        for place, row in zip(weights, rows, strict=True):
            place[0, : len(row)] = row
        return weights, after

    def _decode(
        self, tokens: LastTokens, memory: Memory, state: State, weights: Sequence[np.ndarray] = ()
    ) -> tuple[np.ndarray, State]:
        """Return the last hidden states of all hypotheses, and the next state; write attention to `weights`."""
        batch, beam = tokens.shape
        flat = tokens.reshape(-1).astype(np.int32)
        flat[flat == BOS] = -1  # the decoder starts from a zero embedding
        positions = np.repeat(state.lengths, beam).astype(np.int32)
        shape = (batch * beam, self._layers, self._size)
        after, hidden = np.empty(shape, F), np.empty((batch * beam, self._size), F)
        parts = [part for part in memory.parts for _ in range(beam)]
        before = np.ascontiguousarray(state.cells).reshape(shape)
        self._model.decode(flat, positions, parts, before, after, hidden, list(weights))
        return hidden, State(after.reshape(batch, beam, *shape[1:]), state.lengths + 1)

    def _logits(self, hidden: np.ndarray, candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the logits of the candidates of each row."""
        found = [np.empty(len(one), F) for one in candidates]
        self._model.logits(hidden, list(candidates), found)
        return found


def _prepare(product: Product, bias: np.ndarray | None) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Return integers, the multiplier of inputs, and the scale and bias of the sums of products."""
    values, multiplier, activation = product
    scale = F(1) / (F(activation) * F(multiplier))
    shift = -(F(127) * scale * values.sum(axis=0, dtype=np.int32).astype(F))
    offset = shift if bias is None else shift + np.asarray(bias, F)
    return np.ascontiguousarray(values, np.int8), float(F(activation)), float(scale), np.ascontiguousarray(offset)


def _positions(size: int) -> Float[np.ndarray, "places size"]:
    """Return Marian's sinusoids, correctly rounded."""
    half = size // 2
    exponents = (np.arange(half).astype(F) / F(half - 1)).astype(np.float64)
    rates = np.exp(np.log(np.float64(F(1e-4))) * exponents).astype(F)
    angles = np.arange(MAX_LENGTH, dtype=F)[:, None] * rates
    return np.sin(np.concatenate([angles, angles + F(np.pi / 2)], axis=1).astype(np.float64)).astype(F)


def _places(shortlist: np.ndarray, tokens: TokenIds) -> tuple[np.ndarray, np.ndarray]:
    """Return which of some tokens are in a sorted shortlist, and the places of these."""
    ids = np.asarray(tokens, dtype=shortlist.dtype)
    places = np.searchsorted(shortlist, ids)
    inside = (places < len(shortlist)).nonzero()[0]
    inside = inside[shortlist[places[inside]] == ids[inside]]
    return inside, places[inside]
