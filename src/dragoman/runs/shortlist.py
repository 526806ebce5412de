"""Restrict a translator to the lexical shortlist of its run."""

from typing import Any

from dragoman.data.shortlist import Shortlist
from dragoman.errors import ConfigError, DataError
from dragoman.runs.folder import RunFolder
from dragoman.inference.backends.shortlist import Shortlisted
from dragoman.inference.translator import Translator

def load_with_shortlist(loaded: Any, folder: RunFolder) -> Translator:
    """Return the loaded translator restricted to the shortlist of its folder.

    Raises ConfigError for other models and where the folder holds no shortlist, DataError where the shortlist is
    damaged or belongs to another vocabulary.
    """
    if not isinstance(loaded, Translator):
        raise ConfigError(f"{folder.path}: shortlists are for translators, and this model is none; leave them out")
    return load_shortlist(loaded, folder)


def load_shortlist(translator: Translator, folder: RunFolder) -> Translator:
    """One that knows no other words for a text than its candidates; scores are about all words as ever.

    Raises ConfigError where the folder holds no shortlist, DataError where it is damaged or about another vocabulary.
    """
    if not folder.shortlist.exists():
        raise ConfigError(
            f"{folder.path}: holds no shortlist; make one by: dragoman export RUN --shortlist --out FOLDER"
        )
    return apply_shortlist(translator, Shortlist.load(folder.shortlist))


def apply_shortlist(translator: Translator, shortlist: Shortlist) -> Translator:
    """The same with a shortlist that is there already. Raises DataError where it is about another vocabulary."""
    sides = translator.tokenizer
    if not shortlist.matches_vocabs(source=len(sides.source), target=len(sides.target)):
        raise DataError("the shortlist is about another vocabulary; export the model with it again")
    return translator.around(Shortlisted(translator.network, shortlist))
