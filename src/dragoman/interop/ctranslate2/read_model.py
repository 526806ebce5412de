"""Read a folder of CTranslate2: `model.bin`, `config.json` and the vocabularies."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from dragoman.data.tokenizers import ImportedTokenizerConfig, Prefixes, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DataError, shorten
from dragoman.interop.ctranslate2.attributes import Attributes
from dragoman.interop.ctranslate2.model_file import FILE_NAME, ModelFile, is_model_file, read_model_file
from dragoman.interop.ctranslate2.model_keys import CONFIG_KEYS
from dragoman.interop.ctranslate2.network_config import (
    DECODER_ONLY,
    REVISIONS,
    ReadNetwork,
    fold_output_scale,
    read_network,
    source_embeddings_name,
)
from dragoman.interop.ctranslate2.quantization import dequantize_weights
from dragoman.interop.ctranslate2.reference_logits import build_reference
from dragoman.interop.ctranslate2.variable_names import table_of_names
from dragoman.interop.ctranslate2.vocabulary import (
    PAD_TOKENS,
    SENTENCEPIECE_FILES,
    SYMBOL_ATTRIBUTES,
    WHITE_SPACE,
    Symbols,
    Vocabulary,
    begins_with_bos,
    build_tokenizer,
    find_vocabulary,
    read_symbols,
    read_tokens,
    vocabulary_order,
)
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.key_table import check_keys
from dragoman.interop.language_tags import (
    MARIAN_TAG,
    MIN_PAIR_TAGS,
    find_pair_tags,
    find_tags,
    with_default_languages,
)
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, T5BiasConfig
from dragoman.untrusted_files import MEBIBYTE, FileKind

CONFIG_NAME: Final = "config.json"
FORMAT: Final = "ctranslate2"
FILES: Final = FilePatterns(
    weights=((FILE_NAME,),),
    required=(("*_vocabulary.*", "vocabulary.json", "vocabulary.txt"),),
    optional=(CONFIG_NAME, "tokenizer.json", *SENTENCEPIECE_FILES),
)
MAX_INPUT = 1024
"""Source tokens after which CTranslate2 cuts a text unless told otherwise."""
DECODING: Final = DecodingConfig(
    beam_size=2,
    min_length=1,
    renormalize=True,
    max_length=256,
    max_length_ratio=0,
    max_length_offset=256,
    early_stopping=True,
    keep_greedy=False,
    cut_off="ranked",
)
"""CTranslate2's own defaults."""
_CONFIG = FileKind(16 * MEBIBYTE, "convert the model again with CTranslate2")
_VOCABULARIES: Final = {
    "source": ("shared_vocabulary", "source_vocabulary", "source_1_vocabulary"),
    "target": ("shared_vocabulary", "target_vocabulary", "vocabulary"),
}


def is_ctranslate2(path: Path) -> bool:
    """Return whether a path is a folder of this format, also of a version that is not read."""
    return path.is_dir() and is_model_file(path / FILE_NAME)


@final
@dataclass(frozen=True)
class _Folder:
    """Content of a folder."""

    path: Path
    model: ModelFile
    config: Mapping[str, Any]
    """Content of `config.json`; empty without it."""
    symbols: Symbols
    weights: Mapping[str, np.ndarray]
    number_formats: Mapping[str, str]
    network: ReadNetwork
    vocabularies: Mapping[str, Vocabulary]
    """Vocabulary by side, `source` and `target`; the same object if it is shared."""
    files: tuple[Path, ...]
    allow_unused: tuple[str, ...]
    """Tensors that the user leaves out."""

    @property
    def where(self) -> str:
        return str(self.path / FILE_NAME)

    @property
    def is_decoder_only(self) -> bool:
        return self.model.spec == DECODER_ONLY

    @property
    def ends_sources(self) -> bool:
        """True if sources end with the end symbol."""
        return self.symbols.add_source_eos or self.gives_eos

    @property
    def gives_eos(self) -> bool:
        """True if users of CTranslate2 give the end symbol of a source themselves.

        The tokenizers of models that were converted from Hugging Face add it. Such models start outputs with another
        symbol than a begin symbol: T5 and Pegasus have a padding symbol there, which their files call `bos_token`.
        """
        if self.symbols.add_source_eos:
            return False
        has_t5_bias = isinstance(self.network.config.positions, T5BiasConfig)
        return has_t5_bias or self.symbols.start != self.symbols.bos or self.symbols.bos in PAD_TOKENS


def read(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a model. Raises DataError or RunError if files are missing, damaged, or of a kind that we lack."""
    return read_folder(path, options, tokenizers=path)


def read_folder(path: Path, options: ImportOptions, *, tokenizers: Path) -> ImportedModel:
    """Read a model whose tokenizers are in another folder."""
    folder = _read_folder(path, options)
    orders = {side: one.order for side, one in folder.vocabularies.items()}
    network = _network(folder)
    shapes = network_shapes(network, source_vocabulary=len(orders["source"]), target_vocabulary=len(orders["target"]))
    table = table_of_names(
        network,
        source_embeddings=source_embeddings_name(folder.weights),
        is_interleaved=folder.network.is_interleaved,
    )
    weights, account = table.read(
        folder.weights, shapes, where=folder.where, orders=orders, allow_unused=folder.allow_unused
    )
    tokenizer, notes = _tokenizer(folder, tokenizers, options)
    return ImportedModel(
        task="language_modeling" if folder.is_decoder_only else "translation",
        network=network,
        weights=weights,
        tokenizer=tokenizer,
        origin=_origin(folder),
        tensors=account,
        max_length=min(folder.network.num_positions or MAX_INPUT, MAX_INPUT),
        decoding=DECODING,
        notes=notes,
        reference=build_reference(
            path,
            folder.vocabularies,
            folder.symbols,
            is_decoder_only=folder.is_decoder_only,
            gives_eos=folder.gives_eos,
        ),
    )


def _read_folder(path: Path, options: ImportOptions) -> _Folder:
    file = path / FILE_NAME
    model, where = read_model_file(file), str(file)
    if model.spec not in REVISIONS or model.revision not in REVISIONS[model.spec]:
        raise DataError(
            f"{where}: holds a {shorten(model.spec)} of revision {model.revision}, and dragoman reads the "
            f"specifications {', '.join(REVISIONS)} of newer revisions than 1"
        )
    config_file = path / CONFIG_NAME
    has_config = config_file.exists()
    config = _CONFIG.read_json_object(config_file) if has_config else {}
    check_keys(config, CONFIG_KEYS, where=f"{config_file}: ", allow_unused=options.allow_unused)
    symbols = read_symbols(
        model, {key: value for key, value in config.items() if key not in options.allow_unused}, where=where
    )
    tensors = {name: tensor for name, tensor in model.resolve().items() if name not in SYMBOL_ATTRIBUTES}
    attributes = Attributes(tensors, where=where, allow_unused=options.allow_unused)
    weights, formats = dequantize_weights(tensors, where=where)
    fold_output_scale(weights, attributes)
    network = read_network(weights, attributes, model.spec, epsilon=_epsilon(config, where=config_file), where=where)
    starts_from_zero = attributes.flag("decoder/start_from_zero_embedding", default=False)
    attributes.check_all_read()
    start = None if starts_from_zero else symbols.start or symbols.eos
    vocabularies, vocabulary_files = _vocabularies(
        path, weights, symbols, start, is_decoder_only=model.spec == DECODER_ONLY
    )
    left_out = tuple(name for name in options.allow_unused if name not in {*config, *attributes.names})
    files = (file, *([config_file] if has_config else []), *vocabulary_files)
    return _Folder(path, model, config, symbols, weights, formats, network, vocabularies, files, left_out)


def _epsilon(config: Mapping[str, Any], *, where: Path) -> float | None:
    value = config.get("layer_norm_epsilon")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1):
        raise DataError(f"{where}: layer_norm_epsilon = {shorten(value)} is no number between 0 and 1")
    return value


def _network(folder: _Folder) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """Return the network with an output bias if rows are added, and the end symbol of sources."""
    config = folder.network.config
    changes: dict[str, Any] = {}
    if folder.vocabularies["target"].order.needs_output_bias:
        changes["output_bias"] = True
    if isinstance(config, EncoderDecoderConfig):
        changes["source_eos"] = folder.ends_sources
    return config.model_copy(update=changes)


def _vocabularies(
    path: Path, weights: Mapping[str, np.ndarray], symbols: Symbols, start: str | None, *, is_decoder_only: bool
) -> tuple[dict[str, Vocabulary], list[Path]]:
    """Return the vocabulary of each side, and the files."""
    names = {"target": "decoder/embeddings/weight"}
    if not is_decoder_only:
        names["source"] = source_embeddings_name(weights)
    found: dict[str, Vocabulary] = {}
    files: list[Path] = []
    for side, embeddings in names.items():
        candidates = (find_vocabulary(path, name) for name in _VOCABULARIES[side])
        file = next((one for one in candidates if one is not None), None)
        if file is None:
            raise DataError(f"{path}: lacks {_VOCABULARIES[side][1]}.json. Give the whole folder of the model.")
        if file in files:
            found[side] = found["target"]
            continue
        tokens = read_tokens(file, symbols, expected=len(weights[embeddings]), where=str(path / FILE_NAME))
        found[side] = Vocabulary(
            tokens, vocabulary_order(tokens, symbols, start=start if side == "target" else symbols.bos)
        )
        files.append(file)
    found.setdefault("source", found["target"])
    return found, files


def _tokenizer(folder: _Folder, path: Path, options: ImportOptions) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer, and notes on it and on the symbols around texts."""
    sides = folder.vocabularies
    prefixes = Prefixes() if folder.is_decoder_only else _prefixes(folder)
    tags = [one.tag for one in prefixes.languages.values() if one.tag is not None]
    hidden = sides["source"].order.foreign_ids[tags].tolist()
    target, kind = build_tokenizer(sides["target"], path, side="target", symbols=folder.symbols, hidden=hidden)
    source = target
    if sides["source"] is not sides["target"] or (path / "source.spm").is_file():
        source, kind = build_tokenizer(sides["source"], path, side="source", symbols=folder.symbols)
    notes = [f"Texts are tokenized by {kind}."]
    if kind == WHITE_SPACE:
        notes[0] = (
            "The folder has no tokenizer: separate the tokens of a text by spaces, or put the model's SentencePiece "
            "file into the folder as sentencepiece.model and import it again."
        )
    if folder.symbols.start is None:
        notes.append("Users of CTranslate2 choose the start symbol, such as a language. Here it is the end symbol.")
    if not folder.is_decoder_only and folder.gives_eos:
        notes.append("Sources end with the end symbol, as in the library that the model was converted from.")
    config = ImportedTokenizerConfig(shared=sides["source"] is sides["target"])
    is_begun = begins_with_bos(path, folder.symbols)
    if folder.is_decoder_only:
        # Without a tokenizer that says so: symbols that are both begin and end, as in GPT-2, do not begin texts.
        has_bos = folder.symbols.bos != folder.symbols.eos if is_begun is None else is_begun
        notes.append(f"Texts begin {'with' if has_bos else 'without'} the begin symbol {folder.symbols.bos}.")
        return Tokenizer(source, target, config.model_copy(update={"bos": has_bos}), prefixes), tuple(notes)
    if kind == WHITE_SPACE:
        prefixes = Prefixes()  # users write tags as tokens of a text
    if folder.symbols.add_source_bos or (is_begun and not prefixes.languages):
        prefixes = replace(prefixes, source=(_begin_symbol(folder), *prefixes.source))
    prefixes = with_default_languages(prefixes, options)
    return Tokenizer(source, target, config, prefixes), tuple(notes)


def _begin_symbol(folder: _Folder) -> int:
    """Return our id of the begin symbol of sources. Raises DataError if the vocabulary lacks it."""
    side, bos = folder.vocabularies["source"], folder.symbols.bos
    if bos not in side.tokens:
        raise DataError(
            f"{folder.path}: sources begin with {shorten(bos)}, which the vocabulary lacks. Convert the model again."
        )
    return int(side.order.our_ids[side.tokens.index(bos)])


def _prefixes(folder: _Folder) -> Prefixes:
    """Return the tags of languages around texts, which users of CTranslate2 write themselves."""
    side = folder.vocabularies["source"]
    ids = {token: index for index, token in enumerate(side.tokens)}
    if tags := find_tags(ids, MARIAN_TAG, side.order):
        return Prefixes(source=("target_language",), languages=tags)
    if len(tags := find_pair_tags(ids, side.order)) >= MIN_PAIR_TAGS and folder.vocabularies["target"] is side:
        return Prefixes(source=("source_language",), target=("target_language",), languages=tags)
    return Prefixes()


def _origin(folder: _Folder) -> Origin:
    sides = folder.vocabularies
    is_shared = sides["source"] is sides["target"]
    tokens = {"shared": sides["target"].tokens} if is_shared else {side: one.tokens for side, one in sides.items()}
    return Origin(
        format=FORMAT,
        family="decoder_only" if folder.is_decoder_only else "encoder_decoder",
        version=str(folder.model.version),
        orders={side: one.order for side, one in sides.items()},
        files=folder.files,
        documents={
            CONFIG_NAME: dict(folder.config),
            "symbols": asdict(folder.symbols),
            "vocabularies": {name: list(one) for name, one in tokens.items()},
            "num_positions": folder.network.num_positions,
            "has_output_bias": "decoder/projection/bias" in folder.weights,
        },
        number_formats=folder.number_formats,
    )
