"""Verses of two Bibles, English and Spanish, with their chapters as documents.

usage: python -m benchmarks.context.bible_pairs SWORD_FOLDER FOLDER

`SWORD_FOLDER` is /usr/share/sword of Debian's packages sword-text-web and sword-text-sparv; pysword of PyPI reads it.
`FOLDER` gets train.tsv, valid.tsv and test.tsv with the columns chapter, English and Spanish, in lower case.
"""

import random
import sys
from pathlib import Path

from pysword.modules import SwordModules

MODULES = ("engWEB2015eb", "spaRV1909eb")
TEST, VALID = 120, 20
"""Chapters."""
SEED = 1

Verse = tuple[str, str, str]


def read_verses(folder: str) -> list[Verse]:
    """Return chapter, English and Spanish text of each verse that both have."""
    modules = SwordModules(folder)
    modules.parse_modules()
    bibles = [modules.get_bible_from_module(name) for name in MODULES]
    verses = []
    for testament in ("ot", "nt"):
        books = [bible.get_structure().get_books()[testament] for bible in bibles]
        for pair in zip(*books, strict=False):  # the English one has further books at the end
            for chapter in range(1, pair[0].num_chapters + 1):
                texts = [
                    [" ".join(verse.split()).lower() for verse in bible.get_iter(books=[book.name], chapters=[chapter])]
                    for bible, book in zip(bibles, pair, strict=True)
                ]
                rows = zip(*texts, strict=False)
                verses += [
                    (f"{pair[0].name} {chapter}", source, target) for source, target in rows if source and target
                ]
    return verses


def write_splits(verses: list[Verse], folder: Path) -> None:
    """Write the verses of each split; a chapter is in one split."""
    chapters = list(dict.fromkeys(chapter for chapter, _, _ in verses))
    random.Random(SEED).shuffle(chapters)
    parts = {"test": chapters[:TEST], "valid": chapters[TEST : TEST + VALID], "train": chapters[TEST + VALID :]}
    for name, some in parts.items():
        chosen = set(some)
        rows = ("\t".join(verse) + "\n" for verse in verses if verse[0] in chosen)
        (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    write_splits(read_verses(sys.argv[1]), Path(sys.argv[2]))
