"""`dragoman inspect`: what a run does with a text, on one page."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import BEAM, OWN, Device, SourceTrees

if TYPE_CHECKING:
    from dragoman.interpret.report.serialization import System
    from dragoman.runs.inspect import Inspected

Models = Annotated[
    list[Path],
    typer.Argument(help="Run folders or exported models, one beside the other on the page.", show_default=False),
]
Texts = Annotated[
    list[str], typer.Option("--text", "-t", help="A text to look at; again for each further one.", show_default=False)
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        help="The translation, continuation, label or answer to look at, one for each text; without it the run's own.",
        show_default=False,
    ),
]
Questions = Annotated[
    list[str] | None,
    typer.Option(help="For a run that answers, the question about each text.", show_default=False),
]
Tokens = Annotated[int, typer.Option(min=1, help="Most tokens of a continuation.")]
Page = Annotated[Path | None, typer.Option("--out", "-o", help="The page to write, one HTML file.", show_default=False)]
Figures = Annotated[Path | None, typer.Option("--png", help="A folder for the figures.", show_default=False)]
Numbers = Annotated[Path | None, typer.Option("--json", help="A file for all the numbers.", show_default=False)]


def inspect(
    models: Models,
    *,
    text: Texts,
    target: Targets = None,
    question: Questions = None,
    source_trees: SourceTrees = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help=BEAM, show_default=f"{OWN}; 5 where a language model writes")
    ] = None,
    tokens: Tokens = 40,
    out: Page = None,
    png: Figures = None,
    json_: Numbers = None,
    device: Device = None,
) -> None:
    """Write a page that shows what a run looks at, weighs and might have written or found instead, word by word.

    The page is one file that needs a browser and nothing else; it works offline and can be sent to a colleague. Several
    models stand side by side on it.
    """
    from dragoman.atomic import names_apart, write_text
    from dragoman.cli import streams
    from dragoman.interpret.report import page, tree_of
    from dragoman.runs.inspect import Wanted, inspect_run, judged

    _require_places(out=out, png=png, json_=json_)
    wanted = Wanted(
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
        tree_of, _systems(found), title=" and ".join(one.name for one in found), judged=judged(found, wanted)
    )
    if out is not None:
        write_text(out, page(tree(compact=True)))
        streams.say(f"{out}: written; open it in a browser")
    if json_ is not None:
        write_text(json_, json.dumps(tree(), ensure_ascii=False) + "\n")
    if png is not None:
        _draw(found, png)


def _require_places(*, out: Path | None, png: Path | None, json_: Path | None) -> None:
    """Raises where nothing is to be written, or something cannot be, before any work is done."""
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
    """The trees of the texts, from a CoNLL-U file where there is one."""
    if source_trees is None:
        return None
    from dragoman.data.readers.conllu import trees_beside

    return list(trees_beside(texts, source_trees, name="--text"))


def _systems(found: list[Inspected]) -> list[System]:
    return [(one.name, one.facts, one.studies, one.writes) for one in found]


def _draw(found: list[Inspected], folder: Path) -> None:
    """The figures of every text as files, numbered from 1."""
    from dragoman.interpret.plots import drawn, figures

    for one in found:
        for number, study in enumerate(one.studies, start=1):
            for name, figure in figures(study):
                (folder / f"{one.name.replace('/', '-')}-{number}-{name}.png").write_bytes(drawn(figure))
