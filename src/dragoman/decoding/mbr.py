r"""Which hypotheses of a beam are given out: those of the best score, or those that the others agree with.

Minimum Bayes risk (Kumar and Byrne, 2004) takes each hypothesis for the reference with the probability that the network
gives it, and chooses what is expected to be nearest to it: $\arg\max_y \sum_{y'} p(y') \, \mathrm{BLEU}(y, y')$.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from dragoman.decoding.config import Likeliest, MinimumBayesRisk, Normalisation, SearchSettings
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import penalty
from dragoman.typing import Float, Int

ORDERS = 4
"""The longest n-grams of BLEU."""


def chosen(hypotheses: Sequence[Hypothesis], settings: SearchSettings) -> list[Hypothesis]:
    """The `settings.best` to give out of a search's `settings.candidates`, best first; finished ones before others.

    They keep the scores that the search ranked them by, and minimum Bayes risk another order.
    """
    match settings.choice:
        case Likeliest():
            return list(hypotheses[: settings.best])
        case MinimumBayesRisk(temperature=temperature):
            gains = expected_gains(hypotheses, normalisation=settings.normalisation, temperature=temperature)
            order = np.lexsort((-gains, np.array([not one.finished for one in hypotheses])))
            return [hypotheses[place] for place in order[: settings.best]]
        case _:
            assert_never(settings.choice)


def expected_gains(
    hypotheses: Sequence[Hypothesis], *, normalisation: Normalisation, temperature: float
) -> Float[np.ndarray, " candidates"]:
    """The BLEU, from 0 to 1, that each is expected to have if one of them is the reference."""
    return agreement([one.tokens for one in hypotheses]) @ _shares(hypotheses, normalisation, temperature)


def _shares(
    hypotheses: Sequence[Hypothesis], normalisation: Normalisation, temperature: float
) -> Float[np.ndarray, " candidates"]:
    """How probable each is among them: by their log-probabilities, as if all were as long as the first."""
    scores = np.array([one.score for one in hypotheses])
    log_probs = scores * penalty(np.array([hypotheses[0].length]), normalisation) / temperature
    shares = np.exp(log_probs - log_probs.max())
    return shares / shares.sum()


def agreement(outputs: Sequence[Sequence[int]]) -> Float[np.ndarray, "candidates candidates"]:
    """The BLEU of each output with each as its one reference, of tokens, from 0 to 1.

    Counts of n-grams above the first order are raised by one (Lin and Och, 2004), as a sentence asks for.
    """
    lengths = np.array([len(output) for output in outputs])
    product = np.ones((len(outputs), len(outputs)))
    for order in range(1, ORDERS + 1):
        counts, more = _counts(outputs, order), int(order > 1)
        matches = np.minimum(counts[:, None], counts).sum(axis=-1) + more
        totals = np.maximum(lengths - order + 1, 0)[:, None] + more
        product *= np.divide(matches, totals, out=np.ones_like(product), where=totals > 0)
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty output is as good as its reference is empty
        excess = np.where(lengths == lengths[:, None], 1.0, lengths / lengths[:, None])
    return product ** (1 / ORDERS) * np.exp(np.minimum(0, 1 - excess))


def _counts(outputs: Sequence[Sequence[int]], order: int) -> Int[np.ndarray, "candidates grams"]:
    """How often each n-gram of any of them stands in each."""
    numbers: dict[tuple[int, ...], int] = {}
    found = [
        [numbers.setdefault(gram, len(numbers)) for gram in zip(*(output[n:] for n in range(order)), strict=False)]
        for output in outputs
    ]
    return np.stack([np.bincount(row, minlength=len(numbers)) for row in found])
