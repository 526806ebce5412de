"""`dragoman data`: corpora made ready before a training, once for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import DataFolder, TargetText, ValidSource, ValidTarget

if TYPE_CHECKING:
    from dragoman.data.preprocessing.pipeline import Engine
    from dragoman.runs.prepare import Written

data = typer.Typer(name="data", help="Make corpora ready before a training.", no_args_is_help=True)


class EngineName(StrEnum):
    """What works at the blocks of a corpus."""

    SINGLE = "single"
    RAY = "ray"


@data.command()
def prepare(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file of settings, as for train; its data and tokenizer are obeyed.")
    ] = None,
    *,
    source: Annotated[
        Path | None, typer.Option(help="Text to learn from, one sentence a line; a pattern in quotes for shards.")
    ] = None,
    target: TargetText = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write; must not exist yet.")] = None,
    engine: Annotated[EngineName, typer.Option(help="This process, or the workers of Ray.")] = EngineName.SINGLE,
    workers: Annotated[int | None, typer.Option(min=1, help="Of --engine ray; by default one a core.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json to use; without one it is learnt from the corpus.")
    ] = None,
    shard_pairs: Annotated[int, typer.Option(min=1, help="Pairs of the corpus for each shard.")] = 2**17,
    folder: DataFolder = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as data.held_out=500. May be repeated.")
    ] = None,
) -> None:
    """Clean a corpus, remove what stands in it twice and turn it into tokens, for any number of trainings.

    `dragoman data prepare --source train.en --target train.de --out prepared` writes what `dragoman train --prepared`
    reads. Memory does not grow with the corpus; a command that was killed goes on where it was.
    """
    from dragoman.cli.train import pairs_of
    from dragoman.cli.training_display import status
    from dragoman.config import merge
    from dragoman.errors import ConfigError
    from dragoman.runs.config import in_folder, read_tree
    from dragoman.runs.prepare import Preparation, asked_for, prepare_folder

    if out is None:
        raise ConfigError("where should the corpus be written? Give a folder by --out, for example --out prepared")
    if workers is not None and engine is EngineName.SINGLE:
        raise ConfigError("--workers is for --engine ray; this process uses all cores where it can. Leave it out")
    tree = read_tree(config, assignments or [])
    tree = merge(
        tree if folder is None else in_folder(tree, folder), pairs_of(source, target, valid_source, valid_target)
    )
    if "data" not in tree:
        raise ConfigError("nothing to prepare; give --source and --target, or a configuration file that names a corpus")
    experiment, choose = asked_for(tree, complete=config is not None, tokenizer=tokenizer)
    with _engine(engine, workers) as chosen, status() as tell:
        asked = Preparation(experiment, chosen, choose and tokenizer is None, tokenizer, shard_pairs)
        written = prepare_folder(asked, out, tell=tell)
    _show(written, out)


@contextmanager
def _engine(name: EngineName, workers: int | None) -> Iterator[Engine]:
    from dragoman.data.preprocessing.pipeline import Single

    if name is EngineName.SINGLE:
        yield Single()
        return
    from dragoman.data.preprocessing.ray_engine import ray_engine

    with ray_engine(workers or (None if "RAY_ADDRESS" in os.environ else os.cpu_count())) as engine:
        yield engine


def _show(written: Written, out: Path) -> None:
    from dragoman.cli.training_display import console, show_cleaning

    show_cleaning(written.report)
    too_long = f"{written.left_out:,} pairs are longer in tokens than the limits and were left out"
    for note in (*written.notes, *((too_long,) if written.left_out else ())):
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    shards = "1 shard" if written.shards == 1 else f"{written.shards:,} shards"
    facts: list[Any] = [f"{written.pairs:,} pairs to learn from in {shards}"]
    facts += [f"{written.valid:,} to validate"] + ([] if written.test is None else [f"{written.test:,} to test"])
    console.print(
        f"{out}: {', '.join(facts)}; vocabulary {written.vocabulary:,}. Train on it with:\n"
        f"  dragoman train --prepared {out} --out RUN",
        markup=False,
        soft_wrap=True,
    )
