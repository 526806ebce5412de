"""Write a folder of CTranslate2: `model.bin` of version 6, `config.json`, the vocabularies and the tokenizer."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.atomic_files import write_atomically
from dragoman.errors import ConfigError
from dragoman.interop.ctranslate2.model_file import FILE_NAME, ModelFile, write_model_file
from dragoman.interop.ctranslate2.network_config import DECODER_ONLY, SEQ2SEQ, encodings_table
from dragoman.interop.ctranslate2.network_export import Network, attribute_tensors, check_network
from dragoman.interop.ctranslate2.quantization import quantize_weight
from dragoman.interop.ctranslate2.read_model import CONFIG_NAME
from dragoman.interop.ctranslate2.tokenizer_files import export_tokens, write_tokenizers
from dragoman.interop.ctranslate2.variable_names import table_of_names
from dragoman.interop.imported_model import ExportedModel, Origin
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, LearnedConfig
from dragoman.models.weight_quantization import ComputeType

REVISIONS: Final = {SEQ2SEQ: 7, DECODER_ONLY: 8}
SYMBOLS: Final = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""Names of our special symbols in an exported vocabulary."""
_FORMATS: Final = ("ctranslate2", "argos")
"""Formats of models whose weights have the order and names of this one."""
_OUTPUT_BIAS: Final = "decoder/projection/bias"
MIN_POSITIONS: Final = 2048
"""Rows of a table of sinusoidal positions, which ends what the model can read."""


def write(model: ExportedModel, folder: Path) -> None:
    """Write a model to an empty folder.

    A model that was imported from this format gets back its vocabulary, the order of its symbols and the number format
    of each weight. Raises ConfigError if CTranslate2 cannot compute the model.
    """
    network = model.network
    if not isinstance(network, EncoderDecoderConfig | DecoderOnlyConfig):
        raise ConfigError(f"model.kind = {network.kind}: CTranslate2 has other ones. Export it without --format.")
    check_network(network)
    origin = model.origin if model.origin is not None and model.origin.format in _FORMATS else None
    spec = SEQ2SEQ if isinstance(network, EncoderDecoderConfig) else DECODER_ONLY
    tensors = dict(_quantize(_weights(model, network, origin), model.compute_type, origin))
    tensors |= attribute_tensors(network, starts_from_zero=origin is not None and origin.orders["target"].bos is None)
    variables, aliases = _share(tensors)
    write_model_file(folder / FILE_NAME, ModelFile(spec, REVISIONS[spec], variables, aliases))
    _write_settings(model, network, origin, folder)


def _weights(model: ExportedModel, network: Network, origin: Origin | None) -> dict[str, np.ndarray]:
    """Return the weights by their name there, in float32, with the tensors that CTranslate2 stores more than once."""
    ours = dict(model.weights)
    if isinstance(network.positions, LearnedConfig):
        tables = [name for name in ours if name.endswith("positions.table.weight")]
        ours |= {name: ours[name][network.positions.offset :] for name in tables}
    table = table_of_names(network, source_embeddings="encoder/embeddings_0/weight")
    found = table.write(ours, orders=None if origin is None else origin.orders)
    if origin is not None and not origin.documents["has_output_bias"] and not found[_OUTPUT_BIAS].any():
        del found[_OUTPUT_BIAS]  # added for symbols that are never predicted
    if network.tie_embeddings == "all":
        found["decoder/embeddings/weight"] = found["encoder/embeddings_0/weight"]
    found.setdefault("decoder/projection/weight", found["decoder/embeddings/weight"])
    rows = None if origin is None else origin.documents["num_positions"]
    return found | _repeated_positions(network, found, rows or max(MIN_POSITIONS, model.max_length))


def _repeated_positions(network: Network, found: Mapping[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Return the tables of sinusoidal positions, and the bias of distances of all layers but the first."""
    is_seq2seq = isinstance(network, EncoderDecoderConfig)
    scopes = {"encoder", "decoder"} if is_seq2seq else {"decoder"}
    table = encodings_table(network, length)
    repeated = {} if table is None else {f"{scope}/position_encodings/encodings": table for scope in scopes}
    for scope in scopes:
        first = f"{scope}/layer_0/self_attention/relative_attention_bias"
        layers = {name.split("/")[1] for name in found if name.startswith(f"{scope}/layer_")} - {
            "layer_norm",
            "layer_0",
        }
        if first in found:
            repeated |= {first.replace("layer_0", layer): found[first] for layer in layers}
    return repeated


def _quantize(
    weights: Mapping[str, np.ndarray], compute_type: ComputeType, origin: Origin | None
) -> Iterator[tuple[str, Tensor]]:
    """Yield weights and scales in the number format that was asked for, or that of the origin for float32."""
    known = {} if origin is None or compute_type != "float32" else origin.number_formats
    for name, array in weights.items():
        number_format = known.get(name) or known.get(name.replace("embeddings_0", "embeddings")) or compute_type
        if number_format == "int8" and not name.endswith("/weight"):
            number_format = "float32"
        yield from quantize_weight(name, array, number_format).items()


def _share(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return variables and aliases: of equal tensors, the first by name is stored."""
    variables: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    by_size: dict[tuple[Any, ...], list[str]] = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        same = by_size.setdefault((tensor.dtype, tuple(tensor.shape), _digest(tensor)), [])
        first = next((one for one in same if tensor.dim() and torch.equal(tensors[one], tensor)), None)
        if first is not None and not name.endswith("_scale"):
            aliases[name] = first
            continue
        variables[name] = tensor
        same.append(name)
    return _without_aliased_scales(variables, aliases), aliases


def _digest(tensor: Tensor) -> int:
    return hash(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def _without_aliased_scales(variables: Mapping[str, Tensor], aliases: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the variables without the scales of aliases, which CTranslate2 finds by the name of the weight."""
    dropped = {f"{alias}_scale" for alias in aliases}
    return {name: tensor for name, tensor in variables.items() if name not in dropped}


def _write_settings(model: ExportedModel, network: Network, origin: Origin | None, folder: Path) -> None:
    """Write `config.json`, the vocabularies and the tokenizers."""
    is_seq2seq = isinstance(network, EncoderDecoderConfig)
    config: dict[str, Any]
    if origin is not None:
        vocabularies, symbols = origin.documents["vocabularies"], origin.documents["symbols"]
        config = {f"{name}_token": symbols[name] for name in ("unk", "bos", "eos")} | {
            "decoder_start_token": symbols["start"],
            "add_source_bos": symbols["add_source_bos"],
            "add_source_eos": symbols["add_source_eos"],
        }
        config = dict(origin.documents[CONFIG_NAME]) | config
    else:
        vocabularies = export_tokens(model.tokenizer, SYMBOLS, is_seq2seq=is_seq2seq)
        config = {f"{name}_token": SYMBOLS[name] for name in ("unk", "bos", "eos")}
        config |= {"decoder_start_token": SYMBOLS["bos"], "add_source_bos": False}
        config["add_source_eos"] = getattr(network, "source_eos", True)
    config["layer_norm_epsilon"] = network.norm_epsilon
    config["multi_query_attention"] = network.num_kv_heads is not None
    if not is_seq2seq:
        for name in ("decoder_start_token", "add_source_bos", "add_source_eos"):
            config.pop(name, None)
    write_atomically(folder / CONFIG_NAME, json.dumps(config, indent=2, sort_keys=True) + "\n")
    for name, tokens in vocabularies.items():
        file = "vocabulary" if not is_seq2seq else f"{name}_vocabulary"
        write_atomically(folder / f"{file}.json", json.dumps(tokens, indent=2))
    write_tokenizers(model.tokenizer, SYMBOLS, folder)
