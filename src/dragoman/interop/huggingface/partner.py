"""The format of Hugging Face: recognition, and the family that reads a model."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from dragoman.errors import ConfigError, DataError, nearest, shorten
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.huggingface.decoder_only import read_decoder
from dragoman.interop.huggingface.encoder_only import read_encoder
from dragoman.interop.huggingface.families import bart, bert, gpt2, llama, t5
from dragoman.interop.huggingface.foreign_config import (
    CONFIG_FILE,
    GENERATION_FILE,
    JSON_FILES,
    ForeignConfig,
    read_config,
)
from dragoman.interop.huggingface.seq2seq import read_seq2seq
from dragoman.interop.imported_model import ImportedModel, ImportOptions

FILES: Final = FilePatterns(
    weights=(
        ("model.safetensors",),
        ("model.safetensors.index.json", "model-*.safetensors"),
        ("pytorch_model.bin",),
        ("pytorch_model.bin.index.json", "pytorch_model-*.bin"),
    ),
    required=((CONFIG_FILE,),),
    optional=(
        *(GENERATION_FILE, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"),
        *("vocab.json", "target_vocab.json", "source.spm", "target.spm", "sentencepiece.bpe.model", "spiece.model"),
        "vocab.txt",
        *("modules.json", "sentence_bert_config.json", "*_Pooling/config.json"),
    ),
)
Reader = Callable[[ForeignConfig, ImportOptions], ImportedModel]

READERS: Final[Mapping[str, Reader]] = {
    **{family.name: partial(read_seq2seq, family) for family in (*bart.FAMILIES, *t5.FAMILIES)},
    **{family.name: partial(read_decoder, family) for family in (*gpt2.FAMILIES, *llama.FAMILIES)},
    **{family.name: partial(read_encoder, family) for family in bert.FAMILIES},
}
"""Function that reads a model by the `model_type` of its configuration."""


def recognizes(source: Path) -> bool:
    """Return whether a folder has a `config.json` that names its family."""
    path = source / CONFIG_FILE
    if not path.is_file():
        return False
    try:
        return isinstance(JSON_FILES.read_json_object(path).get("model_type"), str)
    except DataError:
        return False


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Read a model. Raises DataError for damaged files, and ConfigError for families that dragoman cannot compute."""
    config = read_settings(source)
    return READERS[config.get("model_type", str)](config, options)


def read_settings(source: Path) -> ForeignConfig:
    """Read the settings of a model. Raises DataError and ConfigError as `read` does for an unknown family."""
    config = read_config(source)
    name = config.get("model_type", str)
    if name not in READERS:
        near = nearest(name, READERS)
        remedy = f"Did you mean {near[0]}?" if near else f"dragoman reads {', '.join(READERS)}."
        raise ConfigError(f"{config.path}: model_type = {shorten(name)} is not supported. {remedy}")
    return config
