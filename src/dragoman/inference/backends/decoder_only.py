"""What a generator asks of a network, whatever computes it, and a network of PyTorch that gives it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from dragoman.decoding import Stepping, score_tokens
from dragoman.inference.backends.protocol import Ids
from dragoman.inference.inference_mode import in_use
from dragoman.inference.padding import rectangle
from dragoman.models.protocols import Causal, Prompted
from dragoman.models.search_protocols import Searched
from dragoman.models.special_symbols import Symbols
from dragoman.typing import Float, Int


@runtime_checkable
class Predicting(Protocol):
    """A network that predicts the next token of a text: drawn from, searched and scored."""

    @property
    def device(self) -> torch.device:
        """Where its logits are."""
        ...

    @property
    def steps(self) -> Prompted[Any, Any]:
        """What is drawn from."""
        ...

    def in_use(self) -> AbstractContextManager[None]:
        """Inside, the network is as its users have it."""
        ...

    def read(self, prompts: Sequence[Ids]) -> tuple[Searched[Any, Any], Any]:
        """The network as a search asks it, and its memory of prompts."""
        ...

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        """The log-probability of what is expected after each token, 0 for padding."""
        ...


@final
class PredictingOnTensors:
    """Implements `Predicting`."""

    def __init__(self, model: Causal[Any, Any], *, device: torch.device | str) -> None:
        """The model is on `device` already."""
        self.device = torch.device(device)
        self.steps = model

    def in_use(self) -> AbstractContextManager[None]:
        return in_use(self.steps)

    def read(self, prompts: Sequence[Ids]) -> tuple[Searched[Any, Any], Any]:
        stepping = Stepping(self.steps)
        return stepping, stepping.hold(self.steps.encode(*rectangle(prompts, device=self.device)))

    def score_tokens(
        self, tokens: Int[Tensor, "batch places"], expected: Int[Tensor, "batch places"]
    ) -> Float[Tensor, "batch places"]:
        return score_tokens(self.steps, tokens, expected, symbols=Symbols())
