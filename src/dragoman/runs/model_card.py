"""The model card of a run: what it was made of, how large it is, what it scores, how to use it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from dragoman.atomic import write_atomically
from dragoman.data.tokenizers import Tokenizer
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import Description, Materials
from dragoman.tasks.compatibility import Network
from dragoman.tasks.network_description import network_in_words

if TYPE_CHECKING:
    from dragoman.runs.train import Outcome

BAR = r"\|"
"""A bar within a cell of a table in Markdown."""


@final
@dataclass(frozen=True)
class About:
    """The network that was trained."""

    config: Network
    parameters: int
    specimen: str | None
    """What it writes."""


def write_card(
    folder: RunFolder, materials: Materials, outcome: "Outcome", about: About, *, words: Description
) -> None:
    """Write README.md into the run folder."""
    name = folder.path.resolve().name
    article = "An" if words.noun[0] in "aeiou" else "A"
    parts = [
        f"# {name}",
        f"{article} {words.noun} trained with dragoman.",
        "## Scores",
        _scores(outcome),
        "## Data",
        _data(materials),
        "## Model",
        f"{network_in_words(about.config)}, {about.parameters:,} parameters; {_vocabulary(materials.tokenizer)}.",
        _training(outcome, words),
        *(["## Specimen", _quoted(about.specimen)] if about.specimen and not about.specimen.isspace() else []),
        "## Use",
        f"```\n{words.command.replace('RUN', name)}\n```",
        *([f'```python\nimport dragoman\n\ndragoman.load("{name}").{words.python}\n```'] if words.python else []),
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
    findings = materials.report.findings if materials.report is not None else {}
    return "\n".join(
        [
            f"{materials.sizes}.",
            "",
            *[f"- `{Path(path).name}` sha256 {digest[:16]}…" for path, digest in materials.fingerprints.items()],
            *[
                f"- {'removed' if finding.removes else 'kept'} as {rule}: {finding.count:,}"
                for rule, finding in findings.items()
                if finding.count
            ],
            *[f"- {_without_folders(remark, materials.fingerprints)}" for remark in materials.remarks],
        ]
    )


def _without_folders(remark: str, paths: Iterable[str]) -> str:
    """The remark with its files named as anyone may know them: a card is made to be shown."""
    for path in sorted(paths, key=len, reverse=True):
        remark = remark.replace(path, Path(path).name)
    return remark


def _vocabulary(tokenizer: Tokenizer) -> str:
    kind = tokenizer.settings.kind
    if tokenizer.shared:
        return f"{len(tokenizer.source):,} {kind} pieces"
    return f"{len(tokenizer.source):,} {kind} pieces for the source and {len(tokenizer.target):,} for the target"


def _training(outcome: "Outcome", words: Description) -> str:
    return (
        f"Trained for {outcome.updates:,} updates on {outcome.tokens:,} {words.counted} in {outcome.seconds / 60:.1f} "
        f"minutes; the weights are: {outcome.chosen}, chosen on the validation set."
    )


def _quoted(text: str) -> str:
    """Indented, so that nothing in it is taken for Markdown."""
    return "\n".join(f"    {line}" for line in text.split("\n"))
