"""Texts in, labels out: the way of a trained classifier's user."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import Labels, between_symbols
from dragoman.data.tokenizers import Side
from dragoman.inference.inference_mode import in_use
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.length_warnings import LONGEST, longest_of, warn
from dragoman.inference.padding import rectangle

BATCH_TOKENS = 4096
STREAM_CHUNK = 4096
"""Lines of a stream that are sorted and batched together."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The most probable label of a text, its probability, and that of every label, most probable first."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


@final
class Classifier:
    """A network with a head for whole texts, its tokenizer and its labels, for use.

    What is found for a text does not depend on the texts beside it.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        side: Side,
        labels: Labels,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        longest: int = LONGEST,
    ) -> None:
        """The model, a `Headed`, is on `device` already; `batch_tokens` bounds a batch, padding included.

        Of texts with more than `longest` tokens, symbols included, the end is not read.
        """
        self.model = model
        self.side = side
        self.labels = labels
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.longest = longest_of(model, longest)

    def classify(self, texts: Sequence[str], *, first_line: int = 1) -> list[Classified]:
        """The label of each text, in order; an empty text has one too.

        A text that is too long is read from its beginning, with a `ReadingWarning`; lines are numbered from
        `first_line`.
        """
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, got one text; put it into a list")
        encoded = self.side.encode_batch(texts)
        for number, ids in enumerate(encoded, start=first_line):
            if len(ids) + 2 > self.longest:
                warn(
                    f"line {number}: {len(ids) + 2} tokens are more than the {self.longest} that are read; "
                    "the end of the text has no part in its label"
                )
        rows = [between_symbols(ids, longest=self.longest) for ids in encoded]
        results: dict[int, Classified] = {}
        with in_use(self.model):
            for batch in batches_by_length([len(row) for row in rows], budget=self.batch_tokens):
                logits = self.model(*rectangle([rows[row] for row in batch], device=self.device))
                probabilities = logits.cpu().double().softmax(dim=-1).tolist()
                results |= dict(zip(batch, map(self._classified, probabilities), strict=True))
        return [results[row] for row in range(len(rows))]

    def stream(self, lines: Iterable[str], *, chunk: int = STREAM_CHUNK) -> Iterator[Classified]:
        """What `classify` returns, for any number of lines in the memory of `chunk` of them."""
        iterator, first_line = iter(lines), 1
        while texts := list(islice(iterator, chunk)):
            yield from self.classify(texts, first_line=first_line)
            first_line += len(texts)

    def _classified(self, probabilities: Sequence[float]) -> Classified:
        """Of equally probable labels the first in their order comes first."""
        ranked = sorted(zip(self.labels.names, probabilities, strict=True), key=lambda pair: -pair[1])
        return Classified(*ranked[0], dict(ranked))
