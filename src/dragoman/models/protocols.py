"""What training, search and inspection may ask of a network, whatever is behind it.

The layout of decoding is `(batch, beam)`: greedy is a beam of one, and the beams of a sentence share its memory. State
is handed over: `step` returns the state that comes next and leaves the one it was given as it was.
"""

from typing import Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

from dragoman.shapes import BeamTokens, Lengths, SourceIds, StepLogits, Structure, TargetIds
from dragoman.typing import Float, Int


@runtime_checkable
class Memory(Protocol):
    """What a network keeps of the source sentences: computed once, shared by all beams of a sentence."""

    @property
    def lengths(self) -> Lengths:
        """Those of the sentences."""
        ...

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        """The memory of these sentences alone."""
        ...

    def concat(self, other: Self) -> Self:
        """This memory with the sentences of the other after its own."""
        ...


@runtime_checkable
class State(Protocol):
    """What a network keeps of the targets so far, for every sentence and beam."""

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> Self:
        """Beam `j` of a sentence goes on from its hypothesis `parents[:, j]`; the new beam may be wider or narrower."""
        ...

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        """The state of these sentences alone, as when finished ones leave the batch."""
        ...

    def concat(self, other: Self) -> Self:
        """This state with the sentences of the other after its own, each at its own position."""
        ...


M = TypeVar("M", bound=Memory)
M_contra = TypeVar("M_contra", bound=Memory, contravariant=True)
S = TypeVar("S", bound=State)


@runtime_checkable
class Decoder(Protocol[M_contra, S]):
    """All that a search needs."""

    def start(self, memory: M_contra, *, beam_size: int) -> S:
        """The state before the first step."""
        ...

    def step(self, tokens: BeamTokens, memory: M_contra, state: S) -> tuple[StepLogits, S]:
        """Logits of what follows `tokens`, the last symbol of each hypothesis (the begin symbol first)."""
        ...


@runtime_checkable
class EncoderDecoder(Decoder[M, S], Protocol[M, S]):
    """A network from source to target."""

    def encode(self, source: SourceIds, lengths: Lengths) -> M:
        """What the decoder may look at."""
        ...

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        """The last hidden states of all target positions in parallel; `target` begins with the begin symbol."""
        ...

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        """Logits over the target vocabulary; a call of its own, so that a loss can avoid holding all of them."""
        ...


@runtime_checkable
class SupportsTrees(EncoderDecoder[M, S], Protocol[M, S]):
    """A network from source to target whose encoder may be told the dependency tree of each source too.

    Raises DataError where it is not told what it must be, or told what it has no use for.
    """

    @property
    def structural(self) -> bool:
        """Whether it must be told."""
        ...

    def encode(self, source: SourceIds, lengths: Lengths, structure: Structure | None = None) -> M:
        """What the decoder may look at."""
        ...

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds, structure: Structure | None = None
    ) -> Float[Tensor, "batch target size"]:
        """The last hidden states of all target positions in parallel."""
        ...


@runtime_checkable
class PromptDecoder(Decoder[M, S], Protocol[M, S]):
    """A network whose outputs go on from prompts; for a search the prompt takes the part of the source.

    The first tokens that `step` is given are the last tokens of the prompts.
    """

    @property
    def max_length(self) -> int | None:
        """The most tokens that the network can look back on, itself included, or None where there is no end."""
        ...

    def encode(self, prompt: SourceIds, lengths: Lengths) -> M:
        """All but the last token of each prompt, read in parallel; prompts hold one token at least."""
        ...


@runtime_checkable
class DecoderOnly(PromptDecoder[M, S], Protocol[M, S]):
    """A network that predicts the next token of a text, of all its places in parallel too."""

    def hidden(
        self, tokens: Int[Tensor, "batch places"], documents: Int[Tensor, "batch places"] | None = None
    ) -> Float[Tensor, "batch places size"]:
        """The last hidden states of all places in parallel; none looks at another document, where these are numbered.

        Padding stands after the text of a row.
        """
        ...

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        """Logits of what follows each place."""
        ...
