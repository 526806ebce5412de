"""Writes train.en and train.de: all sentences of a grammar of twelve words, in a made-up German."""

import itertools
from pathlib import Path

WHO = {"two dogs": "zwei Hunde", "the cat": "die Katze", "a man": "ein Mann", "the small cat": "die kleine Katze"}
DOES = {"sees": "sieht", "sleeps in": "schläft in", "plays with": "spielt mit"}
WHAT = {"the house": "dem Haus", "two dogs": "zwei Hunde", "a cat": "eine Katze", "a small house": "ein kleines Haus"}
ENDS = {"": "", "and sleeps": "und schläft", "and plays": "und spielt"}

with Path("train.en").open("w", encoding="utf-8") as source, Path("train.de").open("w", encoding="utf-8") as target:
    for parts in itertools.product(WHO, DOES, WHAT, ENDS):
        tables = zip((WHO, DOES, WHAT, ENDS), parts, strict=True)
        source.write(" ".join(part for part in parts if part) + "\n")
        target.write(" ".join(word for table, part in tables if (word := table[part])) + "\n")
