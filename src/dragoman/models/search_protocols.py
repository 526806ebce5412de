"""What a search asks of a network, whatever computes it: PyTorch on any device, or the compiled core.

The decisions of a search are small arrays, `(batch, beam, width)`, and numpy's: what is large stays behind these
protocols. The layout is that of `models.interfaces`, and state is handed over as it is there.
"""

from collections.abc import Sequence
from typing import Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from dragoman.errors import RunError
from dragoman.typing import Float, Int


@runtime_checkable
class Memory(Protocol):
    """What a network keeps of the source sentences: computed once, shared by all beams of a sentence."""

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """The memory of these sentences alone."""
        ...

    def concat(self, other: Self) -> Self:
        """This memory with the sentences of the other after its own."""
        ...


@runtime_checkable
class State(Protocol):
    """What a network keeps of the targets so far, for every sentence and beam."""

    def reorder(self, parents: Int[np.ndarray, "batch beam"]) -> Self:
        """Beam `j` of a sentence goes on from its hypothesis `parents[:, j]`; the new beam may be wider or narrower."""
        ...

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """The state of these sentences alone, as when finished ones leave the batch."""
        ...

    def concat(self, other: Self) -> Self:
        """This state with the sentences of the other after its own, each at its own position."""
        ...


@runtime_checkable
class Traceable(State, Protocol):
    """A state from which there is a way back."""

    def back(self, places: Int[np.ndarray, " batch"]) -> Self:
        """The state that it was so many symbols ago, sentence by sentence."""
        ...


M = TypeVar("M", bound=Memory)
M_contra = TypeVar("M_contra", bound=Memory, contravariant=True)
S = TypeVar("S", bound=State)

TopK = tuple[Float[np.ndarray, "batch beam width"], Int[np.ndarray, "batch beam width"], S]
"""The log-probabilities of the best tokens, the tokens, and the state that comes next."""


@runtime_checkable
class Backend(Protocol[M_contra, S]):
    """A network that knows the best continuations of each hypothesis: all that a search needs."""

    def start(self, memory: M_contra, *, beam_size: int) -> S:
        """The state before the first step."""
        ...

    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: M_contra,
        state: S,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[S]:
        """The `width` most probable tokens after `tokens`, the last symbol of each hypothesis, best first.

        Of equals the lower token comes first. Where the vocabulary is smaller, all of it is given. A forbidden token
        has a log-probability of minus infinity and keeps its share of the probability, so that the log-probability of
        any other is the one that forced decoding gives. Raises RunError when logits are not numbers.
        """
        ...


def non_finite_logits_error() -> RunError:
    """What is said of a network whose logits are no numbers."""
    return RunError(
        "the network's logits are not finite numbers: its weights are damaged, or overflow in this precision; "
        "check the model's training, or take an earlier checkpoint"
    )
