"""`dragoman inspect`: an HTML report on what a model does with a text."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.atomic_files import WriteError, require_writable, unique_names, write_text
from dragoman.cli import messages
from dragoman.cli.options import (
    LANGUAGES,
    RUN_DEFAULT,
    DeviceOption,
    SourceFeaturesOption,
    config_options,
    shared_options,
)
from dragoman.data.readers.conllu import read_heads
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.runs.inspect import InspectedRun

Targets = Annotated[
    list[str] | None,
    typer.Option(help="Translation, continuation, label or answer to explain, one per text. Default: the model's."),
]
Questions = Annotated[list[str] | None, typer.Option(help="Question about each text, for a question answering run.")]
HtmlFile = Annotated[Path | None, typer.Option("--out", "-o", help="HTML report to write.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="JSON file for all numbers.")]


@config_options(DecodingConfig, ("beam_size",), into="decoding", default=f"{RUN_DEFAULT}; 5 for a generated text")
@shared_options(LANGUAGES, into="languages")
def inspect(
    models: Annotated[list[Path], typer.Argument(help="Run folders or exported models, shown side by side.")],
    *,
    text: Annotated[list[str], typer.Option("--text", "-t", help="Text to inspect (repeatable).")],
    target: Targets = None,
    question: Questions = None,
    source_features: SourceFeaturesOption = None,
    languages: dict[str, Any],
    decoding: dict[str, int],
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Maximum number of generated tokens; fewer if the context ends.")
    ] = 40,
    out: HtmlFile = None,
    png: Annotated[Path | None, typer.Option("--png", help="Folder for the figures.")] = None,
    json_: JsonFile = None,
    device: DeviceOption = None,
) -> None:
    """Show attention, alignments and the beam for a text in an HTML report.

    The report is one file that works offline. Several models are shown side by side.
    """
    from dragoman.interpret.report.html_page import render_explanations
    from dragoman.interpret.report.serialization import ExplainedSystem, explanations_to_dict
    from dragoman.runs.inspect import InspectionRequest, cross_score, inspect_run

    _check_outputs(out=out, png=png, json_=json_)
    request = InspectionRequest(
        texts=text,
        targets=target,
        questions=question,
        source_features=None if source_features is None else list(read_heads(text, source_features, name="--text")),
        beam=decoding.get("beam_size"),
        **languages,
        tokens=max_new_tokens,
    )
    names = unique_names(models)
    found = [inspect_run(model, request, name=name, device=device) for model, name in zip(models, names, strict=True)]
    systems = [ExplainedSystem(one.name, one.facts, one.explanations, one.writes) for one in found]
    tree = partial(explanations_to_dict, systems, title=" and ".join(names), cross_scores=cross_score(found, request))
    write_report(tree, render_explanations, out, json_)
    if png is not None:
        _write_figures(found, png)


def write_report(tree: Callable[..., Any], page: Callable[[Any], str], out: Path | None, json_: Path | None) -> None:
    """Write the HTML page and the JSON file of a report, if they are requested."""
    if out is not None:
        write_text(out, page(tree(compact=True)))
        messages.say(f"{out}: written. Open it in a browser.")
    if json_ is not None:
        write_text(json_, json.dumps(tree(), ensure_ascii=False) + "\n")


def _check_outputs(*, out: Path | None, png: Path | None, json_: Path | None) -> None:
    """Raise ConfigError if no output is requested, or an output cannot be written."""
    if out is None and png is None and json_ is None:
        raise ConfigError("No output is given. Give --out report.html, --png FOLDER or --json FILE.")
    for path in filter(None, (out, json_)):
        require_writable(path)
    if png is not None:
        try:
            png.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(png, error) from error
        require_writable(png / "figure.png")


def _write_figures(found: list[InspectedRun], folder: Path) -> None:
    """Write the figures of each text, numbered from 1."""
    from dragoman.interpret.matplotlib_plots import figures, to_png

    for one in found:
        for number, explanation in enumerate(one.explanations, start=1):
            for name, figure in figures(explanation):
                (folder / f"{one.name.replace('/', '-')}-{number}-{name}.png").write_bytes(to_png(figure))
