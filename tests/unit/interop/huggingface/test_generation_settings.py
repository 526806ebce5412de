"""Settings of `generate`: the search that they give, and notes on those without counterpart."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import DataError
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_settings import Generation, read_generation

IDS = {"pad_token_id": 7, "eos_token_id": 0, "decoder_start_token_id": 7}


def settings(folder: Path, *, config: dict[str, Any] | None = None, **generation: Any) -> Generation:
    if generation:
        (folder / "generation_config.json").write_text(json.dumps({**IDS, **generation}))
    return read_generation(ForeignConfig({**IDS, **(config or {})}, path=folder / "config.json"), folder)


def test_limits_do_not_count_start_and_end(tmp_path: Path) -> None:
    found = settings(tmp_path, max_length=40, min_length=5).decoding
    assert (found.min_length, found.max_length, found.max_length_ratio, found.cut_off) == (4, 39, 0.0, "ranked")
    found = settings(tmp_path, max_length=40, forced_eos_token_id=0).decoding
    assert (found.max_length, found.cut_off) == (38, "ended")
    assert settings(tmp_path, max_new_tokens=9).decoding.max_length == 9


def test_older_files_keep_settings_in_the_configuration(tmp_path: Path) -> None:
    found = settings(tmp_path, config={"num_beams": 6, "length_penalty": 0.8, "early_stopping": True})
    assert (found.decoding.beam_size, found.decoding.length_penalty, found.decoding.early_stopping) == (6, 0.8, True)
    assert settings(tmp_path, config={"num_beams": 6}, num_beams=2).decoding.beam_size == 2


def test_settings_without_counterpart_are_noted(tmp_path: Path) -> None:
    found = settings(tmp_path, no_repeat_ngram_size=3, do_sample=False, top_k=50, length_penalty=-1.0, unknown_key=1)
    assert len(found.notes) == 3
    assert all(any(name in note for note in found.notes) for name in ("no_repeat", "length_penalty", "unknown_key"))


def test_forbidden_symbols(tmp_path: Path) -> None:
    found = settings(tmp_path, bad_words_ids=[[7], [3, 4]], suppress_tokens=[5], renormalize_logits=True)
    assert found.symbols.never == {7, 5}
    assert found.symbols.renormalizes
    assert "several symbols" in found.notes[-1]


@pytest.mark.parametrize("value", ["0", 1.5, True, [0, 1]])
def test_ids_of_another_type_are_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"eos_token_id = .* is not supported"):
        settings(tmp_path, eos_token_id=value, num_beams=2)


def test_unknown_keys_of_a_configuration_are_refused(tmp_path: Path) -> None:
    config = ForeignConfig({"d_model": 8, "model_type": "bart", "layer_scale": 0.1}, path=tmp_path / "config.json")
    assert config.size("d_model") == 8
    with pytest.raises(DataError, match="is unknown, and may change outputs"):
        config.finish()
