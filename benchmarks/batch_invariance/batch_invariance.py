"""Count the sentences whose translation depends on the batch, in every compute type and instruction set.

    python -m benchmarks.batch_invariance.batch_invariance RUN --source FILE --name zen4

Every sentence is translated alone, in batches, in random order, by an engine with concurrent requests, streamed, and
by the command from file to file. All log-probabilities must be the same to the last bit. Needs the CPU library.
"""

import argparse
import json
import os
import platform
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig
from dragoman.inference import TranslationWarning
from tests.batch_invariance import compare_everywhere


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--name", required=True, help="entry of results.json")
    arguments = parser.parse_args()
    texts = [text for _, text in read_lines(arguments.source)]
    warnings.simplefilter("ignore", TranslationWarning)
    results: list[dict[str, Any]] = []
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "sentences": len(texts),
        "beam": arguments.beam,
        "results": results,
    }
    for result in compare_everywhere(arguments.run, texts, DecodingConfig(beam_size=arguments.beam)):
        print(json.dumps(result), flush=True)
        results.append(result)
        update_results(Path(__file__).parent / "results.json", {arguments.name: report})
    return int(any(count for result in results for count in result["different"].values()))


if __name__ == "__main__":
    sys.exit(main())
