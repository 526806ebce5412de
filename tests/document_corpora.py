"""Synthetic documents whose pronouns depend on the sentence before: `it` is `er`, `sie` or `es` by its noun."""

import random
from pathlib import Path

NOUNS = {
    "er": {"dog": "Hund", "table": "Tisch", "tree": "Baum", "key": "Schlüssel", "spoon": "Löffel", "train": "Zug"},
    "sie": {"cat": "Katze", "lamp": "Lampe", "bottle": "Flasche", "door": "Tür", "fork": "Gabel", "bag": "Tasche"},
    "es": {"horse": "Pferd", "book": "Buch", "house": "Haus", "boat": "Boot", "knife": "Messer", "bed": "Bett"},
}
ARTICLES = {"er": "der", "sie": "die", "es": "das"}
PLACES = {"here": "hier", "there": "dort", "outside": "draußen", "inside": "drinnen"}
ADJECTIVES = {"small": "klein", "old": "alt", "new": "neu", "red": "rot", "heavy": "schwer", "fast": "schnell"}
PRONOUNS = tuple(NOUNS)


def document(generator: random.Random) -> tuple[list[str], list[str]]:
    """Return a document of two sentences, which begin with a noun and with its pronoun."""
    pronoun = generator.choice(PRONOUNS)
    noun, translation = generator.choice(list(NOUNS[pronoun].items()))
    place, here = generator.choice(list(PLACES.items()))
    adjective, word = generator.choice(list(ADJECTIVES.items()))
    sources = [f"the {noun} is {place} .", f"it is {adjective} ."]
    return sources, [f"{ARTICLES[pronoun]} {translation} ist {here} .", f"{pronoun} ist {word} ."]


def write_documents(folder: Path, name: str, *, count: int, seed: int) -> None:
    """Write NAME.en and NAME.de: documents with a blank line after each."""
    generator = random.Random(seed)
    documents = [document(generator) for _ in range(count)]
    for side, ending in enumerate(("en", "de")):
        text = "".join("\n".join(one[side]) + "\n\n" for one in documents)
        (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")
