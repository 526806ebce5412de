"""Classifier: texts in, labels out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import Labels, wrap_in_bos_eos
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.inference.backends.torch_backend import predict_probabilities
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    MAX_INPUT_LENGTH,
    limit_length,
    number_chunks,
    require_list,
    warn_input,
)

_STREAM_CHUNK = 4096
"""Lines of a stream that are sorted and batched together."""


@dataclass(frozen=True, slots=True)
class Classification:
    """Most probable label of a text, its probability, and that of every label, most probable first."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


@final
class Classifier:
    """Model for sequence classification with its tokenizer and labels.

    The result for a text does not depend on other texts.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        tokenizer: LanguageTokenizer,
        labels: Labels,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        max_length: int = MAX_INPUT_LENGTH,
    ) -> None:
        """The model, a `ModelWithHead`, is on `device`; `batch_tokens` bounds a batch, padding included.

        Texts of more than `max_length` tokens, symbols included, are truncated.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.max_length = limit_length(model, max_length)

    def classify(self, texts: Sequence[str], *, first_line: int = 1) -> list[Classification]:
        """Return the label of each text, in order; an empty text has one too.

        A text that is too long is truncated with an `InputWarning`; lines are numbered from `first_line`.
        """
        encoded = self.tokenizer.encode_batch(require_list(texts))
        for number, ids in enumerate(encoded, start=first_line):
            if len(ids) + 2 > self.max_length:
                warn_input(
                    f"line {number}: {len(ids) + 2} tokens exceed the limit of {self.max_length}; "
                    "the end of the text is ignored"
                )
        rows = [wrap_in_bos_eos(ids, max_length=self.max_length) for ids in encoded]
        found = predict_probabilities(self.model, rows, device=self.device, batch_tokens=self.batch_tokens)
        return [self._classification(one.tolist()) for one in found]

    def classify_stream(self, lines: Iterable[str], *, chunk: int = _STREAM_CHUNK) -> Iterator[Classification]:
        """Yield what `classify` returns, for any number of lines in the memory of `chunk` of them."""
        for first_line, texts in number_chunks(lines, size=chunk):
            yield from self.classify(texts, first_line=first_line)

    def _classification(self, probabilities: Sequence[float]) -> Classification:
        """Rank the labels; ties keep the order of the labels."""
        ranked = sorted(zip(self.labels.names, probabilities, strict=True), key=lambda pair: -pair[1])
        return Classification(*ranked[0], dict(ranked))
