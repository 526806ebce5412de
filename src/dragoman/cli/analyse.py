"""`dragoman analyse`: error analysis of systems on a test set."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.atomic_files import require_writable, unique_names
from dragoman.cli import text_io
from dragoman.cli.inspect import HtmlFile, JsonFile, write_report
from dragoman.cli.load_run import load_as
from dragoman.cli.options import LANGUAGES, DeviceOption, PairsOption, config_options, refuse, shared_options
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.inference.translation_options import TranslationOptions
    from dragoman.runs.evaluate import SystemAnalysis


@config_options(DecodingConfig, ("beam_size",), into="decoding")
@shared_options(LANGUAGES, into="languages")
def analyse(
    systems: Annotated[list[Path], typer.Argument(help="Run folders, or files of translations, one per line.")],
    *,
    source: Annotated[Path | None, typer.Option(help="Source side of the test set.")] = None,
    reference: Annotated[Path | None, typer.Option("--reference", "-r", help="Reference translations.")] = None,
    pairs: PairsOption = None,
    train: Annotated[Path | None, typer.Option(help="Training text of the target side, for word frequencies.")] = None,
    decoding: dict[str, int],
    languages: dict[str, str],
    worst: Annotated[int, typer.Option(min=0, help="Number of sentences with the lowest chrF to show.")] = 10,
    out: HtmlFile = None,
    json_: JsonFile = None,
    device: DeviceOption = None,
) -> None:
    """Analyze the errors of systems on a test set in an HTML report.

    Scores by length and word frequency, names and numbers, and outputs that are not translations. Runs translate the
    texts first, and show their attention in the worst sentences.
    """
    from dragoman.evaluation import Bleu, Chrf, corpus_score
    from dragoman.evaluation.error_analysis import count_words
    from dragoman.interpret.report.html_page import render_error_analysis
    from dragoman.interpret.report.serialization import error_analysis_to_dict
    from dragoman.runs.evaluate import compare_bleu

    if pairs is None and (source is None or reference is None):
        raise ConfigError("analyse needs --source and --reference, or --pairs FILE with both sides. Give one of them.")
    if out is None and json_ is None:
        raise ConfigError("No output is given. Give --out report.html or --json FILE.")
    if not any(path.is_dir() for path in systems):
        refuse({**decoding, **languages, "device": device}, "without a run that translates")
    for path in filter(None, (out, json_)):
        require_writable(path)
    sources, references = _read_test_set(source, reference, pairs)
    frequencies = None if train is None else count_words(text_io.read_all(str(train)))
    names = unique_names(systems)
    shared: dict[str, Any] = {"sources": sources, "references": references, "frequencies": frequencies, "worst": worst}
    options: Any = decoding | languages
    found = [
        _analyze(path, name, device=device, options=options, **shared)
        for path, name in zip(systems, names, strict=True)
    ]
    signatures = [corpus_score(references, [references], metric) for metric in (Bleu(), Chrf())]
    tree = partial(
        error_analysis_to_dict,
        [(one.analysis, one.passes) for one in found],
        title=f"{' and '.join(names)} on {(source or Path(str(pairs))).name}",
        signature="; ".join(f"{one.metric}|{one.signature}" for one in signatures),
        differences=compare_bleu(found, references),
    )
    write_report(tree, render_error_analysis, out, json_)


def _read_test_set(source: Path | None, reference: Path | None, pairs: str | None) -> tuple[list[str], list[str]]:
    """Return sources and references. Raises DataError if their numbers differ."""
    from dragoman.evaluation import check_aligned

    if pairs is not None:
        refuse({"source": source, "reference": reference}, "with --pairs, which contains both sides")
        return text_io.read_pairs(pairs)
    sources, references = text_io.read_all(str(source)), text_io.read_all(str(reference))
    check_aligned(sources, [references], names=[str(source), str(reference)])
    return sources, references


def _analyze(
    path: Path, name: str, *, device: str | None, options: TranslationOptions, **shared: Any
) -> SystemAnalysis:
    """Analyze a run, which translates first, or a file of translations."""
    from dragoman.evaluation.error_analysis import analyze_errors
    from dragoman.inference import Translator
    from dragoman.runs.evaluate import SystemAnalysis, analyse_run

    if path.is_dir():
        translator = load_as(Translator, path, torch_only=True, device=device)
        return analyse_run(name, translator, options=options, **shared)
    outputs = text_io.read_all(str(path))
    return SystemAnalysis(analyze_errors(name, outputs, **shared), {}, outputs)
