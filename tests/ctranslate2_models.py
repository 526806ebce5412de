"""Models of CTranslate2 with random weights, written by its own converters' classes."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.interop.ctranslate2.model_file import DTYPES, read_model_file

SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]
WORDS = [*SPECIAL, *(f"w{number}" for number in range(30))]
D_MODEL, HEADS, D_FF = 16, 4, 24


def array(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return (generator.standard_normal(shape) * 0.3).astype(np.float32)


def fill_linear(generator: np.random.Generator, layer: Any, rows: int, columns: int) -> None:
    layer.weight, layer.bias = array(generator, rows, columns), array(generator, rows)


def fill_norm(generator: np.random.Generator, layer: Any) -> None:
    layer.gamma = 1 + array(generator, D_MODEL)
    if hasattr(layer, "beta"):
        layer.beta = array(generator, D_MODEL)


def fill(spec: Any, generator: np.random.Generator, *, vocabulary: int, kv_heads: int = HEADS) -> None:
    """Set every weight of an encoder or decoder."""
    embeddings = spec.embeddings if isinstance(spec.embeddings, list) else [spec.embeddings]
    for one in embeddings:
        one.weight = array(generator, vocabulary, D_MODEL)
    for name in ("layer_norm", "layernorm_embedding"):
        if hasattr(spec, name):
            fill_norm(generator, getattr(spec, name))
    if hasattr(spec, "projection"):
        fill_linear(generator, spec.projection, vocabulary, D_MODEL)
    for layer in spec.layer:
        fill_attention(generator, layer, D_MODEL // HEADS * kv_heads, first=spec.layer[0].self_attention)
        for name in ("linear_0", "linear_0_noact"):
            if hasattr(layer.ffn, name):
                fill_linear(generator, getattr(layer.ffn, name), D_FF, D_MODEL)
        fill_linear(generator, layer.ffn.linear_1, D_MODEL, D_FF)
        fill_norm(generator, layer.ffn.layer_norm)


def fill_attention(generator: np.random.Generator, layer: Any, kv: int, *, first: Any) -> None:
    """Set the weights of both attentions; all layers have the bias of distances of the `first`."""
    own = layer.self_attention
    fill_linear(generator, own.linear[0], D_MODEL + 2 * kv, D_MODEL)
    fill_linear(generator, own.linear[1], D_MODEL, D_MODEL)
    fill_norm(generator, own.layer_norm)
    if hasattr(own, "relative_position_keys"):
        own.relative_position_keys = array(generator, 9, D_MODEL // HEADS)
        own.relative_position_values = array(generator, 9, D_MODEL // HEADS)
    if hasattr(own, "relative_attention_bias"):
        own.relative_attention_bias = array(generator, 8, HEADS) if own is first else first.relative_attention_bias
        own.relative_attention_max_distance = np.dtype("int32").type(16)
        own.queries_scale = 1.0
    if hasattr(layer, "attention"):
        for linear, rows in zip(layer.attention.linear, (D_MODEL, 2 * kv, D_MODEL), strict=True):
            fill_linear(generator, linear, rows, D_MODEL)
        fill_norm(generator, layer.attention.layer_norm)
        if hasattr(own, "relative_attention_bias"):
            layer.attention.queries_scale = 1.0


def sinusoids(length: int) -> np.ndarray:
    """Return the interleaved positions of OpenNMT-py, computed as it does."""
    position, found = np.arange(length)[:, None], np.zeros((length, D_MODEL), dtype=np.float32)
    rates = np.exp(np.arange(0, D_MODEL, 2) * -(np.log(10000.0) / D_MODEL))
    found[:, 0::2], found[:, 1::2] = np.sin(position * rates), np.cos(position * rates)
    return found


def write_translator(
    folder: Path, *, quantization: str | None = None, tie: bool = False, table: str = "", seed: int = 0, **options: Any
) -> Path:
    """Write a translator; `table` is `sinusoidal` or `learned` positions, and `options` are those of the class."""
    from ctranslate2.specs import TransformerSpec

    generator, config = np.random.default_rng(seed), options.pop("config", {})
    attributes = options.pop("attributes", {})
    spec = TransformerSpec.from_config((2, 3), HEADS, **options)
    for stack in (spec.encoder, spec.decoder):
        fill(stack, generator, vocabulary=len(WORDS))
        if table:
            learned = array(generator, 40, D_MODEL)
            stack.position_encodings.encodings = sinusoids(40) if table == "sinusoidal" else learned
    if tie:
        spec.decoder.embeddings.weight = spec.encoder.embeddings[0].weight
        spec.decoder.projection.weight = spec.encoder.embeddings[0].weight
    spec.decoder.projection.bias[:2] = -1e4  # padding and begin symbol, which dragoman never writes
    for name, value in attributes.items():
        setattr(spec.decoder, name, value)
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings
    spec.register_source_vocabulary(WORDS)
    spec.register_target_vocabulary(WORDS)
    for key, value in config.items():
        setattr(spec.config, key, value)
    return _save(spec, folder, quantization)


def write_generator(
    folder: Path, *, quantization: str | None = None, kv_heads: int | None = None, seed: int = 0, **options: Any
) -> Path:
    """Write a language model."""
    from ctranslate2.specs import TransformerDecoderModelSpec

    spec = TransformerDecoderModelSpec.from_config(2, HEADS, num_heads_kv=kv_heads, **options)
    generator = np.random.default_rng(seed)
    fill(spec.decoder, generator, vocabulary=len(WORDS), kv_heads=kv_heads or HEADS)
    for layer in spec.decoder.layer:
        for name in ("rotary_low_freq_factor", "rotary_high_freq_factor"):
            if hasattr(layer.self_attention, name):
                setattr(layer.self_attention, name, {"low": 1.0, "high": 4.0}[name.split("_")[1]])
    spec.register_vocabulary(WORDS)
    return _save(spec, folder, quantization)


def _save(spec: Any, folder: Path, quantization: str | None) -> Path:
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))
    return folder


def downgrade(folder: Path, version: int) -> None:
    """Write the model of a folder in an older version, whose attributes hold what `config.json` holds in version 6."""
    model = read_model_file(folder / "model.bin")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    variables = dict(model.variables)
    for name in ("unk_token", "bos_token", "eos_token"):
        variables[name] = torch.tensor(list(config[name].encode()), dtype=torch.int8)
    flags = {
        "with_source_bos": config["add_source_bos"],
        "with_source_eos": config["add_source_eos"],
        "with_target_bos": config["decoder_start_token"] == config["bos_token"],
    }
    variables |= {name: torch.tensor(int(value), dtype=torch.int8) for name, value in flags.items()}
    parts = [struct.pack("<I", version), _string(model.spec), struct.pack("<II", model.revision, len(variables))]
    for name, tensor in variables.items():
        data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        size, kind = tensor.element_size(), DTYPES.index(tensor.dtype)
        form = struct.pack("<BI", kind, len(data)) if version >= 4 else struct.pack("<BI", size, len(data) // size)
        parts += [_string(name), struct.pack(f"<B{tensor.dim()}I", tensor.dim(), *tensor.shape), form, data]
    parts += [struct.pack("<I", len(model.aliases))] if version >= 3 else []
    parts += [_string(text) for pair in model.aliases.items() for text in pair]
    (folder / "model.bin").write_bytes(b"".join(parts))


def _string(text: str) -> bytes:
    return struct.pack("<H", len(text.encode()) + 1) + text.encode() + b"\0"
