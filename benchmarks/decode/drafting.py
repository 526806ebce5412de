"""What guessing ahead saves in greedy search, on trained runs: identical outputs, the share of right guesses, time.

    taskset -c 0 python benchmarks/decode/drafting.py RUN --source test.en --draft copy --output drafting.json

Texts come one at a time, as they do where somebody waits, and all together; each road in turn, the median of the
rounds. Where guessing switches itself off, it is timed as it is; --always guesses on, whatever the share. Seconds are
those of the processor, so that others on the machine count little; on one core, or threads that wait would count too.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dragoman_cpu as cpu

import dragoman
from dragoman.data.readers import lines
from dragoman.decoding import Hypothesis, SearchSettings, drafting
from dragoman.inference import Translator
from dragoman.inference.backends.drafted import Drafted

GREEDY = SearchSettings(beam=1)
PLAIN = "without"


def one_by_one(translator: Translator, texts: list[str]) -> list[Hypothesis]:
    return [translator.hypotheses([text], GREEDY)[0][0].hypothesis for text in texts]


def together(translator: Translator, texts: list[str]) -> list[Hypothesis]:
    return [row[0].hypothesis for row in translator.hypotheses(texts, GREEDY)]


def timed(task: Callable[[], list[Hypothesis]]) -> tuple[float, list[Hypothesis]]:
    began = time.process_time()
    found = task()
    return time.process_time() - began, found


def measured(translators: dict[str, Translator], texts: list[str], road: Any, rounds: int) -> dict[str, dict[str, Any]]:
    """Seconds, and how many outputs have the same tokens and the same log-probabilities, to the last bit."""
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    found: dict[str, list[Hypothesis]] = {}
    for _ in range(rounds):
        for name, translator in translators.items():
            took, found[name] = timed(lambda translator=translator: road(translator, texts))
            seconds[name].append(took)
    rows: dict[str, dict[str, Any]] = {}
    for name, translator in translators.items():
        rows[name] = {
            "seconds": round(statistics.median(seconds[name]), 3),
            "same": sum(a == b for a, b in zip(found[name], found[PLAIN], strict=True)),
            "of": len(texts),
        }
        if isinstance(translator.network, Drafted):
            rows[name]["times_faster"] = round(statistics.median(seconds[PLAIN]) / statistics.median(seconds[name]), 2)
    return rows


def shares(translators: dict[str, Translator], texts: list[str], *, always: bool) -> dict[str, dict[str, int]]:
    """How many guesses are made and are right in one go, one text at a time."""
    rows = {}
    for name, translator in translators.items():
        if isinstance(translator.network, Drafted):
            before = translator.network.acceptance.proposed, translator.network.acceptance.accepted
            tokens = sum(one.length for one in one_by_one(translator, texts))
            acceptance = translator.network.acceptance
            rows[name] = {
                "tokens": tokens,
                "guessed": acceptance.proposed - before[0],
                "right": acceptance.accepted - before[1],
                "goes_on": acceptance.pays and not always,
            }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True, help="plain texts, or JSON lines with a field `source`")
    parser.add_argument("--draft", action="append", default=[])
    parser.add_argument("--compute", choices=["int8", "bfloat16", "float32"], default="int8")
    parser.add_argument("--lines", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=int, default=drafting.LONGEST, help="tokens guessed ahead at most")
    parser.add_argument("--always", action="store_true", help="guess on, however few are right")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    drafting.LONGEST = asked.longest
    if asked.always:
        drafting.LEAST = 0.0
    texts = [text for _, text in lines(asked.source)]
    if asked.source.name.removesuffix(".gz").endswith(".jsonl"):
        read = [json.loads(text)["source"] for text in texts]
        texts = [" ".join(one) if isinstance(one, list) else one for one in read]
    texts = texts[: asked.lines]
    options = {"device": "cpu", "compute": asked.compute}
    translators = {PLAIN: dragoman.load(asked.run, **options)}
    translators |= {Path(draft).name: dragoman.load(asked.run, draft=draft, **options) for draft in asked.draft}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": asked.run.name,
        "compute": asked.compute,
        "instruction_set": cpu.instruction_sets()[0],
        "longest_guess": asked.longest,
        "switched_off_below": drafting.LEAST,
        "guesses": shares(translators, texts, always=asked.always),
        "one_by_one": measured(translators, texts, one_by_one, asked.rounds),
        "together": measured(translators, texts, together, asked.rounds),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
