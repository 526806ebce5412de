"""Models of JoeyNMT, compared with an implementation of their equations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dragoman
from dragoman.decoding.config import LengthPenalty
from dragoman.errors import ConfigError, DataError
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.joeynmt.config_keys import KEYS
from dragoman.interop.joeynmt.partner import read
from dragoman.interop.self_check import forward, loaded_network
from dragoman.models.special_symbols import BOS, EOS
from tests import joeynmt_models
from tests.joeynmt_models import settings, write_folder

VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "activation": "gelu"},
    "version 1": {"norm": None, "tied": "target"},
    "all tied": {"tied": "all", "scale": False, "activation": "swish"},
}
SOURCE, TARGET = [4, 8, 5, 6], [7, 4, 10, 5]
"""Foreign ids."""


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_equal_the_equations(variant: dict[str, Any], tmp_path: Path) -> None:
    tree = settings(**variant)
    state = write_folder(tmp_path, tree)
    model = read(tmp_path, ImportOptions())
    assert set(model.tensors.left_over) == {"encoder.pe.pe", "decoder.pe.pe"}
    source, target = (model.origin.orders[side].our_ids for side in ("source", "target"))
    given = [*source[SOURCE].tolist(), EOS], [BOS, *target[TARGET].tolist()]
    found = torch.from_numpy(forward(loaded_network(model), model.network, *given))
    special = joeynmt_models.BOS, joeynmt_models.EOS
    expected = joeynmt_models.logits(state, tree, [*SOURCE, special[1]], [special[0], *TARGET])
    np.testing.assert_allclose(found.log_softmax(dim=1)[:, target], expected.log_softmax(dim=1), atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*cut off at")
def test_imported_model_translates(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", settings())
    result = dragoman.import_model(tmp_path / "model", tmp_path / "run")
    assert result.format == "joeynmt"
    translator = dragoman.load(tmp_path / "run", dragoman.Translator, device="cpu")
    assert translator.config.penalty == LengthPenalty("gnmt", 0.6)
    assert translator.translate("two dogs play .").text


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("encoder", "type", "recurrent"),
        ("decoder", "hidden_size", 16),
        ("decoder", "layer_norm", "pre"),
        ("encoder", "alpha", 0.81),
        ("encoder", "activation", "leaky"),
        ("encoder", "num_layers", "two"),
    ],
)
def test_networks_of_other_kinds_are_refused(section: str, key: str, value: object, tmp_path: Path) -> None:
    tree = settings()
    write_folder(tmp_path, tree)
    tree["model"][section][key] = value
    (tmp_path / "config.yaml").write_text(joeynmt_models.yaml.safe_dump(tree))
    with pytest.raises((ConfigError, DataError), match=r"config\.yaml"):
        read(tmp_path, ImportOptions())


def test_characters_and_codes_of_the_settings_split_texts(tmp_path: Path) -> None:
    tree = settings()
    tree["data"]["src"] |= {"level": "char", "lowercase": True}
    tree["data"]["trg"] |= {
        "level": "bpe",
        "tokenizer_type": "subword-nmt",
        "tokenizer_cfg": {"codes": "models/x/codes"},
    }
    write_folder(tmp_path, tree)
    (tmp_path / "codes").write_text("#version: 0.2\nu n\nun d</w>\n")
    tokenizer = read(tmp_path, ImportOptions()).tokenizer
    assert tokenizer.source.encode("A.") == [1, 8]
    assert tokenizer.target.encode("und .") == [8, 10]
    assert tokenizer.target.decode([8, 10]) == "und ."


def test_files_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    tree = settings()
    tree["data"]["trg"] |= {"level": "bpe", "tokenizer_type": "fastbpe", "tokenizer_cfg": {"codes": "../codes"}}
    write_folder(tmp_path / "model", tree)
    (tmp_path / "codes").write_text("u n\nun d</w>\n")
    with pytest.raises(DataError, match=r"model/codes: cannot be read"):
        read(tmp_path / "model", ImportOptions())


TEST_CONFIG = (
    *("load_model", "batch_size", "batch_type", "max_output_length", "min_output_length", "eval_metrics"),
    *("beam_size", "beam_alpha", "n_best", "return_attention", "return_prob", "generate_unk", "repetition_penalty"),
    "no_repeat_ngram_size",
)
"""Fields of `TestConfig` in `joeynmt/config.py` of JoeyNMT 2.3.0."""


def test_every_setting_of_the_search_is_listed() -> None:
    assert {f"testing.{name}" for name in TEST_CONFIG} - KEYS.keys() == set()


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("testing", "repetition_penalty", 1.5, "testing.repetition_penalty = 1.5 is not supported"),
        ("testing", "min_length", 3, "testing.min_length.? = 3 is unknown.*--allow-unused"),
        ("model", "encoder_layer", 3, "model.encoder_layer.? = 3 is unknown"),
    ],
)
def test_other_settings_stop_an_import(section: str, key: str, value: object, message: str, tmp_path: Path) -> None:
    tree = settings()
    tree[section][key] = value
    write_folder(tmp_path, tree)
    (tmp_path / "best.ckpt").write_bytes(b"not read before the settings")
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, ImportOptions())


def test_settings_of_the_search_are_obeyed(tmp_path: Path) -> None:
    tree = settings()
    tree["testing"] |= {"min_output_length": 3, "max_output_length": 17, "generate_unk": False}
    write_folder(tmp_path, tree)
    found = read(tmp_path, ImportOptions()).decoding
    assert (found.min_length, found.max_length, found.output_limit(2), found.allow_unk) == (3, 17, 17, False)


def test_heads_that_are_not_named_are_those_of_joeynmt(tmp_path: Path) -> None:
    tree = settings()
    del tree["model"]["encoder"]["num_heads"], tree["model"]["decoder"]["num_heads"]
    write_folder(tmp_path, tree)
    with pytest.raises(ConfigError, match=r"model\.decoder\.num_heads is 8"):
        read(tmp_path, ImportOptions())


def test_integers_are_mentioned(tmp_path: Path) -> None:
    write_folder(tmp_path, settings())
    content = torch.load(tmp_path / "best.ckpt", weights_only=False)
    content["model_state"]["encoder.counter"] = torch.tensor([3])
    torch.save(content, tmp_path / "best.ckpt")
    assert "integers" in read(tmp_path, ImportOptions()).tensors.left_over["encoder.counter"]
