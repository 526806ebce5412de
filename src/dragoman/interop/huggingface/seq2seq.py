"""Reading of encoder-decoder models of Hugging Face, which all families share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.data.tokenizers import BOS, ImportedTokenizerConfig, Prefixes, Tokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DataError, shorten
from dragoman.interop.huggingface.checkpoint_files import read_weights
from dragoman.interop.huggingface.foreign_config import CONFIG_FILE, GENERATION_FILE, ForeignConfig, read_optional_json
from dragoman.interop.huggingface.generation_settings import Generation, Symbols, read_generation
from dragoman.interop.huggingface.languages import read_prefixes
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer, TokenizerSide, read_tokenizer
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, Reference, network_shapes
from dragoman.interop.tensor_names import TensorTable
from dragoman.interop.vocabulary_order import NEVER, VocabularyOrder
from dragoman.models.config import EncoderDecoderConfig

FORMAT = "huggingface"
SILENCED = "silenced_output_bias"
"""Key of the biases that the import replaced by `NEVER`, by foreign id, in the record of the origin."""
DEFAULT_LENGTH = 512
"""Longest text of a model without a limit of its own, such as T5, in tokens."""

Orders = Mapping[str, VocabularyOrder]


@dataclass(frozen=True)
class Seq2SeqFamily:
    """Family of encoder-decoder models: its configuration and the names of its tensors."""

    name: str
    """`model_type` of its configuration."""
    model_class: str
    """Class of transformers that computes and writes it."""
    read_network: Callable[[str, ForeignConfig, Mapping[str, np.ndarray]], EncoderDecoderConfig]
    tensor_table: Callable[[str, EncoderDecoderConfig], TensorTable]
    rename: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] = dict
    """Give the tensors of files in another layout the names of the table."""
    default_start: int | None = None
    """Symbol before an output where no file names it."""


def read_seq2seq(
    family: Seq2SeqFamily, config: ForeignConfig, settings: ForeignConfig, options: ImportOptions
) -> ImportedModel:
    """Read a model; `settings` are those of `generate`.

    Raises DataError for damaged files and for values and tensors without counterpart.
    """
    folder = config.path.parent
    weights, tokenizer = read_weights(folder), read_tokenizer(folder, family.name)
    tensors = family.rename(weights.tensors)
    network = family.read_network(family.name, config, tensors)
    is_shared = network.tie_embeddings != "target"
    end = tokenizer.symbol("eos_token", tokenizer.source, "</s>") if is_shared else None
    generation = read_generation(settings, default_start=family.default_start, end=end)
    orders = _orders(config, generation.symbols, tokenizer, is_shared=is_shared)
    network = _with_output_bias(network, orders)
    sizes = {f"{side}_vocabulary": len(order) for side, order in orders.items()}
    found, account = family.tensor_table(family.name, network).read(
        tensors,
        network_shapes(network, **sizes),
        where=str(folder),
        orders=orders,
        allow_unused=options.allow_unused,
        integers=weights.integers,
    )
    silenced = _silence(found, generation.symbols, orders["target"])
    documents = read_documents(folder) | {"dragoman": {SILENCED: silenced}}
    prefixes, notes = read_prefixes(config, generation.symbols, tokenizer, orders, options)
    decoding = _with_symbols(generation, orders["target"])
    return ImportedModel(
        task="translation",
        network=network.model_copy(update={"source_eos": not prefixes.source_end}),
        weights=found,
        tokenizer=build_tokenizer(tokenizer, orders, prefixes),
        origin=Origin(
            format=FORMAT,
            family=family.name,
            version=config.tree.get("transformers_version"),
            orders=orders,
            files=(*weights.files, *tokenizer.files, config.path),
            documents=documents,
            number_formats=dict.fromkeys(tensors, weights.dtype) if weights.dtype != "float32" else {},
        ),
        tensors=account,
        max_length=_max_length(config, tokenizer),
        decoding=_without_prefix(decoding, len(prefixes.target)),
        notes=(*generation.notes, *notes),
        reference=_reference(family, folder, orders, silenced, hides_end=bool(prefixes.source_end)),
    )


def build_tokenizer(tokenizer: ForeignTokenizer, orders: Orders, prefixes: Prefixes) -> Tokenizer:
    """Build the tokenizer of both sides, with our order of the ids and what precedes the texts."""
    source = tokenizer.source.build(orders["source"].foreign_ids.tolist())
    target = source
    if tokenizer.target is not tokenizer.source:
        target = tokenizer.target.build(orders["target"].foreign_ids.tolist())
    config = ImportedTokenizerConfig(shared=orders["source"] == orders["target"])
    return Tokenizer(source, target, config, prefixes)


def _orders(config: ForeignConfig, symbols: Symbols, tokenizer: ForeignTokenizer, *, is_shared: bool) -> Orders:
    """Return the order of the vocabulary by side. Raises DataError if the vocabularies do not fit the model."""
    size = config.size("vocab_size")
    target_size = size if is_shared else config.size("decoder_vocab_size", size)
    unk = tokenizer.symbol("unk_token", tokenizer.target, "<unk>")
    target = VocabularyOrder(target_size, symbols.pad, unk, symbols.start, symbols.eos, ends=symbols.ends)
    for key, ids in (("forced_bos_token_id", symbols.first), ("suppress_tokens", symbols.never)):
        if outside := [index for index in ids if not 0 <= index < target.size]:
            raise DataError(
                f"{config.path.parent}: {key} = {outside[0]} is none of {target.size:,} symbols. "
                "Download the model again."
            )
    for side, rows in ((tokenizer.source, size), (tokenizer.target, target.size)):
        check_ids(config, side, rows)
    if is_shared:
        return {"source": target, "target": target}
    pad, unk, eos = (
        tokenizer.symbol(role, tokenizer.source, default)
        for role, default in (("pad_token", "<pad>"), ("unk_token", "<unk>"), ("eos_token", "</s>"))
    )
    return {"source": VocabularyOrder(size, pad, unk, None, eos), "target": target}


def check_ids(config: ForeignConfig, side: TokenizerSide, rows: int) -> None:
    """Raise DataError if the tokenizer has ids that the model has not."""
    if not side.ids:
        raise DataError(f"{config.path.parent}: the vocabulary of the tokenizer is empty. Download it again.")
    token, index = max(side.ids.items(), key=lambda item: item[1])
    if index >= rows:
        raise DataError(
            f"{config.path.parent}: {shorten(token)} has the id {index:,}, and the model {rows:,} embeddings. Do "
            "tokenizer and model belong together?"
        )


def _with_output_bias(network: EncoderDecoderConfig, orders: Orders) -> EncoderDecoderConfig:
    """Return the network with an output bias if copied or added symbols need one."""
    if network.bias or not orders["target"].needs_output_bias:
        return network
    return EncoderDecoderConfig.model_validate(network.model_dump() | {"output_bias": True})


def _max_length(config: ForeignConfig, tokenizer: ForeignTokenizer) -> int:
    """Return the longest text in tokens, special symbols included."""
    if config.value("max_position_embeddings") is not None:
        return config.size("max_position_embeddings")
    length = tokenizer.settings.get("model_max_length")
    return min(length, 2 * DEFAULT_LENGTH) if type(length) is int and length > 1 else DEFAULT_LENGTH


def _silence(found: dict[str, np.ndarray], symbols: Symbols, order: VocabularyOrder) -> dict[str, float]:
    """Set the output biases of symbols that get no probability to `NEVER`; return the others by foreign id.

    With `renormalize_logits`, `generate` gives the probability of forbidden symbols to the others, as Marian does with
    the padding symbol, which transformers added to its vocabulary.
    """
    if not symbols.renormalizes or symbols.start not in symbols.never:
        return {}
    bias = found["unembedding.bias"]
    place = int(order.our_ids[symbols.start])
    assert place == BOS, "the start symbol is our BOS"
    before, bias[place] = float(bias[place]), NEVER
    return {str(symbols.start): before}


def _with_symbols(generation: Generation, order: VocabularyOrder) -> DecodingConfig:
    """Return the search with further end symbols, and with the symbols that no output has."""
    symbols = generation.symbols
    never = order.our_ids[sorted(symbols.never - {symbols.pad, symbols.start, order.unk})].tolist()
    changes: dict[str, Any] = {"end_tokens": tuple(order.our_ids[[*symbols.ends]].tolist())}
    changes |= {"suppress_tokens": tuple(never)}
    if order.unk is not None and order.unk in symbols.never:
        changes["allow_unk"] = False
    return generation.decoding.model_copy(update=changes)


def _without_prefix(decoding: DecodingConfig, length: int) -> DecodingConfig:
    """Return the search with limits that do not count the symbols that outputs begin with."""
    longest = max(1, decoding.max_length - length)
    shortest = min(max(0, decoding.min_length - length), longest)
    limits = {"min_length": shortest, "max_length": longest, "max_length_offset": longest}
    return decoding.model_copy(update=limits)


def read_documents(folder: Path) -> dict[str, Any]:
    """Return the settings in JSON files, for the way back."""
    names = (CONFIG_FILE, GENERATION_FILE, "tokenizer_config.json", "special_tokens_map.json")
    return {name: tree for name in names if (tree := read_optional_json(folder / name))}


def _reference(
    family: Seq2SeqFamily, folder: Path, orders: Orders, silenced: Mapping[str, float], *, hides_end: bool
) -> Reference | None:
    """Return the logits of transformers, or None where it is not installed.

    With `hides_end` the network does not see the end symbol of a source.
    """
    if find_spec("transformers") is None:
        return None
    loaded: list[Any] = []
    hidden = [*orders["target"].silent_ids, *(int(orders["target"].our_ids[int(one)]) for one in silenced)]

    def logits(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        if not loaded:
            loaded.append(_load(family, folder))
        shown = source[:-1] if hides_end else source
        given = {
            "input_ids": torch.from_numpy(orders["source"].foreign_ids[list(shown)])[None],
            "decoder_input_ids": torch.from_numpy(orders["target"].foreign_ids[list(target)])[None],
        }
        with torch.inference_mode():
            found = loaded[0](**given, use_cache=False).logits[0].numpy()
        ours = np.ascontiguousarray(orders["target"].reorder(np.ascontiguousarray(found.T)).T)
        ours[:, hidden] = NEVER
        return ours

    return Reference(f"transformers {version('transformers')}", logits)


def _load(family: Seq2SeqFamily, folder: Path) -> Any:
    """Load a model with transformers in float32, from local files and without code of the model."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = getattr(transformers, family.model_class)
    return model.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32, attn_implementation="eager"
    ).eval()
