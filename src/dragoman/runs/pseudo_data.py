"""Training text that a model writes: outputs of a teacher for a student, and sources for text that has none."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import tee
from pathlib import Path
from typing import Any

from dragoman.atomic import new_folder, write_atomically
from dragoman.decoding import DecodingConfig
from dragoman.errors import DataError, RunError
from dragoman.inference.translator import TranslationWarning, Translator
from dragoman.runs.folder import RunFolder

SOURCE, TARGET, ORIGIN = "source.txt", "target.txt", "origin.json"
TAG = "<bt>"
"""What tells a model that its source was written by a model (Caswell et al., 2019)."""

Rewriter = Callable[[Iterable[str]], Iterator[str]]
"""Texts to texts, one for each and in order, in constant memory."""


@dataclass(frozen=True)
class PseudoDataResult:
    """How many pairs were written, and how many texts have none because they or what was made of them is empty."""

    pairs: int
    left_out: int


def write_distilled(out: Path, texts: Iterable[str], write: Rewriter, *, origin: dict[str, Any]) -> PseudoDataResult:
    """Sources, and what a teacher makes of each, as a corpus in the folder `out` (Kim and Rush, 2016, section 3.2).

    Raises RunError where `out` exists, and DataError where no pair comes of the texts.
    """
    read, kept = tee(_join_lines(texts))
    return _write_pairs(out, zip(kept, write(read), strict=True), origin)


def write_backtranslated(
    out: Path, texts: Iterable[str], write: Rewriter, *, tag: str, origin: dict[str, Any]
) -> PseudoDataResult:
    """Targets, and before each a source that a model of the other direction makes of it (Sennrich et al., 2016).

    Every source begins with `tag`, where one is given. Raises as `write_distilled` does.
    """
    read, kept = tee(_join_lines(texts))
    before = f"{tag} " if tag else ""
    pairs = ((before + source if source.strip() else "", text) for source, text in zip(write(read), kept, strict=True))
    return _write_pairs(out, pairs, origin | {"tag": tag})


def beam_search_rewriter(translator: Translator, settings: DecodingConfig) -> Rewriter:
    """The best translation of each text; that of one which never came to its end is empty, and teaches nothing."""

    def rewrite(texts: Iterable[str]) -> Iterator[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TranslationWarning)
            for found in translator.stream_n_best(texts, settings):
                yield found[0].text if found[0].hypothesis.finished else ""

    return rewrite


def describe_origin(run: Path, *beside: Path, **how: Any) -> dict[str, Any]:
    """What wrote a corpus: the run, by its tokenizer and seed, those that were asked beside it, and how."""
    others = {"beside": [_describe_run(one) for one in beside]} if beside else {}
    return {**_describe_run(run), **others, **how}


def _describe_run(run: Path) -> dict[str, Any]:
    environment = RunFolder(run).read_environment()
    known: dict[str, Any] = {key: environment[key] for key in ("tokenizer", "seed", "git") if key in environment}
    return {"run": run.resolve().name, **known}


def _join_lines(texts: Iterable[str]) -> Iterator[str]:
    return (" ".join(text.split()) for text in texts)


def _write_pairs(out: Path, pairs: Iterable[tuple[str, str]], origin: dict[str, Any]) -> PseudoDataResult:
    if out.exists():
        raise RunError(f"{out}: exists already and is never overwritten; choose another place by --out")
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
                sources.write(source + "\n")
                targets.write(target + "\n")
                count += 1
        if not count:
            raise DataError("no pair came of these texts: either side of each is empty; give a file with texts")
        written = PseudoDataResult(count, left_out)
        write_atomically(folder / ORIGIN, json.dumps(origin | asdict(written), indent=2, ensure_ascii=False) + "\n")
    return written
