"""Measure the overhead that a recording leaves behind, and that of recording itself.

    python -m benchmarks.recording_overhead.recording_overhead RUN --source test.en.gz

Two copies of one run are loaded in PyTorch. One is recorded during a whole translation. Then both translate the same
sentences, alternating, in an order that changes from round to round. The ratio is the median of all rounds, with a
bootstrap interval. Times are processor seconds on one thread. Writes results.json.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig
from dragoman.inference import Translator
from dragoman.interpret import record
from dragoman.runs.load import load_torch_model

HERE = Path(__file__).parent
WARMUP_ROUNDS = 2
BOOTSTRAP_SAMPLES = 10_000
SEED = 1


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    texts = [line for _, line in islice(read_lines(arguments.source), arguments.sentences)]
    never, once = (load_torch_model(arguments.run, device="cpu") for _ in range(2))
    expected, _ = time_translation(never, texts)
    during, slow = time_translation(once, texts, lambda: record(once.model))
    seconds: dict[str, list[float]] = {"never": [], "once": []}
    for number in range(WARMUP_ROUNDS + arguments.rounds):
        order = [("never", never), ("once", once)]
        for name, translator in order if number % 2 else reversed(order):
            outputs, took = time_translation(translator, texts)
            assert outputs == expected == during, "recording must change no output"
            if number >= WARMUP_ROUNDS:
                seconds[name].append(took)
    ratios = [after / before for before, after in zip(seconds["never"], seconds["once"], strict=True)]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(texts),
        "rounds": arguments.rounds,
        "ratio": statistics.median(ratios),
        "interval": bootstrap_interval(ratios),
        "while_recording": slow / statistics.median(seconds["never"]),
        "seconds": seconds,
    }
    update_results(HERE / "results.json", tree)
    print(json.dumps({key: value for key, value in tree.items() if key != "seconds"}))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    return parser.parse_args()


def time_translation(
    translator: Translator, texts: list[str], recording: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> tuple[list[str], float]:
    """Return the translations and their processor seconds."""
    with recording():
        start = time.process_time()
        outputs = [best.text for best, *_ in translator.translate(texts, DecodingConfig(beam_size=5))]
        return outputs, time.process_time() - start


def bootstrap_interval(ratios: list[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median."""
    drawn = np.random.default_rng(SEED).choice(ratios, size=(BOOTSTRAP_SAMPLES, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
