"""`dragoman export`: write a model for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli.options import OutputDir, RunArgument, config_options, refuse
from dragoman.cli.verb_command import Outcome
from dragoman.config import parse
from dragoman.data.shortlist import ShortlistConfig
from dragoman.errors import ConfigError, quote
from dragoman.number_words import counted

if TYPE_CHECKING:
    from dragoman.runs.export import ExportResult

StoredType = Annotated[
    Literal["float32", "bfloat16", "int8", "int8_int16"],
    typer.Option("--compute-type", help="Number format of the weights."),
]
ShortlistCorpus = Annotated[
    Path | None,
    typer.Option(help="Aligned corpus for --shortlist, and for int8 of --format marian.", show_default="the run's own"),
]

LanguageCode = Annotated[str | None, typer.Option(help="Language code, for formats that name it.")]


@config_options(ShortlistConfig, ("frequent", "per_token"), into="sizes", default=None)
def export(
    run: RunArgument,
    *,
    output_dir: OutputDir,
    model_format: Annotated[
        str | None,
        typer.Option("--format", help="Format of another program.", show_default="a run folder"),
    ] = None,
    compute_type: StoredType = "float32",
    shortlist: Annotated[bool, typer.Option("--shortlist", help="Learn a lexical shortlist.")] = False,
    source: ShortlistCorpus = None,
    target: ShortlistCorpus = None,
    source_language: LanguageCode = None,
    target_language: LanguageCode = None,
    sizes: dict[str, Any],
) -> Outcome:
    """Write the model of a run to a folder, also for another program.

    By default, the folder is used like a run and has no training state.
    """
    from dragoman.runs.export import export as export_run

    if not shortlist:
        corpus = {"source": source, "target": target} if model_format is None else {}
        refuse({**corpus, **sizes}, "without --shortlist")
    if (source is None) != (target is None):
        raise ConfigError("--source and --target are the two sides of one corpus. Give both, or neither.")
    if model_format is None:
        refuse({"source_language": source_language, "target_language": target_language}, "without --format")
    config = shortlist and parse(ShortlistConfig, sizes, where="--shortlist")
    result = export_run(
        run,
        output_dir,
        format=model_format,
        compute_type=compute_type,
        shortlist=config,
        source=source,
        target=target,
        languages=language_pair(source_language, target_language),
    )
    text = _describe(result)
    return Outcome(result.to_dict, lambda: print(text))


def language_pair(source: str | None, target: str | None) -> tuple[str, str] | None:
    """Return the codes of both languages, or None without them. Raises ConfigError if one is missing."""
    if (source is None) != (target is None):
        raise ConfigError("--source-language and --target-language are a pair. Give both, or neither.")
    return (source, target) if source and target else None


def _describe(result: ExportResult) -> str:
    """Return what was written, and how to use it."""
    from dragoman.runs.export import MEBIBYTE
    from dragoman.runs.folder import RunFolder, scoring_command
    from dragoman.runs.presets import DEFAULT_TASK

    path, compute_type, size = result.path, result.compute_type, f"{result.after / MEBIBYTE:.1f} MiB"
    if result.format is not None:
        text = f"{path}: {result.format}, {compute_type}, {size}"
        return text if result.self_check is None else f"{text}\n{path}: {result.self_check}"
    text = f"{path}: {compute_type} weights, {size} ({result.before / MEBIBYTE:.1f} MiB in the run)"
    if result.pairs is not None:
        text += (
            f"\n{path}: shortlist learned from {counted(result.pairs, 'pairs')}. "
            f"Use it with: dragoman translate {quote(path)} --shortlist"
        )
    task = RunFolder(path).read_raw_config().get("task", DEFAULT_TASK)
    if compute_type != "float32" and (command := scoring_command(task, path)) is not None:
        text += f"\n{path}: its scores are those of the run. Score the {compute_type} weights with: {command}"
    return text
