"""Runs looked into: their translations of some texts as studies, and what is said of each run beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.decoding import SearchSettings
from dragoman.errors import DataError
from dragoman.experiment.inventory import count_parameters
from dragoman.experiment.run import RunFolder
from dragoman.experiment.wording import network_in_words
from dragoman.inspection.passes import module_of
from dragoman.inspection.study import Study, study
from dragoman.runtime.translator import LONGEST_PIECE, Translator


@dataclass(frozen=True)
class Inspected:
    """A run with its studies; `facts` are names and values in words."""

    name: str
    facts: tuple[tuple[str, str], ...]
    studies: tuple[Study, ...]


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
    if targets is None:
        found = translator.hypotheses(texts, settings or SearchSettings())
        outputs = [list(best.hypothesis.tokens) for best, *_ in found]
    else:
        outputs = [translator.tokenizer.target.encode(target) for target in targets]
    studies = tuple(
        study(translator.model, translator.tokenizer, source, output, source_text=text)
        for source, output, text in zip(sources, outputs, texts, strict=True)
    )
    return Inspected(name=path.name, facts=_facts(path, translator), studies=studies)


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
