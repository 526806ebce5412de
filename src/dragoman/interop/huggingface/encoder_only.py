"""Reading of encoder-only models of Hugging Face: masked language models, sentence encoders, and models with a head."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dragoman.data.datasets.qa import WindowConfig
from dragoman.data.tokenizers import ImportedTokenizerConfig, Tokenizer
from dragoman.errors import ConfigError, DataError
from dragoman.interop.huggingface.checkpoint_files import read_weights
from dragoman.interop.huggingface.encoder_heads import EncoderHead, head_class, read_head
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.sentence_transformers import read_sentence_settings
from dragoman.interop.huggingface.seq2seq import FORMAT, check_ids, read_documents
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer, read_tokenizer
from dragoman.interop.imported_model import (
    HeadConfig,
    ImportedModel,
    ImportOptions,
    Origin,
    Reference,
    network_shapes,
)
from dragoman.interop.tensor_names import TensorTable
from dragoman.interop.vocabulary_order import NEVER, VocabularyOrder
from dragoman.models.config import EncoderOnlyConfig, LearnedConfig
from dragoman.models.task_heads import SpanHeadConfig

_ROLES: Final = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_OLD_NAMES: Final = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Names of TensorFlow, which the first BERT models have."""
_SHORTEST_WINDOW: Final = 16
"""Tokens of the smallest window of a question and a part of its context."""


@dataclass(frozen=True)
class EncoderFamily:
    """Family of encoder-only models: its configuration, its symbols and the names of its tensors."""

    name: str
    """`model_type` of its configuration."""
    head_class: str
    """Class of transformers that predicts masked tokens."""
    base_class: str
    """Class of transformers without a head."""
    symbols: tuple[str, str, str, str, str]
    """Symbols of padding, unknown text, begin, end and mask where no file names them."""
    read_network: Callable[[str, ForeignConfig, Mapping[str, np.ndarray]], EncoderOnlyConfig]
    tensor_table: Callable[[str, EncoderOnlyConfig, HeadConfig | None], TensorTable]

    def model_class(self, network: EncoderOnlyConfig, head: HeadConfig | None) -> str:
        """Return the class of transformers that computes and writes a network."""
        if head is not None:
            return head_class(self.base_class.removesuffix("Model"), head)
        return self.head_class if network.mlm_transform else self.base_class


def read_encoder(family: EncoderFamily, config: ForeignConfig, options: ImportOptions) -> ImportedModel:
    """Read a model. Raises DataError for damaged files and for keys and tensors without counterpart."""
    folder = config.path.parent
    weights, tokenizer = read_weights(folder), read_tokenizer(folder, family.name)
    kept = {name: array for name, array in weights.tensors.items() if name not in options.allow_unused}
    head = read_head(family.name, config, kept)
    network = _for_head(family.read_network(family.name, config, weights.tensors), head)
    is_bare = head is None and not network.mlm_transform
    tensors = _todays_names(weights.tensors, prefix=f"{family.name}." if is_bare else "")
    order = _order(family, config, tokenizer)
    sizes: dict[str, Any] = {"source_vocabulary": len(order), "target_vocabulary": len(order)}
    if head is not None:
        sizes |= {"head": head.config, "num_labels": len(head.labels)}
    found, account = family.tensor_table(family.name, network, sizes.get("head")).read(
        tensors,
        network_shapes(network, **sizes),
        where=str(folder),
        orders={"target": order},
        allow_unused=options.allow_unused,
        integers=weights.integers,
    )
    side = tokenizer.source.build(order.foreign_ids[:-1].tolist())  # the mask symbol follows the tokens
    assert isinstance(network.positions, LearnedConfig), "the families have learned positions"
    embedding, longest, files = read_sentence_settings(
        folder, max_length=network.positions.max_length, lowercase=_lowercases(tokenizer)
    )
    return ImportedModel(
        task="masked_lm" if head is None else head.task,
        network=network,
        weights=found,
        tokenizer=Tokenizer(side, side, ImportedTokenizerConfig()),
        origin=Origin(
            format=FORMAT,
            family=family.name,
            version=config.tree.get("transformers_version"),
            orders={"source": order, "target": order},
            files=(*weights.files, *tokenizer.files, config.path),
            documents=read_documents(folder) | files,
            number_formats=dict.fromkeys(tensors, weights.dtype) if weights.dtype != "float32" else {},
        ),
        tensors=account,
        max_length=longest,
        sentence_embedding=embedding,
        head=None if head is None else head.config,
        labels=() if head is None else head.labels,
        windows=_windows(family, longest) if isinstance(sizes.get("head"), SpanHeadConfig) else WindowConfig(),
        reference=_reference(family.model_class(network, sizes.get("head")), folder, order),
    )


def _for_head(network: EncoderOnlyConfig, head: EncoderHead | None) -> EncoderOnlyConfig:
    """Return the network below a head: without the prediction of masked tokens, and for questions with segments."""
    if head is None:
        return network
    segments = max(network.num_segments, 2 if head.task == "question_answering" else 1)
    return network.model_copy(update={"mlm_transform": False, "num_segments": segments})


def _windows(family: EncoderFamily, longest: int) -> WindowConfig:
    """Return the usual windows of question and context, or smaller ones for a model of few positions."""
    if longest < _SHORTEST_WINDOW:
        raise ConfigError(
            f"The model reads {longest} tokens, and a question with its context needs {_SHORTEST_WINDOW}. Import "
            "another model."
        )
    usual, separators = WindowConfig(), 2 if family.name == "roberta" else 1
    length = min(usual.max_length, longest)
    question = min(usual.max_question_length, length // 4)
    stride = max(1, min(usual.stride, (length - question) // 3))
    return WindowConfig(max_length=length, max_question_length=question, stride=stride, separators=separators)


def _lowercases(tokenizer: ForeignTokenizer) -> bool:
    """Return whether the tokenizer lowercases texts, as that of BERT may do."""
    normalizer = tokenizer.tree.get("normalizer")
    return isinstance(normalizer, Mapping) and normalizer.get("lowercase") is True


def _order(family: EncoderFamily, config: ForeignConfig, tokenizer: ForeignTokenizer) -> VocabularyOrder:
    """Return the order of the vocabulary. Raises DataError if it lacks the symbols around a text, or the mask."""
    size = config.size("vocab_size")
    check_ids(config, tokenizer.source, size)
    found = dict(zip(_ROLES, family.symbols, strict=True))
    ids = {role: tokenizer.symbol(role, tokenizer.source, default) for role, default in found.items()}
    for role in ("cls_token", "sep_token", "mask_token"):
        if ids[role] is None:
            raise DataError(f"{config.path.parent}: the tokenizer lacks the symbol {found[role]} ({role}). Add it.")
    return VocabularyOrder(size, *(ids[role] for role in _ROLES))


def _todays_names(tensors: Mapping[str, np.ndarray], *, prefix: str) -> dict[str, np.ndarray]:
    """Return the tensors by today's names, and without the prefix."""

    def renamed(name: str) -> str:
        for old, new in _OLD_NAMES.items():
            name = name.replace(old, new)
        return name.removeprefix(prefix)

    return {renamed(name): array for name, array in tensors.items()}


def _reference(model_class: str, folder: Path, order: VocabularyOrder) -> Reference | None:
    """Return the logits of transformers, or None where it is not installed.

    The logits of a model without a head are the products of its states and its embeddings. A head gives one row of
    labels, or a row of starts and one of ends.
    """
    if find_spec("transformers") is None:
        return None
    loaded: list[Any] = []

    def logits(_: Sequence[int], target: Sequence[int]) -> np.ndarray:
        if not loaded:
            loaded.append(_load(model_class, folder))
        model = loaded[0]
        with torch.inference_mode():
            output = model(torch.from_numpy(order.foreign_ids[list(target)])[None])
        if model_class.endswith("ForQuestionAnswering"):
            return torch.cat([output.start_logits, output.end_logits]).numpy()
        if model_class.endswith("ForSequenceClassification"):
            return output.logits.numpy()
        with torch.inference_mode():
            if model_class.endswith("Model"):
                found = output.last_hidden_state @ model.get_input_embeddings().weight.T
            else:
                found = output.logits
        ours = np.ascontiguousarray(order.reorder(np.ascontiguousarray(found[0].numpy().T)).T)
        ours[:, sorted(order.silent_ids)] = NEVER
        return ours

    return Reference(f"transformers {version('transformers')}", logits)


def _load(model_class: str, folder: Path) -> Any:
    """Load a model with transformers in float32, from local files and without code of the model."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return (
        getattr(transformers, model_class)
        .from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32, attn_implementation="eager"
        )
        .eval()
    )
