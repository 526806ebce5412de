"""Readers of corpora, one file a format, streamed in constant memory.

What reads lines is imported at once; formats, which declare settings, when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.data.readers.repairs import Repairs
from dragoman.data.readers.text_lines import lines, lines_of

if TYPE_CHECKING:
    from dragoman.data.readers.corpus import Corpus, name_of, parts_of, paths_of, read
    from dragoman.data.readers.example import Example
    from dragoman.data.readers.jsonl import JsonLines
    from dragoman.data.readers.labeled import Labelled, LabelledCorpus, read_labelled
    from dragoman.data.readers.parallel import ParallelFiles
    from dragoman.data.readers.parquet import Parquet
    from dragoman.data.readers.qa import Located, Question, QuestionCorpus, read_questions
    from dragoman.data.readers.tagged import Tagged, TaggedCorpus, read_tagged
    from dragoman.data.readers.text import JsonTexts, Passage, Text, TextCorpus, read_texts
    from dragoman.data.readers.tsv import Table

_FORMATS = {
    "corpus": ("Corpus", "name_of", "parts_of", "paths_of", "read"),
    "example": ("Example",),
    "parallel": ("ParallelFiles",),
    "jsonl": ("JsonLines",),
    "labeled": ("Labelled", "LabelledCorpus", "read_labelled"),
    "parquet": ("Parquet",),
    "qa": ("Located", "Question", "QuestionCorpus", "read_questions"),
    "text": ("JsonTexts", "Passage", "Text", "TextCorpus", "read_texts"),
    "tsv": ("Table",),
    "tagged": ("Tagged", "TaggedCorpus", "read_tagged"),
}
"""What is imported later, by the file it stands in."""

__all__ = [
    "Corpus",
    "Example",
    "JsonLines",
    "JsonTexts",
    "Labelled",
    "LabelledCorpus",
    "Located",
    "ParallelFiles",
    "Parquet",
    "Passage",
    "Question",
    "QuestionCorpus",
    "Repairs",
    "Table",
    "Tagged",
    "TaggedCorpus",
    "Text",
    "TextCorpus",
    "lines",
    "lines_of",
    "name_of",
    "parts_of",
    "paths_of",
    "read",
    "read_labelled",
    "read_questions",
    "read_tagged",
    "read_texts",
]


def __getattr__(name: str) -> Any:
    for file, names in _FORMATS.items():
        if name in names:
            return getattr(import_module(f"dragoman.data.readers.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
