"""Tables of keys: they list every key of the classes of other libraries, and the import reads what is computed."""

from collections import defaultdict
from dataclasses import fields
from typing import Any

import pytest

from dragoman.interop.gguf.metadata_keys import metadata_keys
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_keys import SAMPLING_KEYS, SEARCH_KEYS
from dragoman.interop.huggingface.model_keys import MODEL_KEYS
from dragoman.interop.huggingface.partner import FAMILIES, read
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.key_table import Alias, Computed
from tests import huggingface_decoders, huggingface_encoders, huggingface_models

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
WRITERS = {**huggingface_models.WRITERS, **huggingface_decoders.WRITERS, **huggingface_encoders.WRITERS}
HEAD = {"id2label", "problem_type"}
CONDITIONAL = {
    "qwen2": {"head_dim", "sliding_window"},
    "bert": HEAD,
    "roberta": HEAD,
    "distilbert": HEAD,
}
"""Computed keys that count in models of other shapes only, by family."""
SAMPLED = {"temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h"}
"""Settings of `generate` that count with `do_sample` only."""


def test_every_family_has_a_table() -> None:
    assert MODEL_KEYS.keys() == FAMILIES.keys()


@pytest.mark.parametrize("family", MODEL_KEYS)
def test_tables_list_every_key_of_the_classes(family: str) -> None:
    config = transformers.AutoConfig.for_model(family)
    keys = {field.name for field in fields(config)} | config.attribute_map.keys() | config.to_dict().keys()
    assert keys - MODEL_KEYS[family].keys() == set()


@pytest.mark.parametrize("family", MODEL_KEYS)
def test_aliases_are_those_of_the_classes(family: str) -> None:
    aliases = {key: row.key for key, row in MODEL_KEYS[family].items() if isinstance(row, Alias)}
    assert aliases == transformers.AutoConfig.for_model(family).attribute_map


@pytest.mark.parametrize("table", [SEARCH_KEYS, SAMPLING_KEYS], ids=["search", "sampling"])
def test_tables_list_every_setting_of_generate(table: Any) -> None:
    assert vars(transformers.GenerationConfig()).keys() - table.keys() == set()


def test_table_lists_the_keys_of_gguf_tokenizers() -> None:
    gguf = pytest.importorskip("gguf", reason="the package of llama.cpp names the keys")
    keys = {key for name, key in vars(gguf.Keys.Tokenizer).items() if not name.startswith("_")}
    assert {key for key in keys if "{" not in key} - metadata_keys("llama").keys() == set()


@pytest.fixture(scope="module")
def read_keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Keys of `config.json` and of the settings of `generate` that imports of all models read, by family."""
    found: dict[str, set[str]] = defaultdict(set)
    original = ForeignConfig.value
    with pytest.MonkeyPatch.context() as patch:
        for name, writer in WRITERS.items():
            folder = tmp_path_factory.mktemp(name)
            family = writer(folder).config.model_type

            def value(self: ForeignConfig, key: str, family: str = family) -> Any:
                found[family].add(key)
                return original(self, key)

            patch.setattr(ForeignConfig, "value", value)
            read(folder, ImportOptions())
    return found


@pytest.mark.parametrize("family", MODEL_KEYS)
def test_computed_keys_are_read(family: str, read_keys: dict[str, set[str]]) -> None:
    computed = {key for key, row in MODEL_KEYS[family].items() if isinstance(row, Computed)} - {"model_type"}
    assert computed - read_keys[family] == CONDITIONAL.get(family, set())


def test_computed_settings_of_generate_are_read(read_keys: dict[str, set[str]]) -> None:
    for table, family, others in ((SEARCH_KEYS, "marian", set[str]()), (SAMPLING_KEYS, "llama", SAMPLED)):
        computed = {key for key, row in table.items() if isinstance(row, Computed)}
        assert computed - read_keys[family] == others
