"""`dragoman export`: write a model for use elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dragoman.data.shortlist import ShortlistConfig


class StoredName(StrEnum):
    """Number format of the stored weights."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


Out = Annotated[Path, typer.Option("--output-dir", "--out", help="Folder to write (atomic).", show_default=False)]
StoredOption = Annotated[
    StoredName, typer.Option("--compute-type", help="Number format of the weights, and for inference where supported.")
]
Corpus = Annotated[
    Path | None,
    typer.Option(
        help="Parallel corpus that --shortlist is learned from, aligned line by line.", show_default="the run's own"
    ),
]
Frequent = Annotated[
    int | None,
    typer.Option(
        min=0, help="Most frequent target tokens that --shortlist adds for every source.", show_default="1000"
    ),
]
Each = Annotated[
    int | None,
    typer.Option(min=1, help="Most probable target tokens that --shortlist keeps per source token.", show_default="50"),
]


def export(
    run: Annotated[Path, typer.Argument(help="Run folder or exported model.", show_default=False)],
    *,
    out: Out,
    compute: StoredOption = StoredName.FLOAT32,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Learn a lexical shortlist, for translate --shortlist.")
    ] = False,
    source: Corpus = None,
    target: Corpus = None,
    frequent: Frequent = None,
    each: Each = None,
) -> None:
    """Write the model of a run to a folder without training state."""
    settings = _shortlist_of(wanted=shortlist, source=source, target=target, frequent=frequent, each=each)
    from dragoman.data.readers.parallel import ParallelFiles
    from dragoman.runs.export import MEBIBYTE
    from dragoman.runs.export import export_run as export_run

    corpus = None if source is None or target is None else ParallelFiles(source=source, target=target)
    sizes = export_run(run, out, compute_type=compute.value, shortlist=settings, corpus=corpus)
    before, after = sizes.before / MEBIBYTE, sizes.after / MEBIBYTE
    print(f"{out}: {compute.value} weights, {after:.1f} MiB (in the run {before:.1f})")
    if sizes.pairs is not None:
        print(f"{out}: a shortlist learnt from {sizes.pairs:,} pairs; use it by: dragoman translate {out} --shortlist")


def _shortlist_of(
    *, wanted: bool, source: Path | None, target: Path | None, frequent: int | None, each: int | None
) -> ShortlistConfig | None:
    """Return the shortlist configuration of the options. Raises ConfigError on options without effect."""
    from dragoman.config import parse
    from dragoman.data.shortlist import ShortlistConfig
    from dragoman.errors import ConfigError

    given = {"source": source, "target": target, "frequent": frequent, "each": each}
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if not wanted:
        if named:
            raise ConfigError(f"{named[0]} has no effect without --shortlist; add it, or leave {named[0]} out")
        return None
    if (source is None) != (target is None):
        raise ConfigError("--source and --target are two sides of one corpus; give both, or neither")
    sizes = {name: given[name] for name in ("frequent", "each") if given[name] is not None}
    return parse(ShortlistConfig, sizes, where="--shortlist")
