"""Count terms that a model finds unlikely, and whose ordinary translation stays in the text next to them.

    python -m benchmarks.terminology.unlikely_terms runs/en-pt

The sentences and terms of `unlikely_terms.tsv` are from English to Portuguese: synonyms such as `viatura` for `car`. A
translation that has the term and the ordinary word, too, has the term in a wrong place. `constraints` are words that
the search meets where it finds a place, `glossary` are terms of a glossary.
"""

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dragoman
from benchmarks.collect_runs import update_results
from dragoman import Constraint
from dragoman.inference import Translator

HERE = Path(__file__).parent


class Sentence(NamedTuple):
    """Sentence, and the translation and ordinary translations of its terms."""

    text: str
    terms: dict[str, str]
    ordinary: dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    translator = dragoman.load(arguments.run, Translator)
    sentences = read_sentences(HERE / "unlikely_terms.tsv")
    rows = [measure(translator, sentences, name) for name in ("none", "constraints", "glossary")]
    update_results(arguments.out, {"unlikely": rows})
    print("| terms | met | next to the ordinary translation | seconds |\n|---|---:|---:|---:|")
    for row in rows:
        print(f"| {row['control']} | {row['met']} of {row['terms']} | {row['ordinary']} | {row['seconds']} |")


def read_sentences(path: Path) -> list[Sentence]:
    """Read lines of a sentence and terms: `source=translation=ordinary|ordinary`, separated by tabs."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text, *cells = line.split("\t")
        rows = [cell.split("=") for cell in cells]
        terms = {source: target for source, target, _ in rows}
        found.append(Sentence(text, terms, {source: words.split("|") for source, _, words in rows}))
    return found


def measure(translator: Translator, sentences: Sequence[Sentence], control: str) -> dict[str, Any]:
    """Return how many terms translations have, and how many ordinary translations."""
    options: dict[str, Any] = {}
    match control:
        case "constraints":
            options["constraints"] = [
                [Constraint((word, word.capitalize())) for word in one.terms.values()] for one in sentences
            ]
        case "glossary":
            options["glossary"] = [one.terms for one in sentences]
    start = time.process_time()
    found = translator.translate([one.text for one in sentences], **options)
    seconds = time.process_time() - start
    pairs = [
        (result.text, one.terms[term], one.ordinary[term])
        for one, result in zip(sentences, found, strict=True)
        for term in one.terms
    ]
    return {
        "control": control,
        "terms": len(pairs),
        "met": sum(has_word(text, word) for text, word, _ in pairs),
        "ordinary": sum(any(has_word(text, word) for word in words) for text, _, words in pairs),
        "seconds": round(seconds, 1),
        "translations": [result.text for result in found],
    }


def has_word(text: str, word: str) -> bool:
    """Return whether a text has a word, in any case."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


if __name__ == "__main__":
    main()
