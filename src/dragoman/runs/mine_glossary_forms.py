"""Inflections of the terms of a glossary, from the corpora that `dragoman train` takes."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import TypeAdapter

from dragoman.data.readers.parallel import ParallelCorpus, read_corpus
from dragoman.data.shortlist import sample_evenly
from dragoman.data.terminology.glossary import Glossary
from dragoman.data.terminology.mine_forms import mine_forms
from dragoman.errors import ConfigError
from dragoman.runs.config import corpus_settings


def mine_glossary_forms(glossary: Glossary, corpora: Mapping[str, Path], *, report: Callable[[str], None]) -> Glossary:
    """Return the glossary with the forms that a corpus has; `corpora` are its files by option name.

    At most 200,000 pairs are read, sampled evenly. Raises ConfigError without a corpus, DataError if it is unreadable.
    """
    settings = corpus_settings(corpora)
    if not settings:
        raise ConfigError("No corpus. Give --source and --target, or --pairs.")
    corpus: ParallelCorpus = TypeAdapter(ParallelCorpus).validate_python(settings["data"]["train"])
    report("reading the corpus")
    pairs = sample_evenly((one.source, one.target) for one in read_corpus(corpus))
    report("finding forms")
    return mine_forms(glossary, pairs)
