"""How well a network predicts held-out examples, as a loss and as the scores that are read off it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

import torch

from dragoman.evaluation import Score, perplexity
from dragoman.training.step import B, Objective
from dragoman.training.trainer import Judge


@final
@dataclass(frozen=True)
class Likelihood:
    """What predicting cost altogether."""

    nats: float
    """Negative log-likelihood (natural logarithm) of all predictions."""
    predictions: int

    @property
    def loss(self) -> float:
        """Nats a prediction."""
        return self.nats / self.predictions

    @property
    def perplexity(self) -> float:
        """As many equally likely choices would leave one as much in doubt; infinite where floats end."""
        return perplexity(self.loss)

    def bits_per(self, units: int) -> float:
        """Bits for each of so many units of the text, which unlike tokens are the same for every tokenizer."""
        return self.nats / math.log(2) / units

    def scores(self, *, facts: str, detail: str = "", characters: int | None = None) -> list[Score]:
        """Loss and perplexity, and bits a character where their number is known; `facts` make them comparable."""
        found = [
            Score("loss", self.loss, f"unit:nats|{facts}", detail, higher_is_better=False),
            Score("perplexity", self.perplexity, facts, detail, higher_is_better=False),
        ]
        if characters:
            bits = self.bits_per(characters)
            found.append(Score("bits/character", bits, f"characters:{characters}", detail, higher_is_better=False))
        return found


def likelihood(model: Any, batches: Iterable[B], objective: Objective[Any, B], *, device: torch.device) -> Likelihood:
    """What the predictions of all batches cost; raises ValueError where there is none."""
    nats, count = 0.0, 0
    for batch in batches:
        nats += float(objective(model, batch.to(device)).negative_log_likelihood)
        count += batch.target_count
    if not count:
        raise ValueError("there is nothing to predict in these batches")
    return Likelihood(nats, count)


def by_loss(batches: Callable[[], Iterable[B]], objective: Objective[Any, B], *, device: torch.device) -> Judge:
    """Judge by the loss on the batches that `batches()` gives, and tell the perplexity too."""

    def validate(model: torch.nn.Module) -> dict[str, float]:
        found = likelihood(model, batches(), objective, device=device)
        return {"loss": found.loss, "perplexity": found.perplexity}

    return Judge(validate, deciding="loss", higher_is_better=False)
