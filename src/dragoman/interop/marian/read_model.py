"""Reading of models of Marian and Bergamot; Firefox translates with the latter."""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import (
    ImportedTokenizer,
    ImportedTokenizerConfig,
    Prefixes,
    Tokenizer,
    tokenizer_from_sentencepiece,
)
from dragoman.decoding.config import MAX_BEAM_SIZE, DecodingConfig
from dragoman.errors import DataError
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.key_table import check_keys
from dragoman.interop.language_tags import MARIAN_TAG, find_tags, with_default_languages
from dragoman.interop.marian.binary_format import SETTINGS, MarianTensors, read_binary, settings_text
from dragoman.interop.marian.model_files import ModelFiles, find_files
from dragoman.interop.marian.model_keys import DECODER_KEYS, MODEL_KEYS
from dragoman.interop.marian.model_settings import parse_settings, to_network
from dragoman.interop.marian.quantization import MULTIPLIER_SUFFIX, read_multipliers, to_floats
from dragoman.interop.marian.shortlist_format import read_shortlist
from dragoman.interop.marian.shortlist_order import from_marian
from dragoman.interop.marian.tensor_names import tensor_table
from dragoman.interop.marian.vocabulary_files import EOS, SENTENCEPIECE_FILE, UNK, read_vocabulary
from dragoman.interop.npz_files import read_npz
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.config import EncoderDecoderConfig

FORMAT: Final = "marian"
MAX_LENGTH: Final = 512
"""Longest source or target in tokens; Marian trains on sentences of at most 50 to 512 tokens."""
ENGINE_LENGTHS: Final[Mapping[str, Any]] = {"max_length": 256, "max_length_ratio": 2.0, "max_length_offset": 6}
"""Limits of outputs in Firefox's engine: twice the source, end symbol included, and four more."""
_EMBEDDINGS: Final = {"source": ("Wemb", "encoder_Wemb"), "target": ("Wemb", "decoder_Wemb")}


def read(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a folder, a `decoder.yml` or a model file next to its vocabularies.

    Raises DataError if files are missing or damaged, and ConfigError if dragoman does not compute the network.
    """
    files = find_files(path)
    where = str(files.model)
    tensors = read_npz(files.model) if files.model.suffix == ".npz" else read_binary(files.model)
    text = settings_text(tensors, where=files.model)
    settings = parse_settings(text, where=where)
    left_out = check_keys_of_files(settings, files, options)
    network = to_network({key: value for key, value in settings.items() if key not in left_out}, where=where)
    sides, orders = _vocabularies(files, tensors, network)
    shapes = network_shapes(network, source_vocabulary=len(sides["source"]), target_vocabulary=len(sides["target"]))
    multipliers = {name for name in tensors if name.endswith(MULTIPLIER_SUFFIX)}
    arrays = {name: to_floats(one) for name, one in tensors.items() if name not in {SETTINGS, *multipliers}}
    weights, account = tensor_table(network).read(
        arrays, shapes, where=where, orders=orders, allow_unused=sorted({*options.allow_unused} - left_out)
    )
    shared = network.tie_embeddings == "all"
    documents = {
        "settings": {"text": text},
        "decoder": {key: value for key, value in files.decoder.items() if _is_plain(key) and _is_plain(value)},
        "multipliers": read_multipliers(tensors, where=where),
    }
    return ImportedModel(
        task="translation",
        network=network,
        weights=weights,
        tokenizer=Tokenizer(
            sides["source"], sides["target"], ImportedTokenizerConfig(shared=shared), _prefixes(sides, orders, options)
        ),
        origin=Origin(
            format=FORMAT,
            version=str(settings.get("version", "")).strip() or None,
            orders=orders,
            files=files.all(),
            documents=documents,
        ),
        tensors=replace(account, used=(*account.used, *sorted(multipliers))),
        max_length=MAX_LENGTH,
        decoding=_decoding(files.decoder, is_quantized=bool(documents["multipliers"]["matrices"])),
        shortlist=_shortlist(files, orders, shared=shared),
    )


def check_keys_of_files(settings: Mapping[str, Any], files: ModelFiles, options: ImportOptions) -> set[str]:
    """Raise ConfigError if a setting of the model or its decoder is unknown or refused.

    Returns the settings that the user leaves out.
    """
    model = {str(key): value for key, value in settings.items()}
    check_keys(model, MODEL_KEYS, where=f"{files.model}: ", allow_unused=options.allow_unused)
    where = f"{files.model.parent}: decoder: "
    decoder = {str(key): value for key, value in files.decoder.items()}
    check_keys(decoder, DECODER_KEYS, where=where, allow_unused=options.allow_unused)
    return {key for key in options.allow_unused if key in model or key in decoder}


def _prefixes(
    sides: Mapping[str, ImportedTokenizer], orders: Mapping[str, VocabularyOrder], options: ImportOptions
) -> Prefixes:
    """Return the tag of the target language before sources, as a multilingual model has it."""
    ids = {token: index for index, token in enumerate(sides["source"].library.tokens) if token}
    tags = find_tags(ids, MARIAN_TAG, orders["source"])
    prefixes = Prefixes(source=("target_language",) if tags else (), languages=tags)
    return with_default_languages(prefixes, options)


def _is_plain(value: object) -> bool:
    """Return whether JSON has a value of a configuration; it has no dates and no infinity."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value))


def _vocabularies(
    files: ModelFiles, tensors: MarianTensors, network: EncoderDecoderConfig
) -> tuple[dict[str, ImportedTokenizer], dict[str, VocabularyOrder]]:
    """Return tokenizer and order by side. Raises DataError if vocabulary and embedding have different sizes."""
    paths = {"source": files.source_vocabulary, "target": files.target_vocabulary}
    tokenizers, orders = dict[str, ImportedTokenizer](), dict[str, VocabularyOrder]()
    for side, path in paths.items():
        if side == "target" and network.tie_embeddings == "all" and path == paths["source"]:
            tokenizers[side], orders[side] = tokenizers["source"], orders["source"]
            continue
        rows = next((to_floats(tensors[name]).shape[0] for name in _EMBEDDINGS[side] if name in tensors), None)
        tokenizers[side], orders[side] = _vocabulary(path, side, rows)
    return tokenizers, orders


def _vocabulary(path: Path, side: str, rows: int | None) -> tuple[ImportedTokenizer, VocabularyOrder]:
    """Return tokenizer and order of a SentencePiece model, or of a list of pieces and the model next to it."""
    is_model = path.suffix == ".spm"
    vocabulary = None if is_model else read_vocabulary(path)
    content = SENTENCEPIECE_FILE.read_bytes(path if is_model else _pieces_of(path, side))
    probe = tokenizer_from_sentencepiece(content, order=(-1, -1, -1, -1), vocabulary=vocabulary)
    tokens = probe.library.tokens
    if EOS not in tokens or UNK not in tokens:
        raise DataError(f"{path}: lacks the symbols {EOS} and {UNK}, which a vocabulary of Marian has. Get it again.")
    size = len(tokens) if rows is None else rows
    if len(tokens) > size:
        raise DataError(
            f"{path}: has {len(tokens):,} tokens, and the model {size:,} embeddings. Do the files belong together?"
        )
    order = VocabularyOrder(size, unk=tokens.index(UNK), eos=tokens.index(EOS))
    ours = order.foreign_ids.tolist()
    return tokenizer_from_sentencepiece(content, order=ours, vocabulary=vocabulary), order


def _pieces_of(vocabulary: Path, side: str) -> Path:
    """Return the SentencePiece model that splits texts into the tokens of a list. Raises DataError if there is none."""
    names = (f"{side}.spm", f"{'src' if side == 'source' else 'trg'}vocab.spm", vocabulary.with_suffix(".spm").name)
    found = [path for name in names if (path := vocabulary.with_name(name)).is_file()]
    if not found:
        raise DataError(
            f"{vocabulary}: needs a SentencePiece model, which splits texts into its tokens. Put {names[0]} next to it."
        )
    return found[0]


def _decoding(decoder: Mapping[str, Any], *, is_quantized: bool) -> DecodingConfig:
    """Return the settings of the decoder, as far as they are valid here, or Marian's own.

    Outputs of a quantized model, which is for Firefox's engine, have the maximum length of this engine.
    """
    beam, normalize, factor = (
        value if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high else default
        for value, low, high, default in (
            (decoder.get("beam-size"), 1, MAX_BEAM_SIZE, 4),
            (decoder.get("normalize"), 0, 2, 1.0),
            (decoder.get("max-length-factor"), 1, 10, 3.0),
        )
    )
    return DecodingConfig(
        beam_size=int(beam),
        length_penalty=float(normalize) if normalize else None,
        length_penalty_kind="average" if normalize else "none",
        **(ENGINE_LENGTHS if is_quantized else {"max_length_ratio": float(factor)}),
        allow_unk=bool(decoder.get("allow-unk", False)),
    )


def _shortlist(files: ModelFiles, orders: Mapping[str, VocabularyOrder], *, shared: bool) -> Shortlist | None:
    if files.shortlist is None:
        return None
    return from_marian(
        read_shortlist(files.shortlist),
        source=orders["source"],
        target=orders["target"],
        shared=shared,
        where=str(files.shortlist),
    )
