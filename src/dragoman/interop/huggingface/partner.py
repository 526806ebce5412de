"""The format of Hugging Face: recognition, and the family that reads a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, assert_never

from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.huggingface.decoder_only import DecoderFamily, read_decoder
from dragoman.interop.huggingface.encoder_only import EncoderFamily, read_encoder
from dragoman.interop.huggingface.families import bart, bert, gpt2, llama, t5
from dragoman.interop.huggingface.foreign_config import (
    CONFIG_FILE,
    GENERATION_FILE,
    JSON_FILES,
    ForeignConfig,
)
from dragoman.interop.huggingface.generation_keys import SAMPLING_KEYS, SEARCH_KEYS
from dragoman.interop.huggingface.generation_settings import open_generation, read_generation
from dragoman.interop.huggingface.model_keys import MODEL_KEYS
from dragoman.interop.huggingface.sampling_settings import read_sampling
from dragoman.interop.huggingface.seq2seq import Seq2SeqFamily, read_seq2seq
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
Family = Seq2SeqFamily | DecoderFamily | EncoderFamily
_ALL: Final[list[Family]] = [*bart.FAMILIES, *t5.FAMILIES, *gpt2.FAMILIES, *llama.FAMILIES, *bert.FAMILIES]
FAMILIES: Final[Mapping[str, Family]] = {family.name: family for family in _ALL}
"""Family by the `model_type` of its configuration."""


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
    """Read a model. Raises DataError for damaged files, and ConfigError for what dragoman cannot compute."""
    settings = read_settings(source, options)
    config, generation = settings.config, settings.generation
    left_out = config.left_out | generation.left_out
    options = replace(options, allow_unused=tuple(name for name in options.allow_unused if name not in left_out))
    match settings.family:
        case Seq2SeqFamily() as family:
            model = read_seq2seq(family, config, generation, options)
        case DecoderFamily() as family:
            model = read_decoder(family, config, generation, options)
        case EncoderFamily() as family:
            model = read_encoder(family, config, options)
        case _:
            assert_never(settings.family)
    notes = [f"{key} = {shorten(value)} is left out, as --allow-unused says" for key, value in left_out.items()]
    return replace(model, notes=(*model.notes, *notes))


@dataclass(frozen=True)
class Settings:
    """Settings in the JSON files of a model."""

    family: Family
    config: ForeignConfig
    generation: ForeignConfig
    """Settings of `generate`."""


def read_settings(source: Path, options: ImportOptions) -> Settings:
    """Read the settings of a model, without its weights.

    Raises DataError for damaged files, and ConfigError for a family, a key or a value that dragoman does not know.
    """
    path = source / CONFIG_FILE
    tree = JSON_FILES.read_json_object(path)
    name = str(tree.get("model_type"))
    if name not in FAMILIES:
        raise ConfigError(
            f"{path}: model_type = {shorten(name)} is not supported. dragoman reads {', '.join(FAMILIES)}."
        )
    config = ForeignConfig(tree, path=path, table=MODEL_KEYS[name], allow_unused=options.allow_unused)
    table = SAMPLING_KEYS if isinstance(FAMILIES[name], DecoderFamily) else SEARCH_KEYS
    if isinstance(FAMILIES[name], EncoderFamily):
        return Settings(FAMILIES[name], config, ForeignConfig({}, path=path, table={}))
    generation = open_generation(config, table, allow_unused=options.allow_unused)
    return Settings(FAMILIES[name], config, generation)


def check_settings(source: Path, options: ImportOptions) -> None:
    """Raise the errors of `read` that the settings cause, from a folder that may lack the weights."""
    settings = read_settings(source, options)
    settings.family.read_network(settings.family.name, settings.config, {})
    match settings.family:
        case Seq2SeqFamily() as family:
            read_generation(settings.generation, default_start=family.default_start)
        case DecoderFamily():
            read_sampling(settings.generation)
