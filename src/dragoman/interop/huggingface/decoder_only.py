"""Reading of decoder-only models of Hugging Face, which all families share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.data.tokenizers import ImportedTokenizerConfig, Tokenizer
from dragoman.decoding.config import SamplingConfig
from dragoman.errors import ConfigError
from dragoman.interop.chat_templates import convert_chat_template
from dragoman.interop.huggingface.checkpoint_files import read_weights
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.sampling_settings import DecoderSymbols, read_sampling, read_symbols
from dragoman.interop.huggingface.seq2seq import FORMAT, check_ids, read_documents
from dragoman.interop.huggingface.tokenizer_files import SETTINGS_FILE, read_tokenizer
from dragoman.interop.imported_model import (
    ImportedModel,
    ImportOptions,
    Origin,
    Reference,
    network_shapes,
)
from dragoman.interop.tensor_names import TensorTable
from dragoman.interop.vocabulary_order import ADDED, NEVER, VocabularyOrder
from dragoman.models.config import DecoderOnlyConfig


@dataclass(frozen=True)
class DecoderFamily:
    """Family of decoder-only models: its configuration and the names of its tensors."""

    name: str
    """`model_type` of its configuration."""
    model_class: str
    """Class of transformers that computes and writes it."""
    read_network: Callable[[str, ForeignConfig, Mapping[str, np.ndarray]], DecoderOnlyConfig]
    tensor_table: Callable[[str, DecoderOnlyConfig], TensorTable]
    rename: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] = dict
    """Give the tensors of files in another layout the names of the table."""
    positions_key: str = "max_position_embeddings"
    """Key of the context."""
    default_positions: int = 2048
    """Context where no file names one."""

    def context(self, config: ForeignConfig) -> int:
        """Return the most tokens that the model attends to."""
        return config.size(self.positions_key, self.default_positions)


def read_decoder(
    family: DecoderFamily, config: ForeignConfig, settings: ForeignConfig, options: ImportOptions
) -> ImportedModel:
    """Read a model; `settings` are those of `generate`.

    Raises DataError for damaged files and for values and tensors without counterpart.
    """
    folder = config.path.parent
    weights, tokenizer = read_weights(folder), read_tokenizer(folder, family.name)
    if tokenizer.has_added_symbols and tokenizer.settings.get("add_eos_token") is True:
        raise ConfigError(
            f"{folder / SETTINGS_FILE}: add_eos_token = true is not supported: prompts would end with the end symbol. "
            "Set it to false."
        )
    tensors = family.rename(weights.tensors)
    symbols = read_symbols(settings, tokenizer)
    size = config.size("vocab_size")
    check_ids(config, tokenizer.source, size)
    order = VocabularyOrder(size, symbols.pad, tokenizer.unknown(), symbols.bos, symbols.eos, ends=symbols.ends)
    network = with_output_bias(family.read_network(family.name, config, tensors), order)
    generation, notes = read_sampling(settings)
    found, account = family.tensor_table(family.name, network).read(
        tensors,
        network_shapes(network, source_vocabulary=len(order), target_vocabulary=len(order)),
        where=str(folder),
        orders={"target": order},
        allow_unused=options.allow_unused,
        integers=weights.integers,
    )
    side = tokenizer.source.build(order.foreign_ids.tolist())
    template = convert_chat_template(tokenizer.chat_template, tokenizer.special, has_bos=tokenizer.has_bos)
    return ImportedModel(
        task="language_modeling",
        network=network,
        weights=found,
        tokenizer=Tokenizer(side, side, ImportedTokenizerConfig(bos=tokenizer.has_bos)),
        origin=Origin(
            format=FORMAT,
            family=family.name,
            version=config.tree.get("transformers_version"),
            orders={"source": order, "target": order},
            files=(*weights.files, *tokenizer.files, config.path),
            documents=read_documents(folder),
            number_formats=dict.fromkeys(tensors, weights.dtype) if weights.dtype != "float32" else {},
        ),
        tensors=account,
        max_length=family.context(config),
        generation=with_symbols(generation, symbols, order),
        chat_template=template.settings,
        notes=(*notes, *template.notes),
        reference=reference_logits(folder, order),
    )


def with_symbols(generation: SamplingConfig, symbols: DecoderSymbols, order: VocabularyOrder) -> SamplingConfig:
    """Return the sampling with further end symbols, and with the symbols that no output has."""
    ends, never = (order.our_ids[sorted(ids)].tolist() for ids in (symbols.ends, symbols.never))
    return generation.model_copy(update={"end_tokens": tuple(ends), "suppress_tokens": tuple(never)})


def with_output_bias(network: DecoderOnlyConfig, order: VocabularyOrder) -> DecoderOnlyConfig:
    """Return the network with an output bias if copied or added symbols need one."""
    has_bias = network.bias if network.output_bias is None else network.output_bias
    if has_bias or not order.needs_output_bias:
        return network
    return DecoderOnlyConfig.model_validate(network.model_dump() | {"output_bias": True})


def is_untied(
    config: ForeignConfig, tensors: Mapping[str, np.ndarray], embedding: str, head: str, *, tied_by_default: bool
) -> bool:
    """Return whether the output projection has weights of its own; those of the file decide, as in transformers."""
    is_tied = config.flag("tie_word_embeddings", tied_by_default)
    if head in tensors and embedding in tensors:
        return not np.array_equal(tensors[head], tensors[embedding])
    return not is_tied


def reference_logits(
    folder: Path, order: VocabularyOrder, *, needs: Sequence[str] = (), **options: Any
) -> Reference | None:
    """Return the logits of transformers, or None where it or a package that it `needs` is not installed.

    `options` say how it loads the model.
    """
    if any(find_spec(name) is None for name in ("transformers", *needs)):
        return None
    loaded: list[Any] = []

    def logits(_: Sequence[int], target: Sequence[int]) -> np.ndarray:
        if not loaded:
            loaded.append(_load(folder, options))
        ids = order.foreign_ids[list(target)]
        with torch.inference_mode():
            vectors = loaded[0].get_input_embeddings()(torch.from_numpy(np.maximum(ids, 0)))[None]
            vectors[0, ids == ADDED] = 0
            found = loaded[0](inputs_embeds=vectors, use_cache=False).logits[0].numpy()
        ours = np.ascontiguousarray(order.reorder(np.ascontiguousarray(found.T)).T)
        ours[:, sorted(order.silent_ids)] = NEVER
        return ours

    return Reference(f"transformers {version('transformers')}", logits)


def _load(folder: Path, options: Mapping[str, Any]) -> Any:
    """Load a model with transformers in float32, from local files and without code of the model."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        local_files_only=True,
        trust_remote_code=False,
        dtype=torch.float32,
        attn_implementation="eager",
        **options,
    ).eval()
