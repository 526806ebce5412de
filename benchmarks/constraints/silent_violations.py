"""Count silent violations: constraints that a translation violates and does not report.

    python -m benchmarks.constraints.silent_violations RUN --source test.en.gz --cases 1000

Each case is a sentence, plain or with brackets and quotes, and words that its translation has to have, to have once or
not to have, or a term of a glossary. The final text is judged here by regular expressions, and not by the program.
Times are processor seconds of the translations with constraints.
"""

import argparse
import random
import re
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.inference import Translator

KINDS = ("required", "once", "forbidden", "term")
BATCH = 50
_WORD = re.compile(r"\w+(?:-\w+)*")


class Case(NamedTuple):
    """Text, and the word that its translation has to have or not to have."""

    text: str
    word: str
    term: str = ""
    """Word of the text that the word translates, for a glossary."""


def occurrences(word: str, text: str) -> int:
    """Count a word in a text: a part of a longer word does not count, nor one of a hyphenated word."""
    return len(re.findall(rf"(?<!\w)(?<!\w-){re.escape(word)}(?!\w)(?!-\w)", text))


def is_violated(kind: str, case: Case, translation: str) -> bool:
    if kind == "term":
        lower, count = case.word, 0
        for form in (lower, lower[0].upper() + lower[1:], lower.upper()):
            count += occurrences(form, translation)
        return count == 0
    count = occurrences(case.word, translation)
    return {"required": count == 0, "once": count != 1, "forbidden": count > 0}[kind]


def vary(text: str, number: int) -> str:
    """Return a text with brackets and quotes, or as it is."""
    words = text.split()
    first, rest = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    return [text, f"{first} ({rest})", f'{first} "{rest}"', f"{text} ({text})"][number % 4]


def draw(translator: Translator, lines: Sequence[str], kind: str, *, cases: int, seed: int = 1) -> list[Case]:
    """Draw words of the ordinary translations: of the text itself, or of another text."""
    generator = random.Random(f"{seed} {kind}")
    texts = [vary(generator.choice(lines), number) for number in range(cases)]
    free = [one.text for one in translator.translate(texts)]
    found = []
    for text, translation in zip(texts, free, strict=True):
        is_own = kind == "forbidden" or generator.random() < 0.5
        words = _WORD.findall(translation if is_own else generator.choice(free))
        sources = _WORD.findall(text)
        if words and (sources or kind != "term"):
            word = generator.choice(words)
            found.append(Case(text, word, generator.choice(sources) if kind == "term" else ""))
    return found


def translate(translator: Translator, kind: str, cases: Sequence[Case]) -> list[Any]:
    options: dict[str, Any]
    if kind == "term":
        options = {"glossary": [{case.term: case.word} for case in cases]}
    else:
        options = {"constraints": [[dragoman.Constraint(case.word, kind=kind)] for case in cases]}  # type: ignore[arg-type]
    return [one[0] for one in translator.translate([case.text for case in cases], **options)]


def measure(
    translator: Translator, kind: str, cases: Sequence[Case], report: Callable[[str], None]
) -> dict[str, float | int]:
    """Return the numbers of one kind of constraint; `report` receives each silent violation."""
    satisfied = silent = 0
    start = time.process_time()
    for first in range(0, len(cases), BATCH):
        some = cases[first : first + BATCH]
        for case, found in zip(some, translate(translator, kind, some), strict=True):
            violated = is_violated(kind, case, found.text)
            satisfied += not violated
            if violated and not found.unmet:
                silent += 1
                report(f"{kind}: {case} → {found.text!r}")
    seconds = round(time.process_time() - start, 1)
    return {"cases": len(cases), "satisfied": satisfied, "silent violations": silent, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--show", action="store_true", help="print each silent violation")
    parser.add_argument("--name", help="name of the results; by default not written")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("silent_violations.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line for _, line in read_lines(arguments.source, ReadWarnings()) if line.strip()]
    translator: Translator = dragoman.load(arguments.run, dragoman.Translator, device="cpu")
    translator.config = translator.config.model_copy(update={"beam_size": arguments.beam_size})
    results = {}
    for kind in arguments.kinds:
        cases = draw(translator, lines, kind, cases=arguments.cases, seed=arguments.seed)
        results[kind] = measure(translator, kind, cases, print if arguments.show else lambda _: None)
        print(kind, results[kind], flush=True)
    if arguments.name:
        update_results(arguments.output, {arguments.name: results})


if __name__ == "__main__":
    main()
