"""Measure constraints on words: how many are met, BLEU, time, and whether other sentences stay as they are.

    taskset -c 0 python -m benchmarks.constraints.constraints RUN --source test.en.gz --reference test.de.gz

Three of four sentences have one to four constraints: words of their references, or words of other references. They are
translated with and without constraints, in batches of 64 and one by one, in float32 and int8, alternating. Times are
processor seconds.
"""

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.evaluation import corpus_score
from dragoman.evaluation.metrics import Bleu
from dragoman.inference import Translation, Translator

MOST = 4
"""Constraints of a sentence."""
FREE = 4
"""One of so many sentences has no constraints."""
Drawn = list[list[dragoman.Constraint]]


def draw(references: Sequence[str], *, of_reference: bool, seed: int = 1) -> Drawn:
    """Draw words for each sentence, from its reference or from all references."""
    generator = random.Random(seed)
    every = sorted({word for one in references for word in words(one)})
    found: Drawn = []
    for number, reference in enumerate(references):
        source = sorted(words(reference)) if of_reference else every
        count = 0 if number % FREE == FREE - 1 else generator.randint(1, MOST)
        found.append([dragoman.Constraint(word) for word in generator.sample(source, min(count, len(source)))])
    return found


def words(text: str) -> set[str]:
    return {word for word in text.split() if any(character.isalpha() for character in word)}


def translate(
    translator: Translator, texts: Sequence[str], drawn: Drawn | None, *, size: int
) -> tuple[float, list[Translation]]:
    """Return the processor seconds and the best translations of batches of `size` texts."""
    found: list[Translation] = []
    start = time.process_time()
    for first in range(0, len(texts), size):
        part = slice(first, first + size)
        results = translator.translate(texts[part], constraints=None if drawn is None else drawn[part])
        found += [one[0] for one in results]
    return time.process_time() - start, found


def measure(translator: Translator, pairs: list[tuple[str, str]], drawn: Drawn, *, size: int, rounds: int) -> Any:
    """Return one row of the table."""
    texts = [source for source, _ in pairs]
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        took, free = translate(translator, texts, None, size=size)
        seconds[0].append(took)
        took, found = translate(translator, texts, drawn, size=size)
        seconds[1].append(took)
    rows = [number for number, own in enumerate(drawn) if own]
    bleu = [bleu_of([(one[row].text, pairs[row][1]) for row in rows]) for one in (free, found)]
    return {
        "constraints": sum(map(len, drawn)),
        "met": sum(len(drawn[row]) - len(found[row].unmet) for row in rows),
        "bleu": [round(one, 2) for one in bleu],
        "seconds": [round(min(one), 2) for one in seconds],
        "ratio": round(min(seconds[1]) / min(seconds[0]), 2),
        "others": len(texts) - len(rows),
        "others_identical": sum(free[row] == found[row] for row, own in enumerate(drawn) if not own),
    }


def bleu_of(pairs: list[tuple[str, str]]) -> float:
    outputs, references = zip(*pairs, strict=True)
    return corpus_score(outputs, [list(references)], Bleu(tokenize="none")).value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results.json"))
    arguments = parser.parse_args()
    sides = ([line for _, line in read_lines(one, ReadWarnings())] for one in (arguments.source, arguments.reference))
    pairs = list(zip(*sides, strict=True))[: arguments.lines]
    results = {}
    for compute_type in ("float32", "int8"):
        translator: Translator = dragoman.load(arguments.run, device="cpu", compute_type=compute_type)
        for name in ("reference", "random"):
            drawn = draw([reference for _, reference in pairs], of_reference=name == "reference")
            for size in (64, 1):
                row = measure(translator, pairs, drawn, size=size, rounds=arguments.rounds)
                results[f"{name} words, {compute_type}, batches of {size}"] = row
                print(name, compute_type, size, row, flush=True)
                update_results(arguments.output, {"sentences": len(pairs), "results": results})


if __name__ == "__main__":
    main()
