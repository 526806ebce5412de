"""Readers of corpora, one file a format, streamed in constant memory.

What reads lines is imported at once; formats, which declare settings, when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.data.corpora.opening import lines, lines_of
from dragoman.data.corpora.repairs import Repairs

if TYPE_CHECKING:
    from dragoman.data.corpora.corpus import Corpus, name_of, parts_of, paths_of, read
    from dragoman.data.corpora.example import Example
    from dragoman.data.corpora.files import ParallelFiles
    from dragoman.data.corpora.jsonl import JsonLines
    from dragoman.data.corpora.labelled import Labelled, LabelledCorpus, read_labelled
    from dragoman.data.corpora.parquet import Parquet
    from dragoman.data.corpora.questions import Located, Question, QuestionCorpus, read_questions
    from dragoman.data.corpora.running import JsonTexts, Passage, Text, TextCorpus, read_texts
    from dragoman.data.corpora.table import Table
    from dragoman.data.corpora.tagged import Tagged, TaggedCorpus, read_tagged

_FORMATS = {
    "corpus": ("Corpus", "name_of", "parts_of", "paths_of", "read"),
    "example": ("Example",),
    "files": ("ParallelFiles",),
    "jsonl": ("JsonLines",),
    "labelled": ("Labelled", "LabelledCorpus", "read_labelled"),
    "parquet": ("Parquet",),
    "questions": ("Located", "Question", "QuestionCorpus", "read_questions"),
    "running": ("JsonTexts", "Passage", "Text", "TextCorpus", "read_texts"),
    "table": ("Table",),
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
            return getattr(import_module(f"dragoman.data.corpora.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
