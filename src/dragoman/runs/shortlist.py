"""A translator that does less work: with a shortlist of words, or with guesses that are verified together."""

from pathlib import Path
from typing import Any

from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.cpu_backend import Compiled
from dragoman.inference.backends.drafted import NOTHING, Copying, Drafted, Drafter, guesses_of
from dragoman.inference.backends.shortlist import Shortlisted
from dragoman.inference.translator import Translator
from dragoman.runs.folder import RunFolder

COPY = "copy"
"""The draft that is no run: what was read and written."""


def quickened(
    loaded: Any, folder: RunFolder, *, shortlist: bool, draft: str | Path | None, device: str | None = None
) -> Any:
    """What was loaded from a folder, with its shortlist, and with a draft by name: `copy`, or a smaller run's folder.

    Raises ConfigError where it is no translator, and as `with_shortlist` and `with_draft` do.
    """
    if not isinstance(loaded, Translator):
        raise ConfigError(f"{folder.path}: shortlists and drafts are for translators, and this is none; leave them out")
    if shortlist:
        loaded = with_shortlist(loaded, folder)
    return loaded if draft is None else with_draft(loaded, None if str(draft) == COPY else _smaller(draft, device))


def with_shortlist(translator: Translator, folder: RunFolder) -> Translator:
    """One that knows no other words for a text than its candidates; scores are about all words as ever.

    Raises ConfigError where the folder holds no shortlist, DataError where it is damaged or about another vocabulary.
    """
    if not folder.shortlist.exists():
        raise ConfigError(
            f"{folder.path}: holds no shortlist; make one by: dragoman export RUN --shortlist --out FOLDER"
        )
    return shortlisted(translator, Shortlist.load(folder.shortlist))


def shortlisted(translator: Translator, shortlist: Shortlist) -> Translator:
    """The same with a shortlist that is there already. Raises DataError where it is about another vocabulary."""
    sides = translator.tokenizer
    if not shortlist.fits(source=len(sides.source), target=len(sides.target)):
        raise DataError("the shortlist is about another vocabulary; export the model with it again")
    return translator.around(Shortlisted(translator.network, shortlist))


def with_draft(translator: Translator, smaller: Translator | None = None) -> Translator:
    """One that guesses several tokens ahead in greedy search: the same outputs, sooner where guesses are right.

    Guesses are copied from the source and the output so far, or come from a smaller translator of the same tokenizer;
    where too few are right, no more are made. Raises ConfigError where a network is not computed by the compiled core,
    whose numbers do not depend on how many tokens it is asked about, or where the tokenizers differ.
    """
    network = translator.network
    inside = network.network if isinstance(network, Shortlisted) else network
    for one in (inside, *([] if smaller is None else [smaller.network])):
        if not isinstance(one, Compiled):
            raise ConfigError(
                "drafts are for a single run that the compiled core computes, and this is none; leave them out"
            )
    if smaller is None:
        return translator.around(Drafted(network, _copying(translator.tokenizer)))
    if smaller.tokenizer.fingerprint != translator.tokenizer.fingerprint:
        raise ConfigError(
            "the draft has another tokenizer; train it with the tokenizer of the run that it is to guess for"
        )
    return translator.around(Drafted(network, guesses_of(smaller.network)))


def _copying(tokenizer: Tokenizer) -> Drafter:
    """What is copied from a source are the pieces of the target that are written like its own."""
    if tokenizer.shared:
        return Copying
    known = {piece: token for token, piece in enumerate(tokenizer.target.segmentation.pieces)}
    alike = [known.get(piece, NOTHING) for piece in tokenizer.source.segmentation.pieces]
    return lambda source: Copying([alike[token] for token in source])


def _smaller(run: str | Path, device: str | None) -> Translator:
    from dragoman.runs.load import load

    loaded = load(run, device=device)
    if not isinstance(loaded, Translator):
        raise ConfigError(f"{run}: a draft is a translator, and this run is none; leave it out")
    return loaded
