"""Collect the results of finished runs in one `results.json`.

    python benchmarks/collect_runs.py benchmarks/multi30k/results.json tokenized=runs/multi30k raw=runs/multi30k-raw

Each run becomes one entry under `runs`: test and validation scores with signatures, training time, environment, the
scores of every validation and those of each choice of weights. Other entries of an existing file are kept. Weights,
texts and paths are not copied.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

ENVIRONMENT = ("dragoman", "git", "torch", "python", "platform", "device", "threads", "workers", "seed")
FLAT_LIST = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="file to write; its other entries are kept")
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    arguments = parser.parse_args()
    runs = {name: collect_run(Path(folder)) for name, folder in arguments.runs}
    update_results(arguments.results, {"runs": read_results(arguments.results).get("runs", {}) | runs})


def collect_run(run: Path) -> dict[str, Any]:
    """Return the results of one run folder."""
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    first = {name: value for event in reversed(events) for name, value in event.items()}
    validations = [flat(event) for event in events if "scores" in event]
    return {
        "num_parameters": first.get("num_parameters"),
        **{name: value for name, value in scores.items() if name != "scores"},
        "scores": {part: {row["metric"]: row["value"] for row in rows} for part, rows in scores["scores"].items()},
        "signatures": {row["metric"]: row["signature"] for rows in scores["scores"].values() for row in rows},
        "environment": {name: environment[name] for name in ENVIRONMENT if name in environment},
        "validations": {name: [row.get(name) for row in validations] for name in (validations or [{}])[0]},
        "weights_compared": first.get("candidates", {}),
    }


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of one validation."""
    own = {name: value for name, value in event.items() if name not in ("event", "scores", "improved")}
    return own | event["scores"]


def read_results(path: Path) -> dict[str, Any]:
    """Return the contents of a results file, or nothing if it does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def update_results(path: Path, entries: dict[str, Any]) -> None:
    """Add entries to a results file, or replace those of the same names."""
    path.write_text(formatted(read_results(path) | entries), encoding="utf-8")


def formatted(tree: dict[str, Any]) -> str:
    """Return indented JSON with each list of plain values on one line."""
    text = json.dumps(tree, indent=1, ensure_ascii=False)
    return FLAT_LIST.sub(lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", text) + "\n"


if __name__ == "__main__":
    main()
