"""What recording leaves behind, in time: a network that was never recorded beside one that was, in turn.

    python benchmarks/recording/unchanged.py RUN --source test.en.gz

Two copies of one run, in one process and by PyTorch. One is recorded during a whole translation first, and let go
again. Then both translate the same sentences, one after the other, the first being another each round. The ratio is
that of the times of a round, its interval that of the median of all rounds. Also said is what recording costs while it
lasts. Time is that of the processor on one thread, so that other work on the machine counts as little as it can. Writes
results.json beside this file.
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

from dragoman.data.readers import lines
from dragoman.decoding import SearchSettings
from dragoman.inference import Translator
from dragoman.interpret import record
from dragoman.runs.load import load_in_pytorch

HERE = Path(__file__).parent
WARMING = 2
DRAWN = 10_000
SEED = 1


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    texts = [line for _, line in islice(lines(arguments.source), arguments.sentences)]
    never, once = (load_in_pytorch(arguments.run, device="cpu") for _ in range(2))
    expected, _ = timed(never, texts)
    during, slow = timed(once, texts, lambda: record(once.model))
    seconds: dict[str, list[float]] = {"never": [], "once": []}
    for number in range(WARMING + arguments.rounds):
        order = [("never", never), ("once", once)]
        for name, translator in order if number % 2 else reversed(order):
            outputs, took = timed(translator, texts)
            assert outputs == expected == during, "recording must change no output"
            if number >= WARMING:
                seconds[name].append(took)
    ratios = [after / before for before, after in zip(seconds["never"], seconds["once"], strict=True)]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(texts),
        "rounds": arguments.rounds,
        "ratio": statistics.median(ratios),
        "interval": interval(ratios),
        "while_recording": slow / statistics.median(seconds["never"]),
        "seconds": seconds,
    }
    (HERE / "results.json").write_text(json.dumps(tree, indent=1) + "\n")
    print(json.dumps({key: value for key, value in tree.items() if key != "seconds"}))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    return parser.parse_args()


def timed(
    translator: Translator, texts: list[str], watched: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> tuple[list[str], float]:
    """The translations, and the processor's seconds that they took."""
    with watched():
        start = time.process_time()
        outputs = [best.text for best, *_ in translator.hypotheses(texts, SearchSettings(beam=5))]
        return outputs, time.process_time() - start


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of 95 %, of the median, by drawing rounds anew."""
    drawn = np.random.default_rng(SEED).choice(ratios, size=(DRAWN, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
