"""Speed beside CTranslate2 and Hugging Face: the same weights, sources and search, in turns.

    python -m benchmarks.decode.speed --folder /tmp/base --rounds 3 --output benchmarks/decode/speed.json

needs `pip install ctranslate2 transformers`. The model is `base` with random weights, a source has 24 tokens, its end
symbol included, and an output exactly 32. Every program runs in a process of its own; a round asks each once for every
piece of work, in an order that changes from round to round. First of all outputs of float32 are compared.

The first round asks CTranslate2 and Hugging Face with one thread and with two, the others with what was faster. Two
translators of one thread, which share the sentences, are CTranslate2's own way to use two cores, and stand for
themselves. `--tiny` only checks that this runs.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.decode.base_model import PARTNERS_COMPUTES, Folders, prepared
from benchmarks.decode.programs import CTranslate2, HuggingFace, Ours, Output, Program, Running

COMPUTES = ("float32", "bfloat16", "int8")
SOURCE, TARGET = 24, 32
WORK = ((1, 1), (1, 4), (32, 1), (32, 4), (64, 4))
SENTENCES = list(dict.fromkeys(sentences for sentences, _ in WORK))
TOLERANCE = 1e-3
SHORT_CALLS = 5
"""Calls of a turn with one sentence, of which the median counts."""
Work = tuple[int, int]
Times = dict[Work, list[float]]


def programs(folders: Folders, computes: Sequence[str]) -> dict[str, Program]:
    """All that take part, by name: what stands behind a slash are ways to run the same, of which the fastest counts."""
    found: dict[str, Program] = {}
    for compute in computes:
        found[f"dragoman {compute}"] = Ours(folders.run, compute)
        if compute in PARTNERS_COMPUTES:
            model, name = folders.ctranslate2(compute), f"ctranslate2 {compute}"
            for threads in (1, 2):
                found[f"{name}/{threads}"] = CTranslate2(model, compute, inter=1, intra=threads)
            found[f"{name}, two translators"] = CTranslate2(model, compute, inter=2, intra=1)
    for threads in (1, 2):
        found[f"huggingface float32/{threads}"] = HuggingFace(folders.run, threads)
    return found


def sources(vocabulary: int, sentences: int) -> list[list[int]]:
    generator = random.Random(1)
    return [[*(generator.randrange(4, vocabulary) for _ in range(SOURCE - 1)), 3] for _ in range(sentences)]


def compared(running: Mapping[str, Running], texts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """How near the float32 outputs of each program are to ours; raises ValueError where they are not the same."""
    found: dict[str, Any] = {}
    for sentences, beam in dict.fromkeys((len(texts), beam) for _, beam in WORK):
        ours = running["dragoman float32"](texts, beam=beam, tokens=TARGET, scores=True)[1]
        for name in ("ctranslate2 float32/2", "huggingface float32/2"):
            theirs = running[name](texts, beam=beam, tokens=TARGET, scores=True)[1]
            found[f"{name}, beam {beam}"] = agreement(ours, theirs) | {"sentences": sentences}
    wrong = [name for name, one in found.items() if one["different"] or one["largest_difference"] > TOLERANCE]
    if wrong:
        raise ValueError(f"not the same outputs: {json.dumps(found, indent=1)}")
    return found


def agreement(ours: Sequence[Output], theirs: Sequence[Output]) -> dict[str, Any]:
    pairs = list(zip(ours, theirs, strict=True))
    differences = [abs(mine[1] - other[1]) for mine, other in pairs if mine[1] is not None and other[1] is not None]
    return {
        "different": sum(mine[0] != other[0] for mine, other in pairs),
        "largest_difference": max(differences, default=0.0),
        "scores_compared": len(differences),
        "distinct_tokens": len({token for mine, _ in pairs for token in mine[0]}),
    }


def measured(
    running: Mapping[str, Running],
    texts: Sequence[Sequence[int]],
    chosen: Sequence[Work],
    *,
    rounds: int,
    limit: float,
) -> dict[str, Times]:
    """Seconds of each program for each piece of work, round by round; none is begun after `limit` seconds."""
    begun = time.monotonic()
    order = random.Random(2)
    times: dict[str, Times] = {name: {work: [] for work in chosen} for name in running}
    for program in running.values():
        for sentences, beam in ((1, 1), (2, 4)):
            program(texts[:sentences], beam=beam, tokens=TARGET)
    for number in range(rounds):
        if time.monotonic() - begun > limit:
            break
        for sentences, beam in chosen:
            asked = list(running) if number == 0 else list(fastest_ways(times, (sentences, beam)).values())
            for name in order.sample(asked, len(asked)):
                calls = SHORT_CALLS if sentences == 1 else 1
                seconds, _ = running[name](texts[:sentences], beam=beam, tokens=TARGET, calls=calls)
                times[name][sentences, beam].append(seconds)
    return times


def fastest_ways(times: Mapping[str, Times], work: Work) -> dict[str, str]:
    """For each program the way to run it that was fastest in the first round."""
    ways: dict[str, str] = {}
    for name, theirs in times.items():
        program = name.split("/")[0]
        if program not in ways or theirs[work][0] < times[ways[program]][work][0]:
            ways[program] = name
    return ways


def rows(times: Mapping[str, Times]) -> list[dict[str, Any]]:
    """For each piece of work the median milliseconds of each program, and the median of the ratios to ours."""
    found = []
    for work in next(iter(times.values())):
        ways = fastest_ways(times, work)
        seconds = {program: times[way][work] for program, way in ways.items()}
        row: dict[str, Any] = {"sentences": work[0], "beam": work[1], "fastest_ways": list(ways.values())}
        row["milliseconds"] = {name: round(1e3 * statistics.median(some), 2) for name, some in seconds.items()}
        row["times_faster"] = {
            f"{ours} than {theirs}": round(statistics.median(map(_ratio, seconds[theirs], seconds[ours])), 2)
            for ours in ways
            for theirs in ways
            if ours.startswith("dragoman") and not theirs.startswith("dragoman")
        }
        found.append(row)
    return found


def _ratio(theirs: float, ours: float) -> float:
    return theirs / ours


def by_work(times: Times) -> dict[str, list[float]]:
    return {f"{sentences}, {beam}": [round(one, 4) for one in some] for (sentences, beam), some in times.items()}


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """The medians as Markdown."""
    names = list(found[0]["milliseconds"])
    lines = ["| sentences, beam | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in found:
        numbers = " | ".join(f"{number:.1f}" for number in row["milliseconds"].values())
        lines.append(f"| {row['sentences']}, {row['beam']} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the models are made, or lie already")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=250, help="seconds after which no round is begun")
    parser.add_argument("--computes", nargs="+", choices=COMPUTES, default=list(COMPUTES))
    parser.add_argument("--sentences", nargs="+", type=int, choices=SENTENCES, default=SENTENCES)
    parser.add_argument("--only-compare", action="store_true", help="compare outputs, and time nothing")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that this runs")
    asked = parser.parse_args()
    if "float32" not in asked.computes:
        parser.error("--computes without float32: the outputs that are compared first are those of float32; add it")
    folders = prepared(asked.folder, tiny=asked.tiny)
    texts = sources(99 if asked.tiny else 32000, max(sentences for sentences, _ in WORK))
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(Running(program)) for name, program in programs(folders, asked.computes).items()
        }
        for program in running.values():
            program.wait()
        result: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load_average": os.getloadavg(),
            "versions": {name: version(name) for name in ("ctranslate2", "transformers", "torch", "numpy")},
            "work": {"source_tokens": SOURCE, "target_tokens": TARGET},
            "same_outputs": compared(running, texts),
        }
        if not asked.only_compare:
            chosen = [work for work in WORK if work[0] in asked.sentences]
            times = measured(running, texts, chosen, rounds=asked.rounds, limit=asked.limit)
            result["rows"] = rows(times)
            result["seconds"] = {name: by_work(theirs) for name, theirs in times.items()}
    text = json.dumps(result, indent=1)
    print(text)
    if "rows" in result:
        print(table(result["rows"]))
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
