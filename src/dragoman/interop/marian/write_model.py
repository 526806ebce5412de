"""Writing of models for Marian and Firefox: weights, SentencePiece vocabularies, shortlist and `decoder.yml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dragoman.atomic_files import write_atomically, write_text
from dragoman.data.shortlist import sample_evenly
from dragoman.errors import ConfigError, DataError
from dragoman.interop.imported_model import ExportedModel, build_network
from dragoman.interop.marian.binary_format import SETTINGS, MarianTensor, write_binary
from dragoman.interop.marian.calibration import greatest_inputs
from dragoman.interop.marian.model_settings import check_network, from_network, parse_settings
from dragoman.interop.marian.quantization import (
    MULTIPLIER_SUFFIX,
    OUTPUT_MULTIPLIER,
    activation_multiplier,
    quantize,
    quantize_tensors,
)
from dragoman.interop.marian.sentencepiece_export import export_vocabulary
from dragoman.interop.marian.shortlist_format import write_shortlist
from dragoman.interop.marian.shortlist_order import to_marian
from dragoman.interop.marian.tensor_names import OUTPUT_LAYER, tensor_table
from dragoman.interop.tensor_names import Orders
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.special_symbols import BOS
from dragoman.models.weight_storage import set_weights
from dragoman.yaml_files import to_yaml

MODELS: Final = {"float32": "model.float32.bin", "int8": "model.intgemm8.bin"}
SHORTLIST, DECODER = "lex.s2t.bin", "decoder.yml"
SHARED_VOCABULARY, VOCABULARIES = ("vocab.spm", "vocab.spm"), ("srcvocab.spm", "trgvocab.spm")
MAX_PAIRS: Final = 200
"""Pairs of texts from which the activation multipliers are measured."""


def write(model: ExportedModel, folder: Path) -> None:
    """Write the files of a translator into a folder: quantized for Firefox as int8, or for Marian as float32.

    Raises ConfigError, with the remedy, if the format lacks a part of the model.
    """
    network = model.network
    if not isinstance(network, EncoderDecoderConfig):
        raise ConfigError("model.kind: Marian's format holds Transformers of kind encoder_decoder alone.")
    if model.compute_type not in MODELS:
        raise ConfigError(
            f"compute_type = {model.compute_type}: Marian's format has float32 and int8. Choose one of them."
        )
    check_network(network)
    sides = {"source": model.tokenizer.source, "target": model.tokenizer.target}
    vocabularies = {side: export_vocabulary(tokenizer) for side, tokenizer in sides.items()}
    orders = {side: vocabulary.order for side, vocabulary in vocabularies.items()}
    _check_start(model.weights)
    tensors: Mapping[str, MarianTensor] = tensor_table(network).write(model.weights, orders=orders)
    if model.compute_type == "int8":
        tensors = _quantized(model, network, tensors)
    write_binary(folder / MODELS[model.compute_type], {**tensors, SETTINGS: _settings(model, network, orders)})
    shared = network.tie_embeddings == "all"
    names = SHARED_VOCABULARY if shared else VOCABULARIES
    for name, vocabulary in zip(names, vocabularies.values(), strict=True):
        write_atomically(folder / name, vocabulary.content)
    if model.shortlist is not None:
        shortlist = to_marian(model.shortlist, source=orders["source"], target=orders["target"], shared=shared)
        write_shortlist(folder / SHORTLIST, shortlist)
    write_text(folder / DECODER, to_yaml(_decoder(model, names)))


def _check_start(weights: Mapping[str, np.ndarray]) -> None:
    """Raise ConfigError if the decoder starts from another embedding than zero, as Marian's do."""
    embedding = weights.get("target_embedding.tokens.weight", weights["source_embedding.tokens.weight"])
    if embedding[BOS].any():
        raise ConfigError(
            "model.start_embedding = learned: the decoder starts from an embedding that was trained, and Marian's from "
            "zero. Train with the preset student-tiny, or with --set model.start_embedding=zero."
        )


def _settings(model: ExportedModel, network: EncoderDecoderConfig, orders: Orders) -> np.ndarray:
    """Return the text of the settings inside the model file: that of the original if it says the same."""
    settings = from_network(network, **{f"{side}_vocabulary": order.size for side, order in orders.items()})
    text = _document(model, "settings").get("text", "")
    recorded = parse_settings(text, where=model.name) if text else {}
    if not recorded or any(recorded.get(key, value) != value for key, value in settings.items() if key != "version"):
        text = to_yaml(settings)
    return np.frombuffer(text.encode() + b"\0", np.int8)


def _document(model: ExportedModel, name: str) -> Mapping[str, Any]:
    """Return a part of the record of an imported model of Marian; empty for others."""
    if model.origin is None or model.origin.format != "marian":
        return {}
    found: Mapping[str, Any] = model.origin.documents.get(name, {})
    return found


def _quantized(
    model: ExportedModel, network: EncoderDecoderConfig, tensors: Mapping[str, Any]
) -> Mapping[str, MarianTensor]:
    """Return the tensors in 8 bits, with the multipliers of the original if its weights are unchanged."""
    if network.tie_embeddings == "none":
        raise ConfigError(
            f"model.tie_embeddings = none: {OUTPUT_LAYER} has no 8-bit form. Export as float32, or train with all."
        )
    multipliers = _document(model, "multipliers")
    recorded: Mapping[str, float] = multipliers.get("matrices", {})
    matrices = [name for name, array in tensors.items() if len(array) > 1]
    unchanged = all(
        name in recorded
        and np.float32(recorded[name]) == np.float32(quantize(tensors[name], recorded[name]).multiplier)
        for name in matrices
    )
    activations = multipliers.get("activations") if unchanged else None
    return quantize_tensors(
        tensors, activations or _measure(model, network), recorded if unchanged else _SCALARS, matrices=matrices
    )


_SCALARS: Final = dict.fromkeys(("Wemb" + MULTIPLIER_SUFFIX, "decoder_Wemb" + MULTIPLIER_SUFFIX))
"""Activation multipliers that are stored like matrices, which have no recorded multipliers."""


def _measure(model: ExportedModel, network: EncoderDecoderConfig) -> dict[str, float]:
    """Return the activation multipliers, measured on pairs of texts. Raises DataError if there are none."""
    sides = model.tokenizer.source, model.tokenizer.target
    module = build_network(network, source_vocabulary=len(sides[0]), target_vocabulary=len(sides[1]))
    set_weights(module, {name: torch.from_numpy(np.array(array)) for name, array in model.weights.items()})
    texts, limit = sample_evenly(model.texts(), MAX_PAIRS), model.max_length - 1
    if not texts:
        raise DataError("there are no texts to measure the inputs of each layer on; give the training corpus")
    pairs = [(sides[0].encode(source)[:limit], sides[1].encode(target)[:limit]) for source, target in texts]
    table, found = tensor_table(network), {}
    for name, greatest in greatest_inputs(module.eval(), pairs).items():
        multiplier = activation_multiplier(greatest)
        if name != "unembedding.weight":
            (matrix,) = table.write({name: model.weights[name]})
            found[matrix + MULTIPLIER_SUFFIX] = multiplier
        elif network.tie_embeddings == "all":
            found |= {OUTPUT_MULTIPLIER: multiplier, "Wemb" + MULTIPLIER_SUFFIX: multiplier}
        else:
            found["decoder_Wemb" + MULTIPLIER_SUFFIX] = multiplier
    return found


def _decoder(model: ExportedModel, vocabularies: tuple[str, str]) -> dict[str, Any]:
    """Return the configuration of Marian's decoder: that of the original with the new file names, or ours."""
    decoding = model.decoding
    ours = {
        "beam-size": decoding.beam_size,
        "normalize": decoding.length_penalty if decoding.length_penalty is not None else 1.0,
        "word-penalty": 0,
        "mini-batch": 64,
        "maxi-batch": 1000,
        "maxi-batch-sort": "src",
        "workspace": 2000,
        "max-length-factor": decoding.max_length_ratio,
        "skip-cost": True,
        **({"gemm-precision": "int8shiftAlphaAll"} if model.compute_type == "int8" else {}),
    }
    shortlist = {} if model.shortlist is None else {"shortlist": [SHORTLIST, False]}
    names = {"relative-paths": True, "models": [MODELS[model.compute_type]], "vocabs": list(vocabularies), **shortlist}
    return {**(_document(model, "decoder") or ours), **names}
