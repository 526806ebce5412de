"""Translation models that were trained here, as a model of transformers: Marian, BART, mBART or Pegasus.

The family is the one whose network a configuration reads back as ours. Sinusoidal positions that it does not compute
are written as a table. The tokenizer becomes a `tokenizer.json`, with NFC or NFKC, casing and white space. Texts with
more than 30 combining marks in a row, which dragoman separates, are the only known exception.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import tokenizers
import torch
from tokenizers import Regex, decoders, normalizers, processors

from dragoman.data.tokenizers import BOS, EOS, PAD, UNK, SubwordTokenizer, Tokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS, build_hf_tokenizer
from dragoman.errors import ConfigError, DragomanError
from dragoman.interop.huggingface.families import bart
from dragoman.interop.huggingface.foreign_config import CONFIG_FILE, GENERATION_FILE, ForeignConfig
from dragoman.interop.huggingface.model_keys import MODEL_KEYS
from dragoman.interop.huggingface.seq2seq import Seq2SeqFamily
from dragoman.interop.imported_model import ExportedModel
from dragoman.models.config import EncoderDecoderConfig, LearnedConfig, SinusoidalConfig
from dragoman.nn.positions.sinusoidal import sinusoidal_positions

POSITIONS: Final = 1024
"""Rows of a table of positions, or the longest text if that is longer."""
SYMBOLS: Final = ("<pad>", "<unk>", "<s>", "</s>")
"""Names of PAD, UNK, BOS and EOS, which no text can spell: `<` is always a token of its own."""
_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}


def choose_family(model: ExportedModel, network: EncoderDecoderConfig) -> tuple[Seq2SeqFamily, dict[str, Any]]:
    """Return the family of a network, and its configuration. Raises ConfigError if there is none."""
    reasons = []
    for family in bart.FAMILIES:
        tree = _config(family, model, network)
        try:
            config = ForeignConfig(tree, path=Path(model.name) / CONFIG_FILE, table=MODEL_KEYS[family.name])
            back = family.read_network(family.name, config, _tables(network, tree))
        except DragomanError:
            continue
        different = sorted(_differences(network, back))
        if not different:
            return family, tree
        reasons.append((len(different), f"{family.name} has another {', '.join(different)}"))
    reason = min(reasons)[1] if reasons else "its settings are out of range"
    raise ConfigError(
        f"{model.name}: no model of transformers has this network ({reason}). Export it to another format."
    )


def position_tables(network: EncoderDecoderConfig, tree: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the tables of sinusoidal positions that transformers does not compute itself."""
    is_computed = network.positions == SinusoidalConfig(order="halves")
    return {} if is_computed or not isinstance(network.positions, SinusoidalConfig) else _tables(network, tree)


def documents(model: ExportedModel, family: Seq2SeqFamily, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the model, the search and the tokenizer by the name of their file."""
    decoding = model.decoding
    beams = {"early_stopping": decoding.early_stopping, "length_penalty": float(decoding.penalty.alpha)}
    search = {
        **{key: value for key, value in tree.items() if key.endswith("_token_id")},
        "num_beams": decoding.beam_size,
        **(beams if decoding.beam_size > 1 else {}),
        "max_length": min(decoding.max_length, tree["max_position_embeddings"]),
        "suppress_tokens": [PAD, BOS, *([] if decoding.allow_unk else [UNK]), *decoding.suppress_tokens],
    }
    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), SYMBOLS, strict=True))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "model_max_length": model.max_length}
    return {
        CONFIG_FILE: {**tree, "architectures": [family.model_class]},
        GENERATION_FILE: search,
        "tokenizer_config.json": settings,
    }


def tokenizer_json(sides: Tokenizer) -> str:
    """Return the content of `tokenizer.json`. Raises ConfigError if transformers has no such tokenizer."""
    side = sides.source
    if side is not sides.target or not isinstance(side, SubwordTokenizer):
        raise ConfigError("Source and target have different tokenizers. Export the model to another format.")
    if sides.prefixes.needed or side.normalizer.whitespace == "keep":
        raise ConfigError("Tags of languages and kept white space have no counterpart. Export to another format.")
    tokenizer = tokenizers.Tokenizer.from_str(_renamed(side))
    tokenizer.normalizer = normalizers.Sequence(list(_normalizers(side)))
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace(SPACE, " "), decoders.Strip(" ", 1, 0)]
    )
    end = SYMBOLS[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(f"$A {end}", f"$A {end} $B {end}", [(end, EOS)])
    tokenizer.add_special_tokens(list(SYMBOLS))
    return str(tokenizer.to_str())


def _renamed(side: SubwordTokenizer) -> str:
    """Return the tokenizer as JSON with the names of transformers for the special symbols."""
    tree = json.loads(build_hf_tokenizer(side.model, side.normalizer).to_str())
    names = dict(zip(SPECIAL_TOKENS, SYMBOLS, strict=True))
    vocab = tree["model"]["vocab"]
    if isinstance(vocab, dict):
        tree["model"]["vocab"] = {names.get(token, token): index for token, index in vocab.items()}
        tree["model"]["unk_token"] = SYMBOLS[UNK]
    else:
        tree["model"]["vocab"] = [[names.get(token, token), score] for token, score in vocab]
    return json.dumps(tree)


def _normalizers(side: SubwordTokenizer) -> Iterator[Any]:
    """Yield what a text goes through before it is split, as `TextNormalizer` does it."""
    own = side.normalizer
    form = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}.get(own.normalization)
    forms = [] if form is None else [form()]
    yield from forms
    if own.casing == "lower":
        yield from (normalizers.Lowercase(), *forms)
    yield normalizers.Replace(SPACE, "_")
    yield normalizers.Replace(Regex(r"[\s\x1c-\x1f\x85]+"), " ")
    yield normalizers.Strip()
    yield normalizers.Replace(" ", SPACE)
    if own.add_prefix_space:
        yield normalizers.Prepend(SPACE)


def _config(family: Seq2SeqFamily, model: ExportedModel, network: EncoderDecoderConfig) -> dict[str, Any]:
    dropout, sizes = network.dropout, (len(model.tokenizer.source), len(model.tokenizer.target))
    positions = network.positions
    longest = positions.max_length if isinstance(positions, LearnedConfig) else max(POSITIONS, model.max_length)
    tree: dict[str, Any] = {
        "model_type": family.name,
        "d_model": network.d_model,
        "vocab_size": sizes[0],
        "max_position_embeddings": longest,
        "activation_function": _ACTIVATIONS[network.activation],
        "scale_embedding": network.scale_embedding,
        "tie_word_embeddings": network.tie_embeddings != "none",
        "is_encoder_decoder": True,
        "dropout": dropout.residual,
        "attention_dropout": dropout.attention,
        "activation_dropout": dropout.feed_forward,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }
    for side in ("encoder", "decoder"):
        tree[f"{side}_layers"] = network.encoder_layers if side == "encoder" else network.decoder_layers
        tree[f"{side}_attention_heads"], tree[f"{side}_ffn_dim"] = network.num_heads, network.d_ff
    if family.name == "marian":
        tree |= {"decoder_vocab_size": sizes[1], "share_encoder_decoder_embeddings": network.tie_embeddings != "target"}
    return tree


def _tables(network: EncoderDecoderConfig, tree: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return a table of the sinusoidal positions for each stack, and zeros for learned ones, as a reader sees them."""
    own = network.positions
    names = [bart.POSITIONS.format(stack) for stack in ("encoder", "decoder")]
    if not isinstance(own, SinusoidalConfig):
        return {name: np.zeros((tree["max_position_embeddings"], network.d_model), np.float32) for name in names}
    places = torch.arange(tree["max_position_embeddings"]) + own.offset
    table = sinusoidal_positions(places, network.d_model, order=own.order, inclusive=own.inclusive).numpy()
    return {name: table.copy() for name in names}


def _differences(network: EncoderDecoderConfig, back: EncoderDecoderConfig) -> Iterator[str]:
    """Yield the settings that a configuration does not read back; a table holds any sinusoidal positions."""
    is_table = isinstance(network.positions, SinusoidalConfig) and isinstance(back.positions, LearnedConfig)
    ignored = {"dropout", *(["positions"] if is_table and back.positions.offset == 0 else [])}  # type: ignore[union-attr]
    for key, value in network.model_dump().items():
        other = back.model_dump()[key]
        if key not in ignored and value != other and not (key in ("qkv_bias", "output_bias") and value is True):
            yield f"model.{key}"
