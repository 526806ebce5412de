"""Heads of BERT, RoBERTa and DistilBERT: labels of texts, and answers to questions as spans.

| family     | layer before the labels  | labels                | starts and ends of answers |
|------------|--------------------------|-----------------------|----------------------------|
| bert       | `bert.pooler.dense`, tanh | `classifier`          | `qa_outputs`               |
| roberta    | `classifier.dense`, tanh | `classifier.out_proj` | `qa_outputs`               |
| distilbert | `pre_classifier`, relu   | `classifier`          | `qa_outputs`               |

Source: `modeling_*.py` of transformers 5. RoBERTa has two end symbols between a question and its context.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from dragoman.data.datasets.labeled import Labels
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.imported_model import HeadConfig
from dragoman.interop.tensor_names import TensorPair
from dragoman.models.task_heads import SequenceHeadConfig, SpanHeadConfig

_DENSE: Final = {"bert": "bert.pooler.dense", "roberta": "classifier.dense", "distilbert": "pre_classifier"}
_LABELS: Final = {"bert": "classifier", "roberta": "classifier.out_proj", "distilbert": "classifier"}
_SPAN: Final = "qa_outputs"


@final
@dataclass(frozen=True)
class EncoderHead:
    """Head of a model, with the names of its labels."""

    config: HeadConfig
    labels: tuple[str, ...] = ()

    @property
    def task(self) -> Literal["classification", "question_answering"]:
        return "classification" if isinstance(self.config, SequenceHeadConfig) else "question_answering"


def read_head(family: str, config: ForeignConfig, tensors: Mapping[str, np.ndarray]) -> EncoderHead | None:
    """Return the head of a model with these tensors; None without one that dragoman computes.

    Raises ConfigError for several labels per text and for numbers instead of labels, and DataError for invalid labels.
    """
    if f"{_SPAN}.weight" in tensors:
        return EncoderHead(SpanHeadConfig())
    names = f"{_DENSE[family]}.weight", f"{_LABELS[family]}.weight"
    if not all(name in tensors for name in names):
        return None
    count = tensors[names[1]].shape[0]
    kind = config.value("problem_type")
    if kind not in (None, "single_label_classification") or count < 2:
        what = f"problem_type = {shorten(kind)}" if kind else "one label, of a regression or of choices"
        raise ConfigError(f"{config.path}: has {what}; dragoman computes one of several labels per text.")
    activation: Literal["tanh", "relu"] = "relu" if family == "distilbert" else "tanh"
    head = SequenceHeadConfig(pooling="first", dense=True, activation=activation)
    return EncoderHead(head, _read_labels(config, count))


def _read_labels(config: ForeignConfig, count: int) -> tuple[str, ...]:
    """Return the names of the labels by their ids, which are `LABEL_0` and so on where the configuration names none."""
    given = config.value("id2label")
    if given is None:
        return tuple(f"LABEL_{index}" for index in range(count))
    names = [given.get(str(index)) for index in range(count)] if isinstance(given, Mapping) else []
    labels = [name for name in names if isinstance(name, str)]
    if len(set(labels)) < count or len(given) != count:
        raise DataError(
            f"{config.path}: id2label = {shorten(given)} does not name {count} different labels by the ids 0 to "
            f"{count - 1}. Correct it."
        )
    return Labels(tuple(labels)).names


def head_pairs(family: str, head: HeadConfig) -> list[TensorPair]:
    """Return the names of the tensors of a head."""
    if isinstance(head, SpanHeadConfig):
        return _linear("head.output", _SPAN)
    return [*_linear("head.dense", _DENSE[family]), *_linear("head.output", _LABELS[family])]


def head_class(stem: str, head: HeadConfig) -> str:
    """Return the class of transformers of a head; `stem` is the name of the family in its classes."""
    return f"{stem}For{'QuestionAnswering' if isinstance(head, SpanHeadConfig) else 'SequenceClassification'}"


def _linear(module: str, foreign: str) -> list[TensorPair]:
    return [TensorPair(f"{module}.{part}", f"{foreign}.{part}") for part in ("weight", "bias")]
