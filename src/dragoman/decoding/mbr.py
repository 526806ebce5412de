r"""Minimum Bayes risk decoding: ranks hypotheses by expected utility.

The method (Kumar and Byrne, 2004) treats each hypothesis as the reference, with the probability that the model gives
it, and chooses the output of highest expected BLEU:
$\arg\max_y \sum_{y'} p(y') \, \mathrm{BLEU}(y, y')$. A beam of ten or more is useful.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import length_divisor

MAX_NGRAM = 4
"""Longest n-gram of BLEU."""


def rank_by_utility(hypotheses: Sequence[Hypothesis], config: DecodingConfig) -> list[Hypothesis]:
    """Return `config.n_best` of the hypotheses, best first, finished ones before cut-off ones.

    Scores stay as the search computed them; minimum Bayes risk changes the order only.
    """
    scores = np.array([one.score for one in hypotheses])
    # Probabilities among the hypotheses, as if all had the length of the first.
    divisor = length_divisor(np.array([hypotheses[0].length]), config.penalty)
    log_probs = scores * divisor / config.mbr_temperature
    shares = np.exp(log_probs - log_probs.max())
    expected_bleu = pairwise_bleu([one.tokens for one in hypotheses]) @ (shares / shares.sum())
    order = np.lexsort((-expected_bleu, np.array([not one.finished for one in hypotheses])))
    return [hypotheses[index] for index in order[: config.n_best]]


def pairwise_bleu(outputs: Sequence[Sequence[int]]) -> Float[np.ndarray, "candidates candidates"]:
    """Return the token BLEU, from 0 to 1, of each output (row) against each output as the reference (column).

    Counts of n-grams above the first order are raised by one (Lin and Och, 2004), as usual for single sentences.
    """
    lengths = np.array([len(output) for output in outputs])
    product = np.ones((len(outputs), len(outputs)))
    for order in range(1, MAX_NGRAM + 1):
        counts, smoothing = _ngram_counts(outputs, order), int(order > 1)
        matches = np.minimum(counts[:, None], counts).sum(axis=-1) + smoothing
        totals = np.maximum(lengths - order + 1, 0)[:, None] + smoothing
        product *= np.divide(matches, totals, out=np.ones_like(product), where=totals > 0)
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty output equals an empty reference
        ratio = np.where(lengths == lengths[:, None], 1.0, lengths / lengths[:, None])
    return product ** (1 / MAX_NGRAM) * np.exp(np.minimum(0, 1 - ratio))


def _ngram_counts(outputs: Sequence[Sequence[int]], order: int) -> Int[np.ndarray, "candidates grams"]:
    """Count each n-gram of any output in each output."""
    ids: dict[tuple[int, ...], int] = {}
    found = [
        [ids.setdefault(gram, len(ids)) for gram in zip(*(output[n:] for n in range(order)), strict=False)]
        for output in outputs
    ]
    return np.stack([np.bincount(row, minlength=len(ids)) for row in found])
