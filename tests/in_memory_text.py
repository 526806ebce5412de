"""Token ids in memory, for tests of language modeling."""

from collections.abc import Sequence

import numpy as np

from dragoman.data.batching.batch_streams import EpochStream
from dragoman.data.batching.packing import TextBatch
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.datasets.text import TokenizedPassage
from dragoman.data.readers.plain_text import Passage
from dragoman.data.tokenizers import BOS, EOS


def ragged(texts: Sequence[Sequence[int]]) -> RaggedArray:
    values = np.array([index for text in texts for index in text], dtype=np.uint16)
    return RaggedArray(values, np.array([len(text) for text in texts], dtype=np.int64))


def tokenized(ids: Sequence[int], line: int, *, is_first: bool) -> TokenizedPassage:
    """Return the ids of a passage."""
    return ids, Passage("", line, is_first)


def packed(texts: Sequence[Sequence[int]]) -> list[int]:
    """Return the packed text by definition."""
    return [index for text in texts for index in (BOS, *text, EOS)]


def one_epoch(stream: EpochStream[TextBatch]) -> list[TextBatch]:
    """Return all batches up to the next epoch."""
    number, batches = stream.position["epoch"], []
    while stream.position["epoch"] == number:
        batches.append(next(stream))
    return batches


def predictions(batch: TextBatch) -> list[tuple[int, int, int]]:
    """Return, for each position that counts in the loss, its index in the packed text, its token and its target."""
    found = []
    for row, start in enumerate(batch.rows.tolist()):
        for column in batch.loss_mask[row].nonzero()[:, 0].tolist():
            found.append((start + column, int(batch.tokens[row, column]), int(batch.labels[row, column])))
    return found
