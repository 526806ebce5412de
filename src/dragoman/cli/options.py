"""Options that several verbs share, and the settings behind them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class NormalisationName(StrEnum):
    """What makes outputs of different length comparable."""

    AVERAGE = "average"
    GNMT = "gnmt"
    RAW = "raw"


class ChoiceName(StrEnum):
    """What is given out of a beam."""

    LIKELIEST = "likeliest"
    MINIMUM_BAYES_RISK = "minimum-bayes-risk"


class TextFormat(StrEnum):
    """How lines are printed."""

    TEXT = "text"
    JSONL = "jsonl"


class ComputeName(StrEnum):
    """The precision that products are computed in."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


ComputeOption = Annotated[
    ComputeName,
    typer.Option(
        "--compute", help="Precision; auto is that of the weights, and less than float32 needs the compiled core."
    ),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1 or mps; without it the fastest there is.", show_default=False)
]
BatchTokens = Annotated[
    int | None, typer.Option(min=1, help="Most source tokens of a batch, padding included.", show_default="chosen")
]
OWN = "the run's"
"""What stands for the default of an option that a run's configuration has a value for."""
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
        help="The exponent A: greater ones favour longer outputs.",
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
BEAM = "How many hypotheses go on at a time; 1 is greedy."
Beam = Annotated[int | None, typer.Option(min=1, help=BEAM, show_default=OWN)]
Beside = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        help="Ask this run of the same tokenizer too: words are as probable as all find them in the mean. May be "
        "repeated.",
        show_default=False,
    ),
]
FormatOption = Annotated[TextFormat, typer.Option("--format", help="Plain lines, or one JSON object a line.")]
SourceTrees = Annotated[
    Path | None,
    typer.Option(
        help="CoNLL-U file of the sources' dependency trees, for a run with structural positions.", show_default=False
    ),
]
Settings = Annotated[
    Path | None, typer.Argument(help="YAML file of settings; without one they are chosen from the corpus.")
]
SourceText = Annotated[
    Path | None, typer.Option(help="Text to learn from, one sentence a line; a pattern in quotes for shards.")
]
TargetText = Annotated[Path | None, typer.Option(help="Its translation, line by line.")]
ValidSource = Annotated[Path | None, typer.Option(help="Text to validate on.")]
ValidTarget = Annotated[Path | None, typer.Option(help="Its translation.")]
RunningText = Annotated[Path | None, typer.Option(help="Text to learn to write, in place of a source and target.")]
ValidText = Annotated[Path | None, typer.Option(help="Text to validate on.")]
Prepared = Annotated[Path | None, typer.Option(help="Folder that dragoman data prepare wrote, in place of texts.")]
Begin = Annotated[Path | None, typer.Option("--from", help="Begin with the weights and the tokenizer of this run.")]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder that the configuration's corpora are relative to.")
]
OutputFile = Annotated[
    str, typer.Option("--output", "-o", help="File to write, complete or not at all; - is standard output.")
]


def ranking_of(name: NormalisationName | None, exponent: float | None) -> dict[str, Any]:
    """The keys that --normalisation and --length-penalty give. Raises ConfigError on an option without effect."""
    from dragoman.errors import ConfigError

    if name is NormalisationName.RAW and exponent is not None:
        raise ConfigError("--length-penalty has no effect with --normalisation raw; leave one of them out")
    return given(kind=None if name is None else name.value, alpha=exponent)


def choice_of(name: ChoiceName | None) -> dict[str, Any]:
    """The keys that --choice gives."""
    return given(kind=None if name is None else name.value.replace("-", "_"))


def given(**options: Any) -> dict[str, Any]:
    """Those that a person gave."""
    return {name: value for name, value in options.items() if value is not None}
