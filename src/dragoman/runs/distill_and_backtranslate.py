"""Pseudo-data: training text written by a model, by distillation or back-translation."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import tee
from pathlib import Path
from typing import Any, Unpack

from dragoman.atomic_files import new_folder, write_atomically
from dragoman.decoding import DecodingConfig
from dragoman.errors import DataError, RunError
from dragoman.inference.translation_options import LanguageOptions
from dragoman.inference.translation_result import TranslationWarning
from dragoman.inference.translator import Translator
from dragoman.runs.folder import RunFolder

SOURCE, TARGET, ORIGIN = "source.txt", "target.txt", "origin.json"
TAG = "<bt>"
"""First token of a back-translated source (Caswell et al., 2019)."""

Rewriter = Callable[[Iterable[str]], Iterator[str]]
"""Function from texts to generated texts, in order and with constant memory."""


@dataclass(frozen=True)
class PseudoDataResult:
    """Number of pairs written, and of texts left out because one side is empty."""

    pairs: int
    left_out: int


def write_distilled(out: Path, texts: Iterable[str], write: Rewriter, *, origin: dict[str, Any]) -> PseudoDataResult:
    """Write texts and their translations by a teacher to a new folder (Kim and Rush, 2016, section 3.2).

    Raises RunError if `out` exists, and DataError if no pair is left.
    """
    sources, kept = tee(_join_lines(texts))
    return _write_pairs(out, zip(kept, write(sources), strict=True), origin)


def write_backtranslated(
    out: Path, texts: Iterable[str], write: Rewriter, *, tag: str, origin: dict[str, Any]
) -> PseudoDataResult:
    """Write texts as targets, and their back-translations as sources that begin with `tag` (Sennrich et al., 2016).

    Raises RunError if `out` exists, and DataError if no pair is left.
    """
    targets, kept = tee(_join_lines(texts))
    prefix = f"{tag} " if tag else ""
    sources = (prefix + source if source.strip() else "" for source in write(targets))
    return _write_pairs(out, zip(sources, kept, strict=True), origin | {"tag": tag})


def beam_search_rewriter(
    translator: Translator, config: DecodingConfig, **languages: Unpack[LanguageOptions]
) -> Rewriter:
    """Return a function to the best translation of each text, or to an empty text if it is unfinished.

    Languages are those of `Translator.translate`.
    """

    def rewrite(texts: Iterable[str]) -> Iterator[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TranslationWarning)
            for best, *_ in translator.translate_stream(texts, config, **languages):
                yield best.text if best.hypothesis.finished else ""

    return rewrite


def describe_origin(run: Path, *ensemble: Path, **options: Any) -> dict[str, Any]:
    """Return the runs that write pseudo-data, by tokenizer and seed, and the options of decoding."""
    others = {"ensemble": [_describe_run(one) for one in ensemble]} if ensemble else {}
    return {**_describe_run(run), **others, **options}


def _describe_run(run: Path) -> dict[str, Any]:
    environment = RunFolder(run).read_environment()
    return {
        "run": run.resolve().name,
        **{key: environment[key] for key in ("tokenizer", "seed", "git") if key in environment},
    }


def _join_lines(texts: Iterable[str]) -> Iterator[str]:
    return (" ".join(text.split()) for text in texts)


def _write_pairs(out: Path, pairs: Iterable[tuple[str, str]], origin: dict[str, Any]) -> PseudoDataResult:
    if out.exists():
        raise RunError(f"{out}: exists, and corpora are never overwritten. Choose another --output-dir.")
    count = left_out = 0
    with new_folder(out) as folder:
        with (
            (folder / SOURCE).open("w", encoding="utf-8", newline="\n") as sources,
            (folder / TARGET).open("w", encoding="utf-8", newline="\n") as targets,
        ):
            for source, target in pairs:
                if not (source.strip() and target.strip()):
                    left_out += 1
                    continue
                sources.write(" ".join(source.splitlines()) + "\n")
                targets.write(" ".join(target.splitlines()) + "\n")
                count += 1
        if not count:
            raise DataError("No pair is left: one side of each is empty. Give a file with texts.")
        result = PseudoDataResult(count, left_out)
        write_atomically(folder / ORIGIN, json.dumps(origin | asdict(result), indent=2, ensure_ascii=False) + "\n")
    return result
