"""What a search returns."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a network for one source sentence.

    `tokens` are the generated ids without the begin and end symbols. `log_prob` is the sum of `token_log_probs`
    (natural logarithm), the last of which is that of the end symbol when `finished`. `score` is `log_prob` after the
    normalisation that the search ranked by. A hypothesis that is not `finished` was cut off at its limit.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    token_log_probs: tuple[float, ...]
    finished: bool

    @property
    def length(self) -> int:
        """What normalisation divides by a power of: generated tokens and the end symbol."""
        return len(self.token_log_probs)
