"""Compare translation speed with CTranslate2 and Hugging Face: the same weights, sources and search, alternating.

    python -m benchmarks.translation_speed.translation_speed batches --folder /tmp/base --rounds 3 --name "my machine"
    python -m benchmarks.translation_speed.translation_speed scaling --folder /tmp/base

Needs `pip install ctranslate2 transformers`. The model is `base` with random weights, and an output has exactly 32
tokens. Every program runs in a process of its own. `batches` first compares the float32 outputs of all programs. Each
of its rounds calls each program once for each batch of sources of 24 tokens, in random order; the first round tries
CTranslate2 and Hugging Face with one thread and with two, and the other rounds use the faster. Two translators of one
thread, which share the sentences, are a separate program. `scaling` measures tokens a second by source length and
batch size, int8 and greedy. `--tiny` tests the script.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import read_results, update_results
from benchmarks.translation_speed.peer_models import PEER_COMPUTE_TYPES, Folders, prepare_base_model
from benchmarks.translation_speed.programs import CTranslate2, Dragoman, HuggingFace, Output, Program, RunningProgram

RESULTS = Path(__file__).parent / "results.json"
COMPUTE_TYPES = ("float32", "bfloat16", "int8")
SOURCE, TARGET = 24, 32
WORK = ((1, 1), (1, 4), (32, 1), (32, 4), (64, 4))
SENTENCES = list(dict.fromkeys(sentences for sentences, _ in WORK))
TOLERANCE = 1e-3
SHORT_CALLS = 5
"""Calls with one sentence, of which the median counts."""
Work = tuple[int, int]
Times = dict[Work, list[float]]
SOURCE_LENGTHS, BATCH_SIZES = (8, 64, 512), (1, 8, 64, 256)
Rates = dict[str, dict[int, list[float]]]
"""Tokens a second of each program, by source length, for each number of sentences."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    batches, scaling = commands.add_parser("batches"), commands.add_parser("scaling")
    batches.set_defaults(run_command=compare_batches)
    batches.add_argument("--rounds", type=int, default=3)
    batches.add_argument("--limit", type=float, default=250, help="seconds after which no round starts")
    batches.add_argument("--compute-types", nargs="+", choices=COMPUTE_TYPES, default=list(COMPUTE_TYPES))
    batches.add_argument("--sentences", nargs="+", type=int, choices=SENTENCES, default=SENTENCES)
    batches.add_argument("--only-compare", action="store_true", help="compare outputs without timing")
    batches.add_argument("--name", help="entry of results.json; without it, nothing is written")
    scaling.set_defaults(run_command=compare_scaling)
    scaling.add_argument("--rounds", type=int, default=2)
    for command in (batches, scaling):
        command.add_argument(
            "--folder", type=Path, required=True, help="folder of the models, which are written if missing"
        )
        command.add_argument("--tiny", action="store_true", help="a tiny model, to test the script")
    arguments = parser.parse_args()
    arguments.run_command(arguments)


def compare_batches(arguments: argparse.Namespace) -> None:
    """Compare outputs and milliseconds for batches of sentences of one length."""
    if "float32" not in arguments.compute_types:
        sys.exit("--compute-types lacks float32, whose outputs are compared first; add it")
    folders = prepare_base_model(arguments.folder, tiny=arguments.tiny)
    texts = random_sources(99 if arguments.tiny else 32000, max(sentences for sentences, _ in WORK))
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(RunningProgram(program))
            for name, program in build_programs(folders, arguments.compute_types).items()
        }
        for program in running.values():
            program.wait()
        result: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load_average": os.getloadavg(),
            "versions": {name: version(name) for name in ("ctranslate2", "transformers", "torch", "numpy")},
            "work": {"source_tokens": SOURCE, "target_tokens": TARGET},
            "same_outputs": compare_outputs(running, texts),
        }
        if not arguments.only_compare:
            chosen = [work for work in WORK if work[0] in arguments.sentences]
            times = measure(running, texts, chosen, rounds=arguments.rounds, limit=arguments.limit)
            result["rows"] = summarize(times)
            result["seconds"] = {name: by_work(seconds) for name, seconds in times.items()}
    print(json.dumps(result, indent=1))
    if "rows" in result:
        print(format_table(result["rows"]))
    if arguments.name is not None:
        stored = read_results(RESULTS).get("batches", {})
        update_results(RESULTS, {"batches": stored | {arguments.name: result}})


def build_programs(folders: Folders, computes: Sequence[str]) -> dict[str, Program]:
    """Return the programs by name; a slash separates a program from how it runs, of which the fastest counts."""
    found: dict[str, Program] = {}
    for compute in computes:
        found[f"dragoman {compute}"] = Dragoman(folders.run, compute)
        if compute in PEER_COMPUTE_TYPES:
            model, name = folders.ctranslate2(compute), f"ctranslate2 {compute}"
            for threads in (1, 2):
                found[f"{name}/{threads}"] = CTranslate2(model, compute, inter=1, intra=threads)
            found[f"{name}, two translators"] = CTranslate2(model, compute, inter=2, intra=1)
    for threads in (1, 2):
        found[f"huggingface float32/{threads}"] = HuggingFace(folders.run, threads)
    return found


def random_sources(vocabulary: int, sentences: int) -> list[list[int]]:
    generator = random.Random(1)
    return [[*(generator.randrange(4, vocabulary) for _ in range(SOURCE - 1)), 3] for _ in range(sentences)]


def compare_outputs(running: Mapping[str, RunningProgram], texts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Compare the float32 outputs of each program with ours; raise ValueError if they differ."""
    found: dict[str, Any] = {}
    for sentences, beam in dict.fromkeys((len(texts), beam) for _, beam in WORK):
        ours = running["dragoman float32"](texts, beam=beam, tokens=TARGET, scores=True)[1]
        for name in ("ctranslate2 float32/2", "huggingface float32/2"):
            peer = running[name](texts, beam=beam, tokens=TARGET, scores=True)[1]
            found[f"{name}, beam {beam}"] = agreement(ours, peer) | {"sentences": sentences}
    differing = [name for name, one in found.items() if one["different"] or one["largest_difference"] > TOLERANCE]
    if differing:
        raise ValueError(f"outputs differ: {json.dumps(found, indent=1)}")
    return found


def agreement(ours: Sequence[Output], peer: Sequence[Output]) -> dict[str, Any]:
    pairs = list(zip(ours, peer, strict=True))
    differences = [abs(mine[1] - other[1]) for mine, other in pairs if mine[1] is not None and other[1] is not None]
    return {
        "different": sum(mine[0] != other[0] for mine, other in pairs),
        "largest_difference": max(differences, default=0.0),
        "scores_compared": len(differences),
        "distinct_tokens": len({token for mine, _ in pairs for token in mine[0]}),
    }


def measure(
    running: Mapping[str, RunningProgram],
    texts: Sequence[Sequence[int]],
    chosen: Sequence[Work],
    *,
    rounds: int,
    limit: float,
) -> dict[str, Times]:
    """Return the seconds of each program for each batch, round by round; no round starts after `limit` seconds."""
    start = time.monotonic()
    order = random.Random(2)
    times: dict[str, Times] = {name: {work: [] for work in chosen} for name in running}
    for program in running.values():
        for sentences, beam in ((1, 1), (2, 4)):
            program(texts[:sentences], beam=beam, tokens=TARGET)
    for number in range(rounds):
        if time.monotonic() - start > limit:
            break
        for sentences, beam in chosen:
            names = list(running) if number == 0 else list(fastest_variants(times, (sentences, beam)).values())
            for name in order.sample(names, len(names)):
                calls = SHORT_CALLS if sentences == 1 else 1
                seconds, _ = running[name](texts[:sentences], beam=beam, tokens=TARGET, calls=calls)
                times[name][sentences, beam].append(seconds)
    return times


def fastest_variants(times: Mapping[str, Times], work: Work) -> dict[str, str]:
    """Return the variant of each program that was fastest in the first round."""
    variants: dict[str, str] = {}
    for name, peer in times.items():
        program = name.split("/")[0]
        if program not in variants or peer[work][0] < times[variants[program]][work][0]:
            variants[program] = name
    return variants


def summarize(times: Mapping[str, Times]) -> list[dict[str, Any]]:
    """Return the median milliseconds of each program for each batch, and the medians of the ratios to ours."""
    found = []
    for work in next(iter(times.values())):
        variants = fastest_variants(times, work)
        seconds = {program: times[variant][work] for program, variant in variants.items()}
        row: dict[str, Any] = {"sentences": work[0], "beam": work[1], "fastest_ways": list(variants.values())}
        row["milliseconds"] = {name: round(1e3 * statistics.median(some), 2) for name, some in seconds.items()}
        row["times_faster"] = {
            f"{ours} than {peer}": round(statistics.median(map(_ratio, seconds[peer], seconds[ours])), 2)
            for ours in variants
            for peer in variants
            if ours.startswith("dragoman") and not peer.startswith("dragoman")
        }
        found.append(row)
    return found


def _ratio(peer: float, ours: float) -> float:
    return peer / ours


def by_work(times: Times) -> dict[str, list[float]]:
    return {f"{sentences}, {beam}": [round(one, 4) for one in some] for (sentences, beam), some in times.items()}


def format_table(found: Sequence[Mapping[str, Any]]) -> str:
    """Format the medians as Markdown."""
    names = list(found[0]["milliseconds"])
    lines = ["| sentences, beam | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in found:
        numbers = " | ".join(f"{number:.1f}" for number in row["milliseconds"].values())
        lines.append(f"| {row['sentences']}, {row['beam']} | {numbers} |")
    return "\n".join(lines)


def compare_scaling(arguments: argparse.Namespace) -> None:
    """Compare tokens a second by source length and batch size."""
    folders = prepare_base_model(arguments.folder, tiny=arguments.tiny)
    model = folders.ctranslate2("int8")
    programs = {
        "dragoman": Dragoman(folders.run, "int8"),
        "CTranslate2": CTranslate2(model, "int8", 2, 1),
    }
    with ExitStack() as stack:
        running = {name: stack.enter_context(RunningProgram(program)) for name, program in programs.items()}
        for program in running.values():
            program([[5, 3]], beam=1, tokens=TARGET)
        rates = measure_scaling(running, 99 if arguments.tiny else 32000, arguments.rounds)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg(),
        "batches": BATCH_SIZES,
        "tokens_per_second": rates,
    }
    update_results(RESULTS, {"scaling": result})
    plot_scaling(rates)


def measure_scaling(running: Mapping[str, RunningProgram], vocabulary: int, rounds: int) -> Rates:
    """Return the median tokens a second over the rounds."""
    generator = random.Random(1)
    rates: Rates = {name: {length: [] for length in SOURCE_LENGTHS} for name in running}
    for length in SOURCE_LENGTHS:
        for batch in BATCH_SIZES:
            texts = [[*(generator.randrange(4, vocabulary) for _ in range(length - 1)), 3] for _ in range(batch)]
            seconds: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(rounds):
                for name, program in running.items():
                    seconds[name].append(program(texts, beam=1, tokens=TARGET, calls=3 if batch == 1 else 1)[0])
            for name, some in seconds.items():
                rates[name][length].append(round(batch * TARGET / statistics.median(some), 1))
    return rates


def plot_scaling(rates: Mapping[str, Mapping[Any, Sequence[float]]]) -> None:
    """Plot one line for each program and source length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for (name, by), style in zip(rates.items(), ("-", "--"), strict=True):
        for number, length in enumerate(SOURCE_LENGTHS):
            label = f"{name}, {length}"
            axes.plot(BATCH_SIZES, by[length], style, marker="o", markersize=4, color=f"C{number}", label=label)
    axes.set(xscale="log", yscale="log", xlabel="sentences at a time", ylabel="tokens written a second")
    axes.set_xticks(BATCH_SIZES, [str(batch) for batch in BATCH_SIZES])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", title="program,\nsource tokens", frameon=False)
    axes.set_title("base, int8, greedy, 32 tokens written, two cores", fontsize=10)
    figure.savefig(RESULTS.parent / "cost.png", dpi=130)


if __name__ == "__main__":
    main()
