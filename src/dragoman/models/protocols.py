"""Protocols of models that training, decoding and interpretation rely on.

A search uses a `Backend`, whose arrays are small and NumPy's; `Decoder` and its extensions compute tensors. Decoding
has the layout `(batch, beam)`: greedy search is a beam of one, and the beams of a sentence share its memory. State is
passed: `step` returns the next state and leaves the given one unchanged. This module does not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, final, runtime_checkable

import numpy as np

from dragoman.array_types import (
    BeamTokens,
    Float,
    Int,
    Lengths,
    SourceFeatures,
    SourceIds,
    StepLogits,
    TargetIds,
    Tensor,
)
from dragoman.errors import DataError, RunError


@runtime_checkable
class Memory(Protocol):
    """Encoded source sentences, computed once and shared by all beams of a sentence."""

    def select(self, rows: Any) -> Self:
        """Return these sentences."""
        ...

    def concat(self, other: Self) -> Self:
        """Append other sentences."""
        ...


@runtime_checkable
class State(Memory, Protocol):
    """Decoder state of every sentence and beam; `concat` keeps each sentence at its own position."""

    def reorder(self, parents: Any) -> Self:
        """Make beam `j` of a sentence continue hypothesis `parents[:, j]`; the number of beams may change."""
        ...


M = TypeVar("M", bound=Memory)
M_contra = TypeVar("M_contra", bound=Memory, contravariant=True)
S = TypeVar("S", bound=State)

LastTokens = Int[np.ndarray, "batch beam"]
"""Last token of each hypothesis."""
TopK = tuple[Float[np.ndarray, "batch beam width"], Int[np.ndarray, "batch beam width"], S]
"""Log-probabilities of the best tokens, their ids, and the next state."""


@runtime_checkable
class Backend(Protocol[M_contra, S]):
    """Model as a search sees it: the best continuations of each hypothesis, as NumPy arrays."""

    def start(self, memory: M_contra, *, beam_size: int) -> S:
        """Return the state before the first step."""
        ...

    def top_k(
        self,
        tokens: LastTokens,
        memory: M_contra,
        state: S,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
        extra_tokens: Sequence[int] = (),
    ) -> TopK[S]:
        """Return the `k` most probable tokens after `tokens`, best first.

        Ties break by lower id; a smaller vocabulary is returned whole. Suppressed tokens have a log-probability of
        minus infinity but keep their probability mass, so that other log-probabilities equal those of forced decoding.
        Behind the best tokens come `extra_tokens`, in their order, whether suppressed or not.
        Raises RunError if logits are not finite.
        """
        ...


@runtime_checkable
class Decoder(Protocol[M_contra, S]):
    """Decoder that computes the logits of one step."""

    def start(self, memory: M_contra, *, beam_size: int) -> S:
        """Return the state before the first step."""
        ...

    def step(self, tokens: BeamTokens, memory: M_contra, state: S) -> tuple[StepLogits, S]:
        """Return the logits after `tokens`, the last token of each hypothesis (BOS first), and the next state."""
        ...


@runtime_checkable
class EncoderDecoder(Decoder[M, S], Protocol[M, S]):
    """Sequence-to-sequence model."""

    def encode(self, source: SourceIds, lengths: Lengths) -> M:
        """Encode the sources."""
        ...

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        """Return the last hidden states of all target positions in parallel; `target` starts with BOS."""
        ...

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        """Return logits over the target vocabulary; a loss may call it for some positions at a time."""
        ...


@runtime_checkable
class DecoderOnly(Decoder[M, S], Protocol[M, S]):
    """Language model, which continues prompts in the role of the source.

    The first tokens given to `step` are the last tokens of the prompts.
    """

    @property
    def max_length(self) -> int | None:
        """Maximum context length, including the new token, or None if unlimited."""
        ...

    def encode(self, prompt: SourceIds, lengths: Lengths) -> M:
        """Process all but the last token of each prompt in parallel; prompts have at least one token."""
        ...

    def hidden(
        self, tokens: Int[Tensor, "batch positions"], documents: Int[Tensor, "batch positions"] | None = None
    ) -> Float[Tensor, "batch positions size"]:
        """Return the last hidden states of all positions; numbered documents do not attend to each other.

        Rows are padded at the end.
        """
        ...

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        """Return the logits of the next token at each position."""
        ...


@final
@dataclass(frozen=True)
class EnsembleParts:
    """Memory or decoder state of each member of an ensemble, for the same sentences."""

    parts: tuple[Any, ...]

    @property
    def lengths(self) -> Any:
        return self.parts[0].lengths

    def reorder(self, parents: Any) -> Self:
        return type(self)(tuple(part.reorder(parents) for part in self.parts))

    def select(self, rows: Any) -> Self:
        return type(self)(tuple(part.select(rows) for part in self.parts))

    def concat(self, other: Self) -> Self:
        return type(self)(tuple(mine.concat(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)))


def non_finite_logits_error() -> RunError:
    """Build the error for logits that are not finite."""
    return RunError(
        "the model's logits are not finite numbers: its weights are damaged, or overflow in this precision. "
        "Check the training of the model, or use an earlier checkpoint"
    )


def needs_source_features(model: object) -> bool:
    """Return whether the encoder of a model requires `SourceFeatures`."""
    return bool(getattr(model, "needs_source_features", False))


def source_arguments(model: object, features: SourceFeatures | None) -> dict[str, Any]:
    """Return the keyword arguments that pass optional features to `encode` and `hidden` of a model.

    Raises DataError where features have no effect; a model that lacks required features raises DataError itself.
    """
    if features is None:
        return {}
    if not needs_source_features(model):
        raise DataError("source features have no effect on this model, which has no tree positions. Leave them out.")
    return {"source_features": features}
