from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def instruction_sets() -> list[str]: ...
def quantize(weight: NDArray[np.float32], quantized: NDArray[np.int8], scale: NDArray[np.float32]) -> None: ...
def quantize_blocks(
    weight: NDArray[np.float32], quantized: NDArray[np.int8], scale: NDArray[np.float32], center: NDArray[np.float32]
) -> None: ...

class CpuOps:
    """Fused training operations that write their results into given arrays.

    Arrays are contiguous and on the CPU, from NumPy or any library with DLPack; the last axis is a row. Bfloat16 arrays
    may also be uint16 with the same bits. Raises ValueError for shapes that do not match, and for an instruction set
    that the processor does not support.
    """

    def __init__(self, instruction_set: str | None = None) -> None: ...
    @property
    def instruction_set(self) -> str: ...
    def to_bfloat16(self, x: Any, y: Any, column_sums: Any = None) -> None:
        """Convert rows to bfloat16, fill additional rows of `y` with zeros, and add to the column sums."""

    def to_float32(self, x: Any, bias: Any, y: Any) -> None:
        """Convert as many rows as `y` has to float32, and add the bias."""

    def rope(self, x: Any, cos: Any, sin: Any, num_heads: int, y: Any) -> None:
        """Apply rotary position embeddings to heads; `num_heads` consecutive rows share a row of `cos` and `sin`."""

    def dropout(
        self, x: Any, row_seeds: Any, column_seeds: Any, hash_multiplier: int, threshold: int, scale: float, y: Any
    ) -> None:
        """Multiply elements by `scale`, or by zero where 16 bits of a hash are below `threshold`.

        The hash combines the seed of the row with the seed of four columns.
        """

    def cross_entropy(
        self,
        logits: Any,
        targets: Any,
        target_weight: float,
        teacher_probs: Any = None,
        teacher_weight: float = 0.0,
        bias_gradient: Any = None,
    ) -> tuple[float, float, float]:
        """Return the sums over rows of -log p(target), of the mean log p, and of log p averaged under the teacher.

        Replaces the logits (float32 or bfloat16) by p, minus `target_weight` at the target, minus `teacher_weight`
        times the teacher's probabilities, and adds this gradient to `bias_gradient`.
        """

    def accumulate_softmax(self, logits: Any, weight: float, sums: Any) -> None:
        """Add `weight` times the softmax of each row of logits (float32 or bfloat16) to `sums`."""

    def attention(self, query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, output: Any) -> None:
        """Compute softmax(scale Q K') V for arrays of shape (batch, length, heads, head_dim).

        `mask` is None or bytes of shape (batch, heads, queries, keys), nonzero where a key is allowed. Its first three
        axes broadcast from 1.
        """

    def attention_backward(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        causal: bool,
        scale: float,
        output_gradient: Any,
        query_gradient: Any,
        key_gradient: Any,
        value_gradient: Any,
    ) -> None:
        """Compute the gradients of query, key and value from the gradient of the output."""

class Memory:
    """Encoded sources or prompts."""

    @property
    def lengths(self) -> list[int]: ...
    def select(self, rows: Sequence[int]) -> Memory: ...
    def concat(self, other: Memory) -> Memory: ...

class State:
    """Immutable state of the hypotheses."""

    @property
    def beam_size(self) -> int: ...
    @property
    def lengths(self) -> list[int]: ...
    def reorder(self, parents: NDArray[np.int32]) -> State: ...
    def select(self, rows: Sequence[int]) -> State: ...
    def concat(self, other: State) -> State: ...

class Model:
    def __init__(
        self,
        options: dict[str, Any],
        weights: Mapping[str, NDArray[Any]],
        compute_type: str,
        num_threads: int,
        instruction_set: str | None,
    ) -> None: ...
    def encode(self, ids: NDArray[np.int32], lengths: Sequence[int]) -> Memory: ...
    def encode_with_shortlists(
        self, ids: NDArray[np.int32], lengths: Sequence[int], tokens: NDArray[np.int32], counts: Sequence[int]
    ) -> Memory: ...
    def start(self, memory: Memory, beam_size: int) -> State: ...
    def step(self, tokens: NDArray[np.int32], memory: Memory, state: State, logits: NDArray[np.float32]) -> State: ...
    def top_k(
        self,
        tokens: NDArray[np.int32],
        memory: Memory,
        state: State,
        suppress_tokens: Sequence[int],
        extra_tokens: Sequence[int],
        log_probs: NDArray[np.float32],
        ids: NDArray[np.int32],
    ) -> State: ...
    def cross_attention(
        self, tokens: NDArray[np.int32], memory: Memory, state: State, layer: int, weights: NDArray[np.float32]
    ) -> State: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...

class Int8ShiftModel:
    def __init__(
        self,
        weights: dict[str, Any],
        *,
        size: int,
        hidden: int,
        heads: int,
        encoder_layers: int,
        decoder_layers: int,
        positions: NDArray[np.float32],
        num_threads: int,
        instruction_set: str,
    ) -> None: ...
    def encode(self, tokens: NDArray[np.int32], memories: list[NDArray[np.float32]]) -> None: ...
    def decode(
        self,
        tokens: NDArray[np.int32],
        positions: NDArray[np.int32],
        memories: list[NDArray[np.float32]],
        before: NDArray[np.float32],
        after: NDArray[np.float32],
        hidden: NDArray[np.float32],
        weights: list[NDArray[np.float32]] = [],
    ) -> None: ...
    def logits(
        self, hidden: NDArray[np.float32], candidates: list[NDArray[np.int32]], results: list[NDArray[np.float32]]
    ) -> None: ...
    @property
    def num_threads(self) -> int: ...
