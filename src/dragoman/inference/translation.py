"""What a translation is, and how that of a line is put together from those of its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dragoman.decoding.config import SearchSettings
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import score_of


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text; `tokens` are its pieces in readable form."""

    text: str
    hypothesis: Hypothesis
    tokens: tuple[str, ...]


NOTHING = Translation(text="", hypothesis=Hypothesis((), 0.0, 0.0, (), finished=True), tokens=())
"""The translation of an empty text, for which no network is asked."""


def joined(
    parts: Sequence[list[Translation]], settings: SearchSettings, *, together: Callable[[list[str]], str]
) -> list[Translation]:
    """The translations of a whole from those of its parts: best with best, second with second, and so on."""
    if not parts:
        return [replace(NOTHING, text=together([]))]
    if len(parts) == 1:
        return [replace(one, text=together([one.text])) for one in parts[0]]
    ranks = zip(*parts, strict=False)
    return [_join(ranked, settings, text=together([one.text for one in ranked])) for ranked in ranks]


def in_a_row(texts: Sequence[str]) -> str:
    """Those that are not empty, with spaces between them."""
    return " ".join(text for text in texts if text)


def _join(parts: Sequence[Translation], settings: SearchSettings, *, text: str) -> Translation:
    hypotheses = [part.hypothesis for part in parts]
    log_prob = sum(one.log_prob for one in hypotheses)
    return Translation(
        text=text,
        hypothesis=Hypothesis(
            tokens=tuple(token for one in hypotheses for token in one.tokens),
            log_prob=log_prob,
            score=score_of(log_prob, sum(one.length for one in hypotheses), settings.normalisation),
            token_log_probs=tuple(number for one in hypotheses for number in one.token_log_probs),
            finished=all(one.finished for one in hypotheses),
        ),
        tokens=tuple(token for part in parts for token in part.tokens),
    )
