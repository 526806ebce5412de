"""The model card of a run: what it was made of, how large it is, what it scores, how to use it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.experiment.config import Experiment
from dragoman.experiment.materials import Materials
from dragoman.experiment.run import RunFolder
from dragoman.files import write_atomically

if TYPE_CHECKING:
    from dragoman.experiment.fit import Outcome

BAR = r"\|"
"""A bar within a cell of a table in Markdown."""


def write_card(
    folder: RunFolder, experiment: Experiment, materials: Materials, outcome: "Outcome", *, parameters: int
) -> None:
    """Write README.md into the run folder."""
    parts = [
        f"# {folder.path.resolve().name}",
        "A translation model trained with dragoman.",
        "## Scores",
        _scores(outcome),
        "## Data",
        _data(materials),
        "## Model",
        _model(experiment, materials, outcome, parameters),
        "## Use",
        _use(folder),
    ]
    write_atomically(folder.card, "\n\n".join(parts) + "\n")


def _scores(outcome: "Outcome") -> str:
    rows = [
        f"| {name} | {score.metric} | {score.value:.2f} | `{score.signature.replace('|', BAR)}` |"
        for name, scores in outcome.scores.items()
        for score in scores
    ]
    return "\n".join(["| set | metric | score | signature |", "|---|---|---:|---|", *rows])


def _data(materials: Materials) -> str:
    texts = materials.texts
    removed = [
        f"- removed as {rule}: {finding.count:,}" for rule, finding in texts.report.findings.items() if finding.count
    ]
    test = f", {len(texts.test):,} to test" if texts.test is not None else ""
    files = [f"- `{Path(path).name}` sha256 {digest[:16]}…" for path, digest in texts.fingerprints.items()]
    lines = [
        f"{len(materials.train):,} pairs to learn from, {len(texts.valid):,} to validate{test}.",
        "",
        *files,
        *removed,
    ]
    if materials.left_out:
        lines.append(f"- left out as too long in tokens: {materials.left_out:,}")
    lines += [f"- {_without_folders(note, texts.fingerprints)}" for note in (*texts.notes, *materials.notes)]
    return "\n".join(lines)


def _without_folders(note: str, paths: Iterable[str]) -> str:
    """The note with its files named as anyone may know them: a card is made to be shown."""
    for path in sorted(paths, key=len, reverse=True):
        note = note.replace(path, Path(path).name)
    return note


def _model(experiment: Experiment, materials: Materials, outcome: "Outcome", parameters: int) -> str:
    model, tokenizer = experiment.model, materials.tokenizer
    layers = f"{model.encoder_layers} encoder and {model.decoder_layers} decoder layers"
    vocabulary = (
        f"{len(tokenizer.source):,} {experiment.tokenizer.kind} pieces for both languages"
        if tokenizer.shared
        else f"{len(tokenizer.source):,} and {len(tokenizer.target):,} {experiment.tokenizer.kind} pieces"
    )
    return (
        f"Encoder-decoder Transformer, {layers}, width {model.size}/{model.feed_forward}, {model.heads} heads, "
        f"{parameters:,} parameters; {vocabulary}.\n\n"
        f"Trained for {outcome.updates:,} updates on {outcome.tokens:,} target tokens in {outcome.seconds / 60:.1f} "
        f"minutes; the weights are: {outcome.chosen}, chosen on the validation set."
    )


def _use(folder: RunFolder) -> str:
    name = folder.path.resolve().name
    return (
        f"```\ndragoman translate {name} --input source.txt --output target.txt\n```\n\n"
        f'```python\nimport dragoman\n\ndragoman.load("{name}").translate(["…"])\n```'
    )
