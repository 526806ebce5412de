"""Rules that keep harmful pairs out of training, and a report of what each of them removed."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from pydantic import Field

from dragoman.config import Config
from dragoman.data.hashing import HashSet, text_hash
from dragoman.data.readers.parallel import Example
from dragoman.errors import DataError

MAX_SAMPLES = 3
SAMPLE_CHARACTERS = 80

MIN_EXAMPLES = 8
"""Examples below which there is nothing to learn or to hold out."""

Rule = Literal["empty", "too long", "length ratio", "copied", "leak", "duplicate"]

RATIO_OFFSET = 10
"""Characters added to both sides before their ratio is taken, so that short texts are not judged by a word."""


class CleaningConfig(Config):
    """Which pairs are kept out of training; those with an empty side always are."""

    max_words: int | None = Field(250, ge=1)
    """Words, separated by spaces, of either side."""

    max_characters: int | None = Field(2500, ge=1)
    """Characters of either side; bounds writing without spaces."""

    max_length_ratio: float | None = Field(6.0, ge=1)
    """(longer + 10) / (shorter + 10), in characters."""

    remove_copies: bool = True
    """Remove pairs whose target is the source, letter for letter; numbers and signs alone may be copied."""

    remove_leaks: bool = True
    """Remove pairs whose source is in the validation or test set; they are reported in any case."""

    remove_duplicates: bool = True
    """Remove pairs that came before."""


@dataclass(frozen=True)
class SamplePair:
    """A pair that a rule met, cut to a readable length."""

    line: int
    source: str
    target: str


@dataclass
class RuleResult:
    """How often a rule was met, whether it removes, and the first specimens."""

    rule: Rule
    removed: bool = True
    count: int = 0
    samples: list[SamplePair] = field(default_factory=list)


@dataclass
class CleaningReport:
    """What cleaning did to a corpus; complete when the last example was taken."""

    read: int = 0
    kept: int = 0
    rules: dict[Rule, RuleResult] = field(default_factory=lambda: {rule: RuleResult(rule) for rule in get_args(Rule)})

    def record(self, rule: Rule, example: Example, *, removes: bool) -> None:
        """Count a pair under a rule."""
        finding = self.rules[rule]
        finding.removed = removes
        finding.count += 1
        if len(finding.samples) < MAX_SAMPLES:
            finding.samples.append(SamplePair(example.line, _cut(example.source), _cut(example.target)))

    def merge(self, later: "CleaningReport", *, before: int) -> None:
        """Count on with what was met in a later stretch of the corpus, with so many lines `before` it.

        `kept` is left to who knows of duplicates.
        """
        self.read += later.read
        for rule, other in later.rules.items():
            finding = self.rules[rule]
            if other.count:
                finding.removed = other.removed
                finding.count += other.count
                moved = [replace(one, line=before + one.line) for one in other.samples]
                finding.samples = [*finding.samples, *moved][:MAX_SAMPLES]

    @property
    def num_leaks(self) -> int:
        """Training pairs whose source is held-out text, removed or not."""
        return self.rules["leak"].count

    def table_rows(self) -> list[tuple[str, str, str, str]]:
        """Of each rule that met anything: its name, what it did, how often, and its specimens, a line each."""
        return [
            (
                finding.rule,
                "removed" if finding.removed else "kept",
                f"{finding.count:,}",
                "\n".join(f"line {one.line}: {one.source} | {one.target}" for one in finding.samples),
            )
            for finding in self.rules.values()
            if finding.count
        ]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {"read": self.read, "kept": self.kept, "rules": [asdict(one) for one in self.rules.values()]}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "CleaningReport":
        """The report that `to_json` wrote."""
        report = cls(read=tree["read"], kept=tree["kept"])
        for one in tree["rules"]:
            specimens = [SamplePair(**specimen) for specimen in one["samples"]]
            report.rules[one["rule"]] = RuleResult(one["rule"], one["removed"], one["count"], specimens)
        return report


def clean(
    examples: Iterable[Example], settings: CleaningConfig, *, report: CleaningReport, held_out: HashSet | None = None
) -> Iterator[Example]:
    """The examples that pass, in order; `report` counts the others, each under the first rule that it meets.

    `held_out` holds `held_out_key` of every text that must not be trained on.
    """
    seen = HashSet()
    for example in examples:
        if not passes_pair_rules(example, settings, report=report, held_out=held_out):
            continue
        if settings.remove_duplicates and not seen.add(text_hash(example.source, example.target)):
            report.record("duplicate", example, removes=True)
            continue
        report.kept += 1
        yield example


def passes_pair_rules(
    example: Example, settings: CleaningConfig, *, report: CleaningReport, held_out: HashSet | None = None
) -> bool:
    """Whether a pair passes what needs no look at the others; it is counted as read, and under the rule that it meets.

    `held_out` holds `held_out_key` of every text that must not be trained on.
    """
    report.read += 1
    rule = _form_fault(example, settings)
    if rule is not None:
        report.record(rule, example, removes=True)
        return False
    if held_out and leak_key(example) in held_out:
        report.record("leak", example, removes=settings.remove_leaks)
        return not settings.remove_leaks
    return True


def remove_empty(examples: Iterable[Example], *, report: CleaningReport) -> Iterator[Example]:
    """For validation text: only pairs with an empty side are left out."""
    settings = CleaningConfig(
        max_words=None, max_characters=None, max_length_ratio=None, remove_copies=False, remove_duplicates=False
    )
    return clean(examples, settings, report=report)


def leak_key(example: Example) -> int:
    """What makes a training pair a leak: the source, whatever its spaces and case."""
    return text_hash(example.source.casefold())


def require_examples(report: CleaningReport, *, where: str, minimum: int = MIN_EXAMPLES) -> None:
    """Raise DataError where too few examples are left to train on."""
    if report.kept >= minimum:
        return
    if report.read == 0:
        raise DataError(f"{where}: the corpus is empty; give a file with a text a line")
    causes = ", ".join(f"{one.count:,} {one.rule}" for one in report.rules.values() if one.count and one.removed)
    raise DataError(
        f"{where}: {report.kept:,} of {report.read:,} examples are left after cleaning"
        f"{f' ({causes})' if causes else ''}; training needs at least {minimum}: give more text, or relax data.cleaning"
    )


def _form_fault(example: Example, settings: CleaningConfig) -> Rule | None:
    """The first rule that the pair breaks by itself."""
    source, target = example.source.strip(), example.target.strip()
    if not source or not target:
        return "empty"
    short, long = sorted((len(source), len(target)))
    if settings.max_characters is not None and long > settings.max_characters:
        return "too long"
    if settings.max_words is not None and max(len(source.split()), len(target.split())) > settings.max_words:
        return "too long"
    if settings.max_length_ratio is not None and long + RATIO_OFFSET > settings.max_length_ratio * (
        short + RATIO_OFFSET
    ):
        return "length ratio"
    if settings.remove_copies and source == target and any(character.isalpha() for character in source):
        return "copied"
    return None


def _cut(text: str) -> str:
    shown = " ".join(text[: SAMPLE_CHARACTERS + 1].split())
    return shown if len(text) <= SAMPLE_CHARACTERS else shown[: SAMPLE_CHARACTERS - 1] + "…"
