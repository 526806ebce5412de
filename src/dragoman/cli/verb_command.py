"""Options for messages and JSON, and the protection of inputs, which all verbs share."""

from __future__ import annotations

import functools
import glob
import inspect
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.models import ArgumentInfo, ParameterInfo

from dragoman.cli import messages
from dragoman.cli.options import flag
from dragoman.cli.short_help import HELP_ALL, HelpAllFlag, has_many_options
from dragoman.config_keys import alternatives
from dragoman.errors import ConfigError, RunError

STANDARD = "-"
OUTPUTS = ("output", "out", "json_", "output_dir", "png", "report")
"""Parameters that name a file or folder to write."""
TEXTS = ("text", "prompt", "question")
"""Parameters that are texts; names of files may have any bytes."""
SYNONYMS = {"num_samples": "n_best"}
"""Parameters of the Python API that have the option of another one."""
MAX_CHOICES_LENGTH = 14
"""Characters of choices that the help shows in the narrow column of values, and no more."""
METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
PANEL = "Messages"
QuietFlag = Annotated[
    bool, typer.Option("--quiet", help="Print results, warnings and errors only.", rich_help_panel=PANEL)
]
VerboseFlag = Annotated[
    bool, typer.Option("--verbose", help="Print every warning instead of summaries.", rich_help_panel=PANEL)
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=PANEL)]
JsonLinesFlag = Annotated[bool, typer.Option("--json", help="Short for --format jsonl.", rich_help_panel=PANEL)]
EVERY_VERB: Mapping[str, Any] = {"quiet": QuietFlag, "verbose": VerboseFlag}


@dataclass(frozen=True)
class Outcome:
    """Result of a verb: printed as JSON with --json, and by `show` otherwise."""

    facts: Callable[[], Any]
    show: Callable[[], None]
    status: int = 0
    """Exit code."""


def complete_verb(verb: Callable[..., Outcome | None]) -> Callable[..., None]:
    """Return a verb with the options of all verbs, which refuses to replace its inputs.

    `--json` prints the outcome that the verb returns, or selects the JSON lines of a verb with `--format`.
    """
    signature = inspect.signature(verb, eval_str=True)
    own = signature.parameters
    shared = dict(EVERY_VERB)
    if "json_" not in own:
        shared["json_"] = JsonLinesFlag if "format_" in own else JsonFlag
    if has_many_options(own.values()):
        shared = {HELP_ALL: HelpAllFlag, **shared}

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        given = {name: values.pop(name) for name in shared}
        if given["quiet"] and given["verbose"]:
            raise ConfigError("--quiet and --verbose exclude each other. Leave one of them out.")
        level: messages.Level = "quiet" if given["quiet"] else "verbose" if given["verbose"] else "normal"
        flags = {name: flag(name) for name, one in own.items() if _option_name(one) != name}
        messages.start(level, flags | {name: flag(other) for name, other in SYNONYMS.items() if other in flags})
        check_texts(values, flags)
        check_output_file(values.get("output"))
        keep_inputs(values, {name: _option_name(one) for name, one in own.items()})
        if given.get("json_") and "format_" in own:
            values["format_"] = "jsonl"
        outcome = verb(**values)
        if outcome is not None:
            _print_outcome(outcome, as_json=bool(given.get("json_")))

    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=False, annotation=one) for name, one in shared.items()]
    parameters = [_complete_parameter(one) for one in [*own.values(), *added]]
    command.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(verb.__doc__ or ""))  # typer keeps line breaks
    vars(command)["__signature__"] = signature.replace(parameters=parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _complete_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter that takes words regardless of case, and whose value the help shows in one word, such as N.

    The short word leaves space for the descriptions.
    """
    info: Any = next((one for one in get_args(parameter.annotation) if isinstance(one, ParameterInfo)), None)
    if info is None:
        return parameter
    kinds = [inner for one in alternatives(parameter.annotation) for inner in get_args(one) or [one]]
    info = copy(info)
    info.case_sensitive = False
    if not info.metavar and not isinstance(info, ArgumentInfo):
        info.metavar = next((METAVARS[kind] for kind in kinds if kind in METAVARS), None)
        choices = _choices(parameter.annotation)
        if len("|".join(choices)) > MAX_CHOICES_LENGTH:
            info.metavar, info.help = "CHOICE", f"{info.help} One of {', '.join(choices)}."
    return parameter.replace(annotation=Annotated[get_args(parameter.annotation)[0], info])


def _choices(annotation: Any) -> list[str]:
    """Return the words that an option may have; none where it takes others."""
    words: list[str] = []
    for one in [annotation, *get_args(annotation)]:
        if get_origin(one) is Literal:
            words += map(str, get_args(one))
        elif isinstance(one, type) and issubclass(one, Enum):
            words += [str(member.value) for member in one]
        elif one is not annotation and get_args(one):
            words += _choices(one)
    return list(dict.fromkeys(words))


def _print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(outcome.facts(), ensure_ascii=False, indent=2))
    else:
        outcome.show()
    if outcome.status:
        raise typer.Exit(outcome.status)


def _option_name(parameter: inspect.Parameter) -> str:
    """Return the option as the user writes it; an argument has the name of its parameter."""
    info: Any = next((one for one in get_args(parameter.annotation) if isinstance(one, ParameterInfo)), None)
    if isinstance(info, ArgumentInfo):
        return parameter.name
    # Typer keeps the first name of an annotated option in `default`.
    return info.default if info is not None and isinstance(info.default, str) else flag(parameter.name)


def check_texts(values: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise ConfigError if a text is not UTF-8; Python reads its bytes as lone surrogates."""
    for name in TEXTS:
        given = values.get(name)
        for number, one in enumerate(given if isinstance(given, list) else [given], start=1):
            try:
                if isinstance(one, str):  # `train --text` names a file
                    one.encode()
            except UnicodeEncodeError as error:
                raise ConfigError(
                    f"{options.get(name, flag(name))}: text {number} is not UTF-8 (character {error.start + 1}). "
                    "Type it in a terminal with UTF-8, or give it in a file."
                ) from error


def check_output_file(output: str | None) -> None:
    """Raise ConfigError if the output file of a verb is a folder."""
    if output is not None and Path(output).is_dir():
        raise ConfigError(
            f"--output {output}: is a folder. Give the name of a file, such as {Path(output, 'out.txt')}."
        )


def keep_inputs(values: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Raise RunError if a verb would replace one of its inputs, or a file of an input run, by its output.

    `values` are the parameters of the verb, `names` their options. Files are compared themselves, whatever path or link
    names them; so are files that the shell opened as standard input and output.
    """
    outputs = [(names[name], one) for name in OUTPUTS for one in _paths(values.get(name))]
    written = [(option, path, status) for option, path in outputs if (status := _status(path, descriptor=1))]
    if not written:
        return
    for name, value in values.items():
        for given in () if name in OUTPUTS else _paths(value):
            for path in _files(given):
                status = _status(path, descriptor=0)
                for option, output, other in written:
                    if status is not None and os.path.samestat(status, other):
                        raise RunError(
                            f"{option} {output}: is an input, {names[name]} {path}, and would be replaced. Give "
                            f"another file with {option}."
                        )


def _paths(value: Any) -> list[str]:
    """Return the values of a parameter that may be paths."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(one) for one in values if isinstance(one, str | Path)]


def _files(given: str) -> list[str]:
    """Return the files of an input: one file, the matches of a pattern, or the files of a run."""
    try:
        if Path(given).is_dir():
            from dragoman.runs.folder import RunFolder

            return [str(one) for one in RunFolder(Path(given)).files()]
        return [given] if given == STANDARD or Path(given).exists() else glob.glob(given, recursive=True)  # noqa: PTH207
    except (OSError, ValueError):  # the text of an option that is no path
        return []


def _status(path: str, *, descriptor: int) -> os.stat_result | None:
    """Return the status of a regular file, or of the file behind standard input or output; None for all others."""
    try:
        status = os.fstat(descriptor) if path == STANDARD else Path(path).stat()
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None
