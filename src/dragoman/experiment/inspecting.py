"""Runs looked into: their translations of some texts as studies, and what is said of each run beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.data.tokenizer import Side
from dragoman.decoding import SearchSettings
from dragoman.errors import DataError
from dragoman.experiment.inventory import count_parameters
from dragoman.experiment.run import RunFolder
from dragoman.experiment.wording import network_in_words
from dragoman.inspection.beam_tree import watch_search
from dragoman.inspection.passes import module_of
from dragoman.inspection.study import Study, study
from dragoman.models.symbols import Symbols
from dragoman.runtime.translator import LONGEST_PIECE, Translator


@dataclass(frozen=True)
class Inspected:
    """A run with its studies; `facts` are names and values in words."""

    name: str
    facts: tuple[tuple[str, str], ...]
    studies: tuple[Study, ...]
    writes: Side
    """What spells the tokens of its outputs."""


def inspect_run(
    path: Path,
    translator: Translator,
    texts: Sequence[str],
    *,
    targets: Sequence[str] | None = None,
    settings: SearchSettings | None = None,
) -> Inspected:
    """Study how a run translates each text, or the `targets` given for them.

    Raises DataError on an empty text, on one too long to be read at once, and where there are not as many targets.
    """
    if targets is not None and len(targets) != len(texts):
        raise DataError(f"{len(texts)} texts but {len(targets)} targets; give one for each")
    sources = [_ids_of(translator, text) for text in texts]
    settings = settings or SearchSettings()
    studies = tuple(
        _searched(translator, source, text, settings)
        if targets is None
        else study(
            translator.model,
            translator.tokenizer,
            source,
            translator.tokenizer.target.encode(targets[number]),
            source_text=text,
        )
        for number, (source, text) in enumerate(zip(sources, texts, strict=True))
    )
    return Inspected(path.name, _facts(path, translator), studies, translator.tokenizer.target)


def _searched(translator: Translator, source: list[int], text: str, settings: SearchSettings) -> Study:
    """The study of what the run itself makes of a text, with the search that found it."""
    places: int | None = getattr(translator.model, "maximum_length", None)
    limit = settings.limit(len(source))
    seen = watch_search(
        translator.model,
        source,
        settings=settings,
        limit=limit if places is None else min(limit, places - 1),
        symbols=Symbols(),
    )
    found = study(translator.model, translator.tokenizer, source, list(seen.best.tokens), source_text=text)
    return replace(found, search=seen)


def _ids_of(translator: Translator, text: str) -> list[int]:
    ids = translator.tokenizer.source.encode(text)
    if not ids:
        raise DataError("an empty text gives nothing to look at; give a text with a word in it")
    if len(ids) > LONGEST_PIECE:
        raise DataError(
            f"{text[:40]!r}…: {len(ids)} tokens are too long to be looked at at once (at most {LONGEST_PIECE}); "
            "give a sentence or a paragraph"
        )
    return ids


def _facts(path: Path, translator: Translator) -> tuple[tuple[str, str], ...]:
    folder = RunFolder(path)
    parameters = count_parameters(module_of(translator.model))
    facts = [("network", network_in_words(folder.read_config().model)), ("parameters", f"{parameters:,}")]
    for part, scores in folder.read_scores().get("scores", {}).items():
        facts += [(f"{score['metric']} ({part})", f"{score['value']:.1f}") for score in scores[:1]]
    return tuple(facts)
