"""`dragoman inspect`: an HTML report on what a model does with a text."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import OWN, Device, SourceTrees

if TYPE_CHECKING:
    from dragoman.interpret.report.serialization import System
    from dragoman.runs.inspect import InspectedRun

Models = Annotated[
    list[Path],
    typer.Argument(help="Run folders or exported models, shown side by side.", show_default=False),
]
Texts = Annotated[list[str], typer.Option("--text", "-t", help="Text to inspect (repeatable).", show_default=False)]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        help="Output to explain, one per text: translation, continuation, label or answer. Default: the model's own.",
        show_default=False,
    ),
]
Questions = Annotated[
    list[str] | None,
    typer.Option(help="Question about each text, for a question answering run.", show_default=False),
]
Tokens = Annotated[int, typer.Option(min=1, help="Maximum number of generated tokens.")]
Page = Annotated[Path | None, typer.Option("--out", "-o", help="HTML report to write.", show_default=False)]
Figures = Annotated[Path | None, typer.Option("--png", help="Folder for the figures.", show_default=False)]
Numbers = Annotated[Path | None, typer.Option("--json", help="JSON file for all numbers.", show_default=False)]


def inspect(
    models: Models,
    *,
    text: Texts,
    target: Targets = None,
    question: Questions = None,
    source_trees: SourceTrees = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1, help="Beam size; 1 is greedy search.", show_default=f"{OWN}; 5 where a language model writes"
        ),
    ] = None,
    tokens: Tokens = 40,
    out: Page = None,
    png: Figures = None,
    json_: Numbers = None,
    device: Device = None,
) -> None:
    """Show attention, alignments and the beam for a text in an HTML report.

    The report is one file that works offline. Several models are shown side by side.
    """
    from dragoman.atomic import names_apart, write_text
    from dragoman.cli import streams
    from dragoman.interpret.report import page, tree_of
    from dragoman.runs.inspect import InspectionRequest, cross_score, inspect_run

    _require_places(out=out, png=png, json_=json_)
    wanted = InspectionRequest(
        texts=text,
        targets=target,
        questions=question,
        trees=_trees(text, source_trees),
        beam=beam,
        tokens=tokens,
    )
    names = names_apart(models)
    found = [inspect_run(model, wanted, name=name, device=device) for model, name in zip(models, names, strict=True)]
    tree = partial(
        tree_of, _systems(found), title=" and ".join(one.name for one in found), judged=cross_score(found, wanted)
    )
    if out is not None:
        write_text(out, page(tree(compact=True)))
        streams.say(f"{out}: written; open it in a browser")
    if json_ is not None:
        write_text(json_, json.dumps(tree(), ensure_ascii=False) + "\n")
    if png is not None:
        _draw(found, png)


def _require_places(*, out: Path | None, png: Path | None, json_: Path | None) -> None:
    """Raise ConfigError where no output is requested, or an output cannot be written."""
    from dragoman.atomic import refused, require_writable
    from dragoman.errors import ConfigError

    if out is None and png is None and json_ is None:
        raise ConfigError("nothing is asked for; say where to write: --out report.html, --png FOLDER or --json FILE")
    for path in filter(None, (out, json_)):
        require_writable(path)
    if png is not None:
        try:
            png.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refused(png, error) from error
        require_writable(png / "figure.png")


def _trees(texts: list[str], source_trees: Path | None) -> list[tuple[int, ...]] | None:
    """Return the dependency trees of the texts from a CoNLL-U file."""
    if source_trees is None:
        return None
    from dragoman.data.readers.conllu import read_heads

    return list(read_heads(texts, source_trees, name="--text"))


def _systems(found: list[InspectedRun]) -> list[System]:
    return [(one.name, one.facts, one.studies, one.writes) for one in found]


def _draw(found: list[InspectedRun], folder: Path) -> None:
    """Write the figures of each text, numbered from 1."""
    from dragoman.interpret.plots import drawn, figures

    for one in found:
        for number, study in enumerate(one.studies, start=1):
            for name, figure in figures(study):
                (folder / f"{one.name.replace('/', '-')}-{number}-{name}.png").write_bytes(drawn(figure))
