"""Whether a sentence's translation depends on its company: every sentence alone and in all the ways there are.

    python benchmarks/decode/company.py RUN --source FILE --output company.json

What is compared with the sentence alone, to the last bit of every log-probability: batches, any order, an engine whose
other callers join, leave and take requests back meanwhile, and the command from file to file as a process of its own;
in each precision, by each instruction set that the processor has. Needs the compiled core.
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

from dragoman.data.readers import read_lines
from dragoman.decoding import DecodingConfig
from dragoman.inference import TranslationWarning
from tests.batch_invariance import everywhere


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    texts = [text for _, text in read_lines(given.source)]
    warnings.simplefilter("ignore", TranslationWarning)
    results: list[dict[str, Any]] = []
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "sentences": len(texts),
        "beam": given.beam,
        "results": results,
    }
    for result in everywhere(given.run, texts, DecodingConfig(beam_size=given.beam)):
        print(json.dumps(result), flush=True)
        results.append(result)
        if given.output is not None:
            given.output.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(count for result in results for count in result["different"].values()))


if __name__ == "__main__":
    sys.exit(main())
