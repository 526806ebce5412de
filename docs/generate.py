"""Write the pages of docs/reference from the code; `--check` only compares.

- `configuration.md`, from the configuration models. Each group of keys has a section with a table of its keys; a group
  of several kinds has one table per kind. A group that several tasks share is shown with the first of these tasks.
- `command-line.md`, from the verbs of the command.
- `python.md`, from the signatures and docstrings of the public API.
- `imported-settings.md`, from the tables of the keys of other libraries.
"""

import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dragoman.config import Config, descriptions
from dragoman.config_keys import alternatives, is_config, kinds_of
from dragoman.interop.key_table import KeyTable, describe

REFERENCE = Path(__file__).parent / "reference"
TARGET = REFERENCE / "configuration.md"
COMMAND = "make docs"
INTRODUCTION = f"""# Configuration

<!-- Written by `{COMMAND}` from the configuration models; edits here are lost. -->

All keys of a configuration file, with their defaults. A file contains only the keys that differ from their defaults.

- `--set key=value` on the command line overrides any key, for example `--set training.seed=2`.
- The key `task` selects the task. The default is `translation`.
- The key `preset` selects a preset; the file then overrides the values of the preset.
- A group with several kinds is selected by its key `kind`, and accepts the keys of that kind only. Without `kind`, the
  group has the kind of its default. A text in place of such a group is its kind: `model.positions: rotary` is short for
  `model.positions: {{kind: rotary}}`, also in `--set model.positions=rotary`.
- Kinds and other words are read without regard to case, and with `-` for `_`: `AdamW` is `adamw`.
- The file `config.yaml` of a run holds the complete configuration of its training, with all defaults.
"""
COMMAND_LINE = f"""# Command line

<!-- Written by `{COMMAND}` from the commands; edits here are lost. -->

`dragoman COMMAND --help` prints the same text. Every command has `--quiet`, `--verbose` and `--json`;
`--debug` adds the traceback to an error message. Where a command reads or writes lines of text, the file name
`-` means standard input or standard output.

A control character in a text, a name or a file has no effect on a terminal: all commands print it as `\\u001b`. Texts
and JSON in pipes and files are exact.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | internal error |
| 2 | user error: one message with value, rule and remedy |
| 129 | the terminal was closed (SIGHUP) |
| 130 | interrupted by Ctrl-C |
| 141 | the program that reads the output ended |
| 143 | stopped by SIGTERM |

## JSON records

With `--format jsonl`, or `--json`, a command that reads texts prints one record for each. In Python, the `to_dict()` of
a result returns the same objects. `line` is the number of the text, from 1.

| command | record |
| --- | --- |
| `translate` | `line`, `translations`: a list, best first, of `text`, `score`, `log_prob`, `finished`, \
`truncated`, `segments`, `tokens`, `token_log_probs`, `quality` |
| `generate` | `line`, `prompt`, `completions`: a list of `text`, `finish_reason`, `truncated`, \
`score`, `log_prob`, `tokens`, `token_log_probs` |
| `classify` | `line`, `label`, `probability`, `probabilities` by label, `truncated` |
| `classify` (words) | `line`, `words`: a list of `word`, `label`, `probability`, `truncated` |
| `answer` | `line`, `answers`: a list, best first, of `text`, `start`, `end`, `score`, `probability`, \
`no_answer`, `truncated` |
| `score` | `line`, `log_prob`, `score`, `tokens` (their number), `token_log_probs` |
| `score --perplexity` | `perplexity`, `nats_per_token`, `bits_per_byte`, `tokens`, `bytes`; one record for all texts |
| `embed` | `line`, `embedding`: a list of numbers |

- `truncated` says that a part of a text is missing: of a translation, the end, at its length limit (`--max-length`);
  of a prompt, the beginning, which the context of the model does not hold; of a classified text, a word or a question,
  the end, which the model did not read. `finish_reason` `length` says the same of the end of a completion.
- `segments` is the number of parts that a text was translated in: several where it is long, or with `--split`.
- `finished` is the opposite of `truncated` for a translation.
- `quality` has the `confidence` of the model, and `warnings`, each with a `kind` and a `message`: [see quality
  signals](../how-to/quality-signals.md). `unmet` lists the words of constraints that are not met, where there are any.
- `score` is the log-probability after the length penalty, `log_prob` the sum of the `token_log_probs`.
"""
PYTHON = f"""# Python API

<!-- Written by `{COMMAND}` from the public names of `dragoman`; edits here are lost. -->

`import dragoman` is quick: PyTorch is imported only when a function needs it.

## Errors

Errors that the user can fix are subclasses of `dragoman.DragomanError`: `ConfigError` (an option or a setting),
`DataError` (a text or a file), `RunError` (a run folder), and, in `dragoman.errors`, `TrainingError`, `StoppedError`
and `MissingExtraError`. A text of a wrong type raises `TypeError`, and an option of a wrong type `ConfigError`.
Warnings about single texts are `TranslationWarning`, `GenerationWarning` and `InputWarning`, subclasses of
`dragoman.errors.TextWarning`. Warnings and errors about a text name its place in the arguments of the call, such as
`texts[2]`; on the command line, its line. A call with one text returns one result, and with a list a list; type
checkers take an argument of the type `str | list[str]` for a list, because a string is an iterable of strings, too.

## Processes

A model belongs to the process that loaded it. A fork of this process has no copy of its threads, so that calls in the
fork raise `RunError`. Load the model in each process, as in the `initializer` of a pool, or start processes with the
method `spawn`, such as `multiprocessing.get_context("spawn")`. Servers that fork, such as gunicorn with `--preload`,
load the model after the fork. Threads and coroutines of a process share its model.

## Results

Every result has `to_dict()`: the [record](command-line.md#json-records) that the command line prints for it. Most have
`truncated`, which says that a part of a text is missing. A model reads at most `max_length` tokens of a text
(`Classifier`, `Tagger`) or of a window (`QuestionAnswerer.windows`), and a `Translator` translates longer texts than
`max_segment_length` in segments; the [decoding setting](../concepts/decoding.md#long-texts) `max_length` limits an
output.
"""
IMPORTED_SETTINGS = f"""# Settings of imported models

<!-- Written by `{COMMAND}` from the tables of the import; edits here are lost. -->

`dragoman import` knows each key of a configuration file:

- **computed**: the key becomes a part of the network, or of the search.
- **only**: the key has these values in a model that dragoman computes. Any other value is an error.
- **refused**: any value but null is an error.

A key that no table names is an error, too, because it may change outputs. With `--allow-unused KEY`, the import leaves
out a key that is refused or unknown. Of `tokenizer_config.json`, only the keys below are read.
"""
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "multiple_of": "a multiple of", "min_length": "length ≥"}
WIDTH = 100
"""Characters above which a signature has one parameter per line."""
PLAIN = {int: "integer", float: "number", str: "string", bool: "`true` or `false`", Path: "path"}


@dataclass
class Shown:
    """The groups that the page contains already."""

    task: str = ""
    """The task whose section is being written."""
    groups: dict[tuple[str, tuple[type[Config], ...]], str] = field(default_factory=dict)
    """From a key and its groups to the task in whose section they are shown."""


def page(tasks: Mapping[str, type[Config]], presets: Mapping[str, Sequence[str]]) -> str:
    """Return the page: a table of presets with their tasks, then a section per task."""
    shown = Shown()
    parts = [INTRODUCTION, "| preset | tasks |", "| --- | --- |"]
    parts += [f"| `{name}` | {_listed(of)} |" for name, of in presets.items()]
    for name, root in tasks.items():
        shown.task = name
        parts += [f"\n# task: {name}\n", *_group(root, "", shown)]
    return "\n".join(parts)


def reference(root: type[Config]) -> str:
    """Return the page of a single group."""
    return "\n".join([INTRODUCTION, *_group(root, "", Shown())])


def _group(kind: type[Config], path: str, shown: Shown, *, within: str = "") -> Iterator[str]:
    """Yield the table of a group's keys, then its nested groups; `within` is the kind of the enclosing group."""
    if kind.__doc__:
        yield f"{_paragraphs(kind.__doc__)}\n"
    fields = {name: one for name, one in kind.model_fields.items() if name not in ("kind", "task")}
    yield _table(fields, descriptions(kind)) if fields else "No further keys.\n"
    for name, field_ in fields.items():
        key = f"{path}.{name}" if path else name
        yield from _below(key, field_.annotation, shown, within=within)


def _below(key: str, annotation: Any, shown: Shown, *, within: str) -> Iterator[str]:
    groups = _groups_in(annotation)
    if not groups:
        return
    yield f"## {key}{within}\n"
    before = shown.groups.setdefault((key, tuple(groups)), shown.task)
    if before != shown.task:
        yield f"See task {before}.\n"
    elif len(groups) == 1:
        yield from _group(groups[0], key, shown, within=within)
    else:
        for group in groups:
            kind = kinds_of(group)[0]
            yield f"### {key}: {{kind: {kind}}}\n"
            yield from _group(group, key, shown, within=f" of {{kind: {kind}}}")


def _groups_in(annotation: Any) -> list[type[Config]]:
    found = []
    for member in alternatives(annotation):
        if is_config(member):
            found.append(member)
        else:
            found.extend(group for argument in typing.get_args(member) for group in _groups_in(argument))
    return found


def _table(fields: dict[str, FieldInfo], meanings: Mapping[str, str]) -> str:
    rows = [["key", "value", "default", "meaning"], ["---"] * 4]
    rows += [[f"`{name}`", _value(field), _default(field), meanings[name]] for name, field in fields.items()]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


def _value(field: FieldInfo) -> str:
    words, limits = _type(field.annotation), _limits(field.metadata)
    optional = " or `null`" if limits and words.endswith(" or `null`") else ""
    return " ".join(filter(None, [words.removesuffix(optional), limits])) + optional


def _type(annotation: Any) -> str:
    """Describe an annotation in words, with the limits in its metadata."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kinds = kinds_of(annotation)
    if kinds:
        return f"group of kind {_listed(kinds)}"
    if is_config(annotation):
        return "group"
    if origin is typing.Annotated:
        return " ".join(filter(None, [_type(arguments[0]), _limits(arguments[1:])]))
    if origin is typing.Literal:
        return _listed([_yaml(argument) for argument in arguments])
    if origin in (typing.Union, types.UnionType):
        return " or ".join("`null`" if argument is types.NoneType else _type(argument) for argument in arguments)
    if origin in (list, tuple):
        first, space, rest = _type(arguments[0]).partition(" ")
        return f"list of {first}{'s' if first.isalpha() else ''}{space}{rest}"
    if origin is dict:
        return f"mapping from string to {_type(arguments[1])}"
    return PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(metadata: Sequence[Any]) -> str:
    """Describe the constraints that pydantic checks; a `FieldInfo` nests further metadata."""
    signs = [
        f"{sign} {getattr(limit, name)}"
        for limit in metadata
        for name, sign in SIGNS.items()
        if getattr(limit, name, None) is not None
    ]
    nested = [_limits(limit.metadata) for limit in metadata if isinstance(limit, FieldInfo)]
    return ", ".join(filter(None, [*signs, *nested]))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Config):
        return f"`kind: {kinds_of(type(default))[0]}`" if kinds_of(type(default)) else "see below"
    return "" if default is PydanticUndefined else f"`{_yaml(default)}`"


def _yaml(value: Any) -> str:
    """Format a default as YAML on one line."""
    if isinstance(value, list | tuple):
        value = [item.model_dump(mode="json") if isinstance(item, Config) else item for item in value]
    text = yaml.safe_dump(str(value) if isinstance(value, Path) else value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _paragraphs(docstring: str) -> str:
    """Remove the indentation of a docstring."""
    return "\n".join(line.strip() for line in docstring.strip().splitlines())


def committed() -> str:
    """Return the configuration page that belongs in the repository."""
    from dragoman.runs.presets import PRESETS
    from dragoman.tasks.config import TASK_CONFIGS

    return page(TASK_CONFIGS, {name: preset.tasks for name, preset in PRESETS.items()})


def command_line() -> str:
    """Return the page of the command line: a section per verb."""
    import typer.main

    from dragoman.cli.main import SUMMARIES, build_command

    parts = [COMMAND_LINE]
    for verb in SUMMARIES:
        command: Any = typer.main.get_command(build_command(verb))
        parts += _verb(command.commands[verb], f"dragoman {verb}")
    return "\n".join(parts)


def _verb(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for below, one in command.commands.items():
            yield from _verb(one, f"{name} {below}")
        return
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"## {name}\n\n{command.help}\n\n```\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    rows = [["argument or option", "meaning"], ["---"] * 2]
    for one in command.params:
        signature, meaning = one.get_help_record(context)
        signature = re.sub(r"<list\[(.*)\]>", r"<\1>", signature).replace(" range>", ">")
        rows.append([f"`{signature.replace('Path>', 'path>')}`", " ".join(meaning.split())])
    yield "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"


def python_api() -> str:
    """Return the page of the Python API: functions first, then classes with their public methods."""
    import dragoman

    public = {name: getattr(dragoman, name) for name in dragoman.__all__ if not name.startswith("_")}
    parts = [PYTHON]
    for name, function in public.items():
        if inspect.isfunction(function):
            parts.append(_function(f"dragoman.{name}", function, level=2))
    for name, kind in public.items():
        if inspect.isclass(kind):
            parts.append(f"## dragoman.{name}\n\n{_docstring(kind)}\n")
            parts += _members(kind)
            methods = {key: value for key, value in vars(kind).items() if not key.startswith("_")}
            parts += [_function(key, value, level=3) for key, value in methods.items() if inspect.isfunction(value)]
    return "\n".join(parts)


def _function(name: str, function: Any, *, level: int) -> str:
    arguments = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    shown: list[str] = []
    for one in arguments:
        named = typing.get_origin(one.annotation) is typing.Unpack  # keyword arguments that a TypedDict names
        if (named or one.kind is one.KEYWORD_ONLY) and "*" not in shown:
            shown.append("*")
        if named:
            shown += _options(typing.get_args(one.annotation)[0])
            continue
        default = "" if one.default is one.empty else f" = {_python(one.default)}"
        kind = "" if one.annotation is one.empty else f": {_written_type(one.annotation)}"
        shown.append(("**" if one.kind is one.VAR_KEYWORD else "") + one.name + kind + default)
    returned = inspect.signature(function).return_annotation
    opening, closing = f"{name.rpartition('.')[2]}(", f") -> {_written_type(returned)}"
    lines = opening + ", ".join(shown) + closing
    if len(lines) > WIDTH:
        lines = "\n".join([opening, *(f"    {one}," for one in shown), closing])
    return f"{'#' * level} {name}\n\n```python\n{lines}\n```\n\n{_docstring(function)}\n"


def _options(kind: Any) -> Iterator[str]:
    """Yield the keyword arguments that a TypedDict names, with the defaults of the code that takes them."""
    from dragoman.inference.generation.generation_options import Limits
    from dragoman.inference.translator import Translator
    from dragoman.runs.load import load

    defaults = {}
    for taker in (load, Translator._read, Limits):
        defaults |= {one.name: one.default for one in inspect.signature(taker).parameters.values()}
    for name, annotation in typing.get_type_hints(kind).items():
        default = defaults.get(name)
        yield f"{name}: {_written_type(annotation)} = {_python(default)}"


def _written_type(annotation: Any) -> str:
    """Return a type as it is written in a program, without modules."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, str):
        return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", annotation)
    if annotation in (None, types.NoneType, ...):
        return "..." if annotation is ... else "None"
    if origin is typing.Annotated:
        return _written_type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_written_type, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if isinstance(annotation, list):  # parameters of a callable
        return f"[{', '.join(map(_written_type, annotation))}]"
    written = getattr(origin or annotation, "__name__", str(annotation))
    return f"{written}[{', '.join(map(_written_type, arguments))}]" if arguments else written


def _members(kind: Any) -> Iterator[str]:
    """Yield a table of the keys of a configuration, or a list of the fields and properties of a class."""
    if is_config(kind):
        yield _table(dict(kind.model_fields), descriptions(kind))
        return
    given = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    lines = [f"- `{one.name}: {_written_type(one.type)}`" for one in given]
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_"):
            typed = _written_type(inspect.signature(value.fget).return_annotation) if value.fget else ""
            lines.append(f"- `{name}: {typed}`: {' '.join((inspect.getdoc(value) or '').split())}")
    if lines:
        yield "Attributes:\n\n" + "\n".join(lines) + "\n"


def _docstring(documented: Any) -> str:
    """Return a docstring as Markdown; the entries of `Args:` and `Raises:` become lists."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    entries = [re.sub(r"^ {4}([\w, *]+): ", r"- `\1`: ", line) for line in lines]
    text = "\n".join(re.sub(r"^ {8}", "  ", line) for line in entries)
    return text.replace("Args:\n", "Arguments:\n\n").replace("Raises:\n", "Errors:\n\n")


def _python(value: Any) -> str:
    return f"{type(value).__name__}()" if isinstance(value, Config) else repr(value)


def imported_settings() -> str:
    """Return the page of the keys of other libraries: a section for each table."""
    from dragoman.interop.gguf.metadata_keys import metadata_keys
    from dragoman.interop.huggingface.generation_keys import SAMPLING_KEYS, SEARCH_KEYS
    from dragoman.interop.huggingface.model_keys import MODEL_KEYS, ROPE_KEYS
    from dragoman.interop.huggingface.tokenizer_settings import TOKENIZER_KEYS

    tables = {
        "Hugging Face: `generation_config.json` of an encoder-decoder model": SEARCH_KEYS,
        "Hugging Face: `generation_config.json` of a language model": SAMPLING_KEYS,
        **{f"Hugging Face: `config.json` of `{family}`": table for family, table in MODEL_KEYS.items()},
        **{f"Hugging Face: `rope_parameters` of the type `{kind}`": table for kind, table in ROPE_KEYS.items()},
        "Hugging Face: `tokenizer_config.json`": TOKENIZER_KEYS,
        "GGUF: metadata": metadata_keys("llama"),
    }
    return "\n".join([IMPORTED_SETTINGS, *(line for name, table in tables.items() for line in _keys(name, table))])


def _keys(name: str, table: KeyTable) -> Iterator[str]:
    """Yield the section of a table: its keys with an effect, then the others by their reasons."""
    rows, others = [], dict[str, list[str]]()
    for key, treatment in sorted(table.items()):
        what, meaning = describe(treatment)
        if what == "no effect":
            others.setdefault(meaning, []).append(f"`{key}`")
        else:
            rows.append(f"| `{key}` | {what} | {meaning} |")
    yield from (f"## {name}\n", "| key | import | meaning |", "| --- | --- | --- |", *rows, "")
    yield from (f"- No effect, because {reason}: {', '.join(keys)}" for reason, keys in others.items())
    yield ""


def pages() -> dict[Path, str]:
    """Return every generated page, by its path."""
    return {
        TARGET: committed(),
        REFERENCE / "command-line.md": command_line(),
        REFERENCE / "python.md": python_api(),
        REFERENCE / "imported-settings.md": imported_settings(),
    }


def main() -> int:
    """Write the pages, or compare them; return the exit code."""
    check, outdated = "--check" in sys.argv[1:], False
    for path, text in pages().items():
        if not check:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path}")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} does not match the code. Run: {COMMAND}", file=sys.stderr)
            outdated = True
    return int(outdated)


if __name__ == "__main__":
    sys.exit(main())
