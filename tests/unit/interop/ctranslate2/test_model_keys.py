"""Keys of CTranslate2: all that its classes know are listed, and a key that nobody listed stops an import."""

import json
import re
from itertools import product

import numpy as np
import pytest

import dragoman
from dragoman.errors import ConfigError, DataError
from dragoman.interop.ctranslate2.model_keys import CONFIG_KEYS, attribute_table

specs = pytest.importorskip("ctranslate2.specs", reason="its classes list the keys")
models = pytest.importorskip("tests.ctranslate2_models")
ctranslate2 = pytest.importorskip("ctranslate2")
VARIABLE = re.compile(r".*(weight|bias|gamma|beta|weight_scale|weight_zero|encodings|relative_.*_(keys|values))")
LARGE = ("relative_attention_bias", "rotary_scaling_long_factor", "rotary_scaling_short_factor")
"""Variables with dimensions, which tables of tensors list or refuse."""


def attributes_of_all_options() -> set[str]:
    """Return the attributes of encoders and decoders with every option of their classes."""
    found = set()
    shared = {"num_layers": 1, "num_heads": 2, "sliding_window": 3, "head_dim": 4, "num_heads_kv": 1}
    rotary = {"rotary_dim": 0}
    for scaling, relative in product((None, *specs.attention_spec.RotaryScalingType), (True, False)):
        options = shared | rotary | {"rotary_scaling_type": scaling, "relative_attention_bias": relative}
        decoder = {"original_max_position_embeddings": 5, "max_position_embeddings": 6, "rms_norm": relative}
        stacks = {"encoder": specs.TransformerEncoderSpec(**options)}
        stacks["decoder"] = specs.TransformerDecoderSpec(**options, **decoder)
        for scope, stack in stacks.items():
            found |= {f"{scope}/{name}" for name in _names(stack)}
    return {name for name in found if "/" in name}


def _names(stack: object) -> set[str]:
    names = set()

    def walk(value: object, path: str) -> None:
        if isinstance(value, list):
            for place, member in enumerate(value):
                walk(member, f"{path}_{place}")
        elif isinstance(value, specs.model_spec.LayerSpec):
            for name, member in vars(value).items():
                if not name.startswith("_"):
                    walk(member, f"{path}/{name}")
        else:
            names.add(path.removeprefix("/"))

    walk(stack, "")
    return names


def test_every_attribute_of_ctranslate2_is_listed() -> None:
    names = {
        name
        for name in attributes_of_all_options()
        if name.startswith(("encoder/", "decoder/")) and not VARIABLE.fullmatch(name) and not name.endswith(LARGE)
    }
    assert len(names) > 40
    assert names - attribute_table(names).keys() == set()


def test_every_key_of_the_configuration_is_listed() -> None:
    known = specs.transformer_spec.TransformerConfig().to_dict().keys()
    known |= specs.TransformerDecoderSpec(1, 2, quant_type=1).config.keys()
    assert known - CONFIG_KEYS.keys() == set()


def test_unlisted_keys_stop_an_import(tmp_path) -> None:
    folder = models.write_translator(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"source_dropout": 0.5}))
    with pytest.raises(ConfigError, match=r"source_dropout.? = 0.5 is unknown.*--allow-unused .?source_dropout"):
        dragoman.import_model(folder, tmp_path / "run")
    dragoman.import_model(folder, tmp_path / "run", allow_unused=["source_dropout"])
    folder = models.write_translator(tmp_path / "other", attributes={"final_logit_softcapping": np.float32(5)})
    with pytest.raises(ConfigError, match="decoder/final_logit_softcapping = 5"):
        dragoman.import_model(folder, tmp_path / "another")


def test_unsupported_activations_are_refused_by_name(tmp_path) -> None:
    folder = models.write_translator(tmp_path / "model", activation=4)
    with pytest.raises(ConfigError, match=r"decoder/activation = 4 is not supported, but 0 or 1 or 2 or 3 is"):
        dragoman.import_model(folder, tmp_path / "run")


@pytest.mark.filterwarnings("ignore:.*cut off at their length limit")
def test_sources_begin_with_the_symbol_that_ctranslate2_adds(tmp_path) -> None:
    folder = models.write_translator(tmp_path / "model", config={"add_source_bos": True, "add_source_eos": True})
    model = dragoman.import_model(folder, tmp_path / "run").load()
    judge = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    texts = [" ".join(models.WORDS[5 + place : 9 + 2 * place]) for place in range(9)]
    expected = judge.translate_batch([text.split() for text in texts], beam_size=2, max_decoding_length=7)
    found = model.translate(texts, beam_size=2, max_length=7)
    assert [result.text.split() for result in found] == [result.hypotheses[0] for result in expected]


def test_different_biases_of_distances_are_refused(tmp_path, monkeypatch) -> None:
    whole = models.fill_attention
    monkeypatch.setattr(
        models,
        "fill_attention",
        lambda generator, layer, kv, *, first: whole(generator, layer, kv, first=layer.self_attention),
    )
    folder = models.write_translator(tmp_path / "model", relative_attention_bias=True, rms_norm=True)
    with pytest.raises(DataError, match=r"encoder/layer_1/self_attention/relative_attention_bias differs"):
        dragoman.import_model(folder, tmp_path / "run")
