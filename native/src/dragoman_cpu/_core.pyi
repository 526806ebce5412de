from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def instruction_sets() -> list[str]: ...
def quantise(weight: NDArray[np.float32], whole: NDArray[np.int8], scale: NDArray[np.float32]) -> None: ...

class Learning:
    """What training computes between products, written into arrays that are handed in: NumPy's, or any with DLPack.

    The last axis of an array is a row. Halves are bfloat16, or uint16 where a library has no such numbers. Raises
    ValueError for what does not fit together, and for an instruction set that cannot be used here.
    """

    def __init__(self, instruction_set: str | None = None) -> None: ...
    @property
    def instruction_set(self) -> str: ...
    def narrow(self, x: Any, y: Any, sums: Any = None) -> None:
        """Rows in bfloat16, and zeros in the rows that `y` has more; their sums by column are added to `sums`."""

    def widen(self, x: Any, bias: Any, y: Any) -> None:
        """Halves in float32, plus the bias, for as many rows as `y` has."""

    def turn(self, x: Any, cosine: Any, sine: Any, heads: int, y: Any) -> None:
        """Halves of each head's row as points that turn; `heads` rows after each other have one row of angles."""

    def drop(self, x: Any, lines: Any, columns: Any, finisher: int, least: int, factor: float, y: Any) -> None:
        """Elements times `factor`, or zero where a share of the word of their line and column is below `least`."""

    def losses(
        self,
        logits: Any,
        expected: Any,
        certainty: float,
        taught: Any = None,
        share: float = 0.0,
        bias_gradient: Any = None,
    ) -> tuple[float, float, float]:
        """Sums over rows of -log p of what was expected, of the mean log p, and of log p in the mean of what is taught.

        The logits, float32 or halves, become p, less `certainty` at what was expected, less `share` of the
        distributions that are taught.
        """

    def add_probabilities(self, logits: Any, share: float, sums: Any) -> None:
        """A share of the probabilities of each row of logits, float32 or halves, is added to the sums."""

    def attend(self, query: Any, key: Any, value: Any, allowed: Any, causal: bool, scale: float, attended: Any) -> None:
        """Softmax of scaled inner products times the values; arrays are texts by places by heads by numbers.

        `allowed` has a byte for each text, head, query and key, where each of the first three may be one for all.
        """

    def attend_back(
        self,
        query: Any,
        key: Any,
        value: Any,
        allowed: Any,
        causal: bool,
        scale: float,
        gradient: Any,
        for_query: Any,
        for_key: Any,
        for_value: Any,
    ) -> None:
        """The gradients in queries, keys and values of the one in what was attended to."""

class Memory:
    """What was read of sources or prompts; shared, not copied, by `keep` and `join`."""

    @property
    def lengths(self) -> list[int]: ...
    def keep(self, rows: Sequence[int]) -> Memory: ...
    def join(self, other: Memory) -> Memory: ...

class State:
    """Hypotheses, `beam` for each sentence; a handle that stays what it is, whatever is made of it."""

    @property
    def beam(self) -> int: ...
    @property
    def ages(self) -> list[int]: ...
    def select(self, parents: NDArray[np.int32]) -> State: ...
    def keep(self, rows: Sequence[int]) -> State: ...
    def join(self, other: State) -> State: ...
    def back(self, places: Sequence[int]) -> State: ...

class Model:
    def __init__(
        self,
        settings: dict[str, Any],
        weights: Mapping[str, NDArray[Any]],
        compute: str,
        threads: int,
        instruction_set: str | None,
    ) -> None: ...
    def encode(self, ids: NDArray[np.int32], lengths: Sequence[int]) -> Memory: ...
    def encode_for(
        self, ids: NDArray[np.int32], lengths: Sequence[int], candidates: NDArray[np.int32], counts: Sequence[int]
    ) -> Memory: ...
    def start(self, memory: Memory, beam: int) -> State: ...
    def step(self, tokens: NDArray[np.int32], memory: Memory, state: State, logits: NDArray[np.float32]) -> State: ...
    def best(
        self,
        tokens: NDArray[np.int32],
        memory: Memory,
        state: State,
        forbidden: Sequence[int],
        log_probs: NDArray[np.float32],
        ids: NDArray[np.int32],
    ) -> State: ...
    def follow(
        self,
        tokens: NDArray[np.int32],
        lengths: Sequence[int],
        memory: Memory,
        state: State,
        forbidden: Sequence[int],
        log_probs: NDArray[np.float32],
        ids: NDArray[np.int32],
    ) -> State: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    @property
    def cached_places(self) -> int: ...
