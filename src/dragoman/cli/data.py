"""`dragoman data`: prepare corpora for training."""

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
    from dragoman.data.preprocessing.pipeline import TaskRunner
    from dragoman.runs.prepare import PreparedSummary

data = typer.Typer(name="data", help="Prepare corpora for training.", no_args_is_help=True)


class EngineName(StrEnum):
    """Engine that processes the blocks of a corpus."""

    SINGLE = "single"
    RAY = "ray"


@data.command()
def prepare(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML configuration file, as for train; its data and tokenizer sections are used."),
    ] = None,
    *,
    source: Annotated[
        Path | None,
        typer.Option(help="Source side of the training corpus, one sentence per line; a quoted pattern for shards."),
    ] = None,
    target: TargetText = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    out: Annotated[Path | None, typer.Option("--output-dir", "--out", help="Folder to write; must not exist.")] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Process blocks in this process, or with Ray.")
    ] = EngineName.SINGLE,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers of --engine ray. Default: one per core.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="tokenizer.json to use. Without it, the tokenizer is trained on the corpus.")
    ] = None,
    shard_pairs: Annotated[int, typer.Option(min=1, help="Sentence pairs per shard.")] = 2**17,
    folder: DataFolder = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as data.valid_size=500. (repeatable)")
    ] = None,
) -> None:
    """Clean, deduplicate and tokenize a corpus once, for any number of trainings.

    `dragoman data prepare --source train.en --target train.de --output-dir prepared` writes what `dragoman
    train --prepared` reads. Memory does not grow with the corpus; an interrupted command continues.
    """
    from dragoman.cli.training_display import status
    from dragoman.config import merge
    from dragoman.errors import ConfigError
    from dragoman.runs.config import corpus_settings, read_settings, resolve_corpus_paths
    from dragoman.runs.prepare import PreparationConfig, prepare_corpus, resolve_preparation

    if out is None:
        raise ConfigError("The output folder is missing. Give --output-dir, for example --output-dir prepared.")
    if workers is not None and engine is EngineName.SINGLE:
        raise ConfigError("--workers is for --engine ray; this process uses all cores where it can. Leave it out")
    tree = read_settings(config, assignments or [])
    tree = merge(
        tree if folder is None else resolve_corpus_paths(tree, folder),
        corpus_settings(source=source, target=target, valid_source=valid_source, valid_target=valid_target),
    )
    if "data" not in tree:
        raise ConfigError("nothing to prepare; give --source and --target, or a configuration file that names a corpus")
    experiment, choose = resolve_preparation(tree, complete=config is not None, tokenizer=tokenizer)
    with _engine(engine, workers) as chosen, status() as tell:
        asked = PreparationConfig(experiment, chosen, choose and tokenizer is None, tokenizer, shard_pairs)
        written = prepare_corpus(asked, out, tell=tell)
    _show(written, out)


@contextmanager
def _engine(name: EngineName, workers: int | None) -> Iterator[TaskRunner]:
    from dragoman.data.preprocessing.pipeline import SequentialRunner

    if name is EngineName.SINGLE:
        yield SequentialRunner()
        return
    from dragoman.data.preprocessing.ray_engine import ray_runner

    with ray_runner(workers or (None if "RAY_ADDRESS" in os.environ else os.cpu_count())) as engine:
        yield engine


def _show(written: PreparedSummary, out: Path) -> None:
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
