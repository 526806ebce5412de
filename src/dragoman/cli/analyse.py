"""`dragoman analyse`: error analysis of systems on a test set."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Beam, Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.runs.evaluate import SystemAnalysis

Systems = Annotated[
    list[Path], typer.Argument(help="Run folders, or files of translations, one per line.", show_default=False)
]
Train = Annotated[
    Path | None,
    typer.Option(help="Target side of the training corpus, for the word frequencies.", show_default=False),
]
Page = Annotated[Path | None, typer.Option("--out", "-o", help="HTML report to write.", show_default=False)]
Numbers = Annotated[Path | None, typer.Option("--json", help="JSON file for all numbers.", show_default=False)]


def analyse(
    systems: Systems,
    *,
    source: Annotated[Path, typer.Option(help="Source side of the test set.", show_default=False)],
    reference: Annotated[Path, typer.Option("--reference", "-r", help="Reference translations.", show_default=False)],
    train: Train = None,
    beam: Beam = None,
    worst: Annotated[int, typer.Option(min=0, help="Number of sentences with the lowest chrF to show.")] = 10,
    out: Page = None,
    json_: Numbers = None,
    device: Device = None,
) -> None:
    """Analyze the errors of systems on a test set in an HTML report.

    Scores by length and word frequency, names and numbers, and outputs that are not translations. Runs translate the
    texts first, and show their attention in the worst sentences.
    """
    from dragoman.atomic import names_apart, require_writable, write_text
    from dragoman.cli import streams
    from dragoman.errors import ConfigError
    from dragoman.evaluation import Bleu, Chrf, corpus_score
    from dragoman.evaluation.error_analysis import count_words
    from dragoman.interpret.report import analysis_page, analysis_tree
    from dragoman.runs.evaluate import compare_bleu

    if out is None and json_ is None:
        raise ConfigError("nothing is asked for; say where to write: --out report.html or --json FILE")
    if not any(path.is_dir() for path in systems) and (beam is not None or device is not None):
        raise ConfigError("--beam and --device are for runs, and only outputs are given; leave them out")
    for path in filter(None, (out, json_)):
        require_writable(path)
    sources, references = streams.read_all(str(source)), streams.read_all(str(reference))
    frequencies = None if train is None else count_words(streams.read_all(str(train)))
    names = names_apart(systems)
    found = [
        _analysed(path, name, sources, references, frequencies, beam=beam, worst=worst, device=device)
        for path, name in zip(systems, names, strict=True)
    ]
    signatures = [corpus_score(references, [references], metric) for metric in (Bleu(), Chrf())]
    told = partial(
        analysis_tree,
        [(one.analysis, one.looks) for one in found],
        title=f"{' and '.join(names)} on {source.name}",
        signature="; ".join(f"{one.metric}|{one.signature}" for one in signatures),
        differences=compare_bleu(found, references),
    )
    if out is not None:
        write_text(out, analysis_page(told(compact=True)))
        streams.say(f"{out}: written; open it in a browser")
    if json_ is not None:
        write_text(json_, json.dumps(told(), ensure_ascii=False) + "\n")


def _analysed(
    path: Path,
    name: str,
    sources: Sequence[str],
    references: Sequence[str],
    frequencies: Mapping[str, int] | None,
    *,
    beam: int | None,
    worst: int,
    device: str | None,
) -> SystemAnalysis:
    """Analyze a run or a file of translations."""
    from dragoman.cli import streams
    from dragoman.cli.loading import load_to_look_into
    from dragoman.evaluation.error_analysis import analyze_errors as analyse_outputs
    from dragoman.inference import Translator
    from dragoman.runs.evaluate import SystemAnalysis, analyse_run

    if path.is_dir():
        return analyse_run(
            name,
            load_to_look_into(Translator, path, device=device),
            sources=sources,
            references=references,
            frequencies=frequencies,
            beam=beam,
            worst=worst,
        )
    outputs = streams.read_all(str(path))
    analysis = analyse_outputs(
        name, outputs, sources=sources, references=references, frequencies=frequencies, worst=worst
    )
    return SystemAnalysis(analysis, {}, outputs)
