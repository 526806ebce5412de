"""Messages of wrong usage: unknown commands and options, missing and invalid values, with what was probably meant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from dragoman.errors import nearest
from dragoman.option_synonyms import suggest_option

if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""Class of all errors of usage, which typer does not export."""

CONFIG_FILE: Final = "config.yaml"
"""File that every run folder contains."""
VERB_SYNONYMS: Final = {
    "demo": "quickstart quick-start tutorial example examples hello start init try getting-started",
    "translate": "interactive infer inference predict decode run translator",
    "train": "fit finetune fine-tune learn resume onmt_train",
    "evaluate": "eval test bleu sacrebleu chrf metric metrics validate",
    "data prepare": "preprocess prepare tokenize build-vocab clean binarize",
    "export": "convert converter quantize save",
    "info": "show describe ls list status summary",
    "compare": "diff significance bootstrap",
    "analyse": "analyze analyse-errors errors",
    "inspect": "attention visualize explain plot",
    "generate": "chat complete completion sample prompt",
    "score": "perplexity ppl forced-decoding rescore log-prob",
    "classify": "label tag tagger classifier",
    "embed": "embedding embeddings encode vector vectors sentence-transformers",
    "answer": "qa squad question",
    "bench": "benchmark speed profile",
    "plan": "estimate dry-run cost",
    "backtranslate": "back-translate bt",
    "distill": "distil distillation",
    "--help": "help usage man",
    "--version": "version",
}
"""Words for what a verb does, in other programs and in everyday language."""


def describe_usage_error(error: Any, verb: str | None) -> str:
    """Return one message for an error of the command line's parser: what is wrong, and what to write instead.

    The message is empty if the help has been printed instead.
    """
    context = error.ctx
    command = context.command_path if context is not None else f"dragoman {verb or ''}".strip()
    options = [name for one in context.command.params for name in one.opts if name[:1] == "-"] if context else []
    more = f"All options: {command} --help"
    match type(error).__name__:
        case "NoArgsIsHelpError":
            return ""  # typer has printed the help
        case "NoSuchOption":
            meant = suggest_option(error.option_name, options)
            remedy = f"Did you mean {meant[0]}? {more}" if meant else more
            return f"{error.option_name}: {command} has no such option. {remedy}"
        case "MissingParameter":
            return _describe_missing(error, command)
        case "BadParameter":
            return _describe_bad_value(error, more)
        case "BadOptionUsage" if "requires" in error.message:
            return f"{error.option_name}: needs a value. Give one after it. {more}"
        case "BadOptionUsage":
            return f"{error.option_name}: takes no value. Leave out what follows it. {more}"
    text = str(error.message)
    if text.startswith("No such command"):
        return _describe_unknown_verb(text.split("'")[1], context.command.commands, command)
    if text.startswith("Missing command"):
        return f"{command}: a command is missing. Choose one of {', '.join(context.command.commands)}."
    if text.startswith("Got unexpected extra argument"):
        return _describe_extra(text.partition("(s) (")[2].removesuffix(")"), context, options)
    return f"{text} {more}"


def _describe_missing(error: Any, command: str) -> str:
    parameter = error.param
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
        return f"{name} is missing. Write: {command} {name} [OPTIONS]. All options: {command} --help"
    what = (getattr(parameter, "help", None) or "").partition(".")[0]
    return f"{parameter.opts[0]} is missing{f': {_decapitalize(what)}' if what else ''}. All options: {command} --help"


def _decapitalize(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _describe_bad_value(error: Any, more: str) -> str:
    """Describe an invalid value; its rule is that of the type of the option."""
    parameter = error.param
    name = parameter.name.upper() if parameter.param_type_name == "argument" else parameter.opts[0]
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return f"{name}: {_decapitalize(str(error.message))} {more}"
    from dragoman.config_errors import describe_rule

    found = details()[0]
    choices = parameter.type_descriptor.choices if hasattr(parameter, "type_descriptor") else None
    if choices:
        names = [str(getattr(one, "value", one)) for one in choices]
        near = nearest(str(found["input"]), names, cutoff=0.5)
        return f"{name} {found['input']}: must be one of {', '.join(names)}." + (
            f" Did you mean {near[0]}?" if near else ""
        )
    return f"{name} {found['input']}: {describe_rule(found)}. {more}"


def _describe_unknown_verb(verb: str, known: Mapping[str, Any], command: str) -> str:
    verbs = {ours: theirs for ours, theirs in VERB_SYNONYMS.items() if ours.split()[0] in known or ours[0] == "-"}
    meant = [ours for ours, theirs in verbs.items() if verb.lower() in theirs.split()]
    near = nearest(verb, known)
    suggestions = meant or near
    remedy = f"Did you mean {command} {suggestions[0]}?" if suggestions else f"All commands: {command} --help"
    return f"{verb}: {command} has no such command. {remedy}"


def _describe_extra(extra: str, context: Any, options: list[str]) -> str:
    arguments = [one.name.upper() for one in context.command.params if one.param_type_name == "argument"]
    takes = f"takes only {' '.join(arguments)}" if arguments else "takes options only"
    given = str(context.params.get("run") or "")
    if given and _is_run(extra) and not _is_run(given):
        return f"{given}: is not a run folder, and {extra} is one. Write: {_exchanged(given, extra, context, options)}"
    if "--pairs" in options and "--source" in options:
        side = next(option for option in ("--reference", "--target") if option in options)
        pairs = f"Give a file with both sides with --pairs {shlex.quote(extra)}"
        if not _has_columns(extra):
            pairs = f"Give two files with --source and {side}, or a file with both sides with --pairs"
        return f"{extra}: is not expected. {context.command_path} {takes}. {pairs}."
    files = next((option for option in ("--input", "--text", "--source") if option in options), None)
    text = next((option for option in ("--prompt", "--text") if option in options and option != files), None)
    ways = [f"a file with {files}"] if files else []
    if text:
        ways.insert(0, f"text with {text} {shlex.quote(extra)}")
    remedy = f"Give {' or '.join(ways)}." if ways else "Leave it out."
    return f"{extra}: is not expected. {context.command_path} {takes}. {remedy}"


def _is_run(name: str) -> bool:
    try:
        return Path(name, CONFIG_FILE).is_file()
    except (OSError, ValueError):  # a text that is no file name
        return False


def _exchanged(text: str, run: str, context: Any, options: list[str]) -> str:
    """Return the command with the run first, and the text that was in its place as an option."""
    names = ("--input",) if Path(text).is_file() else ("--prompt", "--text", "--question")
    option = next((name for name in names if name in options), None)
    command = f"{context.command_path} {shlex.quote(run)}"
    return command if option is None else f"{command} {option} {shlex.quote(text)}"


def _has_columns(name: str) -> bool:
    """Return whether a file exists and its first line has several columns."""
    try:
        with Path(name).open("rb") as file:
            return b"\t" in file.readline(2**16)
    except (OSError, ValueError):
        return False
