"""Operations on logits in PyTorch: normalization, exact top-k, and those of the logits processors."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dragoman.array_types import Bool, Float, Int, StepLogits
from dragoman.decoding.numpy_logits_operations import append_extra
from dragoman.models.protocols import non_finite_logits_error

CACHED_ROWS = 64
"""Rows of logits that a CPU normalizes at a time: intermediate results stay in its cache, which is twice as fast."""


def log_sum_exp(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """Return the log-sum-exp of the logits in 32 bits, unchecked."""
    rows = logits.flatten(0, 1)
    blocks = rows.split(CACHED_ROWS) if rows.device.type == "cpu" else (rows,)
    return torch.cat([block.float().logsumexp(dim=-1) for block in blocks]).view(logits.shape[:2])


def exact_top_k(
    values: Float[Tensor, "batch beam vocabulary"], count: int
) -> tuple[Float[Tensor, "batch beam count"], Int[Tensor, "batch beam count"]]:
    """Return the `count` largest values with their indices (all, when there are fewer), in no certain order.

    Ties at the border keep the lower indices; `torch.topk` leaves that open.
    """
    vocabulary = values.shape[-1]
    if count >= vocabulary:
        return values, torch.arange(vocabulary, device=values.device).expand_as(values)
    one_more, indices = values.topk(count + 1)
    top, indices = one_more[..., :count], indices[..., :count]
    tied = (top[..., -1] == one_more[..., -1]) & (top[..., -1] > -math.inf)
    if bool(tied.any()):
        exact = values[tied].argsort(dim=-1, descending=True, stable=True)[:, :count]
        top[tied], indices[tied] = values[tied].gather(1, exact), exact
    return top, indices


def top_k_tokens(
    logits: StepLogits, *, k: int, suppress_tokens: Sequence[int] = (), extra_tokens: Sequence[int] = ()
) -> tuple[Float[np.ndarray, "batch beam columns"], Int[np.ndarray, "batch beam columns"]]:
    """Return log-probabilities and ids of the `k` best tokens and of the extra ones, as `Backend.top_k` does."""
    normalizer = log_sum_exp(logits)
    if k == 1:
        values, ids = _most_probable(logits, suppress_tokens)
    else:
        values, ids = exact_top_k(logits, k + len(suppress_tokens))
    # Non-finite values become NaN, so that the device need not be synchronized for a separate check.
    found = values.float() - (normalizer + 0 * normalizer)[..., None]
    log_probs, tokens = found.cpu().numpy(), ids.cpu().numpy()
    if np.isnan(log_probs).any():
        raise non_finite_logits_error()
    for symbol in suppress_tokens:
        log_probs = np.where(tokens == symbol, np.float32(-math.inf), log_probs)
    order = np.lexsort((tokens, -log_probs), axis=-1)[..., :k]
    best, found_ids = np.take_along_axis(log_probs, order, axis=-1), np.take_along_axis(tokens, order, axis=-1)
    if not len(extra_tokens):
        return best, found_ids
    extra = (logits[..., list(extra_tokens)].float() - normalizer[..., None]).cpu().numpy()
    return append_extra(best, found_ids, extra, extra_tokens)


def _most_probable(
    logits: StepLogits, suppress_tokens: Sequence[int]
) -> tuple[Float[Tensor, "batch beam 1"], Int[Tensor, "batch beam 1"]]:
    """Return the best token, the lowest of ties: for greedy search, several times as fast as top-k."""
    suppressed = torch.tensor(suppress_tokens, dtype=torch.long, device=logits.device)
    ids = logits.index_fill(-1, suppressed, -math.inf).argmax(dim=-1, keepdim=True)
    return logits.gather(-1, ids), ids


class TorchOperations:
    """Operations of the logits processors on tensors, as `NumpyOperations` documents them."""

    exp = staticmethod(torch.exp)
    where = staticmethod(torch.where)
    float32 = staticmethod(Tensor.float)
    log_softmax = staticmethod(partial(torch.log_softmax, dim=-1))
    argsort = staticmethod(partial(torch.argsort, dim=-1, stable=True))
    maximum = staticmethod(partial(torch.amax, dim=-1, keepdim=True))
    take = staticmethod(partial(torch.take_along_dim, dim=-1))
    fill = staticmethod(torch.masked_fill)

    @staticmethod
    def log_normalizer(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, " rows"]:
        normalizer = log_sum_exp(logits[:, None])[:, 0]
        if not bool(normalizer.isfinite().all()):
            raise non_finite_logits_error()
        return normalizer

    @staticmethod
    def softmax(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        exact = logits if logits.device.type == "mps" else logits.double()  # Apple's devices have no double precision
        return exact.softmax(dim=-1)

    @staticmethod
    def cumulative_softmax(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        exact = logits.cpu() if logits.device.type == "mps" else logits
        return exact.double().softmax(dim=-1).cumsum(dim=-1)

    @staticmethod
    def mask(
        like: Float[Tensor, "rows vocabulary"], indices: Int[Tensor, "rows places"], flags: Bool[Tensor, "rows places"]
    ) -> Bool[Tensor, "rows vocabulary"]:
        return torch.zeros_like(like, dtype=torch.long).scatter_add(1, indices, flags.long()) > 0

    @staticmethod
    def top_k_indices(values: Tensor, count: int) -> Int[Tensor, "rows count"]:
        return exact_top_k(values[:, None], count)[1][:, 0]

    @staticmethod
    def array(values: object, like: Tensor) -> Tensor:
        return torch.as_tensor(values, device=like.device)
