"""Logits processors equal Hugging Face's on random logits."""

import pytest
import torch
from torch import Tensor
from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from dragoman.decoding import SamplingConfig
from dragoman.decoding.numpy_logits_operations import NumpyOperations
from dragoman.decoding.sampling import filter_logits
from dragoman.decoding.torch_logits_operations import TorchOperations

ROWS, VOCABULARY = 13, 997
SETTINGS = {
    "temperature": [0.3, 0.9, 1.7],
    "top_k": [1, 5, 101, 2000],
    "top_p": [0.05, 0.5, 0.97],
    "min_p": [0.02, 0.3],
    "typical_p": [0.1, 0.6, 0.95],
    "repetition_penalty": [0.7, 1.2, 3.0],
    "no_repeat_ngram_size": [1, 2, 3],
}
THEIRS = {
    "repetition_penalty": RepetitionPenaltyLogitsProcessor,
    "no_repeat_ngram_size": NoRepeatNGramLogitsProcessor,
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
    "typical_p": TypicalLogitsWarper,
}
"""In the order in which `generate` applies them."""


def random_logits(seed: int) -> tuple[Tensor, Tensor]:
    """Return logits of different sharpness, and histories of few distinct tokens, so that tokens repeat."""
    generator = torch.Generator().manual_seed(seed)
    sharpness = torch.linspace(0.1, 6.0, ROWS)[:, None]
    logits = sharpness * torch.randn(ROWS, VOCABULARY, generator=generator)
    return logits, torch.randint(4, 11, (ROWS, 29), generator=generator)


def assert_equal_filters(logits: Tensor, said: Tensor, settings: SamplingConfig, theirs: Tensor) -> None:
    """Assert that the same tokens remain (at least one) with the same logits, with PyTorch and with NumPy."""
    ours = filter_logits(logits, said, config=settings, ops=TorchOperations)
    arrays = filter_logits(logits.numpy(), said.numpy(), config=settings, ops=NumpyOperations)
    for found in (ours, torch.from_numpy(arrays)):
        assert torch.equal(found.isfinite(), theirs.isfinite())
        assert found.isfinite().any(dim=1).all()
        torch.testing.assert_close(found, theirs)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values], ids=str
)
def test_each_processor_equals_hugging_face(name: str, value: float) -> None:
    for seed in range(3):
        logits, said = random_logits(seed)
        theirs = THEIRS[name](value)(said, logits)
        assert_equal_filters(logits, said, SamplingConfig(**{name: value}), theirs)
        assert value == 2000 or not torch.equal(theirs, logits)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7, "top_k": 53, "top_p": 0.9},
        {"temperature": 1.3, "top_p": 0.8, "min_p": 0.05},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "temperature": 0.8, "top_k": 211, "typical_p": 0.9},
        {"repetition_penalty": 1.1, "temperature": 2.0, "top_k": 307, "top_p": 0.95, "min_p": 0.01, "typical_p": 0.5},
    ],
    ids=lambda settings: "+".join(settings),
)
def test_combined_processors_equal_hugging_face(settings: dict[str, float]) -> None:
    logits, said = random_logits(5)
    chain = LogitsProcessorList(THEIRS[name](settings[name]) for name in THEIRS if name in settings)
    assert_equal_filters(logits, said, SamplingConfig(**settings), chain(said, logits))
