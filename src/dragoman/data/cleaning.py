"""Rules that keep harmful pairs out of training, and a report of what each of them removed."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import Field

from dragoman.config import Config
from dragoman.data.hashing import KeySet, text_key
from dragoman.data.readers.example import Example
from dragoman.errors import DataError

SPECIMENS = 3
SPECIMEN_CHARACTERS = 80

FEWEST = 8
"""Examples below which there is nothing to learn or to hold out."""

Rule = Literal["empty", "too long", "length ratio", "copied", "leak", "duplicate"]

RATIO_OFFSET = 10
"""Characters added to both sides before their ratio is taken, so that short texts are not judged by a word."""


class Cleaning(Config):
    """Which pairs are kept out of training; those with an empty side always are."""

    longest_words: int | None = Field(250, ge=1)
    """Words, separated by spaces, of either side."""

    longest_characters: int | None = Field(2500, ge=1)
    """Characters of either side; bounds writing without spaces."""

    length_ratio: float | None = Field(6.0, ge=1)
    """(longer + 10) / (shorter + 10), in characters."""

    copies: bool = True
    """Remove pairs whose target is the source, letter for letter; numbers and signs alone may be copied."""

    leaks: bool = True
    """Remove pairs whose source is in the validation or test set; they are reported in any case."""

    duplicates: bool = True
    """Remove pairs that came before."""


@dataclass(frozen=True)
class Specimen:
    """A pair that a rule met, cut to a readable length."""

    line: int
    source: str
    target: str


@dataclass
class Finding:
    """How often a rule was met, whether it removes, and the first specimens."""

    rule: Rule
    removes: bool = True
    count: int = 0
    specimens: list[Specimen] = field(default_factory=list)


@dataclass
class Report:
    """What cleaning did to a corpus; complete when the last example was taken."""

    read: int = 0
    kept: int = 0
    findings: dict[Rule, Finding] = field(default_factory=lambda: {rule: Finding(rule) for rule in get_args(Rule)})

    def note(self, rule: Rule, example: Example, *, removes: bool) -> None:
        """Count a pair under a rule."""
        finding = self.findings[rule]
        finding.removes = removes
        finding.count += 1
        if len(finding.specimens) < SPECIMENS:
            finding.specimens.append(Specimen(example.line, _cut(example.source), _cut(example.target)))

    def add(self, later: "Report", *, before: int) -> None:
        """Count on with what was met in a later stretch of the corpus, with so many lines `before` it.

        `kept` is left to who knows of duplicates.
        """
        self.read += later.read
        for rule, other in later.findings.items():
            finding = self.findings[rule]
            if other.count:
                finding.removes = other.removes
                finding.count += other.count
                moved = [replace(one, line=before + one.line) for one in other.specimens]
                finding.specimens = [*finding.specimens, *moved][:SPECIMENS]

    @property
    def leaks(self) -> int:
        """Training pairs whose source is held-out text, removed or not."""
        return self.findings["leak"].count

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Of each rule that met anything: its name, what it did, how often, and its specimens, a line each."""
        return [
            (
                finding.rule,
                "removed" if finding.removes else "kept",
                f"{finding.count:,}",
                "\n".join(f"line {one.line}: {one.source} | {one.target}" for one in finding.specimens),
            )
            for finding in self.findings.values()
            if finding.count
        ]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {"read": self.read, "kept": self.kept, "findings": [asdict(one) for one in self.findings.values()]}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "Report":
        """The report that `to_json` wrote."""
        report = cls(read=tree["read"], kept=tree["kept"])
        for one in tree["findings"]:
            specimens = [Specimen(**specimen) for specimen in one["specimens"]]
            report.findings[one["rule"]] = Finding(one["rule"], one["removes"], one["count"], specimens)
        return report


def clean(
    examples: Iterable[Example], settings: Cleaning, *, report: Report, held_out: KeySet | None = None
) -> Iterator[Example]:
    """The examples that pass, in order; `report` counts the others, each under the first rule that it meets.

    `held_out` holds `held_out_key` of every text that must not be trained on.
    """
    seen = KeySet()
    for example in examples:
        if not passes_alone(example, settings, report=report, held_out=held_out):
            continue
        if settings.duplicates and not seen.add(text_key(example.source, example.target)):
            report.note("duplicate", example, removes=True)
            continue
        report.kept += 1
        yield example


def passes_alone(example: Example, settings: Cleaning, *, report: Report, held_out: KeySet | None = None) -> bool:
    """Whether a pair passes what needs no look at the others; it is counted as read, and under the rule that it meets.

    `held_out` holds `held_out_key` of every text that must not be trained on.
    """
    report.read += 1
    rule = _form_fault(example, settings)
    if rule is not None:
        report.note(rule, example, removes=True)
        return False
    if held_out and held_out_key(example) in held_out:
        report.note("leak", example, removes=settings.leaks)
        return not settings.leaks
    return True


def without_empty(examples: Iterable[Example], *, report: Report) -> Iterator[Example]:
    """For validation text: only pairs with an empty side are left out."""
    settings = Cleaning(longest_words=None, longest_characters=None, length_ratio=None, copies=False, duplicates=False)
    return clean(examples, settings, report=report)


def held_out_key(example: Example) -> int:
    """What makes a training pair a leak: the source, whatever its spaces and case."""
    return text_key(example.source.casefold())


def require_enough(report: Report, *, where: str, fewest: int = FEWEST) -> None:
    """Raise DataError where too few examples are left to train on."""
    if report.kept >= fewest:
        return
    if report.read == 0:
        raise DataError(f"{where}: the corpus is empty; give a file with a text a line")
    causes = ", ".join(f"{one.count:,} {one.rule}" for one in report.findings.values() if one.count and one.removes)
    raise DataError(
        f"{where}: {report.kept:,} of {report.read:,} examples are left after cleaning"
        f"{f' ({causes})' if causes else ''}; training needs at least {fewest}: give more text, or relax data.cleaning"
    )


def _form_fault(example: Example, settings: Cleaning) -> Rule | None:
    """The first rule that the pair breaks by itself."""
    source, target = example.source.strip(), example.target.strip()
    if not source or not target:
        return "empty"
    short, long = sorted((len(source), len(target)))
    if settings.longest_characters is not None and long > settings.longest_characters:
        return "too long"
    if settings.longest_words is not None and max(len(source.split()), len(target.split())) > settings.longest_words:
        return "too long"
    if settings.length_ratio is not None and long + RATIO_OFFSET > settings.length_ratio * (short + RATIO_OFFSET):
        return "length ratio"
    if settings.copies and source == target and any(character.isalpha() for character in source):
        return "copied"
    return None


def _cut(text: str) -> str:
    shown = " ".join(text[: SPECIMEN_CHARACTERS + 1].split())
    return shown if len(text) <= SPECIMEN_CHARACTERS else shown[: SPECIMEN_CHARACTERS - 1] + "…"
