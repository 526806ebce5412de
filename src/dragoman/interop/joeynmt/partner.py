"""Reading of a folder of JoeyNMT."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from dragoman.data.tokenizers import ImportedTokenizer, ImportedTokenizerConfig, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import ConfigError, DragomanError, shorten
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.joeynmt.config_keys import KEYS, flat_settings
from dragoman.interop.joeynmt.model_folder import CHECKPOINTS, CONFIG_FILE, ModelFolder, Side
from dragoman.interop.joeynmt.network import read_network, tensor_table
from dragoman.interop.key_table import check_keys
from dragoman.interop.plain_settings import plain_tree
from dragoman.interop.torch_files import TORCH_FILES, float_arrays, integer_tensors, read_torch_file
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.interop.word_vocabulary import (
    byte_pair_encoding,
    sentencepiece_pieces,
    split_by_white_space,
    split_into_characters,
)

FILES = FilePatterns(
    weights=tuple((pattern,) for pattern in CHECKPOINTS),
    required=((CONFIG_FILE,), ("src_vocab.txt",), ("trg_vocab.txt",)),
    optional=("*.model", "*.codes", "codes*", "*.bpe", "*.txt"),
)
"""The settings name the model of the tokenizer."""
MAX_LENGTH = 1024
"""Longest source and target: JoeyNMT computes its positions up to 5000."""


def recognizes(source: Path) -> bool:
    """Return whether a folder has the settings of JoeyNMT and a checkpoint."""
    if not (source / CONFIG_FILE).is_file() or not any(source.glob("*.ckpt")):
        return False
    try:
        folder = ModelFolder.open(source)
    except DragomanError:
        return False
    return isinstance(folder.get("model", "encoder"), Mapping)


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Read a model from its folder. Raises DataError and ConfigError as a `Partner` does."""
    folder = ModelFolder.open(source)
    settings = dict(flat_settings(folder.config))
    check_keys(settings, KEYS, where=f"{source / CONFIG_FILE}: ", allow_unused=options.allow_unused)
    unused = tuple(name for name in options.allow_unused if name not in settings)
    path = folder.checkpoint()
    tree = read_torch_file(path)
    if not isinstance(tree, dict) or "model_state" not in tree:
        raise TORCH_FILES.damaged(path, "it is not a checkpoint of JoeyNMT")
    arrays, formats = float_arrays(path, tree["model_state"])
    integers = integer_tensors(tree["model_state"])
    del tree
    tokens = {"source": folder.vocabulary("src"), "target": folder.vocabulary("trg")}
    orders = {side: folder.order(len(one)) for side, one in tokens.items()}
    network = read_network(folder, arrays.keys(), needs_output_bias=orders["target"].needs_output_bias)
    shared = network.tie_embeddings == "all"
    tokenizer, files = _tokenizer(folder, tokens, orders, shared=shared)
    shapes = network_shapes(network, source_vocabulary=len(orders["source"]), target_vocabulary=len(orders["target"]))
    table = tensor_table(network.tie_embeddings)
    weights, account = table.read(arrays, shapes, where=str(path), orders=orders, allow_unused=unused)
    vocabularies = {folder.vocabulary_path(side): None for side in ("src", "trg")}
    return ImportedModel(
        task="translation",
        network=network,
        weights=weights,
        tokenizer=tokenizer,
        origin=Origin(
            "joeynmt",
            family="transformer",
            version=str(folder.get("joeynmt_version")) if folder.get("joeynmt_version") is not None else None,
            orders=orders,
            files=(path, folder.path / CONFIG_FILE, *vocabularies, *files),
            documents={CONFIG_FILE: {"model": plain_tree(folder.get("model")), "data": plain_tree(folder.get("data"))}},
            number_formats=formats,
        ),
        tensors=replace(account, left_over={**account.left_over, **integers}),
        max_length=MAX_LENGTH,
        decoding=_decoding(folder),
        notes=tuple(_notes(folder)),
    )


def _tokenizer(
    folder: ModelFolder,
    tokens: Mapping[str, tuple[str, ...]],
    orders: Mapping[str, VocabularyOrder],
    *,
    shared: bool,
) -> tuple[Tokenizer, tuple[Path, ...]]:
    """Return the tokenizers of both sides, one if they are `shared`, and the files that split their texts."""
    source, source_files = _side(folder, "src", tokens["source"], orders["source"])
    if shared and tokens["source"] == tokens["target"]:
        return Tokenizer(source, source, ImportedTokenizerConfig()), source_files
    if shared:
        raise ConfigError(f"{folder.path}: its vocabularies differ, and model.tied_embeddings is true.")
    target, target_files = _side(folder, "trg", tokens["target"], orders["target"])
    files = dict.fromkeys((*source_files, *target_files))
    return Tokenizer(source, target, ImportedTokenizerConfig(shared=False)), tuple(files)


def _side(
    folder: ModelFolder, side: Side, tokens: tuple[str, ...], order: VocabularyOrder
) -> tuple[ImportedTokenizer, tuple[Path, ...]]:
    """Return the tokenizer of a side. Raises ConfigError if dragoman does not split its texts."""
    level, lowercase = folder.side(side, "level", "word"), bool(folder.side(side, "lowercase", False))
    settings = _tokenizer_settings(folder, side)
    kind = folder.side(side, "tokenizer_type", "sentencepiece" if "model_file" in settings else "subword-nmt")
    ids = order.foreign_ids.tolist()
    where = f"{folder.path / CONFIG_FILE}: data.{side}"
    if level == "bpe" and kind == "sentencepiece" and not lowercase:
        path = folder.file(settings.get("model_file"))
        return sentencepiece_pieces(tokens, path, order=ids), (path,)
    if level == "bpe" and kind in ("subword-nmt", "fastbpe"):
        path = folder.file(settings.get("codes", settings.get("codes_path", "bpe.codes")))
        return byte_pair_encoding(tokens, folder.unknown, path, order=ids, lowercase=lowercase), (path,)
    if level == "char":
        return split_into_characters(tokens, folder.unknown, order=ids, lowercase=lowercase), ()
    if level == "word" and not lowercase:
        return split_by_white_space(tokens, folder.unknown, order=ids), ()
    raise ConfigError(
        f"{where} has level {shorten(level)}, tokenizer_type {shorten(kind)} and lowercase {lowercase}. dragoman reads "
        "words and SentencePiece without lowercase, characters, subword-nmt and fastbpe."
    )


def _tokenizer_settings(folder: ModelFolder, side: Side) -> Mapping[str, Any]:
    settings = folder.side(side, "tokenizer_cfg", {})
    return settings if isinstance(settings, Mapping) else {}


def _decoding(folder: ModelFolder) -> DecodingConfig:
    """Return the search of the settings, whose length penalty is that of GNMT."""
    beam, alpha = folder.get("testing", "beam_size", default=1), folder.get("testing", "beam_alpha", default=None)
    alpha = folder.get("testing", "alpha", default=-1) if alpha is None else alpha
    options: dict[str, Any] = {"length_penalty_kind": "none"}
    if isinstance(alpha, int | float) and alpha > 0:
        options = {"length_penalty_kind": "gnmt", "length_penalty": min(float(alpha), 20.0)}
    shortest = folder.get("testing", "min_output_length", default=1)
    longest = folder.get("testing", "max_output_length", default=-1)
    if type(longest) is int and 0 < longest <= MAX_LENGTH:
        options |= {"max_length": longest, "max_length_ratio": 0.0, "max_length_offset": longest}
    if type(shortest) is int and 0 < shortest <= options.get("max_length", MAX_LENGTH):
        options["min_length"] = shortest
    options["allow_unk"] = folder.get("testing", "generate_unk", default=True) is not False
    return DecodingConfig(beam_size=beam if type(beam) is int and 0 < beam <= 100 else 1, **options)


def _notes(folder: ModelFolder) -> list[str]:
    """Return what a user has to do to a text that the model was not trained on as it is."""
    notes, sides = list[str](), get_args(Side)
    if any(_tokenizer_settings(folder, side).get("pretokenizer", "none") != "none" for side in sides):
        notes.append("it was trained on text that was split into words before: split yours alike, and join outputs")
    if folder.side("src", "normalize", False):
        notes.append("it was trained on text that JoeyNMT had normalized (NFKC, plain quotation marks): do the same")
    return notes
