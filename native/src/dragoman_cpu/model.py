"""A model in the core."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dragoman_cpu import _core
from dragoman_cpu.arrays import weight_array, whole_numbers
from dragoman_cpu.configuration import settings_of
from dragoman_cpu.hypotheses import Memory, State

Compute = Literal["int8", "bfloat16", "float32"]


def instruction_sets() -> tuple[str, ...]:
    """What can be used on this processor, best first: of amx, avx512_bf16, avx512_vnni, avx2 and portable."""
    return tuple(_core.instruction_sets())


def quantise(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers from -127 to 127 and a factor for each row, as the core does it when it loads float weights.

    The factor is the largest magnitude of the row over 127 (1 for a row of zeros), rounding is to the nearest, ties to
    even. Raises ValueError for anything but a matrix of finite float32.
    """
    if weight.ndim != 2 or weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise ValueError(f"a {weight.ndim}-dimensional array of {weight.dtype}; give a matrix of finite float32")
    whole, scale = np.empty(weight.shape, np.int8), np.empty(weight.shape[0], np.float32)
    _core.quantise(np.ascontiguousarray(weight), whole, scale)
    return whole, scale


@final
class Model:
    """Weights packed for one instruction set, a team of threads, and the caches of its hypotheses.

    Calls from several threads take their turns; each releases the GIL while it works.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, NDArray[Any]],
        *,
        compute: Compute,
        threads: int = 0,
        instruction_set: str | None = None,
    ) -> None:
        """`config` is the `model` part of a run's configuration with its defaults written out, and `source_vocabulary`
        and `target_vocabulary` (or `vocabulary`); `weights` have the names of a run's `model.safetensors`.

        A weight is float32, bfloat16 as uint16, or int8 with a float32 `NAME_scale` for each row. Without `threads`
        all cores that the process may use work, without `instruction_set` the best. Raises ValueError where
        configuration and weights do not make a model that the core runs.
        """
        arrays = {name: weight_array(name, array) for name, array in weights.items()}
        self.core = _core.Model(settings_of(config), arrays, compute, threads, instruction_set)

    @property
    def instruction_set(self) -> str:
        return self.core.instruction_set

    @property
    def threads(self) -> int:
        return self.core.threads

    @property
    def vocabulary(self) -> int:
        """Number of logits."""
        return self.core.vocabulary

    @property
    def cached_places(self) -> int:
        """Places of hypotheses whose keys and values are kept for some state."""
        return self.core.cached_places

    @property
    def cache_bytes(self) -> int:
        """What they take, free room included."""
        return self.core.cache_bytes

    def encode(self, ids: ArrayLike, lengths: ArrayLike, *, candidates: Sequence[ArrayLike] | None = None) -> Memory:
        """Read sources, or the prompts of a causal model but for their last tokens, which the first step is given.

        `ids` are `[batch, places]`, of which the first `lengths` of each row count. `candidates` are the tokens that
        `best` and `follow` choose among for each source, one at least, each once; probabilities are theirs alone then.
        `step` gives the logits of all tokens all the same. Raises IndexError for tokens beyond the vocabulary or places
        beyond learned ones, ValueError for lengths that are not from 1 to the width.
        """
        table, numbers = whole_numbers(ids, axes=2, name="ids"), whole_numbers(lengths, axes=1, name="lengths").tolist()
        if candidates is None:
            return Memory(self.core.encode(table, numbers))
        lists = [np.sort(whole_numbers(some, axes=1, name="candidates")) for some in candidates]
        every = np.concatenate([np.zeros(0, np.int32), *lists])
        return Memory(self.core.encode_for(table, numbers, every, [len(some) for some in lists]))

    def start(self, memory: Memory, beam: int) -> State:
        """The state before the first step, of `beam` equal hypotheses a sentence."""
        if beam < 1:
            raise ValueError(f"beam = {beam} must be 1 at least")
        return State(self.core.start(memory.core, beam))

    def step(self, tokens: ArrayLike, memory: Memory, state: State) -> tuple[NDArray[np.float32], State]:
        """Logits `[batch, beam, vocabulary]` of what follows `tokens[batch, beam]`, and the state that comes next.

        The state that was given stays as it was.
        """
        table = whole_numbers(tokens, axes=2, name="tokens")
        logits = np.empty((table.size, self.vocabulary), np.float32)
        following = self.core.step(table, memory.core, state.core, logits)
        return logits.reshape(*table.shape, self.vocabulary), State(following)

    def best(
        self, tokens: ArrayLike, memory: Memory, state: State, k: int, forbidden: Sequence[int] = ()
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], State]:
        """Log-probabilities and ids `[batch, beam, k]` of the k best tokens that are not forbidden, and the next state.

        Best first, ties by the lower id. Forbidden tokens keep their share of the probability. Where a source has fewer
        candidates, what is left is minus infinity and token 0. Raises ValueError where the vocabulary has fewer than
        `k` such tokens, or a logit is not finite.
        """
        if not 1 <= k <= self.vocabulary:
            raise ValueError(f"k = {k} must be from 1 to the vocabulary's {self.vocabulary}")
        table = whole_numbers(tokens, axes=2, name="tokens")
        log_probs, ids = np.empty((table.size, k), np.float32), np.empty((table.size, k), np.int32)
        without = whole_numbers(forbidden, axes=1, name="forbidden").tolist()
        following = self.core.best(table, memory.core, state.core, without, log_probs, ids)
        return log_probs.reshape(*table.shape, k), ids.reshape(*table.shape, k), State(following)

    def follow(
        self,
        tokens: ArrayLike,
        lengths: ArrayLike,
        memory: Memory,
        state: State,
        k: int,
        forbidden: Sequence[int] = (),
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], State]:
        """What `best` gives after each of the first `lengths` of `tokens[batch, places]`, with the same bits, at once.

        Log-probabilities and ids are `[rows, k]`, a row for each token, sentence by sentence; the state is the one
        after all of them, and its `back` those before. The state must have a beam of one. Raises what `best` and
        `encode` do.
        """
        if not 1 <= k <= self.vocabulary:
            raise ValueError(f"k = {k} must be from 1 to the vocabulary's {self.vocabulary}")
        table, numbers = whole_numbers(tokens, axes=2, name="tokens"), whole_numbers(lengths, axes=1, name="lengths")
        rows = int(np.clip(numbers, 0, table.shape[1]).sum())
        log_probs, ids = np.empty((rows, k), np.float32), np.empty((rows, k), np.int32)
        without = whole_numbers(forbidden, axes=1, name="forbidden").tolist()
        following = self.core.follow(table, numbers.tolist(), memory.core, state.core, without, log_probs, ids)
        return log_probs, ids, State(following)
