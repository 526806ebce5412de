"""Options that several verbs share, and options generated from configuration models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer
from pydantic import ValidationError

from dragoman.config import Config, alternatives, describe_rule, descriptions
from dragoman.errors import ConfigError

TextFormat = Literal["text", "jsonl"]
Verb = Callable[..., Any]
Decorator = Callable[[Verb], Verb]

RUN_DEFAULT = "the run's"
"""Shown as the default of an option whose default is in the run's configuration."""

RunArgument = Annotated[Path, typer.Argument(help="Run folder or exported model.")]
InputFile = Annotated[
    str, typer.Option("--input", "-i", help="File of segments, one per line, also compressed; - is standard input.")
]
OutputFile = Annotated[str, typer.Option("--output", "-o", help="Output file (atomic); - is standard output.")]
FormatOption = Annotated[TextFormat, typer.Option("--format", help="Plain text lines, or one JSON object per line.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 or mps. Default: the fastest device.")]
SourceFeaturesOption = Annotated[
    Path | None,
    typer.Option(help="CoNLL-U file with the dependency trees of the source, for a run with tree positions."),
]
ConfigArgument = Annotated[Path | None, typer.Argument(help="YAML file; by default the configuration is automatic.")]
Assignments = Annotated[list[str] | None, typer.Option("--set", help="Override a key: training.seed=2 (repeatable).")]
OutputDir = Annotated[Path, typer.Option("--output-dir", "--out", help="Folder to write; must not exist.")]
InitFromOption = Annotated[
    Path | None, typer.Option(help="Start from weights and tokenizer of this run (fine-tuning).")
]
DataDir = Annotated[Path | None, typer.Option("--data", help="Folder of relative corpus paths in the configuration.")]
LOADING = ("device", "compute_type", "batch_tokens", "ensemble")
"""Options of `dragoman.load`."""
PARALLEL_CORPORA = ("source", "target", "valid_source", "valid_target")
CORPORA = (*PARALLEL_CORPORA, "text", "valid_text", "prepared")
"""Training and validation data."""
_SHARED: Mapping[str, Any] = {
    "device": DeviceOption,
    "compute_type": Annotated[
        Literal["auto", "float32", "bfloat16", "int8"] | None,
        typer.Option(help="Number format for inference; below float32 with the CPU library.", show_default="auto"),
    ],
    "batch_tokens": Annotated[
        int | None,
        typer.Option(min=1, help="Maximum source tokens per batch, padding included.", show_default="automatic"),
    ],
    "ensemble": Annotated[
        list[Path] | None,
        typer.Option(help="Average the token probabilities with those of this run of the same tokenizer (repeatable)."),
    ],
} | {
    name: Annotated[Path | None, typer.Option(help=text)]
    for name, text in {
        "source": "Source side of the training corpus, one sentence per line; a quoted pattern for shards.",
        "target": "Target side of the training corpus, aligned line by line.",
        "valid_source": "Source side of the validation set.",
        "valid_target": "Target side of the validation set.",
        "text": "Text corpus to train a language model on, instead of --source and --target.",
        "valid_text": "Validation text.",
        "prepared": "Folder written by dragoman data prepare, instead of a corpus.",
    }.items()
}
_FLAGS = {
    "beam_size": ("--beam-size", "--beam"),
    "method": ("--decoding",),
    "no_repeat_ngram_size": ("--no-repeat-ngram",),
}
"""Options whose names differ from those of their configuration keys."""


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def refuse(options: Mapping[str, Any], reason: str) -> None:
    """Raise ConfigError if an option is given, because it has no effect for this reason."""
    for name, value in options.items():
        if value is not None and value is not False and value != []:
            raise ConfigError(f"{flag(name)} has no effect {reason}. Leave it out.")


def flag(name: str) -> str:
    """Return the option of a parameter."""
    return _FLAGS.get(name, (f"--{name.replace('_', '-')}",))[0]


def config_options(
    config: type[Config], fields: Iterable[str], *, into: str, default: str | None = RUN_DEFAULT
) -> Decorator:
    """Add fields of a configuration model to the options of a verb, with their types, bounds and descriptions.

    The verb receives the given values as a dictionary, its argument `into`; options that are not given are missing in
    it. `default` is shown as the default value; None shows the default of the field.
    """
    annotations = {name: _config_option(config, name, default) for name in fields}
    return _options(annotations, into=into, check=lambda values: check_values(config, values))


def check_values(config: type[Config], values: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option is outside the bounds of its field, so that the error comes before the work.

    Rules of several fields are left to the verb, which knows the other values.
    """
    try:
        config.model_validate(values)
    except ValidationError as error:
        for found in error.errors():
            if found["loc"] and (name := str(found["loc"][0])) in values:
                raise ConfigError(f"{flag(name)} {values[name]}: {describe_rule(dict(found))}.") from error


def shared_options(names: Iterable[str], *, into: str) -> Decorator:
    """Add options that several verbs share; the verb receives the given values as a dictionary, its argument `into`."""
    return _options({name: _SHARED[name] for name in names}, into=into)


def _options(
    annotations: Mapping[str, Any], *, into: str, check: Callable[[Mapping[str, Any]], None] = lambda _: None
) -> Decorator:
    """Replace the parameter `into` of a verb by these, and pass their checked values in one dictionary."""
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=None, annotation=one) for name, one in annotations.items()]

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def with_values(*arguments: Any, **options: Any) -> Any:
            values = given(**{name: options.pop(name) for name in annotations})
            check(values)
            return verb(*arguments, **options, **{into: values})

        signature = inspect.signature(verb, eval_str=True)
        parameters = [new for old in signature.parameters.values() for new in (added if old.name == into else [old])]
        vars(with_values)["__signature__"] = signature.replace(parameters=parameters)
        with_values.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_values

    return decorate


def _config_option(config: type[Config], name: str, default: str | None) -> Any:
    """Return the annotation of the option for a field; None means that the option is not given."""
    field, text, option = config.model_fields[name], descriptions(config)[name], flag(name)
    (kind,) = alternatives(field.annotation)
    shown = str(field.default) if default is None and field.default is not None else default
    extra: dict[str, Any] = {"help": f"{text[0].upper()}{text[1:]}.", "show_default": shown or False}
    flags = _FLAGS.get(name, (option,))
    if kind is bool:
        flags = (f"{option}/--no-{option.removeprefix('--')}",)
    elif get_origin(kind) is not Literal:
        bounds = [bound.ge for bound in field.metadata if getattr(bound, "ge", None) is not None]
        if bounds:
            extra["min"] = bounds[0]
        elif kind is int and any(getattr(bound, "gt", None) == 0 for bound in field.metadata):
            extra["min"] = 1
    return Annotated[kind | None, typer.Option(*flags, **extra)]
