"""Statistics of the sources that a translator is trained on, by which texts unlike them are marked later."""

from collections.abc import Iterator
from typing import Final

from dragoman.data.preprocessing.pipeline import CleanedTexts
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.evaluation.source_familiarity import SourceFamiliarity
from dragoman.inference.typography import Typography
from dragoman.runs.folder import RunFolder
from dragoman.tasks.parallel_data import ParallelData
from dragoman.tasks.task import TaskData

MAX_PAIRS: Final = 200_000
"""Training pairs that are counted, taken evenly; more add rare n-grams only."""
MAX_HELD_OUT: Final = 5_000
"""Validation pairs that the thresholds are measured on."""
_CHUNK: Final = 4096


def write_familiarity(folder: RunFolder, data: TaskData) -> None:
    """Write the model of the training sources of a translator into its run folder.

    A model of several languages has none: its corpora differ in size, and texts of small ones would be unlike most.
    """
    if not isinstance(data, ParallelData) or data.decoder_only or data.tokenizer.prefixes.languages:
        return
    texts: CleanedTexts = data.texts
    step = -(-len(texts.train) // MAX_PAIRS)
    tokenizer = Typography(data.tokenizer).tokenizer.source  # which reads texts as a translator does
    training = _encode(tokenizer, (texts.train.pair(row)[0] for row in range(0, len(texts.train), step)))
    held_out = _encode(tokenizer, (texts.valid.pair(row)[0] for row in range(min(MAX_HELD_OUT, len(texts.valid)))))
    SourceFamiliarity.fit(training, held_out, vocab_size=len(tokenizer)).save(folder.familiarity)


def _encode(tokenizer: LanguageTokenizer, sources: Iterator[str]) -> Iterator[list[int]]:
    """Yield the ids of texts, chunk by chunk."""
    chunk: list[str] = []
    for source in sources:
        chunk.append(source)
        if len(chunk) == _CHUNK:
            yield from tokenizer.encode_batch(chunk)
            chunk = []
    yield from tokenizer.encode_batch(chunk)
