"""Options that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class NormalisationName(StrEnum):
    """Kind of the length penalty."""

    AVERAGE = "average"
    GNMT = "gnmt"
    RAW = "raw"


class ChoiceName(StrEnum):
    """Criterion that selects the output from the beam."""

    LIKELIEST = "likeliest"
    MINIMUM_BAYES_RISK = "minimum-bayes-risk"


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
NormalisationOption = Annotated[
    NormalisationName | None,
    typer.Option(
        "--normalisation",
        help="Divide log-probabilities by length^A (average), by ((5+length)/6)^A (gnmt), or by nothing (raw).",
        show_default=OWN,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        help="Exponent A of the length. Larger values favor longer outputs.",
        show_default="the run's, else 1 (average), 0.6 (gnmt)",
    ),
]
ChoiceOption = Annotated[
    ChoiceName | None,
    typer.Option(
        "--choice",
        help="Give out what has the best score, or what agrees best with the whole beam, of ten or so (minimum Bayes "
        "risk).",
        show_default=OWN,
    ),
]
BEAM = "Beam size; 1 is greedy search."
Beam = Annotated[int | None, typer.Option(min=1, help=BEAM, show_default=OWN)]
EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble",
        help="Average the token probabilities with those of this run of the same tokenizer (repeatable).",
        show_default=False,
    ),
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
Begin = Annotated[
    Path | None, typer.Option("--init-from", help="Start from the weights and the tokenizer of this run (fine-tuning).")
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder that corpus paths in the configuration are relative to.")
]
OutputFile = Annotated[
    str, typer.Option("--output", "-o", help="Output file, written atomically; - is standard output.")
]


def ranking_of(name: NormalisationName | None, exponent: float | None) -> dict[str, Any]:
    """Return the configuration keys of the length penalty options. Raises ConfigError on an option without effect."""
    from dragoman.errors import ConfigError

    if name is NormalisationName.RAW and exponent is not None:
        raise ConfigError("--length-penalty has no effect with --normalisation raw; leave one of them out")
    return given(kind=None if name is None else name.value, alpha=exponent)


def choice_of(name: ChoiceName | None) -> dict[str, Any]:
    """Return the configuration keys of --choice."""
    return given(kind=None if name is None else name.value.replace("-", "_"))


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
