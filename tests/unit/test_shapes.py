"""The annotations of shapes are checked while the tests run; a suite that had lost the hook would not notice."""

import pytest
import torch
from jaxtyping import TypeCheckError

from dragoman.nn.attention_functions import masked_softmax


def test_a_tensor_of_another_shape_is_refused():
    logits = torch.zeros(2, 3, 5, 7)
    assert masked_softmax(logits, torch.ones(2, 1, 5, 7, dtype=torch.bool)).shape == (2, 3, 5, 7)
    with pytest.raises(TypeCheckError):
        masked_softmax(logits, torch.ones(2, 1, 5, 11, dtype=torch.bool))


def test_a_mask_that_is_not_boolean_is_refused():
    with pytest.raises(TypeCheckError):
        masked_softmax(torch.zeros(2, 3, 5, 7), torch.zeros(2, 1, 5, 7))
