"""Cleaning rules, their counts and samples."""

import json

import pytest

from dragoman.data.cleaning_rules import CleaningConfig, CleaningReport, leak_key, remove_empty, require_examples
from dragoman.data.readers.parallel import Example, ParallelFiles, read_corpus
from dragoman.errors import DataError
from tests.plain_cleaning import clean

NOTHING = CleaningConfig(
    max_words=None,
    max_characters=None,
    max_length_ratio=None,
    remove_copies=False,
    remove_leaks=False,
    remove_duplicates=False,
)
GOOD = ("The dog plays.", "Der Hund spielt.")


def examples(*pairs: tuple[str, str]) -> list[Example]:
    return [Example(source, target, line) for line, (source, target) in enumerate(pairs, start=1)]


def cleaned(
    pairs: list[tuple[str, str]], settings: CleaningConfig, held_out: set[int] = frozenset()
) -> tuple[list[int], CleaningReport]:
    report = CleaningReport()
    lines = [one.line for one in clean(examples(*pairs), settings, report=report, held_out=held_out)]
    assert report.read == len(pairs)
    assert report.kept == len(lines)
    return lines, report


@pytest.mark.parametrize(
    ("rule", "settings", "bad"),
    [
        ("empty", NOTHING, ("The dog.", " \u00a0")),
        ("empty", NOTHING, ("", "Der Hund.")),
        ("too long", NOTHING.model_copy(update={"max_words": 3}), ("a b c", "a b c d")),
        ("too long", NOTHING.model_copy(update={"max_characters": 16}), ("dog", "x" * 17)),
        ("length ratio", NOTHING.model_copy(update={"max_length_ratio": 2.0}), ("dog", "x" * 17)),
        ("copied", NOTHING.model_copy(update={"remove_copies": True}), ("The dog.", " The dog.")),
        ("duplicate", NOTHING.model_copy(update={"remove_duplicates": True}), ("The dog  plays.", "Der Hund spielt. ")),
    ],
)
def test_each_rule_removes_its_pairs_only(rule, settings, bad):
    lines, report = cleaned([GOOD, bad, ("12", "12")], settings)
    assert lines == [1, 3]
    assert {name: finding.count for name, finding in report.rules.items() if finding.count} == {rule: 1}
    [specimen] = report.rules[rule].samples
    assert specimen.line == 2


def test_limits_are_inclusive():
    settings = NOTHING.model_copy(update={"max_words": 3, "max_characters": 16, "max_length_ratio": 2.0})
    assert cleaned([("a b c", "x" * 16), ("x" * 3, "x" * 16), ("", "")], settings)[0] == [1, 2]


def test_without_rules_only_empty_pairs_are_removed():
    long = " ".join(["word"] * 100_000)
    assert cleaned([GOOD, GOOD, ("dog", "dog"), ("dog", long), ("", "x")], NOTHING)[0] == [1, 2, 3, 4]


def test_overlong_line_is_removed_and_shown_short():
    lines, report = cleaned([GOOD, (" ".join(["word"] * 100_000), "Wort")], CleaningConfig())
    assert lines == [1]
    [specimen] = report.rules["too long"].samples
    assert len(specimen.source) <= 80
    assert specimen.source.endswith("…")


def test_other_translations_are_no_duplicates():
    assert cleaned([GOOD, (GOOD[0], "Der Hund tobt."), GOOD], CleaningConfig())[0] == [1, 2]


@pytest.mark.parametrize("removes", [True, False])
def test_leak_is_reported_even_if_kept(removes):
    held_out = {leak_key(example) for example in examples(("the DOG  plays.", "anything"))}
    lines, report = cleaned(
        [GOOD, ("A cat.", "Eine Katze."), GOOD], CleaningConfig(remove_leaks=removes, remove_duplicates=False), held_out
    )
    assert lines == ([2] if removes else [1, 2, 3])
    assert report.num_leaks == 2
    assert report.table_rows()[0][:3] == ("leak", "removed" if removes else "kept", "2")


def test_three_samples_of_each_rule_are_kept():
    _, report = cleaned([("", f"text {n}") for n in range(7)], CleaningConfig())
    assert report.rules["empty"].count == 7
    assert [specimen.line for specimen in report.rules["empty"].samples] == [1, 2, 3]
    [(rule, did, count, specimens)] = report.table_rows()
    assert (rule, did, count) == ("empty", "removed", "7")
    assert specimens.splitlines() == ["line 1:  | text 0", "line 2:  | text 1", "line 3:  | text 2"]


def test_report_survives_json():
    _, report = cleaned([GOOD, GOOD, ("", "x")], CleaningConfig())
    assert CleaningReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_validation_text_loses_only_empty_pairs():
    report = CleaningReport()
    pairs = examples(GOOD, GOOD, ("dog", "dog"), ("x", ""), ("x", "y " * 1000))
    assert [one.line for one in remove_empty(pairs, report=report)] == [1, 2, 3, 5]


def test_too_few_examples_are_refused():
    report = CleaningReport()
    list(clean(examples(*[(f"dog {n}", f"Hund {n}") for n in range(8)]), CleaningConfig(), report=report))
    require_examples(report, where="a.en")
    with pytest.raises(DataError, match=r"a\.en: 8 of 8 examples are left after cleaning; .* at least 9"):
        require_examples(report, where="a.en", minimum=9)
    with pytest.raises(DataError, match=r"a\.en: the corpus is empty"):
        require_examples(CleaningReport(), where="a.en")
    list(clean(examples(("", "x"), ("a", "a")), CleaningConfig(), report=(report := CleaningReport())))
    with pytest.raises(DataError, match=r"0 of 2 .*\(1 empty, 1 copied\)"):
        require_examples(report, where="a.en")


def test_clean_corpus_passes_the_rules(shared_data):
    folder = shared_data / "multi30k"
    report = CleaningReport()
    corpus = ParallelFiles(source=folder / "val.en.gz", target=folder / "val.de.gz")
    assert len(list(clean(read_corpus(corpus), CleaningConfig(), report=report))) == 1014
    assert report.table_rows() == []
