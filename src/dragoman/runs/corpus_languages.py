"""Languages of a run: those it records, and a proposal for a parallel corpus."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from dragoman.config_trees import get_value
from dragoman.inference.text_segmentation import TWO_LETTER_CODES

if TYPE_CHECKING:
    from dragoman.data.preprocessing.pipeline import PreparedData

SAMPLE_LINES: Final = 500
"""Lines of each side in which the language is recognized."""
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")
_SIDES: Final = ("source", "target")


def recorded_languages(config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the codes of source and target language that the configuration of a run tells; None where it does not.

    They are the keys `source_language` and `target_language` of the run or of its training corpus. Older runs have
    neither; then the endings of the corpus files count, as in `train.en`.
    """
    corpus = get_value(config, "data.train")
    corpus = corpus if isinstance(corpus, Mapping) else {}
    source, target = (
        config.get(f"{side}_language") or corpus.get(f"{side}_language") or language_of_file(corpus.get(side))
        for side in _SIDES
    )
    return source, target


def language_of_file(path: Any) -> str | None:
    """Return the language code that a file name ends with, such as `en` for `train.en.gz`; None without one."""
    name = PurePath(path).name if isinstance(path, str | PurePath) else ""
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    code = PurePath(name).suffix.removeprefix(".").replace("_", "-")
    return code if code.partition("-")[0].lower() in TWO_LETTER_CODES else None


def propose_languages(config: Mapping[str, Any], data: "PreparedData") -> Iterator[tuple[str, str, str]]:
    """Yield key, code and reason of each language that can be told from a corpus and is not recorded yet."""
    corpus = get_value(config, "data.train")
    for number, side in enumerate(_SIDES):
        path = corpus.get(side) if isinstance(corpus, Mapping) else None
        if (code := language_of_file(path)) is not None:
            yield f"{side}_language", code, f"the ending of {PurePath(str(path)).name}"
        elif code := recognize_language(pair[number] for pair in islice(data.train, SAMPLE_LINES)):
            yield f"{side}_language", code, "recognized in the corpus"


def recognize_language(texts: Iterator[str]) -> str | None:
    """Return the most probable language of texts (Lui and Baldwin, 2012); None without the package py3langid."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]
    except ImportError:
        return None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=False)
    return str(identifier.rank("\n".join(texts))[0][0])
