"""Read batches of a prepared corpus, an epoch planned whole or in parts: time to the first one, speed and memory.

python benchmarks/corpora/read.py prepared --out read_parts.json
python benchmarks/corpora/read.py prepared --whole --out read_whole.json
"""

import argparse
import json
import os
import time
from pathlib import Path

from watch import sample

from dragoman.data.batching.token_batches import WINDOW, pair_stream
from dragoman.data.datasets.parallel import TokenStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="plan an epoch at once")
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    given = parser.parse_args()
    before = sample(os.getpid())
    began = time.monotonic()
    store = TokenStore(given.folder / "ids")
    opened = time.monotonic() - began
    stream = pair_stream(store, budget=given.batch_tokens, seed=1, window=len(store) if given.whole else WINDOW)
    planned = time.monotonic() - began - opened
    samples, tokens = [], 0
    for number in range(given.batches):
        tokens += next(stream).target_count
        if number % 100 == 0:
            samples.append({"seconds": round(time.monotonic() - began, 2), "batch": number, **sample(os.getpid())})
    seconds = time.monotonic() - began - opened - planned
    facts = {
        "pairs": len(store),
        "batches": given.batches,
        "whole": given.whole,
        "before": before,
        "seconds_to_open": round(opened, 3),
        "seconds_to_plan": round(planned, 3),
        "batches_per_second": round(given.batches / seconds, 1),
        "target_tokens_per_second": round(tokens / seconds),
        "position": stream.position,
        "samples": samples,
    }
    given.out.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    print({name: value for name, value in facts.items() if name != "samples"})


if __name__ == "__main__":
    main()
