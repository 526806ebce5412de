"""Models in GGUF files: networks of Llama's layout, and their tokenizer and chat template.

llama.cpp rotates neighboring features, so that files of the architecture `llama` have the rows of queries and keys in
another order than ours; those of `qwen2` have not.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.data.tokenizers import ImportedTokenizerConfig, Tokenizer
from dragoman.decoding.config import SamplingConfig
from dragoman.errors import ConfigError, DataError
from dragoman.interop.chat_templates import convert_chat_template, special_tokens
from dragoman.interop.gguf.gguf_file import MAGIC, GgufFile, read_header, read_tensors
from dragoman.interop.gguf.metadata_keys import is_description, metadata_keys
from dragoman.interop.gguf.tokenizer import build_tokenizer, read_tokens
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.huggingface.decoder_only import reference_logits, with_output_bias
from dragoman.interop.huggingface.foreign_config import MAX_SIZE, ForeignConfig
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.tensor_names import Conversion, LeftOver, TensorPair, TensorTable
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, RotaryConfig
from dragoman.nn.positions.rotary import LinearScalingConfig

FORMAT: Final = "gguf"
FILES: Final = FilePatterns(weights=(("*.gguf",),))
ARCHITECTURES: Final = ("llama", "qwen2")
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_LINEAR: Final = {
    "attention.query": "attn_q",
    "attention.key": "attn_k",
    "attention.value": "attn_v",
    "attention.output": "attn_output",
    "feed_forward.inner": "ffn_gate",
    "feed_forward.gate": "ffn_up",
    "feed_forward.outer": "ffn_down",
}
_NORMS: Final = {"attention_residual.norm": "attn_norm", "feed_forward_residual.norm": "ffn_norm"}


def recognizes(source: Path) -> bool:
    """Return whether a file begins as GGUF files do."""
    try:
        if not source.is_file():
            return False
        with source.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Read a model. Raises DataError for damaged files, ConfigError for architectures that dragoman cannot compute."""
    header = read_header(source)
    family = header.metadata.get("general.architecture")
    if family not in ARCHITECTURES:
        raise ConfigError(
            f"{source}: general.architecture = {family!r:.60} is not supported, but {', '.join(ARCHITECTURES)} are. "
            "Import another model."
        )
    network_keys = {key: value for key, value in header.metadata.items() if not is_description(key)}
    settings = ForeignConfig(network_keys, path=source, table=metadata_keys(family), allow_unused=options.allow_unused)
    options = replace(
        options, allow_unused=tuple(name for name in options.allow_unused if name not in settings.left_out)
    )
    tokens = read_tokens(header, settings)
    tokens.check_rows(header, _rows(header))
    order = VocabularyOrder(len(tokens.texts), tokens.pad, tokens.unk, tokens.bos, tokens.eos, ends=tokens.ends)
    network = with_output_bias(_read_network(family, settings, header), order)
    tensors = read_tensors(header)
    weights, account = _tensor_table(family, network).read(
        tensors,
        network_shapes(network, source_vocabulary=len(order), target_vocabulary=len(order)),
        where=str(source),
        orders={"target": order},
        allow_unused=options.allow_unused,
    )
    side = build_tokenizer(tokens, order.foreign_ids.tolist())
    roles = {"bos_token": tokens.bos, "eos_token": tokens.eos, "unk_token": tokens.unk, "pad_token": tokens.pad}
    template = convert_chat_template(tokens.chat_template, special_tokens(tokens.texts, roles), has_bos=tokens.has_bos)
    return ImportedModel(
        task="language_modeling",
        network=network,
        weights=weights,
        tokenizer=Tokenizer(side, side, ImportedTokenizerConfig(bos=tokens.has_bos)),
        origin=Origin(
            format=FORMAT,
            family=family,
            license=_license(header),
            orders={"source": order, "target": order},
            files=(source,),
        ),
        tensors=account,
        max_length=settings.size(f"{family}.context_length"),
        generation=SamplingConfig(end_tokens=tuple(order.our_ids[[*tokens.ends]].tolist())),
        chat_template=template.settings,
        notes=template.notes,
        reference=reference_logits(source.parent, order, needs=("accelerate", "gguf"), gguf_file=source.name),
    )


def _license(header: GgufFile) -> str | None:
    name = header.metadata.get("general.license")
    return name if isinstance(name, str) and name else None


def _rows(header: GgufFile) -> int:
    if _EMBEDDING not in header.tensors:
        raise DataError(f"{header.path}: has no tensor {_EMBEDDING}. Is it a whole model?")
    return min(header.tensors[_EMBEDDING].shape[0], MAX_SIZE)


def _read_network(family: str, settings: ForeignConfig, header: GgufFile) -> DecoderOnlyConfig:
    """Return the network of the metadata. Raises DataError for keys and values without counterpart."""

    def size(key: str, default: Any = None) -> int:
        given = {} if default is None else {"default": default}
        return settings.size(f"{family}.{key}", **given)

    heads, d_model = size("attention.head_count"), size("embedding_length")
    head_size = size("attention.key_length", d_model // heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if (value := size(key, head_size)) != head_size:
            raise settings.error(f"{family}.{key}", value, f"{head_size}, the size of a head,")
    positions = RotaryConfig(
        base=settings.number(f"{family}.rope.freq_base", 10000.0), scaling=_scaling(family, settings)
    )
    return DecoderOnlyConfig(
        d_model=d_model,
        num_heads=heads,
        num_kv_heads=size("attention.head_count_kv", heads),
        head_size=None if head_size * heads == d_model else head_size,
        d_ff=size("feed_forward_length"),
        num_layers=size("block_count"),
        activation="silu",
        gated=True,
        norm="rms",
        norm_epsilon=settings.number(f"{family}.attention.layer_norm_rms_epsilon"),
        bias=False,
        qkv_bias=True if family == "qwen2" else None,
        output_bias=False,
        scale_embedding=False,
        positions=positions,
        tie_embeddings=_HEAD not in header.tensors,
        dropout=DropoutConfig(embedding=0.0, residual=0.0),
    )


def _scaling(family: str, settings: ForeignConfig) -> LinearScalingConfig | None:
    """Return the scaling of the positions, which is linear unless the file says otherwise, as in llama.cpp."""
    key = f"{family}.rope.scaling.type"
    if (kind := settings.get(key, str, "linear")) not in ("none", "linear"):
        raise settings.error(key, kind, "none or linear")
    older = settings.number(f"{family}.rope.scale_linear", 0.0)
    factor = settings.number(f"{family}.rope.scaling.factor", older)
    return None if kind == "none" or factor in (0, 1) else LinearScalingConfig(factor=factor)


def _tensor_table(family: str, network: DecoderOnlyConfig) -> TensorTable:
    """Return the names of the tensors of a network."""
    groups = {"attention.query": network.num_heads, "attention.key": network.num_kv_heads or network.num_heads}
    block = "blocks.{layer}"
    pairs = [
        TensorPair("embedding.tokens.weight", _EMBEDDING, rows="target"),
        TensorPair("norm.weight", "output_norm.weight"),
        TensorPair("unembedding.weight", _HEAD, rows="target"),
        TensorPair("unembedding.bias", (), rows="output_bias", default=0.0),
    ]
    for module, foreign in _LINEAR.items():
        order = _by_halves(groups[module]) if family == "llama" and module in groups else None
        for part in ("weight", "bias"):
            pairs.append(TensorPair(f"{block}.{module}.{part}", f"blk.{{layer}}.{foreign}.{part}", order))
    pairs += [
        TensorPair(f"{block}.{module}.weight", f"blk.{{layer}}.{foreign}.weight") for module, foreign in _NORMS.items()
    ]
    return TensorTable(pairs, (LeftOver("blk.{layer}.attn_rot_embd.weight", "rates of the positions"),))


def _by_halves(heads: int) -> Conversion:
    """Return the change from features rotated in neighboring pairs to pairs of a first and a second half."""

    def change(rows: np.ndarray, *, to_halves: bool) -> np.ndarray:
        pair = (heads, -1, 2) if to_halves else (heads, 2, rows.shape[0] // heads // 2)
        return rows.reshape(*pair, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)

    return Conversion(lambda rows: change(rows, to_halves=True), lambda rows: change(rows, to_halves=False))
