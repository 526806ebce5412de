"""`dragoman data`: prepare corpora for training."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import options
from dragoman.cli.main import Command, CommandGroup
from dragoman.cli.training_display import show_cleaning, show_line, status
from dragoman.cli.verb_command import Outcome, complete_verb
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, quote
from dragoman.number_words import counted

if TYPE_CHECKING:
    from dragoman.data.preprocessing.pipeline import TaskRunner
    from dragoman.runs.prepare_corpus import PreparedSummary

EngineName = Literal["single", "ray"]
data = typer.Typer(name="data", help="Prepare corpora for training.", no_args_is_help=True, cls=CommandGroup)


@data.command(cls=Command)
@complete_verb
@options.shared_options(options.PARALLEL_CORPORA, into="corpora")
def prepare(
    config: options.ConfigArgument = None,
    *,
    corpora: dict[str, Path],
    output_dir: options.OutputDir,
    engine: Annotated[EngineName, typer.Option(help="Process blocks in this process, or with Ray.")] = "single",
    workers: Annotated[int | None, typer.Option(min=1, help="Workers of --engine ray. Default: one per core.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="tokenizer.json; by default trained on the corpus.")] = None,
    shard_pairs: Annotated[int, typer.Option(min=1, help="Sentence pairs per shard.")] = 2**17,
    data_dir: options.DataDir = None,
    assignments: options.Assignments = None,
) -> Outcome:
    """Clean, deduplicate and tokenize a corpus once, for any number of trainings.

    `dragoman data prepare --source train.en --target train.de --output-dir prepared` writes what `dragoman
    train --prepared` reads. Memory does not grow with the corpus; an interrupted command continues.
    """
    from dragoman.config import override
    from dragoman.config_errors import name_origins
    from dragoman.runs.config import corpus_settings, merge_settings, read_settings, resolve_corpus_paths, split_corpus
    from dragoman.runs.prepare_corpus import PreparationConfig, prepare_corpus, resolve_preparation

    if engine == "single":
        options.refuse({"workers": workers}, "with --engine single, which uses all cores")
    config, files = split_corpus(config, corpora)
    settings, over = read_settings(config, ()), override({}, assignments or [])
    tree = merge_settings(settings, over)
    tree = merge(tree if data_dir is None else resolve_corpus_paths(tree, data_dir), corpus_settings(files))
    if "data" not in tree:
        raise ConfigError(
            "No corpus. Give --source and --target, --pairs, or a configuration file that names a corpus."
        )
    with name_origins({f"{config}: " if config else "": settings, "--set ": over}):
        experiment, choose = resolve_preparation(tree, complete=config is not None, tokenizer=tokenizer)
    with _engine(engine, workers) as runner, status() as report:
        preparation = PreparationConfig(experiment, runner, choose and tokenizer is None, tokenizer, shard_pairs)
        summary = prepare_corpus(preparation, output_dir, report=report)
    return Outcome(lambda: _facts(summary, output_dir), lambda: _show(summary, output_dir))


@data.command(cls=Command)
@complete_verb
def verify(folder: Annotated[Path, typer.Argument(help="Folder that `dragoman data prepare` wrote.")]) -> Outcome:
    """Compare every file of a prepared corpus with its checksum.

    A training compares all files that it reads, which are all but the texts of training pairs.
    """
    from dragoman.data.preprocessing.pipeline import open_prepared

    with status() as report:
        report("comparing files with their checksums")
        prepared = open_prepared(folder)
        prepared.train.verify()
    facts = {"path": str(folder), "pairs": len(prepared.train), "intact": True}
    return Outcome(lambda: facts, lambda: show_line(f"{folder}: all files are intact"))


@data.command(cls=Command)
@complete_verb
@options.shared_options(("source", "target", "pairs"), into="corpora")
def glossary(
    glossary: Annotated[Path, typer.Argument(help="Terms and their translations: a file .tsv, .csv or .tbx (TBX).")],
    *,
    corpora: dict[str, Path],
    output: Annotated[Path, typer.Option("--output", "-o", help="TSV file to write; an existing file is replaced.")],
    glossary_languages: options.GlossaryLanguages = None,
) -> Outcome:
    """Add to a glossary the inflections that a corpus has.

    `dragoman data glossary terms.tsv --source train.en --target train.de --output forms.tsv` finds forms that share
    their stem with a term and occur together with it. Look through them before you use them.
    """
    from dragoman.atomic_files import write_atomically
    from dragoman.cli.control_options import read_glossary_option
    from dragoman.data.terminology.glossary_files import write_tsv
    from dragoman.runs.mine_glossary_forms import mine_glossary_forms

    with status() as report:
        before = read_glossary_option(glossary, glossary_languages)
        after = mine_glossary_forms(before, corpora, report=report)
    write_atomically(output, write_tsv(after))
    added = after.num_forms - before.num_forms
    facts = {"path": str(output), "terms": len(after), "forms": after.num_forms, "added": added}
    return Outcome(lambda: facts, lambda: show_line(f"{output}: {counted(len(after), 'terms')}, {added:,} forms added"))


def _engine(name: EngineName, workers: int | None) -> AbstractContextManager[TaskRunner]:
    from dragoman.data.preprocessing.pipeline import run_sequentially
    from dragoman.data.preprocessing.ray_runner import ray_runner

    if name == "single":
        return nullcontext(run_sequentially)
    return ray_runner(workers or (None if "RAY_ADDRESS" in os.environ else os.cpu_count()))


def _facts(summary: PreparedSummary, output_dir: Path) -> dict[str, Any]:
    sizes = ("pairs", "left_out", "valid", "test", "shards", "vocabulary")
    return {"path": str(output_dir), **{name: getattr(summary, name) for name in sizes}, "notes": summary.notes}


def _show(summary: PreparedSummary, output_dir: Path) -> None:
    show_cleaning(summary.report)
    for note in summary.notes:
        show_line(f"note: {note}")
    if summary.left_out:
        show_line(f"note: left out {counted(summary.left_out, 'pairs')} with more tokens than the limits")
    shards = counted(summary.shards, "shards")
    sizes = f"{counted(summary.pairs, 'training pairs')} in {shards}, {counted(summary.valid, 'validation pairs')}"
    if summary.test is not None:
        sizes += f", {counted(summary.test, 'test pairs')}"
    show_line(f"{output_dir}: {sizes}; vocabulary {summary.vocabulary:,}. Train on it with:")
    show_line(f"  dragoman train --prepared {quote(output_dir)} --output-dir RUN")
