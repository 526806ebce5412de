"""Tokens a second by length of the source and sentences at a time, beside CTranslate2, int8 and greedy, as a plot.

    python -m benchmarks.decode.cost --folder /tmp/base --output cost.json --plot cost.png

needs `pip install ctranslate2 matplotlib`. The model and the turns are those of `speed`; an output has 32 tokens, which
are those counted. CTranslate2 has two translators of one thread, which `speed` found to be its fastest way for batches,
and for one sentence as fast as any.
"""

import argparse
import json
import os
import platform
import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.decode.base_model import prepared
from benchmarks.decode.programs import CTranslate2, Ours, Running

LENGTHS, BATCHES, TARGET = (8, 64, 512), (1, 8, 64, 256), 32
Rates = dict[str, dict[int, list[float]]]
"""Of each program, by length of the source, the tokens a second with each number of sentences."""


def measured(running: Mapping[str, Running], vocabulary: int, rounds: int) -> Rates:
    """Medians over the rounds."""
    generator = random.Random(1)
    rates: Rates = {name: {length: [] for length in LENGTHS} for name in running}
    for length in LENGTHS:
        for batch in BATCHES:
            texts = [[*(generator.randrange(4, vocabulary) for _ in range(length - 1)), 3] for _ in range(batch)]
            seconds: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(rounds):
                for name, program in running.items():
                    seconds[name].append(program(texts, beam=1, tokens=TARGET, calls=3 if batch == 1 else 1)[0])
            for name, some in seconds.items():
                rates[name][length].append(round(batch * TARGET / statistics.median(some), 1))
    return rates


def plot(rates: Mapping[str, Mapping[Any, Sequence[float]]], out: Path) -> None:
    """One line for each program and length of the source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for (name, by), style in zip(rates.items(), ("-", "--"), strict=True):
        for number, length in enumerate(LENGTHS):
            label = f"{name}, {length}"
            axes.plot(BATCHES, by[length], style, marker="o", markersize=4, color=f"C{number}", label=label)
    axes.set(xscale="log", yscale="log", xlabel="sentences at a time", ylabel="tokens written a second")
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", title="program,\ntokens of a source", frameon=False)
    axes.set_title("base, int8, greedy, 32 tokens written, two cores", fontsize=10)
    figure.savefig(out, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the models are made, or lie already")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--plot", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that this runs")
    asked = parser.parse_args()
    folders = prepared(asked.folder, tiny=asked.tiny)
    model = folders.ctranslate2("int8")
    programs = {
        "dragoman": Ours(folders.run, "int8"),
        "CTranslate2": CTranslate2(model, "int8", 2, 1),
    }
    with ExitStack() as stack:
        running = {name: stack.enter_context(Running(program)) for name, program in programs.items()}
        for program in running.values():
            program([[5, 3]], beam=1, tokens=TARGET)
        rates = measured(running, 99 if asked.tiny else 32000, asked.rounds)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg(),
        "batches": BATCHES,
        "tokens_per_second": rates,
    }
    asked.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rates, asked.plot)


if __name__ == "__main__":
    main()
