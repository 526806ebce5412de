"""Train variants of the Multi30k recipe with several seeds and print a table of their scores.

    python -m benchmarks.ablation.ablate --data FOLDER --runs runs/ablation --seed 1 --seed 2 --seed 3

`--row NAME` trains some of the variants. An unfinished run is resumed and a finished one is read, so that the table
can grow over several calls.
"""

import argparse
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.collect_runs import update_results
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "examples" / "multi30k_en_de.yaml"

ROWS: dict[str, list[str]] = {
    "recipe": [],
    "R-Drop": ["training.loss={kind: r_drop, weight: 5.0}"],
    # Half the epochs, since R-Drop computes every batch twice.
    "R-Drop, half the epochs": ["training.loss={kind: r_drop, weight: 5.0}", "training.max_epochs=18"],
    "Muon": ["training.optimizer={kind: muon, learning_rate: 0.003}"],
    "R-Drop and Muon": [
        "training.loss={kind: r_drop, weight: 5.0}",
        "training.optimizer={kind: muon, learning_rate: 0.003}",
    ],
    "noise": ["data.noise={uppercase: 0.05, lowercase: 0.05, no_final_punctuation: 0.1, typos: 0.03}"],
}
"""Settings of each variant, as for `--set`."""


def main() -> None:
    arguments = parse_arguments()
    chosen = arguments.row or list(ROWS)
    tree: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "recipe": RECIPE.name, "rows": {}}
    for name in chosen:
        runs = [train_variant(name, ROWS[name], seed, arguments) for seed in arguments.seed]
        tree["rows"][name] = {"changes": ROWS[name], "seeds": arguments.seed, "runs": runs}
        update_results(arguments.out, {"ablation": tree})
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder to train in")
    parser.add_argument("--row", action="append", help="a variant; may be repeated")
    parser.add_argument("--seed", action="append", type=int, required=True, help="may be repeated")
    parser.add_argument("--set", action="append", default=[], dest="assignments", help="a setting for every variant")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def train_variant(name: str, changes: list[str], seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one variant with one seed, or resume it, and return its results."""
    folder = RunFolder(arguments.runs / f"{re.sub('[^a-z0-9]+', '-', name)}-{seed}")
    if not folder.weights.exists():
        subprocess.run(
            [sys.executable, "-m", "dragoman", "train", *train_arguments(folder, changes, seed, arguments)], check=True
        )
    found = folder.read_scores()
    scores = {f"{part} {score['metric']}": score["value"] for part, some in found["scores"].items() for score in some}
    signatures = {score["metric"]: score["signature"] for score in found["scores"]["test"]}
    known = {key: found[key] for key in ("weights", "seconds", "steps", "tokens")}
    return {**known, "scores": scores, "signatures": signatures}


def train_arguments(folder: RunFolder, changes: list[str], seed: int, arguments: argparse.Namespace) -> list[str]:
    if folder.config.exists():
        return ["--resume", str(folder.path)]
    assignments = [*changes, *arguments.assignments, f"training.seed={seed}"]
    options = [part for assignment in assignments for part in ("--set", assignment)]
    return [str(RECIPE), "--data", str(arguments.data), "--out", str(folder.path), *options]


def format_table(tree: dict[str, Any]) -> str:
    lines = ["| row | valid BLEU | test BLEU | minutes | target tokens |", "|---|---:|---:|---:|---:|"]
    for name, row in tree["rows"].items():
        runs = row["runs"]
        valid, test = ([run["scores"][f"{part} BLEU"] for run in runs] for part in ("valid", "test"))
        minutes = mean(run["seconds"] for run in runs) / 60
        tokens = mean(run["tokens"] for run in runs) / 1e6
        lines.append(
            f"| {name} | {format_scores(valid)} | {format_scores(test)} | {minutes:.0f} | {tokens:.1f} million |"
        )
    return "\n".join(lines)


def format_scores(values: list[float]) -> str:
    """Format the mean, and the standard deviation of several values."""
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


if __name__ == "__main__":
    main()
