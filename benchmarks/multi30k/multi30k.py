"""Score the last checkpoints of a Multi30k run, or plot the validation curves of the collected runs.

    python -m benchmarks.multi30k.multi30k checkpoints runs/fast --name fast
    python -m benchmarks.multi30k.multi30k curve

`checkpoints` scores the weights and the EMA of the last two checkpoints on the validation and test set, as if the run
had ended there, and adds the scores to an entry that collect_runs.py has written. Both read or write results.json.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from torch import Tensor

import dragoman
from benchmarks.collect_runs import read_results, update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import corpus_score
from dragoman.models.weight_storage import save_tensors
from dragoman.runs.folder import RunFolder
from dragoman.training.checkpoint import CheckpointStore

RESULTS = Path(__file__).parent / "results.json"
COLORS = {
    "tokenized": "#3d8c8c",
    "raw": "#b8860b",
    "fast": "#7b5ea7",
    "best": "#c8553d",
    "born again": "#1b6ca8",
    "diverse, rotary": "#4f7942",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    scoring = commands.add_parser("checkpoints")
    scoring.add_argument("run", type=Path)
    scoring.add_argument("--name", required=True, help="entry of results.json")
    commands.add_parser("curve")
    arguments = parser.parse_args()
    runs = read_results(RESULTS)["runs"]
    if arguments.command == "curve":
        plot(runs)
    else:
        runs[arguments.name]["checkpoints"] = score_checkpoints(RunFolder(arguments.run))
        update_results(RESULTS, {"runs": runs})


def score_checkpoints(run: RunFolder) -> list[dict[str, Any]]:
    """Return BLEU of the last two checkpoints; the EMA of earlier ones is not kept."""
    experiment = run.read_config()
    data, metric = experiment.data, experiment.metrics[0]
    texts = {
        name: [[text for _, text in read_lines(Path(file))] for file in (pairs.source, pairs.target)]
        for name, pairs in (("valid", data.valid), ("test", data.test))
    }
    checkpoints = CheckpointStore(run.checkpoints, keep=1)
    rows = []
    for step in checkpoints.steps()[-2:]:
        checkpoint = checkpoints.load(step)
        progress = checkpoint.progress
        row = {"step": step, "minutes": round(progress.seconds / 60, 1), "target_tokens": progress.tokens}
        for kind, weights in (("last", checkpoint.model), ("EMA", checkpoint.ema)):
            if weights is not None:
                outputs = translate_with(run, weights, {name: source for name, (source, _) in texts.items()})
                row[kind] = {
                    name: round(corpus_score(outputs[name], [target], metric).value, 2)
                    for name, (_, target) in texts.items()
                }
        rows.append(row)
        print(row, flush=True)
    return rows


def translate_with(run: RunFolder, weights: dict[str, Tensor], texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Translate with other weights, in a copy of the run."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns("checkpoints", "cache"))
        save_tensors(RunFolder(copy).weights, weights)
        translator = dragoman.load(copy)
        return {name: [result.text for result in translator.translate(some)] for name, some in texts.items()}


def plot(runs: dict[str, dict[str, Any]]) -> None:
    """Plot validation loss by step and validation BLEU by minutes of training."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, color in COLORS.items():
        rows = runs[name]["validations"]
        minutes = [second / 60 for second in rows["seconds"]]
        left.plot(rows["step"], rows["loss"], color=color, linewidth=2, label=name)
        right.plot(minutes, rows["bleu"], color=color, linewidth=2, marker="o", markersize=3, label=f"{name}, greedy")
        if "checkpoints" in runs[name]:
            tested = runs[name]["checkpoints"]
            style = {"color": color, "linestyle": "none", "marker": "*", "markersize": 9}
            scores = [row["EMA"]["test"] for row in tested]
            right.plot([row["minutes"] for row in tested], scores, label=f"{name}, test, beam 5", **style)
    left.set(xlabel="step", ylabel="validation loss (nats a token)", ylim=(1.2, 3.0))
    right.set(xlabel="minutes of training", ylabel="BLEU on validation", ylim=(20, None))
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    figure.suptitle("Multi30k English to German, Transformer tiny", x=0.01, ha="left")
    figure.savefig(RESULTS.parent / "curve.png", dpi=130)


if __name__ == "__main__":
    main()
