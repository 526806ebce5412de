"""Options that several verbs share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer

from dragoman.config import Config, alternatives, descriptions


class TextFormat(StrEnum):
    """Format of the printed lines."""

    TEXT = "text"
    JSONL = "jsonl"


class ComputeName(StrEnum):
    """Number format for inference."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


ComputeOption = Annotated[
    ComputeName,
    typer.Option(
        "--compute-type",
        help="Number format for inference. auto: the format of the weights. Below float32 it needs the CPU library.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 or mps. Default: the fastest available device.", show_default=False),
]
BatchTokens = Annotated[
    int | None, typer.Option(min=1, help="Maximum source tokens per batch, padding included.", show_default="automatic")
]
OWN = "the run's"
"""Shown as the default of an option whose default is in the run's configuration."""
EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble",
        help="Average the token probabilities with those of this run of the same tokenizer (repeatable).",
        show_default=False,
    ),
]
Beam = Annotated[
    int | None, typer.Option("--beam-size", "--beam", min=1, help="Beam size; 1 is greedy search.", show_default=OWN)
]
FormatOption = Annotated[TextFormat, typer.Option("--format", help="Plain text lines, or one JSON object per line.")]
SourceTrees = Annotated[
    Path | None,
    typer.Option(
        help="CoNLL-U file with the dependency trees of the source, for a run with tree positions.", show_default=False
    ),
]
Settings = Annotated[
    Path | None,
    typer.Argument(help="YAML configuration file. Without one, the configuration is chosen from the corpus."),
]
SourceText = Annotated[
    Path | None,
    typer.Option(help="Source side of the training corpus, one sentence per line; a quoted pattern for shards."),
]
TargetText = Annotated[Path | None, typer.Option(help="Target side of the training corpus, aligned line by line.")]
ValidSource = Annotated[Path | None, typer.Option(help="Source side of the validation set.")]
ValidTarget = Annotated[Path | None, typer.Option(help="Target side of the validation set.")]
RunningText = Annotated[
    Path | None, typer.Option(help="Text corpus to train a language model on, instead of --source and --target.")
]
ValidText = Annotated[Path | None, typer.Option(help="Validation text.")]
Prepared = Annotated[Path | None, typer.Option(help="Folder written by dragoman data prepare, instead of a corpus.")]
InitFrom = Annotated[
    Path | None, typer.Option("--init-from", help="Start from the weights and the tokenizer of this run (fine-tuning).")
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder that corpus paths in the configuration are relative to.")
]
OutputFile = Annotated[
    str, typer.Option("--output", "-o", help="Output file, written atomically; - is standard output.")
]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


_FLAGS = {
    "beam_size": ("--beam-size", "--beam"),
    "method": ("--decoding",),
    "no_repeat_ngram_size": ("--no-repeat-ngram",),
}
"""Options whose names differ from those of their configuration keys."""


def config_options(
    config: type[Config], fields: Sequence[str], *, into: str, default: str | None = OWN
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add fields of a configuration model to the options of a verb, with their types, bounds and descriptions.

    The verb receives the given values as a dictionary, its argument `into`; options that are not given are missing in
    it. `default` is shown as the default value; None shows the default of the field.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def with_values(*arguments: Any, **options: Any) -> None:
            values = given(**{name: options.pop(name) for name in fields})
            verb(*arguments, **options, **{into: values})

        signature = inspect.signature(verb, eval_str=True)
        parameters = [parameter for name, parameter in signature.parameters.items() if name != into]
        parameters += [_option(config, name, default) for name in fields]
        vars(with_values)["__signature__"] = signature.replace(parameters=parameters)
        with_values.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_values

    return decorate


def _option(config: type[Config], name: str, default: str | None) -> inspect.Parameter:
    """Return the option of one field as a keyword-only parameter; None means that it is not given."""
    field = config.model_fields[name]
    text = descriptions(config)[name]
    flags = _FLAGS.get(name, (f"--{name.replace('_', '-')}",))
    (kind,) = alternatives(field.annotation)
    extra: dict[str, Any] = {"help": f"{text[0].upper()}{text[1:]}."}
    shown = str(field.default) if default is None and field.default is not None else default
    extra["show_default"] = shown or False
    if kind is bool:
        flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",)
    elif get_origin(kind) is not Literal:
        bounds = [bound for bound in field.metadata if getattr(bound, "ge", None) is not None]
        positive = any(getattr(bound, "gt", None) == 0 for bound in field.metadata) and kind is int
        if bounds or positive:
            extra["min"] = bounds[0].ge if bounds else 1
    annotation: Any = Annotated[kind | None, typer.Option(*flags, **extra)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
