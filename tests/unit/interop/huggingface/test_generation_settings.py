"""Settings of `generate`: the search that they give, and notes on those without counterpart."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_keys import SEARCH_KEYS
from dragoman.interop.huggingface.generation_settings import Generation, open_generation, read_generation
from dragoman.interop.huggingface.model_keys import MODEL_KEYS

IDS = {"pad_token_id": 7, "eos_token_id": 0, "decoder_start_token_id": 7}


def settings(
    folder: Path, *, config: dict[str, Any] | None = None, allow_unused: tuple[str, ...] = (), **generation: Any
) -> Generation:
    if generation:
        (folder / "generation_config.json").write_text(json.dumps({**IDS, **generation}))
    tree = {**IDS, **(config or {})}
    model = ForeignConfig(tree, path=folder / "config.json", table=MODEL_KEYS["marian"])
    return read_generation(open_generation(model, SEARCH_KEYS, allow_unused=allow_unused))


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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no_repeat_ngram_size", 3),
        ("do_sample", True),
        ("length_penalty", -1.0),
        ("early_stopping", "never"),
        ("bad_words_ids", [[3, 4]]),
        ("forced_eos_token_id", 5),
        ("unknown_key", 1),
    ],
)
def test_settings_without_counterpart_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, DataError), match=f"{key} = .*--allow-unused {key}"):
        settings(tmp_path, num_beams=2, **{key: value})
    (tmp_path / "generation_config.json").unlink()
    without = settings(tmp_path, num_beams=2, **{key: value}, allow_unused=(key,))
    assert without == settings(tmp_path, num_beams=2)


def test_settings_of_a_beam_have_no_effect_on_greedy_search(tmp_path: Path) -> None:
    found = settings(tmp_path, length_penalty=-1.0, early_stopping="never", temperature=0.5, top_k=3)
    assert found == settings(tmp_path, num_beams=1)


def test_forbidden_symbols(tmp_path: Path) -> None:
    found = settings(tmp_path, bad_words_ids=[[7], [3]], suppress_tokens=[5], renormalize_logits=True)
    assert found.symbols.never == {7, 3, 5}
    assert found.symbols.renormalizes


def test_several_end_symbols(tmp_path: Path) -> None:
    found = settings(tmp_path, eos_token_id=[4, 0], forced_eos_token_id=[0, 4])
    assert (found.symbols.eos, found.symbols.ends, found.decoding.cut_off) == (4, (0,), "ended")


@pytest.mark.parametrize("value", ["0", 1.5, True, [0, "1"]])
def test_ids_of_another_type_are_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"eos_token_id = .* is not supported"):
        settings(tmp_path, eos_token_id=value, num_beams=2)


def test_unknown_keys_of_a_configuration_are_refused(tmp_path: Path) -> None:
    tree, table = {"d_model": 8, "model_type": "bart", "layer_scale": 0.1}, MODEL_KEYS["bart"]
    with pytest.raises(ConfigError, match=r"layer_scale = 0\.1 is unknown, and may change outputs"):
        ForeignConfig(tree, path=tmp_path / "config.json", table=table)
    config = ForeignConfig(tree, path=tmp_path / "config.json", table=table, allow_unused=["layer_scale"])
    assert (config.size("d_model"), config.left_out) == (8, {"layer_scale": 0.1})


def test_alias_takes_precedence_as_in_transformers(tmp_path: Path) -> None:
    tree = {"d_model": 8, "hidden_size": 16, "encoder_layers": 2, "num_hidden_layers": None}
    config = ForeignConfig(tree, path=tmp_path / "config.json", table=MODEL_KEYS["bart"])
    assert (config.size("d_model"), config.size("encoder_layers")) == (16, 2)
