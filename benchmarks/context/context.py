"""Pronouns and the verse before a verse: contrastive scores, translations, BLEU and chrF.

usage: python -m benchmarks.context.context TEST.tsv --alone RUN --context RUN

A contrastive pair is a verse with a pronoun whose gender its source does not say, and the same verse with the pronoun
of the other gender (ContraPro: Müller et al., 2018). A model is right if it gives the reference the higher
log-probability.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import dragoman
from dragoman.evaluation import Bleu, Chrf, corpus_score

HERE = Path(__file__).parent
OTHER_GENDER = {"él": "ella", "ella": "él", "ellos": "ellas", "ellas": "ellos"}
PRONOUN = re.compile(rf"\b({'|'.join(OTHER_GENDER)})\b")
GENDER_IN_SOURCE = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b")
"""Words that say the gender of a singular pronoun."""
TRANSLATED = 1000
"""Verses that are translated for BLEU and chrF, the first ones."""


@dataclass(frozen=True)
class Item:
    """Verse with a pronoun, the same with the other gender, and the verse before it in its chapter."""

    pronoun: str
    source: str
    right: str
    wrong: str
    before: list[str]


def read_rows(path: Path) -> list[tuple[str, str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(chapter, source, target) for chapter, source, target in (line.split("\t") for line in lines)]


def with_verse_before(rows: list[tuple[str, str, str]]) -> Iterable[tuple[list[str], str, str]]:
    yield [], *rows[0][1:]
    for (chapter, before, _), (own, source, target) in pairwise(rows):
        yield ([before] if own == chapter else []), source, target


def contrastive_items(rows: list[tuple[str, str, str]]) -> list[Item]:
    items = []
    for before, source, target in with_verse_before(rows):
        found = PRONOUN.search(target)
        if found is None or not before or (found[1] in ("él", "ella") and GENDER_IN_SOURCE.search(source)):
            continue
        wrong = target[: found.start()] + OTHER_GENDER[found[1]] + target[found.end() :]
        items.append(Item(found[1], source, target, wrong, before))
    return items


def shares(right: dict[str, list[bool]]) -> dict[str, float]:
    """Return the share of right answers for each pronoun, of all items, and the mean of the pronouns."""
    own = {name: sum(some) / len(some) for name, some in sorted(right.items())}
    everything = [one for some in right.values() for one in some]
    return {**own, "all": sum(everything) / len(everything), "mean": sum(own.values()) / len(own)}


def contrastive(
    translator: dragoman.Translator, items: list[Item], context: list[list[str]] | None
) -> dict[str, float]:
    sources = [item.source for item in items]
    scores = [
        translator.score(sources, targets, context=context)
        for targets in ([item.right for item in items], [item.wrong for item in items])
    ]
    right = defaultdict(list)
    for item, good, bad in zip(items, *scores, strict=True):
        right[item.pronoun].append(good.log_prob > bad.log_prob)
    return shares(right)


def translated(translator: dragoman.Translator, items: list[Item], context: list[list[str]] | None) -> dict[str, float]:
    """Return the shares of right pronouns among translations that have the pronoun of one of the genders."""
    results = translator.translate([item.source for item in items], context=context, beam_size=1)
    right = defaultdict(list)
    for item, result in zip(items, results, strict=True):
        words = PRONOUN.findall(result.text)
        if (item.pronoun in words) != (OTHER_GENDER[item.pronoun] in words):
            right[item.pronoun].append(item.pronoun in words)
    return {**shares(right), "translations": sum(map(len, right.values()))}


def measure(run: str, path: Path, kind: str | None) -> dict[str, Any]:
    """Measure a run without context, with the verses before, or with verses before other verses (`kind`)."""
    translator, rows = dragoman.load(run, dragoman.Translator), read_rows(path)
    items = contrastive_items(rows)
    before = None if kind is None else [item.before for item in items]
    if kind == "other":
        before = before[len(before) // 2 :] + before[: len(before) // 2] if before else None
    found: dict[str, Any] = {"pairs": len(items), "contrastive": contrastive(translator, items, before)}
    found["translated"] = translated(translator, items, before)
    if kind != "other":
        some = list(with_verse_before(rows))[:TRANSLATED]
        context = None if kind is None else [verse for verse, _, _ in some]
        outputs = [one.text for one in translator.translate([two for _, two, _ in some], context=context, beam_size=1)]
        references = [[target for _, _, target in some]]
        found |= {one.kind: corpus_score(outputs, references, one).value for one in (Bleu(), Chrf())}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("test", type=Path)
    parser.add_argument("--alone", required=True)
    parser.add_argument("--context", required=True)
    given = parser.parse_args()
    plan = {
        "trained without context": (given.alone, None),
        "trained with context, verse alone": (given.context, None),
        "trained with context, after the verse before": (given.context, "previous"),
        "trained with context, after a verse of another chapter": (given.context, "other"),
    }
    results = {}
    for name, (run, kind) in plan.items():
        results[name] = measure(run, given.test, kind)
        print(name, json.dumps(results[name], ensure_ascii=False), flush=True)
    (HERE / "results.json").write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
