"""The curves of the published runs beside this file: loss and validation BLEU against updates.

python benchmarks/multi30k/curve.py
"""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
COLOURS = ("#1b6ca8", "#c8553d", "#4f7942", "#7b5ea7", "#b8860b", "#3d8c8c")


def main() -> None:
    runs = sorted(path.parent for path in HERE.glob("*/metrics.jsonl"))
    tested = {run.name: json.loads((run / "checkpoints.json").read_text()) for run in runs if known(run)}
    plot({run.name: read(run / "metrics.jsonl") for run in runs}, tested)


def known(run: Path) -> bool:
    """Whether checkpoints of the run were scored on the test set."""
    return (run / "checkpoints.json").exists()


def read(metrics: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def plot(runs: dict[str, list[dict[str, Any]]], tested: dict[str, list[dict[str, Any]]]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for (name, events), colour in zip(runs.items(), COLOURS, strict=True):
        updates = [event for event in events if event["event"] == "updated"]
        valid = [event for event in events if event["event"] == "validated"]
        left.plot(
            [event["update"] for event in updates],
            [event["negative_log_likelihood"] for event in updates],
            color=colour,
            alpha=0.3,
            linewidth=0.8,
        )
        left.plot(
            [event["update"] for event in valid],
            [event["scores"]["loss"] for event in valid],
            color=colour,
            linewidth=2,
            label=name,
        )
        right.plot(
            [event["seconds"] / 60 for event in valid],
            [event["scores"]["bleu"] for event in valid],
            color=colour,
            linewidth=2,
            marker="o",
            markersize=3,
            label=f"{name}, greedy",
        )
        if name in tested:
            right.plot(
                [row["minutes"] for row in tested[name]],
                [row["moving average"]["test"] for row in tested[name]],
                color=colour,
                linestyle="none",
                marker="*",
                markersize=9,
                label=f"{name}, test, beam 5",
            )
    left.set(xlabel="update", ylabel="nats a token: training thin, validation thick", ylim=(0.8, 6.5))
    right.set(xlabel="minutes of training", ylabel="BLEU on validation", ylim=(20, None))
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.suptitle("Multi30k English to German, Transformer tiny", x=0.01, ha="left")
    figure.savefig(HERE / "curve.png", dpi=130)


if __name__ == "__main__":
    main()
