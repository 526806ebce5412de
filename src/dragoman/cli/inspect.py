"""`dragoman inspect`: what a run does with a sentence, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device

if TYPE_CHECKING:
    from dragoman.experiment.inspecting import Inspected
    from dragoman.inspection.page.data import System

Texts = Annotated[
    list[str], typer.Option("--text", "-t", help="A text to look at; again for each further one.", show_default=False)
]
Targets = Annotated[
    list[str] | None,
    typer.Option(help="The translation to look at, one for each text; without it the run's own.", show_default=False),
]
Beside = Annotated[
    list[Path] | None, typer.Option(help="Another run for the same page; again for more.", show_default=False)
]
Page = Annotated[Path | None, typer.Option("--out", "-o", help="The page to write, one HTML file.", show_default=False)]
Figures = Annotated[Path | None, typer.Option("--png", help="A folder for the figures.", show_default=False)]
Numbers = Annotated[Path | None, typer.Option("--json", help="A file for all the numbers.", show_default=False)]


def inspect(
    model: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    *,
    text: Texts,
    target: Targets = None,
    beside: Beside = None,
    beam: Annotated[int, typer.Option(min=1, help="How many hypotheses go on at a time; 1 is greedy.")] = 5,
    out: Page = None,
    png: Figures = None,
    json_: Numbers = None,
    device: Device = None,
) -> None:
    """Write a page that shows what a run looks at, weighs and might have written instead, word by word.

    The page is one file that needs a browser and nothing else; it works offline and can be sent to a colleague.
    """
    from dragoman.cli import streams
    from dragoman.cli.loading import load_to_look_into
    from dragoman.decoding import SearchSettings
    from dragoman.errors import ConfigError
    from dragoman.experiment.inspecting import inspect_run
    from dragoman.files import write_atomically
    from dragoman.inspection.page import page, tree_of
    from dragoman.runtime import Translator

    if out is None and png is None and json_ is None:
        raise ConfigError("nothing is asked for; say where to write: --out report.html, --png FOLDER or --json FILE")
    settings, found = SearchSettings(beam=beam), []
    for run in (model, *(beside or [])):
        translator = load_to_look_into(Translator, run, device=device)
        found.append(inspect_run(run, translator, text, targets=target, settings=settings))
    title = " and ".join(one.name for one in found)
    if out is not None:
        write_atomically(out, page(tree_of(_systems(found), title=title, compact=True)))
        streams.say(f"{out}: written; open it in a browser")
    if json_ is not None:
        write_atomically(json_, json.dumps(tree_of(_systems(found), title=title), ensure_ascii=False) + "\n")
    if png is not None:
        _draw(found, png)


def _systems(found: list[Inspected]) -> list[System]:
    return [(one.name, one.facts, one.studies, one.writes) for one in found]


def _draw(found: list[Inspected], folder: Path) -> None:
    """The figures of every sentence as files, numbered from 1."""
    from dragoman.inspection.plots import drawn, figures

    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        for number, study in enumerate(one.studies, start=1):
            for name, figure in figures(study):
                (folder / f"{one.name}-{number}-{name}.png").write_bytes(drawn(figure))
