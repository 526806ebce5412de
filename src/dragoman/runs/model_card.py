"""Model card of a run: data, model, scores and usage."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from dragoman.atomic import write_atomically
from dragoman.data.tokenizers import Tokenizer
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskData, TaskDescription
from dragoman.tasks.config import ModelConfig

if TYPE_CHECKING:
    from dragoman.runs.train import TrainingResult
from typing import assert_never

from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, TransformerConfig
from dragoman.models.recurrent.config import RecurrentConfig

ESCAPED_BAR = r"\|"
"""A bar within a cell of a table in Markdown."""


@final
@dataclass(frozen=True)
class ModelSummary:
    """The network that was trained."""

    config: ModelConfig
    parameters: int
    specimen: str | None
    """What it writes."""


def write_model_card(
    folder: RunFolder, materials: TaskData, outcome: "TrainingResult", about: ModelSummary, *, words: TaskDescription
) -> None:
    """Write README.md into the run folder."""
    name = folder.path.resolve().name
    article = "An" if words.noun[0] in "aeiou" else "A"
    parts = [
        f"# {name}",
        f"{article} {words.noun} trained with dragoman.",
        "## Scores",
        _score_table(outcome),
        "## Data",
        _data_section(materials),
        "## Model",
        f"{describe_model(about.config)}, {about.parameters:,} parameters; {_describe_vocabulary(materials.tokenizer)}.",
        _training_section(outcome, words),
        *(["## Specimen", _indent(about.specimen)] if about.specimen and not about.specimen.isspace() else []),
        "## Use",
        f"```\n{words.command.replace('RUN', name)}\n```",
        *(
            [f'```python\nimport dragoman\n\ndragoman.load("{name}").{words.python_usage}\n```']
            if words.python_usage
            else []
        ),
    ]
    write_atomically(folder.model_card, "\n\n".join(parts) + "\n")


def _score_table(outcome: "TrainingResult") -> str:
    rows = [
        f"| {name} | {score.metric} | {score.value:.2f} | `{score.signature.replace('|', ESCAPED_BAR)}` |"
        for name, scores in outcome.scores.items()
        for score in scores
    ]
    return "\n".join(["| set | metric | score | signature |", "|---|---|---:|---|", *rows])


def _data_section(materials: TaskData) -> str:
    findings = materials.cleaning_report.rules if materials.cleaning_report is not None else {}
    return "\n".join(
        [
            f"{materials.summary}.",
            "",
            *[f"- `{Path(path).name}` sha256 {digest[:16]}…" for path, digest in materials.fingerprints.items()],
            *[
                f"- {'removed' if finding.removed else 'kept'} as {rule}: {finding.count:,}"
                for rule, finding in findings.items()
                if finding.count
            ],
            *[f"- {_strip_folders(remark, materials.fingerprints)}" for remark in materials.notes],
        ]
    )


def _strip_folders(remark: str, paths: Iterable[str]) -> str:
    """The remark with its files named as anyone may know them: a card is made to be shown."""
    for path in sorted(paths, key=len, reverse=True):
        remark = remark.replace(path, Path(path).name)
    return remark


def _describe_vocabulary(tokenizer: Tokenizer) -> str:
    kind = tokenizer.config.kind
    if tokenizer.shared:
        return f"{len(tokenizer.source):,} {kind} pieces"
    return f"{len(tokenizer.source):,} {kind} pieces for the source and {len(tokenizer.target):,} for the target"


def _training_section(outcome: "TrainingResult", words: TaskDescription) -> str:
    return (
        f"Trained for {outcome.steps:,} steps on {outcome.tokens:,} {words.loss_unit} in {outcome.seconds / 60:.1f} "
        f"minutes; the weights are: {outcome.selected}, chosen on the validation set."
    )


def _indent(text: str) -> str:
    """Indented, so that nothing in it is taken for Markdown."""
    return "\n".join(f"    {line}" for line in text.split("\n"))


def describe_model(config: ModelConfig) -> str:
    """Such as `Encoder-decoder Transformer, 6 encoder and 6 decoder layers, width 512/2048, 8 heads`."""
    match config:
        case EncoderDecoderConfig():
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Encoder-decoder Transformer, {layers}, {_describe_stack(config)}"
        case DecoderOnlyConfig():
            return f"Decoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case EncoderOnlyConfig():
            return f"Encoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case RecurrentConfig():
            attention = f"{config.attention.kind} attention" if config.attention.kind != "none" else "no attention"
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Recurrent encoder-decoder ({config.cell}), {layers}, width {config.d_model}, {attention}"
        case _:
            assert_never(config)


def _describe_stack(config: TransformerConfig) -> str:
    shared = f" on {config.num_kv_heads} of keys and values" if config.num_kv_heads is not None else ""
    positions = config.positions.kind if config.positions.kind != "none" else "no"
    return f"width {config.d_model}/{config.d_ff}, {config.num_heads} heads{shared}, {positions} positions"
