"""How well a network predicts given texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from dragoman.decoding import Hypothesis, Window, windows
from dragoman.evaluation import perplexity
from dragoman.inference.backends.decoder_only import Predicting
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.padding import rectangle
from dragoman.models.special_symbols import Symbols


@final
@dataclass(frozen=True, slots=True)
class Perplexity:
    """What predicting texts cost; end symbols count as tokens, begin symbols do not."""

    nats: float
    """The negative log-probability (natural logarithm) of all tokens."""
    tokens: int
    bytes: int
    """Of the texts in UTF-8, as the tokenizer normalises them: unlike tokens they are the same for every tokenizer."""

    @property
    def nats_per_token(self) -> float:
        """The cross-entropy, which is the validation loss of training without label smoothing."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Of how many equally probable tokens a choice would cost as much; infinite beyond 1e304."""
        return perplexity(self.nats_per_token)

    @property
    def bits_per_byte(self) -> float:
        """Infinite where the texts are empty."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.inf


@final
@dataclass(frozen=True)
class Given:
    """A text to be scored: its tokens, and what is expected after each of them, padding where nothing is."""

    tokens: Sequence[int]
    expected: Sequence[int]


def score_given(
    network: Predicting,
    texts: Sequence[Given],
    *,
    context: int,
    overlap: int,
    batch_tokens: int,
    symbols: Symbols,
) -> list[Hypothesis]:
    """Each text as an output, with the log-probability of each token that is expected; the score is their mean."""
    places = [(row, one) for row, text in enumerate(texts) for one in _windows_of(text, context, overlap, symbols)]
    log_probs: dict[tuple[int, int], list[float]] = {}
    for some in batches_by_length([one.end - one.begin for _, one in places], budget=batch_tokens):
        chosen = [places[index] for index in some]
        tokens, _ = rectangle([texts[row].tokens[one.begin : one.end] for row, one in chosen], device=network.device)
        expected, _ = rectangle(
            [_counted(texts[row].expected, one, symbols) for row, one in chosen], device=network.device
        )
        scored = network.score_tokens(tokens, expected).tolist()
        for (row, one), line, wanted in zip(chosen, scored, expected.tolist(), strict=True):
            real = [number for number, token in zip(line, wanted, strict=True) if token != symbols.pad]
            log_probs[row, one.begin] = real
    found: list[list[float]] = [[] for _ in texts]
    for row, begin in sorted(log_probs):
        found[row] += log_probs[row, begin]
    return [_hypothesis(text, numbers, symbols) for text, numbers in zip(texts, found, strict=True)]


def _windows_of(text: Given, context: int, overlap: int, symbols: Symbols) -> list[Window]:
    """The windows in which something is expected."""
    cut = windows(len(text.tokens), context=context, overlap=overlap)
    return [one for one in cut if any(token != symbols.pad for token in text.expected[one.counted : one.end])]


def _counted(expected: Sequence[int], window: Window, symbols: Symbols) -> list[int]:
    return [symbols.pad] * (window.counted - window.begin) + list(expected[window.counted : window.end])


def _hypothesis(text: Given, log_probs: list[float], symbols: Symbols) -> Hypothesis:
    tokens = tuple(token for token in text.expected if token not in (symbols.pad, symbols.end))
    total = math.fsum(log_probs)
    return Hypothesis(tokens, total, total / len(log_probs), tuple(log_probs), finished=True)
