"""Measure the loss of language models beyond the trained length, for each kind of position.

    python -m benchmarks.positions.extrapolation sinusoidal=runs/positions-sinusoidal … --text valid.txt

Models of one context read windows of one, two and four times as many tokens. `learned` has a table four times as
long, of which the first quarter was trained. Writes results.json and extrapolation.png.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.collect_runs import update_results
from dragoman.inference import Generator
from dragoman.runs.load import load_torch_model

HERE = Path(__file__).parent
TIMES = (1, 2, 4)
WINDOWS = 64
"""Windows in a batch."""
COLORS = ("#1b6ca8", "#c8553d", "#4f7942", "#7b5ea7", "#b08d2f", "#2f8f9d", "#777777")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--text", type=Path, required=True, help="text that no run was trained on")
    arguments = parser.parse_args()
    text = arguments.text.read_text(encoding="utf-8")
    runs = []
    for name, folder in arguments.runs:
        generator = load_torch_model(folder, device="cpu")
        by_position = losses_by_position(generator, text, length=max(TIMES) * generator.context)
        runs.append(summarize(name, by_position, context=generator.context))
    tree = {"date": datetime.now(UTC).date().isoformat(), "unit": "nats a token", "length": runs}
    update_results(HERE / "results.json", tree)
    plot(runs)
    print(format_table(runs))


@torch.inference_mode()
def losses_by_position(generator: Generator, text: str, *, length: int) -> Tensor:
    """Return the mean loss at each position of windows of `length` tokens."""
    ids = torch.tensor(generator.tokenizer.source.encode(text))
    windows = ids[: (len(ids) - 1) // length * length].view(-1, length)
    expected = ids[1 : windows.numel() + 1].view(-1, length)
    sums = torch.zeros(length)
    for rows, labels in zip(windows.split(WINDOWS), expected.split(WINDOWS), strict=True):
        logits = generator.model.unembed(generator.model.hidden(rows))
        sums += F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").sum(dim=0)
    return sums / len(windows)


def summarize(name: str, by_position: Tensor, *, context: int) -> dict[str, Any]:
    return {
        "name": name,
        "context": context,
        "whole": {str(times): round(float(by_position[: times * context].mean()), 4) for times in TIMES},
        "beyond": {
            str(times): round(float(by_position[times * context // 2 : times * context].mean()), 4)
            for times in TIMES
            if times > 1
        },
        "by_position": [round(float(one), 4) for one in by_position],
    }


def format_table(runs: list[dict[str, Any]]) -> str:
    context = runs[0]["context"]
    heads = [f"{times} x {context}" for times in TIMES]
    heads += [f"tokens {times * context // 2} to {times * context}" for times in TIMES if times > 1]
    rows = [["positions", *heads], ["---", *["---:"] * len(heads)]]
    for run in runs:
        rows.append([run["name"], *(f"{value:.3f}" for value in [*run["whole"].values(), *run["beyond"].values()])])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(runs: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(figsize=(8.6, 4.2), layout="constrained")
    context = runs[0]["context"]
    for run, color in zip(runs, COLORS, strict=False):
        smooth = torch.tensor(run["by_position"]).view(-1, context // 8).mean(dim=1)
        positions = (torch.arange(len(smooth)) + 0.5) * (context // 8)
        axes.plot(positions, smooth, color=color, linewidth=2, label=run["name"])
    axes.axvline(context, color="#444444", linewidth=1, linestyle=":")
    axes.annotate("trained length", (context, axes.get_ylim()[1]), xytext=(4, -12), textcoords="offset points")
    axes.set(xlabel="position in the text", ylabel="loss (nats a token)", xlim=(0, max(TIMES) * context))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right center")
    figure.suptitle("Beyond the trained length, by kind of position", x=0.01, ha="left")
    figure.savefig(HERE / "extrapolation.png", dpi=130)


if __name__ == "__main__":
    main()
