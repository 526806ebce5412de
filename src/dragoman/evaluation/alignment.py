r"""Word alignments against a gold standard (Och and Ney, 2003).

The gold has links that are sure, $S$, and links that are possible, $P \supseteq S$. Of links $A$,

$\mathrm{precision} = \frac{|A \cap P|}{|A|}$, $\mathrm{recall} = \frac{|A \cap S|}{|S|}$,
$\mathrm{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}$,

over all sentences together. Links are pairs of a source word and a target word, counted from 0.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.errors import DataError

Links = frozenset[tuple[int, int]]
"""(source word, target word), each from 0."""

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True, slots=True)
class GoldAlignment:
    """What a person linked in one sentence."""

    sure: Links
    possible: Links
    """Those that are sure among them."""


@dataclass(frozen=True, slots=True)
class AlignmentScores:
    """Precision, recall and alignment error rate of links, each from 0 to 1, and the numbers that they come from."""

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


def alignment_scores(found: Sequence[Iterable[tuple[int, int]]], gold: Sequence[GoldAlignment]) -> AlignmentScores:
    """The scores of the links found in each sentence. No links have precision 1, no sure links recall 1.

    Raises DataError on unequal numbers of sentences, or none.

    >>> gold = GoldAlignment(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(0, 0), (1, 2), (1, 1)}))
    >>> print(alignment_scores([{(0, 0), (1, 1), (2, 1)}], [gold]))
    AER 40.0 (precision 66.7, recall 50.0, 3 links, 2 sure in the gold)
    """
    if len(found) != len(gold) or not gold:
        raise DataError(f"links of {len(found):,} sentences, but gold of {len(gold):,}; give both for each sentence")
    pairs = [(frozenset(links), one) for links, one in zip(found, gold, strict=True)]
    links = sum(len(own) for own, _ in pairs)
    sure = sum(len(one.sure) for _, one in pairs)
    both_sure = sum(len(own & one.sure) for own, one in pairs)
    both_possible = sum(len(own & one.possible) for own, one in pairs)
    return AlignmentScores(
        precision=both_possible / links if links else 1.0,
        recall=both_sure / sure if sure else 1.0,
        error_rate=1 - (both_sure + both_possible) / (links + sure) if links + sure else 0.0,
        links=links,
        sure=sure,
    )


def agreement(one: Sequence[Links], other: Sequence[Links]) -> float:
    r"""How far two alignments of the same sentences agree: $2\,|A \cap B| / (|A| + |B|)$, 1 where neither has links.

    It is 1 minus the error rate of either where the other is a gold of sure links alone.
    """
    pairs = list(zip(one, other, strict=True))
    total = sum(len(own) + len(theirs) for own, theirs in pairs)
    return 2 * sum(len(own & theirs) for own, theirs in pairs) / total if total else 1.0


def read_gold(lines: Iterable[str], *, name: str) -> list[GoldAlignment]:
    """Gold alignments of sentences, one a line: `3-4` is sure and `3p4` possible, words counted from 1.

    Raises DataError, with the file's `name` and the line, where something else stands there.
    """
    return [_gold_of(line, f"{name}: line {number}") for number, line in enumerate(lines, start=1)]


def _gold_of(line: str, where: str) -> GoldAlignment:
    sure, possible = set(), set()
    for word in line.split():
        found = _LINK.fullmatch(word)
        if found is None or found[1] == "0" or found[3] == "0":
            raise DataError(f"{where}: {word!r} is no link; write 3-4 for a sure and 3p4 for a possible one, from 1 on")
        link = (int(found[1]) - 1, int(found[3]) - 1)
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))
