"""Plain cleaning and splitting in memory, with which the pipeline in blocks is compared."""

from collections.abc import Iterable, Iterator, Set

from dragoman.data.cleaning_rules import CleaningConfig, CleaningReport, passes_pair_rules
from dragoman.data.readers.parallel import Example
from dragoman.data.splits import split_hash


def clean(
    examples: Iterable[Example], settings: CleaningConfig, *, report: CleaningReport, held_out: Set[int] = frozenset()
) -> Iterator[Example]:
    """Yield the examples that pass all rules, in order."""
    seen = set()
    for example in examples:
        if not passes_pair_rules(example, settings, report=report, held_out=held_out):
            continue
        content = (" ".join(example.source.split()), " ".join(example.target.split()))
        if settings.remove_duplicates and content in seen:
            report.record("duplicate", example, removes=True)
            continue
        seen.add(content)
        report.kept += 1
        yield example


def hold_out(examples: list[Example], *, size: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Return the training and the held-out examples: those with the `size` lowest different hashes."""
    chosen = set(sorted({split_hash(example.source, seed=seed) for example in examples})[:size])
    held = [split_hash(example.source, seed=seed) in chosen for example in examples]
    train = [example for example, is_held in zip(examples, held, strict=True) if not is_held]
    return train, [example for example, is_held in zip(examples, held, strict=True) if is_held]
