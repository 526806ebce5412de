"""Reading of a folder of fairseq: a checkpoint, dictionaries, and the model of the tokenizer."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.data.tokenizers import ImportedTokenizer, ImportedTokenizerConfig, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import ConfigError, DataError
from dragoman.interop.fairseq.checkpoint_settings import PAST_PADDING, CheckpointSettings, max_length, read_network
from dragoman.interop.fairseq.dictionary_files import SYMBOLS, dictionary_path, read_dictionary
from dragoman.interop.fairseq.weights import tensor_table
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.torch_files import TORCH_FILES, float_arrays, integer_tensors, is_torch_file, read_torch_file
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.interop.word_vocabulary import byte_pair_encoding, sentencepiece_pieces, split_by_white_space

_CHECKPOINTS: Final = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
_CODES: Final = ("bpecodes", "bpe.codes", "*.bpecodes", "*.codes", "codes", "code.txt", "bpe.{language}.codes")
_SENTENCEPIECE: Final = ("sentencepiece.bpe.model", "spm.model", "*.spm", "*.model")
FILES: Final = FilePatterns(
    weights=(*((name,) for name in _CHECKPOINTS), ("*.pt",)),
    required=(("dict*.txt",),),
    optional=(*(name.replace("{language}", "*") for name in _CODES), *_SENTENCEPIECE),
)
_DECODING: Final = DecodingConfig(
    length_penalty=1.0,
    min_length=1,
    max_length=200,
    max_length_ratio=0.0,
    max_length_offset=200,
    early_stopping=True,
    keep_greedy=False,
)
"""Search of `fairseq-generate` without options."""


def recognizes(source: Path) -> bool:
    """Return whether a checkpoint and a dictionary are there."""
    folder = source if source.is_dir() else source.parent
    if not any(folder.glob("dict*.txt")):
        return False
    return (path := _find_checkpoint(source)) is not None and is_torch_file(path)


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Read a model from its folder or checkpoint. Raises DataError and ConfigError as a `Partner` does."""
    path = _find_checkpoint(source)
    if path is None:
        raise DataError(f"{source}: has no single checkpoint ({', '.join(_CHECKPOINTS)}). Name its file.")
    tree = read_torch_file(path)
    if not isinstance(tree, dict) or "model" not in tree:
        raise TORCH_FILES.damaged(path, "it is not a checkpoint of fairseq")
    settings = CheckpointSettings(path, tree)
    languages = (
        options.source_language or settings.text("source_lang"),
        options.target_language or settings.text("target_lang"),
    )
    dictionaries = tuple(dictionary_path(path.parent, one, languages) for one in languages)
    tokens = tuple(map(read_dictionary, dictionaries))
    orders = {side: _order(len(one)) for side, one in zip(("source", "target"), tokens, strict=True)}
    network = read_network(
        settings, needs_output_bias=orders["target"].needs_output_bias, allow_unused=options.allow_unused
    )
    unused = tuple(name for name in options.allow_unused if name not in settings.all())
    if network.tie_embeddings == "all" and tokens[0] != tokens[1]:
        raise DataError(f"{path}: shares all embeddings, and {dictionaries[0].name} and {dictionaries[1].name} differ.")
    tokenizer, files = _tokenizer(path.parent, tokens, orders, languages, shared=network.tie_embeddings == "all")
    shapes = network_shapes(network, source_vocabulary=len(orders["source"]), target_vocabulary=len(orders["target"]))
    arrays, formats = float_arrays(path, tree["model"])
    integers = integer_tensors(tree["model"])
    del tree
    _cut_positions(arrays, max_length(settings))
    table = tensor_table(arrays.keys(), tied=network.tie_embeddings)
    weights, account = table.read(arrays, shapes, where=str(path), orders=orders, allow_unused=unused)
    return ImportedModel(
        task="translation",
        network=network,
        weights=weights,
        tokenizer=tokenizer,
        origin=Origin(
            "fairseq",
            family="transformer",
            orders=orders,
            files=(path, *dict.fromkeys(dictionaries), *files),
            documents={"settings": settings.to_json()},
            number_formats=formats,
        ),
        tensors=replace(account, left_over={**account.left_over, **integers}),
        max_length=max_length(settings),
        decoding=_DECODING,
        notes=tuple(_notes(settings, files)),
    )


def _cut_positions(arrays: dict[str, np.ndarray], longest: int) -> None:
    """Cut the longer one of two tables of learned positions, whose end no pair of texts can reach."""
    for name in ("encoder.embed_positions.weight", "decoder.embed_positions.weight"):
        if name in arrays:
            arrays[name] = arrays[name][: longest + PAST_PADDING]


def _find_checkpoint(source: Path) -> Path | None:
    """Return the file of a checkpoint; None if a folder has none or several of other names."""
    if not source.is_dir():
        return source
    named = [path for name in _CHECKPOINTS if (path := source / name).is_file()]
    found = named[:1] or sorted(source.glob("*.pt"))
    return found[0] if len(found) == 1 else None


def _order(size: int) -> VocabularyOrder:
    """Return the order of a dictionary; the decoder starts with the end symbol."""
    ids: dict[str, Any] = {
        name: SYMBOLS.index(symbol) for name, symbol in (("pad", "<pad>"), ("unk", "<unk>"), ("eos", "</s>"))
    }
    return VocabularyOrder(size, **ids, bos=ids["eos"])


def _tokenizer(
    folder: Path,
    tokens: tuple[tuple[str, ...], ...],
    orders: dict[str, VocabularyOrder],
    languages: tuple[str | None, str | None],
    *,
    shared: bool,
) -> tuple[Tokenizer, tuple[Path, ...]]:
    """Return the tokenizers of both sides, one if they are `shared`, and the files that split their texts."""
    sides, files = list[ImportedTokenizer](), dict[Path, None]()
    for one, order, language in zip(tokens, orders.values(), languages, strict=True):
        ids = order.foreign_ids.tolist()
        codes, model = _only_file(folder, _CODES, language), _only_file(folder, _SENTENCEPIECE, language)
        if model is not None and codes is None:
            sides.append(sentencepiece_pieces(one, model, order=ids))
        elif codes is not None and model is None:
            sides.append(byte_pair_encoding(one, "<unk>", codes, order=ids))
        elif codes is None and model is None:
            sides.append(split_by_white_space(one, "<unk>", order=ids))
        else:
            raise ConfigError(
                f"{folder}: has codes ({codes}) and a SentencePiece model ({model}). Remove the one that is not used."
            )
        files |= {file: None for file in (codes, model) if file is not None}
    if shared:
        sides[1] = sides[0]
    return Tokenizer(sides[0], sides[1], ImportedTokenizerConfig(shared=shared)), tuple(files)


def _only_file(folder: Path, patterns: tuple[str, ...], language: str | None) -> Path | None:
    """Return the file of the first pattern that matches one; the one that names the language if there are several."""
    for pattern in patterns:
        found = sorted(path for path in folder.glob(pattern.replace("{language}", language or "*")) if path.is_file())
        named = [path for path in found if language is not None and language in path.name.split(".")]
        if len(found) == 1 or len(named) == 1:
            return found[0] if len(found) == 1 else named[0]
        if found:
            raise DataError(f"{folder}: has several {pattern} files. Leave the one of the model.")
    return None


def _notes(settings: CheckpointSettings, files: tuple[Path, ...]) -> list[str]:
    """Return what a user has to do to a text that the model was not trained on as it is."""
    notes = []
    if (name := settings.text("tokenizer")) is not None and name != "space":
        notes.append(f"it was trained on text that `{name}` had split into words: split yours alike, and join outputs")
    elif not files:
        notes.append("its tokens are separated by white space: split texts as those that it was trained on")
    return notes
