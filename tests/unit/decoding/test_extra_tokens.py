"""Log-probabilities of further tokens next to the best ones, in NumPy and PyTorch."""

import numpy as np
import pytest
import torch

from dragoman.decoding.numpy_logits_operations import top_k_with_extra
from dragoman.decoding.torch_logits_operations import top_k_tokens

EXTRA, SUPPRESSED = [9, 0, 4], [4, 1]


@pytest.mark.parametrize("k", [1, 3])
def test_extra_tokens_follow_the_best_whether_suppressed_or_not(k):
    logits = torch.randn(3, 2, 11, generator=torch.Generator().manual_seed(1))
    exact = torch.log_softmax(logits.double(), dim=-1).numpy()
    allowed = exact.copy()
    allowed[..., SUPPRESSED] = -np.inf
    best = np.argsort(-allowed, axis=-1)[..., :k]
    expected_ids = np.concatenate([best, np.broadcast_to(EXTRA, (3, 2, 3))], axis=-1)
    expected = np.take_along_axis(exact, expected_ids, axis=-1)
    for found, ids in (
        top_k_tokens(logits, k=k, suppress_tokens=SUPPRESSED, extra_tokens=EXTRA),
        top_k_with_extra(exact.astype(np.float32), k, SUPPRESSED, EXTRA),
    ):
        np.testing.assert_array_equal(ids, expected_ids)
        np.testing.assert_allclose(found, expected, atol=1e-5)
