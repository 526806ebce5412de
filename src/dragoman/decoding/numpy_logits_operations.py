"""Operations on logits in NumPy: normalization, exact top-k, and those of the logits processors."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.models.protocols import non_finite_logits_error


def log_normalizers(logits: Float[np.ndarray, "*rows vocabulary"]) -> Float[np.ndarray, "*rows"]:
    """Return the log-sum-exp of each row."""
    most: np.ndarray = logits.max(axis=-1)
    return most + np.log(np.exp(logits - most[..., None]).sum(axis=-1))


def top_k_sorted(
    numbers: Float[np.ndarray, "*rows places"], count: int
) -> tuple[Float[np.ndarray, "*rows count"], Int[np.ndarray, "*rows count"]]:
    """Return the `count` largest numbers of each row with their indices, largest first; ties keep the lower index."""
    indices = np.argpartition(numbers, -count, axis=-1)[..., -count:]
    found = np.take_along_axis(numbers, indices, axis=-1)
    if (np.count_nonzero(numbers >= found.min(axis=-1, keepdims=True), axis=-1) > count).any():
        # The partition takes any of the ties at its border.
        indices = np.argsort(-numbers, axis=-1, kind="stable")[..., :count]
        found = np.take_along_axis(numbers, indices, axis=-1)
    order = np.lexsort((indices, -found), axis=-1)
    return np.take_along_axis(found, order, axis=-1), np.take_along_axis(indices, order, axis=-1)


def top_k_with_extra(
    log_probs: Float[np.ndarray, "batch beam vocabulary"],
    k: int,
    suppress_tokens: Sequence[int],
    extra_tokens: Sequence[int],
) -> tuple[Float[np.ndarray, "batch beam columns"], Int[np.ndarray, "batch beam columns"]]:
    """Return log-probabilities and ids of the `k` best tokens and of the extra ones, as `Backend.top_k` does.

    Changes `log_probs`.
    """
    extra = log_probs[..., list(extra_tokens)]
    log_probs[..., list(suppress_tokens)] = -np.inf
    best, ids = top_k_sorted(log_probs, min(k, log_probs.shape[-1]))
    return append_extra(best, ids, extra, extra_tokens)


def append_extra(
    best: Float[np.ndarray, "batch beam k"],
    ids: Int[np.ndarray, "batch beam k"],
    extra: Float[np.ndarray, "batch beam extra"],
    extra_tokens: Sequence[int],
) -> tuple[Float[np.ndarray, "batch beam columns"], Int[np.ndarray, "batch beam columns"]]:
    """Append the log-probabilities of extra tokens, and their ids, to those of the best."""
    if not len(extra_tokens):
        return best, ids
    tokens = np.broadcast_to(np.array(extra_tokens, dtype=ids.dtype), extra.shape)
    return np.concatenate([best, extra], axis=-1), np.concatenate([ids, tokens], axis=-1)


class NumpyOperations:
    """Operations of the logits processors on arrays; `TorchOperations` has the same on tensors."""

    exp = staticmethod(np.exp)
    where = staticmethod(np.where)
    float32 = staticmethod(partial(np.asarray, dtype=np.float32))
    """Return the logits in 32 bits."""
    argsort = staticmethod(partial(np.argsort, axis=-1, kind="stable"))
    """Return the order of each row, smallest first; ties keep the lower index."""
    maximum = staticmethod(partial(np.max, axis=-1, keepdims=True))
    """Return the largest value of each row."""
    take = staticmethod(partial(np.take_along_axis, axis=-1))
    """Return the values of each row at its indices."""

    @staticmethod
    def log_normalizer(logits: Float[np.ndarray, "rows vocabulary"]) -> Float[np.ndarray, " rows"]:
        """Return the log-sum-exp of each row. Raises RunError when it is not finite."""
        with np.errstate(invalid="ignore"):
            normalizer = log_normalizers(logits)
        if not np.isfinite(normalizer).all():
            raise non_finite_logits_error()
        return normalizer

    @staticmethod
    def softmax(logits: Float[np.ndarray, "rows vocabulary"]) -> Float[np.ndarray, "rows vocabulary"]:
        """Return the probabilities in double precision; NaN for a row of minus infinities."""
        with np.errstate(invalid="ignore"):
            powers = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
            return powers / powers.sum(axis=-1, keepdims=True)

    @staticmethod
    def cumulative_softmax(logits: Float[np.ndarray, "rows vocabulary"]) -> Float[np.ndarray, "rows vocabulary"]:
        """Return the cumulative distribution in double precision."""
        return NumpyOperations.softmax(logits).cumsum(axis=-1)

    @staticmethod
    def log_softmax(logits: Float[np.ndarray, "rows vocabulary"]) -> Float[np.ndarray, "rows vocabulary"]:
        """Return the log-probabilities in the precision of the logits."""
        with np.errstate(invalid="ignore"):
            return logits - log_normalizers(logits)[:, None]

    @staticmethod
    def mask(
        like: Float[np.ndarray, "rows vocabulary"],
        indices: Int[np.ndarray, "rows places"],
        flags: Bool[np.ndarray, "rows places"],
    ) -> Bool[np.ndarray, "rows vocabulary"]:
        """Return for each number whether an index with a true flag points to it."""
        found = np.zeros(like.shape, dtype=np.bool_)
        rows, places = flags.nonzero()
        found[rows, indices[rows, places]] = True
        return found

    @staticmethod
    def fill(values: np.ndarray, mask: Bool[np.ndarray, "rows vocabulary"], value: float) -> np.ndarray:
        """Return the values with another one where the mask is true."""
        filled = values.copy()
        filled[mask] = value
        return filled

    @staticmethod
    def top_k_indices(values: np.ndarray, count: int) -> Int[np.ndarray, "rows count"]:
        """Return the indices of the `count` largest values of each row; ties keep the lower index."""
        return top_k_sorted(values, min(count, values.shape[1]))[1]

    @staticmethod
    def array(values: object, like: np.ndarray) -> np.ndarray:  # noqa: ARG004  # tensors need a device
        """Return numbers as an array."""
        return np.asarray(values)
