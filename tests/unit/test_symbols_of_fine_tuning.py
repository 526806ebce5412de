"""Reserved symbols that a fine-tuning adds to the vocabulary of its initial run."""

from typing import Any

import pytest
import torch

from dragoman.data.augmentation.config import AugmentationConfig
from dragoman.data.augmentation.terminology import TermConfig
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, has_reserved_symbols
from dragoman.errors import ConfigError
from dragoman.nn.lora import LoraConfig
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import TranslationConfig
from dragoman.tasks.initial_weights import initial_tokenizer, initial_weights
from dragoman.tasks.task import read_weights
from tests.untrained_runs import PAIRS, finished_run


def fine_tuning(start: RunFolder, **training: Any) -> TranslationConfig:
    initial = start.read_config()
    assert isinstance(initial, TranslationConfig)
    data = initial.data.model_copy(update={"augmentation": AugmentationConfig(terminology=TermConfig())})
    changed = initial.training.model_copy(update=training)
    return initial.model_copy(update={"init_from": start.path, "data": data, "training": changed})


def test_symbols_get_rows_of_their_own(tmp_path) -> None:
    start = finished_run(tmp_path / "start")
    experiment = fine_tuning(start)
    tokenizer = initial_tokenizer(experiment, lambda: PAIRS, RunFolder)
    assert has_reserved_symbols(tokenizer.source, TERM_SYMBOLS)
    before, after = read_weights(start), initial_weights(experiment, tokenizer, RunFolder(tmp_path / "new"))
    assert after is not None
    old, new = len(start.read_tokenizer().source), len(tokenizer.source)
    tables = [name for name in before if before[name].shape[:1] == (old,)]
    assert tables
    for name in tables:
        assert after[name].shape[0] == new
        torch.testing.assert_close(after[name][:old], before[name])
        if after[name].ndim == 2:  # the bias of the output has zeros
            assert len(after[name][old:].unique(dim=0)) == new - old == 2 * len(TERM_SYMBOLS)


def test_a_frozen_vocabulary_cannot_get_symbols(tmp_path) -> None:
    experiment = fine_tuning(finished_run(tmp_path / "start"), lora=LoraConfig())
    with pytest.raises(ConfigError, match=r"data\.augmentation needs symbols"):
        initial_tokenizer(experiment, lambda: PAIRS, RunFolder)
