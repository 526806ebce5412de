"""Measure the share of memory bandwidth and of peak arithmetic that decoder steps of the CPU library reach.

    python -m benchmarks.translation_speed.roofline --name zen4

Each round measures the peaks of two threads by `roofline.cpp`, and then the steps in int8 and float32 by
`cpu_library_steps`, so that a share compares rates that are seconds apart. Needs g++ and a processor with AVX-512 VNNI.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results
from benchmarks.translation_speed.cpu_library_steps import Sizes

HERE = Path(__file__).parent
THREADS = "2"
Step = dict[str, float]
Round = dict[str, Any]


def weights_of_a_step(sizes: Sizes) -> int:
    """Return the weights that a decoder step reads: 6 attention matrices and 2 feed-forward matrices a layer."""
    layer = 6 * sizes.size**2 + 2 * sizes.size * sizes.feed_forward
    return sizes.layers * layer + sizes.vocabulary * sizes.size


def run_json(*command: object) -> list[dict[str, Any]]:
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def time_steps(compute: str, *, most_sentences: int) -> list[Step]:
    """Return the times of `cpu_library_steps` for each batch, after a line about the model."""
    options = ("--compute-type", compute, "--threads", THREADS, "--rounds", 3, "--most-sentences", most_sentences)
    return run_json(sys.executable, "-m", "benchmarks.translation_speed.cpu_library_steps", *options)[1:]


def measure_round(peak: Path) -> Round:
    (peaks,) = run_json(peak, THREADS)
    return {
        "peak": peaks,
        "int8": time_steps("int8", most_sentences=64),
        "float32": time_steps("float32", most_sentences=1),
    }


def share_of_memory(one: Round, compute: str, *, bytes_a_weight: int) -> float:
    """Return the share of the memory bandwidth that one sentence reaches in greedy search."""
    rate = weights_of_a_step(Sizes()) * bytes_a_weight / one[compute][0]["step_ms"] * 1e3
    return float(rate / (1e9 * one["peak"]["gigabytes_per_second"]))


def share_of_products(one: Round) -> float:
    """Return the share of the peak that the largest batch reaches in int8."""
    work = one["int8"][-1]
    rate = weights_of_a_step(Sizes()) * work["sentences"] * work["beam"] / work["step_ms"] * 1e3
    return float(rate / (1e12 * one["peak"]["tera_products_per_second"]))


def summarize(shares: list[float]) -> dict[str, float]:
    found = {"least": min(shares), "median": statistics.median(shares), "most": max(shares)}
    return {name: round(share, 2) for name, share in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--name", required=True, help="entry of results.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "roofline"
        subprocess.run(["g++", "-O3", "-march=native", "-pthread", HERE / "roofline.cpp", "-o", peak], check=True)
        rounds = [measure_round(peak) for _ in range(arguments.rounds)]
    shares = {
        "of memory, int8, 1 sentence, greedy": [share_of_memory(one, "int8", bytes_a_weight=1) for one in rounds],
        "of memory, float32, 1 sentence, greedy": [share_of_memory(one, "float32", bytes_a_weight=4) for one in rounds],
        "of products, int8, 64 sentences, beam 4": [share_of_products(one) for one in rounds],
    }
    found = {"shares": {name: summarize(each) for name, each in shares.items()}, "rounds": rounds}
    update_results(HERE / "results.json", {f"roofline {arguments.name}": found})
    print(json.dumps(found["shares"], indent=1))


if __name__ == "__main__":
    main()
