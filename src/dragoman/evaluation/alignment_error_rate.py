r"""Word alignments against a gold standard (Och and Ney, 2003).

The gold standard has sure links $S$ and possible links $P \supseteq S$. For predicted links $A$,

$\mathrm{precision} = \frac{|A \cap P|}{|A|}$, $\mathrm{recall} = \frac{|A \cap S|}{|S|}$,
$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$,

summed over all sentences. Links are pairs of a source word and a target word, counted from 0.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.errors import DataError
from dragoman.number_words import counted

Links = frozenset[tuple[int, int]]
"""Pairs (source word, target word), each counted from 0."""

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True, slots=True)
class GoldAlignment:
    """Gold links of one sentence."""

    sure: Links
    possible: Links
    """Includes the sure links."""


@dataclass(frozen=True, slots=True)
class AlignmentScores:
    """Precision, recall and alignment error rate, each from 0 to 1, with the counts they are computed from."""

    precision: float
    recall: float
    error_rate: float
    links: int
    sure: int

    def __str__(self) -> str:
        return (
            f"AER {100 * self.error_rate:.1f} (precision {100 * self.precision:.1f}, recall {100 * self.recall:.1f}, "
            f"{self.links:,} links, {self.sure:,} sure in the gold)"
        )


def alignment_scores(predicted: Sequence[Iterable[tuple[int, int]]], gold: Sequence[GoldAlignment]) -> AlignmentScores:
    """Score predicted links. Without links, precision is 1; without sure links, recall is 1.

    Raises DataError if the numbers of sentences differ or are zero.

    >>> gold = GoldAlignment(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(0, 0), (1, 2), (1, 1)}))
    >>> print(alignment_scores([{(0, 0), (1, 1), (2, 1)}], [gold]))
    AER 40.0 (precision 66.7, recall 50.0, 3 links, 2 sure in the gold)
    """
    if len(predicted) != len(gold) or not gold:
        raise DataError(
            f"links of {counted(len(predicted), 'sentences')}, but gold links of {len(gold):,}; give both for each "
            f"sentence"
        )
    pairs = [(frozenset(links), reference) for links, reference in zip(predicted, gold, strict=True)]
    links = sum(len(own) for own, _ in pairs)
    sure = sum(len(reference.sure) for _, reference in pairs)
    both_sure = sum(len(own & reference.sure) for own, reference in pairs)
    both_possible = sum(len(own & reference.possible) for own, reference in pairs)
    return AlignmentScores(
        precision=both_possible / links if links else 1.0,
        recall=both_sure / sure if sure else 1.0,
        error_rate=1 - (both_sure + both_possible) / (links + sure) if links + sure else 0.0,
        links=links,
        sure=sure,
    )


def alignment_agreement(first: Sequence[Links], second: Sequence[Links]) -> float:
    r"""F1 of two alignments of the same sentences, $2\,|A \cap B| / (|A| + |B|)$; 1 if neither has links.

    It equals 1 minus the error rate of one alignment if the other is a gold standard of sure links only.
    """
    pairs = list(zip(first, second, strict=True))
    total = sum(len(a) + len(b) for a, b in pairs)
    return 2 * sum(len(a & b) for a, b in pairs) / total if total else 1.0


def read_gold_alignments(lines: Iterable[str], *, name: str) -> list[GoldAlignment]:
    """Parse gold alignments, one sentence per line: `3-4` is a sure and `3p4` a possible link, counted from 1.

    Raises DataError with the file's `name` and the line number for any other format.
    """
    return [_parse_gold(line, f"{name}: line {number}") for number, line in enumerate(lines, start=1)]


def _parse_gold(line: str, where: str) -> GoldAlignment:
    sure, possible = set(), set()
    for word in line.split():
        found = _LINK.fullmatch(word)
        if found is None or found[1] == "0" or found[3] == "0":
            raise DataError(
                f"{where}: {word!r} is not a link; write 3-4 for a sure and 3p4 for a possible link, counted from 1"
            )
        link = (int(found[1]) - 1, int(found[3]) - 1)
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))
