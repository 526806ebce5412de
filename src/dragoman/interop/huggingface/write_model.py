"""Writing of folders that transformers loads: the way back of an import, or a translation model trained here."""

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from dragoman.atomic_files import write_atomically
from dragoman.data.tokenizers import ImportedTokenizer
from dragoman.errors import ConfigError, DataError
from dragoman.interop.huggingface.decoder_only import DecoderFamily
from dragoman.interop.huggingface.encoder_only import EncoderFamily
from dragoman.interop.huggingface.families import bart, bert, gpt2, llama, t5
from dragoman.interop.huggingface.foreign_config import CONFIG_FILE
from dragoman.interop.huggingface.seq2seq import FORMAT, SILENCED, Seq2SeqFamily
from dragoman.interop.huggingface.tokenizer_files import TOKENIZER_FILE
from dragoman.interop.huggingface.trained_model import choose_family, documents, position_tables, tokenizer_json
from dragoman.interop.imported_model import ExportedModel, HeadConfig, Origin
from dragoman.interop.tensor_names import TensorTable
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig

WEIGHTS_FILE: Final = "model.safetensors"
OWN_DOCUMENT: Final = "dragoman"
"""Record of the import among the documents of an origin, which is no file."""
_LANGUAGE = re.compile("__[a-z]{2,3}__")
_DOCUMENT = re.compile(r"([A-Za-z0-9_]+/)?[A-Za-z0-9_]+\.json")
"""Names of files, also in a folder of their own, as sentence-transformers has them."""
_Network = EncoderDecoderConfig | DecoderOnlyConfig | EncoderOnlyConfig
_Family = Seq2SeqFamily | DecoderFamily | EncoderFamily
_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


def write(model: ExportedModel, folder: Path) -> None:
    """Write an imported model, or a translation model. Raises ConfigError if the format lacks a part of it."""
    network = model.network
    if model.compute_type != "float32":
        raise ConfigError(f"compute_type = {model.compute_type} is for other formats. Leave it out.")
    is_back = model.origin is not None and model.origin.format == FORMAT
    if is_back and isinstance(network, _Network):
        assert model.origin is not None, "checked"
        _write_imported(model, model.origin, network, folder)
    elif isinstance(network, EncoderDecoderConfig):
        _write_trained(model, network, folder)
    else:
        raise ConfigError(
            f"{model.name}: is neither a Transformer of translation nor a model that was imported from Hugging Face, "
            "which this format writes. Export it to another format."
        )


def _write_trained(model: ExportedModel, network: EncoderDecoderConfig, folder: Path) -> None:
    """Write a model with the names of the family that computes the same."""
    tokenizer = tokenizer_json(model.tokenizer)
    family, tree = choose_family(model, network)
    tensors = family.tensor_table(family.name, network).write(model.weights) | position_tables(network, tree)
    for name, document in documents(model, family, tree).items():
        _write_json(folder / name, document)
    write_atomically(folder / TOKENIZER_FILE, tokenizer + "\n")
    arrays = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}
    write_atomically(folder / WEIGHTS_FILE, save(arrays, metadata={"format": "pt"}))


def _write_imported(model: ExportedModel, origin: Origin, network: _Network, folder: Path) -> None:
    """Write an imported model with the files that it came from."""
    family = _family(origin)
    weights = _with_biases(model.weights, origin)
    table = _tensor_table(family, network, model.head)
    tensors, dtype = _in_format(table.write(weights, orders=origin.orders), origin)
    changes = {CONFIG_FILE: {"architectures": [_model_class(family, network, model.head)], "dtype": dtype}}
    for name, tree in origin.documents.items():
        if name != OWN_DOCUMENT:
            path = folder / _checked_name(name)
            path.parent.mkdir(exist_ok=True)
            _write_json(path, {**tree, **changes[name]} if name in changes else tree)
    _write_tokenizer(model, family, folder)
    write_atomically(folder / WEIGHTS_FILE, save(tensors, metadata={"format": "pt"}))


def _tensor_table(family: _Family, network: _Network, head: HeadConfig | None) -> TensorTable:
    if isinstance(family, EncoderFamily):
        assert isinstance(network, EncoderOnlyConfig), "the network of the family"
        return family.tensor_table(family.name, network, head)
    return family.tensor_table(family.name, network)  # type: ignore[arg-type]  # the network of its kind


def _model_class(family: _Family, network: _Network, head: HeadConfig | None) -> str:
    """Return the class of transformers that loads the model."""
    if isinstance(family, EncoderFamily):
        assert isinstance(network, EncoderOnlyConfig), "the network of the family"
        return family.model_class(network, head)
    return family.model_class


def _family(origin: Origin) -> _Family:
    modules = (bart, t5, gpt2, llama, bert)
    families: list[_Family] = [family for module in modules for family in module.FAMILIES]
    found = {family.name: family for family in families}
    if origin.family not in found:
        raise ConfigError(f"Models of the family {origin.family} cannot be written. Export it to another format.")
    return found[str(origin.family)]


def _checked_name(name: str) -> str:
    """Return the name of a file. Raises DataError if it leads out of its folder."""
    if not _DOCUMENT.fullmatch(name):
        raise DataError(f"The origin of the run names the file {name!r:.60}. Import the model again.")
    return name


def _with_biases(weights: Mapping[str, np.ndarray], origin: Origin) -> Mapping[str, np.ndarray]:
    """Return the weights with the output biases that the import replaced."""
    silenced = origin.documents.get(OWN_DOCUMENT, {}).get(SILENCED, {})
    if not silenced:
        return weights
    bias = weights["unembedding.bias"].copy()
    for index, value in silenced.items():
        bias[origin.orders["target"].our_ids[int(index)]] = value
    return {**weights, "unembedding.bias": bias}


def _in_format(tensors: Mapping[str, np.ndarray], origin: Origin) -> tuple[dict[str, Tensor], str]:
    """Return the tensors in the number format of the origin if it holds all of them exactly, otherwise in float32."""
    full = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}
    formats = set(origin.number_formats.values())
    name = formats.pop() if len(formats) == 1 else "float32"
    if (dtype := _DTYPES.get(name)) is None:
        return full, "float32"
    short = {key: tensor.to(dtype) for key, tensor in full.items()}
    if all(torch.equal(short[key].float(), tensor) for key, tensor in full.items()):
        return short, name
    return full, "float32"


def _write_tokenizer(model: ExportedModel, family: _Family, folder: Path) -> None:
    """Write the tokenizer in the files that the family has."""
    source, target = (_library(side) for side in (model.tokenizer.source, model.tokenizer.target))
    if source["kind"] == "tokenizers":
        write_atomically(folder / TOKENIZER_FILE, source["tokenizer"])
        return
    if family.name == "marian":
        is_shared = source["vocabulary"] == target["vocabulary"]
        _write_pieces(folder / "source.spm", source, vocab=folder / "vocab.json")
        _write_pieces(folder / "target.spm", target, vocab=None if is_shared else folder / "target_vocab.json")
    elif family.name == "m2m_100" and any(map(_LANGUAGE.fullmatch, filter(None, source["vocabulary"] or ()))):
        _write_pieces(folder / "sentencepiece.bpe.model", source, vocab=folder / "vocab.json")
    else:
        is_t5 = family.name in ("t5", "mt5", "pegasus")
        _write_pieces(folder / ("spiece.model" if is_t5 else "sentencepiece.bpe.model"), source, vocab=None)


def _library(side: Any) -> dict[str, Any]:
    """Return the JSON tree of the tokenizer of a side. Raises ConfigError if it was trained here."""
    if not isinstance(side, ImportedTokenizer):
        raise ConfigError("The tokenizer of the run was trained here. Export the model to another format.")
    return side.library.to_json()


def _write_pieces(path: Path, tree: Mapping[str, Any], *, vocab: Path | None) -> None:
    """Write a SentencePiece model, and the ids of its pieces without those of languages."""
    write_atomically(path, base64.b64decode(tree["model"]))
    if vocab is not None:
        tokens = enumerate(tree["vocabulary"])
        _write_json(vocab, {token: index for index, token in tokens if token and not _LANGUAGE.fullmatch(token)})


def _write_json(path: Path, tree: Any) -> None:
    write_atomically(path, json.dumps(tree, ensure_ascii=False, indent=2) + "\n")
