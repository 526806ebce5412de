"""What each way of better training gains on Multi30k: rows trained in turn, one process each, and a table of them.

    python benchmarks/ablation/ablate.py --data FOLDER --runs runs/ablation --seed 1 --seed 2 --seed 3

The rows are those of `rows.yaml` beside this file; `--row NAME` trains some of them. A run that is there already is
gone on with, or taken as it is where it has ended, so that the table can be made bit by bit.
"""

import argparse
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from dragoman.config import read_yaml
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "examples" / "multi30k_en_de.yaml"


def main() -> None:
    arguments = parse()
    rows = read_yaml(HERE / "rows.yaml")
    chosen = arguments.row or list(rows)
    tree: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "recipe": RECIPE.name, "rows": {}}
    for name in chosen:
        runs = [trained(name, rows[name], seed, arguments) for seed in arguments.seed]
        tree["rows"][name] = {"changes": rows[name], "seeds": arguments.seed, "runs": runs}
        arguments.out.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder to train in")
    parser.add_argument("--row", action="append", help="a row of rows.yaml; may be repeated")
    parser.add_argument("--seed", action="append", type=int, required=True, help="may be repeated")
    parser.add_argument("--set", action="append", default=[], dest="assignments", help="over every row, for a try")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def trained(name: str, changes: list[str], seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one row with one seed, or go on with it, and return what it reached."""
    folder = RunFolder(arguments.runs / f"{re.sub('[^a-z0-9]+', '-', name)}-{seed}")
    if not folder.weights.exists():
        subprocess.run(
            [sys.executable, "-m", "dragoman", "train", *asked(folder, changes, seed, arguments)], check=True
        )
    found = folder.read_scores()
    scores = {f"{part} {score['metric']}": score["value"] for part, some in found["scores"].items() for score in some}
    signatures = {score["metric"]: score["signature"] for score in found["scores"]["test"]}
    known = {key: found[key] for key in ("weights", "seconds", "updates", "target_tokens")}
    return {**known, "scores": scores, "signatures": signatures}


def asked(folder: RunFolder, changes: list[str], seed: int, arguments: argparse.Namespace) -> list[str]:
    if folder.config.exists():
        return ["--resume", str(folder.path)]
    assignments = [*changes, *arguments.assignments, f"training.seed={seed}"]
    options = [part for assignment in assignments for part in ("--set", assignment)]
    return [str(RECIPE), "--data", str(arguments.data), "--out", str(folder.path), *options]


def table(tree: dict[str, Any]) -> str:
    lines = ["| row | valid BLEU | test BLEU | minutes | target tokens |", "|---|---:|---:|---:|---:|"]
    for name, row in tree["rows"].items():
        runs = row["runs"]
        valid, test = ([run["scores"][f"{part} BLEU"] for run in runs] for part in ("valid", "test"))
        minutes = mean(run["seconds"] for run in runs) / 60
        tokens = mean(run["target_tokens"] for run in runs) / 1e6
        lines.append(f"| {name} | {shown(valid)} | {shown(test)} | {minutes:.0f} | {tokens:.1f} million |")
    return "\n".join(lines)


def shown(values: list[float]) -> str:
    """The mean, and the spread where there are several."""
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


if __name__ == "__main__":
    main()
