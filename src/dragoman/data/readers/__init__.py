"""Readers of corpora, one module per format, streamed in constant memory.

The line reader is imported at once. The formats, which declare pydantic models, are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.data.readers.text_lines import ReadWarnings, read_lines, read_stream_lines

if TYPE_CHECKING:
    from dragoman.data.readers.corpus import ParallelCorpus, corpus_name, corpus_paths, corpus_shards, read_corpus
    from dragoman.data.readers.example import Example
    from dragoman.data.readers.jsonl import ParallelJsonl
    from dragoman.data.readers.labeled import LabeledCorpus, LabeledText, read_labeled
    from dragoman.data.readers.parallel import ParallelFiles
    from dragoman.data.readers.parquet import ParallelParquet
    from dragoman.data.readers.qa import AnswerSpan, Question, QuestionCorpus, read_questions
    from dragoman.data.readers.tagged import TaggedCorpus, TaggedSentence, read_tagged
    from dragoman.data.readers.text import Passage, TextCorpus, TextFile, TextJsonl, read_texts
    from dragoman.data.readers.tsv import ParallelTsv

_LAZY = {
    "corpus": ("ParallelCorpus", "corpus_name", "corpus_paths", "corpus_shards", "read_corpus"),
    "example": ("Example",),
    "parallel": ("ParallelFiles",),
    "jsonl": ("ParallelJsonl",),
    "labeled": ("LabeledCorpus", "LabeledText", "read_labeled"),
    "parquet": ("ParallelParquet",),
    "qa": ("AnswerSpan", "Question", "QuestionCorpus", "read_questions"),
    "text": ("Passage", "TextCorpus", "TextFile", "TextJsonl", "read_texts"),
    "tsv": ("ParallelTsv",),
    "tagged": ("TaggedCorpus", "TaggedSentence", "read_tagged"),
}
"""Names imported on first use, by module."""

__all__ = [
    "AnswerSpan",
    "Example",
    "LabeledCorpus",
    "LabeledText",
    "ParallelCorpus",
    "ParallelFiles",
    "ParallelJsonl",
    "ParallelParquet",
    "ParallelTsv",
    "Passage",
    "Question",
    "QuestionCorpus",
    "ReadWarnings",
    "TaggedCorpus",
    "TaggedSentence",
    "TextCorpus",
    "TextFile",
    "TextJsonl",
    "corpus_name",
    "corpus_paths",
    "corpus_shards",
    "read_corpus",
    "read_labeled",
    "read_lines",
    "read_questions",
    "read_stream_lines",
    "read_tagged",
    "read_texts",
]


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"dragoman.data.readers.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
