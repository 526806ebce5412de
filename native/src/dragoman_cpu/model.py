"""Transformer model that runs on the CPU."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dragoman_cpu import _ext
from dragoman_cpu.array_checks import int32_array, weight_array
from dragoman_cpu.config import model_options
from dragoman_cpu.state import Memory, State

ComputeType = Literal["int8", "int8_int16", "bfloat16", "float32"]


def instruction_sets() -> tuple[str, ...]:
    """Return the supported ones of amx, avx512_bf16, avx512_vnni, avx2 and portable, best first."""
    return tuple(_ext.instruction_sets())


def quantize(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize a matrix to integers from -127 to 127 and a scale per row, as `Model` does for compute type int8.

    The scale is the largest magnitude of the row divided by 127 (1 for a row of zeros). Rounding is to the nearest
    integer, ties to even. Raises ValueError for anything but a matrix of finite float32.
    """
    if weight.ndim != 2 or weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise ValueError(f"a {weight.ndim}-dimensional array of {weight.dtype}; give a matrix of finite float32")
    quantized, scale = np.empty(weight.shape, np.int8), np.empty(weight.shape[0], np.float32)
    _ext.quantize(np.ascontiguousarray(weight), quantized, scale)
    return quantized, scale


def quantize_blocks(
    weight: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    """Quantize a matrix to integers from -128 to 127, as `Model` does for compute type int8_int16.

    Returns the integers, and a scale and a center for each block of 32 columns of a row: a weight is `scale * integer +
    center`. Raises ValueError for anything but a matrix of finite float32.
    """
    if weight.ndim != 2 or weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise ValueError(f"a {weight.ndim}-dimensional array of {weight.dtype}; give a matrix of finite float32")
    quantized, blocks = np.empty(weight.shape, np.int8), (weight.shape[0], -(-weight.shape[1] // 32))
    scale, center = np.empty(blocks, np.float32), np.empty(blocks, np.float32)
    _ext.quantize_blocks(np.ascontiguousarray(weight), quantized, scale, center)
    return quantized, scale, center


@final
class Model:
    """Packed weights, a thread pool, and the key-value cache of all hypotheses.

    Calls from several threads run one after another. Each call releases the GIL during computation. An exception of a
    signal handler, such as KeyboardInterrupt, ends it early. A process that is forked after the model was loaded gets
    a RuntimeError and must load it again.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, NDArray[Any]],
        *,
        compute_type: ComputeType,
        num_threads: int = 0,
        instruction_set: str | None = None,
    ) -> None:
        """Load a model.

        Args:
            config: `model` section of a run's configuration with all defaults, plus `source_vocabulary` and
                `target_vocabulary`, or `vocabulary` for a decoder-only model.
            weights: Arrays named as in a run's `model.safetensors`: float32, bfloat16 as uint16, or int8 with a float32
                array `NAME_scale` of one scale per row; or with one scale and, in `NAME_center`, one center per block
                of 32 columns.
            compute_type: Number format of the matrix products.
            num_threads: Number of threads; 0 uses all cores available to the process.
            instruction_set: One of `instruction_sets()`; None selects the best.

        Raises ValueError if the configuration is unsupported or does not match the weights.
        """
        arrays = {name: weight_array(name, array) for name, array in weights.items()}
        self._num_heads = int(config["num_heads"])
        self._native = _ext.Model(model_options(config), arrays, compute_type, num_threads, instruction_set)

    @property
    def instruction_set(self) -> str:
        """Name of the instruction set in use."""
        return self._native.instruction_set

    @property
    def num_threads(self) -> int:
        """Number of threads in use."""
        return self._native.num_threads

    @property
    def vocabulary(self) -> int:
        """Size of the target vocabulary."""
        return self._native.vocabulary

    @property
    def cached_tokens(self) -> int:
        """Number of tokens whose keys and values some state refers to."""
        return self._native.cached_tokens

    @property
    def cache_bytes(self) -> int:
        """Memory of the key-value cache, including free entries."""
        return self._native.cache_bytes

    def encode(self, ids: ArrayLike, lengths: ArrayLike, *, shortlists: Sequence[ArrayLike] | None = None) -> Memory:
        """Encode sources, or prefill the cache with prompts except their last tokens, which the first step takes.

        Args:
            ids: Token ids `[batch, length]`.
            lengths: Number of tokens of each row that count.
            shortlists: For each source, the distinct tokens that `top_k` chooses from, at least one. Log-probabilities
                are normalized over these tokens. `step` ignores shortlists.

        Raises IndexError for tokens beyond the vocabulary or positions beyond a learned table, ValueError for lengths
        that are not from 1 to the width of `ids`.
        """
        id_array = int32_array(ids, ndim=2, name="ids")
        length_list = int32_array(lengths, ndim=1, name="lengths").tolist()
        if shortlists is None:
            return Memory(self._native.encode(id_array, length_list))
        lists = [np.sort(int32_array(tokens, ndim=1, name="shortlist")) for tokens in shortlists]
        tokens = np.concatenate([np.zeros(0, np.int32), *lists])
        counts = [len(shortlist) for shortlist in lists]
        return Memory(self._native.encode_with_shortlists(id_array, length_list, tokens, counts))

    def start(self, memory: Memory, beam_size: int) -> State:
        """Return the state before the first step, with `beam_size` equal hypotheses per sentence."""
        if beam_size < 1:
            raise ValueError(f"beam_size = {beam_size} must be at least 1")
        return State(self._native.start(memory.native, beam_size))

    def step(self, tokens: ArrayLike, memory: Memory, state: State) -> tuple[NDArray[np.float32], State]:
        """Append `tokens[batch, beam]`; return the logits `[batch, beam, vocabulary]` and the next state.

        The logits are those of the tokens that follow.
        """
        token_array = int32_array(tokens, ndim=2, name="tokens")
        logits = np.empty((token_array.size, self.vocabulary), np.float32)
        next_state = self._native.step(token_array, memory.native, state.native, logits)
        return logits.reshape(*token_array.shape, self.vocabulary), State(next_state)

    def top_k(
        self,
        tokens: ArrayLike,
        memory: Memory,
        state: State,
        k: int,
        suppress_tokens: Sequence[int] = (),
        extra_tokens: Sequence[int] = (),
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], State]:
        """Append `tokens[batch, beam]`; return log-probabilities and ids `[batch, beam, k]` of the best next tokens.

        Tokens are sorted from best to worst, ties by lower id. Suppressed tokens are not returned, but keep their
        probability. If a shortlist has fewer than `k` tokens, the remaining results are minus infinity and token 0.
        Behind the `k` best, each row has `extra_tokens` in their order, whether suppressed or not, with minus
        infinity outside of the shortlist. The third value is the next state. Raises ValueError if the vocabulary has
        fewer than `k` tokens that are not suppressed, or if a logit is not finite.
        """
        if not 1 <= k <= self.vocabulary:
            raise ValueError(f"k = {k} must be from 1 to the vocabulary size {self.vocabulary}")
        token_array = int32_array(tokens, ndim=2, name="tokens")
        extra = int32_array(extra_tokens, ndim=1, name="extra_tokens")
        shape = token_array.size, k + extra.size
        log_probs, ids = np.empty(shape, np.float32), np.empty(shape, np.int32)
        if extra.size:
            log_probs[:, k:], ids[:, k:] = -np.inf, extra
        suppressed = int32_array(suppress_tokens, ndim=1, name="suppress_tokens").tolist()
        next_state = self._native.top_k(
            token_array, memory.native, state.native, suppressed, extra.tolist(), log_probs, ids
        )
        columns = (*token_array.shape, k + extra.size)
        return log_probs.reshape(columns), ids.reshape(columns), State(next_state)

    def cross_attention(
        self, tokens: ArrayLike, memory: Memory, state: State, *, layer: int
    ) -> tuple[NDArray[np.float32], State]:
        """Append one of `tokens[batch]` to each sentence; return weights `[batch, heads, source]` and the next state.

        The weights are those of the cross-attention of a layer, counted from 0, of the query that reads the token.
        They are zero after the end of a source, and for pruned heads, which stand after the remaining ones. Raises
        ValueError for a layer that the model does not have, and for a state with a `beam_size` other than 1.
        """
        token_array = int32_array(tokens, ndim=1, name="tokens")
        longest = max(memory.native.lengths, default=0)
        weights = np.zeros((len(token_array), self._num_heads * longest), np.float32)
        if not 0 <= layer < 2**31:
            raise ValueError(f"layer = {layer} must be at least 0")
        next_state = self._native.cross_attention(token_array[:, None], memory.native, state.native, layer, weights)
        return weights.reshape(len(token_array), self._num_heads, longest), State(next_state)
