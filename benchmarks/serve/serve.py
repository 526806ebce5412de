"""Measure `dragoman serve` next to LibreTranslate and to a small server over CTranslate2: same model, same texts.

    apt-get install wrk
    dragoman export RUN --compute-type int8 --output-dir int8
    dragoman export RUN --format ctranslate2 --compute-type int8 --output-dir ct2
    dragoman export RUN --format argos --source-language en --target-language de --output-dir argos
    python -m benchmarks.serve.serve int8 TEXTS --ctranslate2 ct2 --libretranslate PYTHON argos/*.argosmodel \
        --home FOLDER --name "two cores"

PYTHON is the interpreter of an environment with LibreTranslate. Each server is started several times, up to its first
answer. Then all run at the same time, and `wrk` asks one after the other, with each number of clients, in rounds of
alternating order; the first round does not count. Ratios are those of one round, and their median is reported.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results
from benchmarks.serve.programs import (
    FIRST_PORT,
    Program,
    RunningProgram,
    ctranslate2,
    dragoman,
    libretranslate,
    load,
    running,
)

RESULTS = Path(__file__).with_name("results.json")
CLIENTS = (1, 64)
Round = dict[tuple[str, int], dict[str, Any]]


def main() -> None:
    arguments = read_arguments()
    programs = [dragoman(arguments.run), ctranslate2(arguments.ctranslate2, arguments.beam_size)]
    if arguments.libretranslate:
        python, *packages = arguments.libretranslate
        programs.append(libretranslate(python, packages, arguments.home))
    texts = arguments.texts.read_text(encoding="utf-8").splitlines()
    entry = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "dragoman": version("dragoman"),
        "load_average": os.getloadavg()[0],
        "start": measure_starts(programs, texts[0], rounds=arguments.starts),
        "load": measure_load(programs, texts, rounds=arguments.rounds, seconds=arguments.seconds),
    }
    print(json.dumps(entry, indent=1))
    update_results(RESULTS, {arguments.name: entry})


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="int8 export of a translator from English to German")
    parser.add_argument("texts", type=Path, help="English texts, one per line")
    parser.add_argument("--ctranslate2", required=True, help="the same model in the format of CTranslate2")
    parser.add_argument("--libretranslate", nargs="+", default=[], metavar=("PYTHON", "PACKAGE"))
    parser.add_argument("--home", help="folder for the files of LibreTranslate")
    parser.add_argument("--beam-size", type=int, default=5, help="that of the configuration of RUN")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--name", required=True, help="entry of results.json")
    return parser.parse_args()


def measure_starts(programs: Sequence[Program], text: str, *, rounds: int) -> dict[str, Any]:
    """Return seconds and processor seconds from the start to the first answer, and the memory of the idle server."""
    found: dict[str, list[dict[str, float]]] = {one.name: [] for one in programs}
    for _ in range(rounds):
        for program in programs:
            begin = time.monotonic()
            server = program.start(FIRST_PORT)
            try:
                server.wait(text)
                seconds, processor = time.monotonic() - begin, server.processor_seconds()
                time.sleep(1)
                found[program.name].append({"seconds": seconds, "processor_seconds": processor, **server.memory()})
            finally:
                server.stop()
    return {name: medians(rows) for name, rows in found.items()}


def measure_load(programs: Sequence[Program], texts: Sequence[str], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the medians of all rounds for each program and number of clients, and the ratios to our server."""
    with tempfile.TemporaryDirectory() as folder, running(programs, texts[0]) as servers:
        bodies = Path(folder, "bodies.jsonl")
        bodies.write_text(
            "".join(json.dumps({"q": text, "source": "en", "target": "de"}) + "\n" for text in texts), encoding="utf-8"
        )
        measured = [
            measure_round(servers[:: 1 - 2 * (number % 2)], bodies, seconds=seconds) for number in range(rounds + 1)
        ][1:]
    ours = programs[0].name
    return {
        "clients": {
            f"{name}, {clients}": medians([{key: row[name, clients][key] for key in NUMBERS} for row in measured])
            for name, clients in measured[0]
        },
        "64 clients to one": {
            one.name: statistics.median(row[one.name, 64]["rate"] / row[one.name, 1]["rate"] for row in measured)
            for one in programs
        },
        "dragoman to": {
            f"{one.name}, {clients}": statistics.median(
                row[ours, clients]["rate"] / row[one.name, clients]["rate"] for row in measured
            )
            for one in programs[1:]
            for clients in CLIENTS
        },
    }


NUMBERS = ("rate", "p50", "p95", "p99", "processor_ms")


def measure_round(servers: Sequence[RunningProgram], bodies: Path, *, seconds: float) -> Round:
    return {
        (server.name, clients): load(server, bodies, clients=clients, seconds=seconds)
        for clients in CLIENTS
        for server in servers
    }


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each number."""
    return {key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]}


if __name__ == "__main__":
    main()
