"""Cleaning rules for training pairs, and a report of the pairs that each rule removed."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, get_args

from pydantic import Field, TypeAdapter

from dragoman.config import Config
from dragoman.data.fingerprints import text_hash
from dragoman.data.readers.parallel import Example
from dragoman.errors import DataError
from dragoman.number_words import counted

MAX_SAMPLES = 3
SAMPLE_CHARACTERS = 80

MIN_EXAMPLES = 8
"""Minimum number of training examples."""

Rule = Literal["empty", "too long", "length ratio", "copied", "leak", "duplicate"]

RATIO_OFFSET = 10
"""Characters added to both sides before their ratio is taken, so that one word matters less in short texts."""


class CleaningConfig(Config):
    """Cleaning rules; pairs with an empty side are always removed."""

    max_words: int | None = Field(default=250, ge=1)
    """Maximum number of words, separated by spaces, on either side."""
    max_characters: int | None = Field(default=2500, ge=1)
    """Maximum number of characters on either side; bounds text without spaces."""
    max_length_ratio: float | None = Field(default=6.0, ge=1)
    """Maximum of (longer + 10) / (shorter + 10), in characters."""
    remove_copies: bool = True
    """Remove pairs whose target equals the source, unless they consist of numbers and signs."""
    remove_leaks: bool = True
    """Remove pairs whose source is in the validation or test set; they are reported in any case."""
    remove_duplicates: bool = True
    """Remove repeated pairs."""


@dataclass(frozen=True)
class SamplePair:
    """Pair that met a rule, cut to a readable length."""

    line: int
    source: str
    target: str

    @classmethod
    def of(cls, example: Example) -> Self:
        """Return the sample of a pair."""
        return cls(example.line, _shorten(example.source), _shorten(example.target))


@dataclass
class RuleResult:
    """Number of pairs that met a rule, whether they were removed, and samples."""

    rule: Rule
    removed: bool = True
    count: int = 0
    samples: list[SamplePair] = field(default_factory=list)


@dataclass
class CleaningReport:
    """Result of cleaning a corpus."""

    read: int = 0
    kept: int = 0
    rules: dict[Rule, RuleResult] = field(default_factory=lambda: {rule: RuleResult(rule) for rule in get_args(Rule)})

    def record(self, rule: Rule, example: Example, *, removes: bool) -> None:
        """Count a pair under a rule."""
        result = self.rules[rule]
        result.removed = removes
        result.count += 1
        if len(result.samples) < MAX_SAMPLES:
            result.samples.append(SamplePair.of(example))

    def merge(self, later: "CleaningReport", *, before: int) -> None:
        """Add the report of a later part of the corpus, with `before` lines before it; `kept` stays unchanged."""
        self.read += later.read
        for rule, other in later.rules.items():
            result = self.rules[rule]
            result.removed = other.removed if other.count else result.removed
            result.count += other.count
            moved = [replace(sample, line=before + sample.line) for sample in other.samples]
            result.samples = [*result.samples, *moved][:MAX_SAMPLES]

    @property
    def num_leaks(self) -> int:
        """Number of training pairs whose source is in a held-out set, removed or not."""
        return self.rules["leak"].count

    def table_rows(self) -> list[tuple[str, str, str, str]]:
        """Return rule, action, count and samples (one per line) of each rule with pairs."""
        return [
            (
                result.rule,
                "removed" if result.removed else "kept",
                f"{result.count:,}",
                "\n".join(f"line {sample.line}: {sample.source} | {sample.target}" for sample in result.samples),
            )
            for result in self.rules.values()
            if result.count
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {"read": self.read, "kept": self.kept, "rules": [asdict(result) for result in self.rules.values()]}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "CleaningReport":
        """Convert the output of `to_json`. Raises KeyError or ValueError for another tree."""
        rules = TypeAdapter(list[RuleResult]).validate_python(tree["rules"])
        read, kept = TypeAdapter(tuple[int, int]).validate_python((tree["read"], tree["kept"]))
        report = cls(read, kept)
        report.rules |= {result.rule: result for result in rules}
        return report


def passes_pair_rules(
    example: Example, settings: CleaningConfig, *, report: CleaningReport, held_out: Set[int] = frozenset()
) -> bool:
    """Return whether a pair passes the rules about a single pair; `report` counts it under the first rule it meets.

    `held_out` holds the `leak_key` of every validation and test text.
    """
    report.read += 1
    rule = _broken_rule(example, settings)
    if rule is not None:
        report.record(rule, example, removes=True)
        return False
    if held_out and leak_key(example) in held_out:
        report.record("leak", example, removes=settings.remove_leaks)
        return not settings.remove_leaks
    return True


def remove_empty(examples: Iterable[Example], *, report: CleaningReport) -> Iterator[Example]:
    """Yield the pairs without an empty side, for validation sets."""
    settings = CleaningConfig(max_words=None, max_characters=None, max_length_ratio=None, remove_copies=False)
    return (example for example in examples if passes_pair_rules(example, settings, report=report))


def leak_key(example: Example) -> int:
    """Return the hash of the source, in which a training pair equals a leaked text; spaces and case do not matter."""
    return text_hash(example.source.casefold())


def require_examples(report: CleaningReport, *, where: str, minimum: int = MIN_EXAMPLES) -> None:
    """Raise DataError if too few examples are left for training."""
    if report.kept >= minimum:
        return
    if report.read == 0:
        raise DataError(f"{where}: the corpus is empty; give a file with one text per line")
    results = report.rules.values()
    causes = ", ".join(f"{result.count:,} {result.rule}" for result in results if result.count and result.removed)
    raise DataError(
        f"{where}: {report.kept:,} of {counted(report.read, 'examples are', 'example is')} left after cleaning"
        f"{f' ({causes})' if causes else ''}; training needs at least {minimum}: give more text, or relax data.cleaning"
    )


def _broken_rule(example: Example, settings: CleaningConfig) -> Rule | None:
    """Return the first rule that the form of a pair breaks."""
    source, target = example.source.strip(), example.target.strip()
    if not source or not target:
        return "empty"
    short, long = sorted((len(source), len(target)))
    if settings.max_characters is not None and long > settings.max_characters:
        return "too long"
    if settings.max_words is not None and max(len(source.split()), len(target.split())) > settings.max_words:
        return "too long"
    ratio = settings.max_length_ratio
    if ratio is not None and long + RATIO_OFFSET > ratio * (short + RATIO_OFFSET):
        return "length ratio"
    if settings.remove_copies and source == target and any(character.isalpha() for character in source):
        return "copied"
    return None


def _shorten(text: str) -> str:
    shown = " ".join(text[: SAMPLE_CHARACTERS + 1].split())
    return shown if len(text) <= SAMPLE_CHARACTERS else shown[: SAMPLE_CHARACTERS - 1] + "…"
