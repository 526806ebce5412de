"""Options that several verbs share, and options generated from configuration models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError

from dragoman.cli import messages
from dragoman.config import Config, descriptions, override
from dragoman.config_errors import describe_rule
from dragoman.config_keys import alternatives
from dragoman.config_trees import Tree, merge, nest
from dragoman.errors import ConfigError

TextFormat = Literal["text", "jsonl"]
Verb = Callable[..., Any]
Decorator = Callable[[Verb], Verb]

LARGE_BEAM = 200
"""Beam size above which a search is much slower, and no better."""
RUN_DEFAULT = "the run's"
"""Shown as the default of an option whose default is in the run's configuration."""

RunArgument = Annotated[Path, typer.Argument(help="Run folder or exported model.")]
InputFile = Annotated[
    str,
    typer.Option(
        "--input", "-i", metavar="FILE", help="File of segments, one per line, also compressed; - is standard input."
    ),
]
OutputFile = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Output file (atomic); - is standard output.")
]
FormatOption = Annotated[TextFormat, typer.Option("--format", help="Plain text lines, or one JSON object per line.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 or mps. Default: the fastest device.")]
SourceFeaturesOption = Annotated[
    Path | None,
    typer.Option(help="CoNLL-U file with the dependency trees of the source, for a run with tree positions."),
]
ConfigArgument = Annotated[
    Path | None,
    typer.Argument(help="YAML file; without one, the settings are chosen. Or a corpus in one file, as for --pairs."),
]
Assignments = Annotated[list[str] | None, typer.Option("--set", help="Override a key: training.seed=2 (repeatable).")]
OutputDir = Annotated[Path, typer.Option("--output-dir", "--out", help="Folder to write; must not exist.")]
InitFromOption = Annotated[
    Path | None, typer.Option(help="Start from weights and tokenizer of this run (fine-tuning).")
]
DataDir = Annotated[Path | None, typer.Option("--data", help="Folder of relative corpus paths in the configuration.")]
_FLAGS = {
    "pairs": ("--pairs", "--tsv", "--jsonl", "--parquet"),
    "beam_size": ("--beam-size", "--beam"),
    "method": ("--decoding", "--method"),
    "no_repeat_ngram_size": ("--no-repeat-ngram",),
}
"""Options whose names differ from those of their configuration keys."""
TextsOption = Annotated[
    list[str] | None, typer.Option("--text", "-t", help="Text to process, instead of --input (repeatable).")
]
PairsOption = Annotated[
    str | None,
    typer.Option(
        *_FLAGS["pairs"], help="File with both sides, instead of two files: TSV, JSON lines, Parquet, TMX, PO, …"
    ),
]
DECODING = (
    "beam_size",
    "length_penalty",
    "length_penalty_kind",
    "method",
    "min_length",
    "max_length",
    "max_length_ratio",
    "allow_unk",
    "renormalize",
    "early_stopping",
    "keep_greedy",
    "cut_off",
)
"""Decoding options of a translator."""
GlossaryLanguages = Annotated[
    str | None, typer.Option(metavar="SOURCE:TARGET", help="Languages of a glossary that has several ones, as en:de.")
]
ContextOption = Annotated[
    Literal["previous", "none"] | None,
    typer.Option(
        help="Read each line after the previous lines, up to a blank line; for a model with document context.",
        show_default="previous with --file, if the model was trained so, else none",
    ),
]
LOADING = ("device", "compute_type", "batch_tokens", "ensemble")
"""Options of `dragoman.load`."""
LANGUAGES = ("source_language", "target_language")
"""Languages of a translation."""
CONTROL = (
    "target_prefix",
    "constraints",
    "glossary",
    "glossary_languages",
    "glossary_mode",
    "markup",
    "placeholders",
    "accelerator",
    "context",
)
"""Options that control the words of translations, which `cli.control_options` reads."""
FILES = ("file", "file_format", "only", "needs_review", "memory", "memory_threshold", "report")
"""Options of the translation of a file."""
PARALLEL_CORPORA = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
CORPORA = (*PARALLEL_CORPORA, "text", "valid_text", "prepared")
"""Training and validation data."""
_SHARED: Mapping[str, Any] = (
    {
        "device": DeviceOption,
        "compute_type": Annotated[
            Literal["auto", "float32", "bfloat16", "int8", "int8_int16", "int8_shift"] | None,
            typer.Option(help="Number format for inference; below float32 with the CPU library.", show_default="auto"),
        ],
        "batch_tokens": Annotated[
            int | None,
            typer.Option(min=1, help="Maximum source tokens per batch, padding included.", show_default="automatic"),
        ],
        "ensemble": Annotated[
            list[Path] | None,
            typer.Option(
                help="Average the token probabilities with those of this run of the same tokenizer (repeatable)."
            ),
        ],
    }
    | {
        f"{side}_language": Annotated[
            str | None,
            typer.Option(
                help=f"Language code of the {side}, for a multilingual model.", show_default="that of the run"
            ),
        ]
        for side in ("source", "target")
    }
    | {
        "target_prefix": Annotated[
            str | None, typer.Option(metavar="TEXT", help="Words that each translation begins with.")
        ],
        "constraints": Annotated[
            Path | None,
            typer.Option(
                help="Words that translations must have or not: for each input line, a line with a JSON list of texts "
                'or objects such as {"forms": ["Jacke", "Jacken"], "kind": "once"}, or an empty line.'
            ),
        ],
        "glossary": Annotated[
            Path | None, typer.Option(help="Terms and their translations: a file .tsv, .csv or .tbx (TBX).")
        ],
        "glossary_languages": GlossaryLanguages,
        "glossary_mode": Annotated[
            Literal["hard", "soft", "annotated"] | None,
            typer.Option(
                help="Require the terms, prefer them, or write them into the source for a model that was trained so.",
                show_default="hard",
            ),
        ],
        "markup": Annotated[
            Literal["xml", "html"] | None,
            typer.Option(help="Keep the inline tags of texts, and place them around the words they belong to."),
        ],
        "placeholders": Annotated[
            bool | None,
            typer.Option(
                "--placeholders/--no-placeholders",
                help="Keep placeholders such as %s, {name}, tags and URLs, and translate the branches of ICU messages.",
                show_default="--placeholders with --file, else --no-placeholders",
            ),
        ],
        "accelerator": Annotated[
            Literal["_", "&", "none"] | None,
            typer.Option(
                help="Mark of keyboard accelerators, as in _File; keep it before a letter, and keep placeholders.",
                show_default="with --file the one of several texts, else none",
            ),
        ],
        "context": ContextOption,
    }
    | {
        "file": Annotated[
            Path | None,
            typer.Option(help="File to translate, instead of text: PO, XLIFF, strings, … The output is such a file."),
        ],
        "file_format": Annotated[
            str | None, typer.Option(metavar="NAME", help="Format of --file, such as po.", show_default="recognized")
        ],
        "only": Annotated[
            Literal["untranslated", "needs_review", "all"] | None,
            typer.Option(
                help="Texts of --file to translate: those without a translation, also fuzzy ones, or all not final.",
                show_default="untranslated",
            ),
        ],
        "needs_review": Annotated[
            Literal["warned", "all", "none"] | None,
            typer.Option(
                help="Translations that --output marks as fuzzy or needing review: those with warnings, all, or none.",
                show_default="warned",
            ),
        ],
        "memory": Annotated[
            list[Path] | None,
            typer.Option(help="Take translations of equal texts from this TMX, XLIFF, PO or TSV file (repeatable)."),
        ],
        "memory_threshold": Annotated[
            float | None,
            typer.Option(
                min=0.5,
                max=1.0,
                help="Take translations of similar texts from --memory, too, and mark them as needing review.",
                show_default="1.0",
            ),
        ],
        "report": Annotated[
            Path | None, typer.Option(help="JSON file with the texts of --file, their translations and warnings.")
        ],
    }
    | {
        name: Annotated[Path | None, typer.Option(*_FLAGS.get(name, ()), help=text)]
        for name, text in {
            "source": "Source side of the training corpus, one sentence per line; a quoted pattern for shards.",
            "target": "Target side of the training corpus, aligned line by line.",
            "valid_source": "Source side of the validation set.",
            "valid_target": "Target side of the validation set.",
            "pairs": "File with both sides, instead of --source and --target: TSV, JSON lines, Parquet, TMX, PO, …",
            "valid_pairs": "Validation set in one file.",
            "text": "Text corpus to train a language model on, instead of --source and --target.",
            "valid_text": "Validation text.",
            "prepared": "Folder written by dragoman data prepare, instead of a corpus.",
        }.items()
    }
)


CORPUS_PANEL, MODEL_PANEL, SEARCH_PANEL = "Corpora", "Model and device", "Decoding"
CONTROL_PANEL = "Control of words"
FILE_PANEL = "Files"
TRAINING_PANEL = "Training; chosen from the data and the device by default"
RUN_PANEL = "Decoding; by default as in the run"
PRESET_HELP = (
    "Model size, by task: nano, tiny, small, base, big, deep-shallow, student-tiny, lstm (translation); gpt-nano, "
    "gpt-tiny, gpt-small, llama-tiny (language_modeling, classification); bert-tiny, bert-mini, bert-small "
    "(masked_lm, classification, tagging, question_answering)."
)
"""Written out, because the verbs that show it import no presets."""
_TRAINING: Mapping[str, tuple[str, Any]] = {
    "source_language": (
        "source_language",
        Annotated[
            str | None,
            typer.Option("--source-language", "--from", help="Language code of the source, which the run records."),
        ],
    ),
    "target_language": (
        "target_language",
        Annotated[
            str | None,
            typer.Option("--target-language", "--to", help="Language code of the target, which the run records."),
        ],
    ),
    "preset": (
        "preset",
        Annotated[str | None, typer.Option(parser=str.lower, help=PRESET_HELP)],
    ),
    "seed": ("training.seed", Annotated[int | None, typer.Option(min=0, help="Seed of all random numbers.")]),
    "max_epochs": (
        "training.max_epochs",
        Annotated[int | None, typer.Option("--max-epochs", "--epochs", min=1, help="Maximum passes over the corpus.")],
    ),
    "max_steps": (
        "training.max_steps",
        Annotated[int | None, typer.Option(min=1, help="Maximum optimizer steps.")],
    ),
    "batch_tokens": (
        "training.batch_tokens",
        Annotated[int | None, typer.Option(min=1, help="Tokens per batch, padding included.")],
    ),
    "learning_rate": (
        "training.optimizer.learning_rate",
        Annotated[float | None, typer.Option(help="Highest learning rate.")],
    ),
}
"""Key and option of the settings that a training is most often given; --set takes all others.

They are written out, because an import of the settings of a training imports PyTorch.
"""


def training_options(verb: Verb) -> Verb:
    """Add options for frequent settings; the verb receives the given values by key, its argument `training`."""

    @functools.wraps(verb)
    def with_keys(*arguments: Any, training: dict[str, Any], **options: Any) -> Any:
        return verb(*arguments, training={_TRAINING[name][0]: one for name, one in training.items()}, **options)

    vars(with_keys)["__signature__"] = inspect.signature(verb, eval_str=True)
    added = {name: _in_panel(one, TRAINING_PANEL) for name, (_, one) in _TRAINING.items()}
    return _options(added, into="training")(with_keys)


def merge_assignments(training: Mapping[str, Any], assignments: Iterable[str]) -> Tree:
    """Return the values of options by key, and those of --set. Raises ConfigError if a key has two values."""
    over = override({}, assignments)
    for name, (key, _) in _TRAINING.items():
        node: Any = over
        for part in key.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if key in training and node is not None and node != training[key]:
            raise ConfigError(f"{flag(name)} {training[key]} and --set {key}={node} differ. Leave one of them out.")
    return {**training, **over}


def origins(training: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Tree]:
    """Return the settings of options and those of --set, by the source that `name_origins` names."""
    tree: Tree = {}
    for key, value in training.items():
        tree = merge(tree, nest(key, value))
    return {"": tree, "--set ": override({}, assignments)}


def _in_panel(annotation: Any, panel: str) -> Any:
    """Return the annotation of an option that the help shows in a panel of this title."""
    kind, *_ = get_args(annotation)
    option = copy(annotation.__metadata__[0])
    option.rich_help_panel = panel
    return Annotated[kind, option]


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
    config: type[Config],
    fields: Iterable[str],
    *,
    into: str,
    default: str | None = RUN_DEFAULT,
    panel: str | None = None,
) -> Decorator:
    """Add fields of a configuration model to the options of a verb, with their types, bounds and descriptions.

    The verb receives the given values as a dictionary, its argument `into`; options that are not given are missing in
    it. `default` is shown as the default value; None shows the default of the field. The help shows the options in the
    `panel`, by default that of options with such a default.
    """
    usual, shown = (RUN_PANEL, "") if default == RUN_DEFAULT else (SEARCH_PANEL, default)
    annotations = {name: _in_panel(_config_option(config, name, shown), panel or usual) for name in fields}
    return _options(annotations, into=into, check=lambda values: _check_options(config, values))


def _check_options(config: type[Config], values: Mapping[str, Any]) -> None:
    """Raise ConfigError as `check_values` does, and warn about a beam that takes long."""
    check_values(config, values)
    if (beam := values.get("beam_size", 0)) > LARGE_BEAM:
        messages.show_warning(
            f"{flag('beam_size')} {beam} searches {beam:,} hypotheses per sentence, which takes long and much memory. "
            "Usual sizes are 4 to 10."
        )


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
    groups = {MODEL_PANEL: LOADING, RUN_PANEL: LANGUAGES, CONTROL_PANEL: CONTROL, FILE_PANEL: FILES}
    panels = {name: panel for panel, group in groups.items() for name in group}
    return _options({name: _in_panel(_SHARED[name], panels.get(name, CORPUS_PANEL)) for name in names}, into=into)


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
