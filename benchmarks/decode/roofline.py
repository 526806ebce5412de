"""What share of the memory's rate and of the product peak the compiled core's steps reach.

    python benchmarks/decode/roofline.py --output benchmarks/decode/roofline_zen4.json

In every round `roofline.cpp` finds what two threads can do at this time, and `core_steps.py` times the steps in int8
and in float32 right after: shares are of rates that are seconds apart. Wants g++ and a processor with AVX-512 VNNI.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from core_steps import Sizes

HERE = Path(__file__).parent
THREADS = "2"
Step = dict[str, float]
Round = dict[str, Any]


def weights_of_a_step(sizes: Sizes) -> int:
    """What a step of the decoder reads: 4 maps of self-attention, 2 of cross-attention, 2 of feed-forward a layer."""
    layer = 6 * sizes.size**2 + 2 * sizes.size * sizes.feed_forward
    return sizes.layers * layer + sizes.vocabulary * sizes.size


def lines(*command: object) -> list[dict[str, Any]]:
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def steps(compute: str, *, most_sentences: int) -> list[Step]:
    """What `core_steps.py` says of each work, after a line on the model."""
    options = ("--compute", compute, "--threads", THREADS, "--rounds", 3, "--most-sentences", most_sentences)
    return lines(sys.executable, HERE / "core_steps.py", *options)[1:]


def one_round(peak: Path) -> Round:
    (peaks,) = lines(peak, THREADS)
    return {"peak": peaks, "int8": steps("int8", most_sentences=64), "float32": steps("float32", most_sentences=1)}


def share_of_memory(one: Round, compute: str, *, bytes_a_weight: int) -> float:
    """Of one sentence, greedy."""
    rate = weights_of_a_step(Sizes()) * bytes_a_weight / one[compute][0]["step_ms"] * 1e3
    return float(rate / (1e9 * one["peak"]["gigabytes_per_second"]))


def share_of_products(one: Round) -> float:
    """Of the largest work in int8, whose rows each are multiplied with all weights."""
    work = one["int8"][-1]
    rate = weights_of_a_step(Sizes()) * work["sentences"] * work["beam"] / work["step_ms"] * 1e3
    return float(rate / (1e12 * one["peak"]["tera_products_per_second"]))


def spanned(shares: list[float]) -> dict[str, float]:
    found = {"least": min(shares), "median": statistics.median(shares), "most": max(shares)}
    return {name: round(share, 2) for name, share in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "roofline"
        subprocess.run(["g++", "-O3", "-march=native", "-pthread", HERE / "roofline.cpp", "-o", peak], check=True)
        rounds = [one_round(peak) for _ in range(given.rounds)]
    shares = {
        "of memory, int8, 1 sentence, greedy": [share_of_memory(one, "int8", bytes_a_weight=1) for one in rounds],
        "of memory, float32, 1 sentence, greedy": [share_of_memory(one, "float32", bytes_a_weight=4) for one in rounds],
        "of products, int8, 64 sentences, beam 4": [share_of_products(one) for one in rounds],
    }
    found = {"shares": {name: spanned(each) for name, each in shares.items()}, "rounds": rounds}
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["shares"], indent=1))


if __name__ == "__main__":
    main()
