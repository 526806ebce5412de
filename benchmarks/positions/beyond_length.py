"""What each kind of position promises beyond the length it was trained on, measured: loss by length and by place.

    for kind in sinusoidal learned relative bucketed rotary alibi none; do
        dragoman train examples/shakespeare_positions.yaml --data FOLDER --out runs/positions-$kind \
            --set model.positions.kind=$kind
    done
    python benchmarks/positions/beyond_length.py sinusoidal=runs/positions-sinusoidal … --text valid.txt

Networks of one context read windows of one, two and four times as many tokens. The loss of the places within the
trained length is theirs at any length; that of the places beyond it is what the positions add or lose. `learned` has a
table four times as long, of which only the first quarter was ever trained.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.inference import Generator
from dragoman.runs.load import load_in_pytorch

HERE = Path(__file__).parent
TIMES = (1, 2, 4)
WINDOWS = 64
"""Windows read together."""
COLOURS = ("#1b6ca8", "#c8553d", "#4f7942", "#7b5ea7", "#b08d2f", "#2f8f9d", "#777777")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--text", type=Path, required=True, help="text that no run has learnt from")
    arguments = parser.parse_args()
    text = arguments.text.read_text(encoding="utf-8")
    runs = []
    for name, folder in arguments.runs:
        generator = load_in_pytorch(folder, device="cpu")
        by_place = losses(generator, text, length=max(TIMES) * generator.context)
        runs.append(described(name, by_place, context=generator.context))
    tree = {"date": datetime.now(UTC).date().isoformat(), "unit": "nats a token", "runs": runs}
    (HERE / "beyond_length.json").write_text(json.dumps(tree, indent=1) + "\n")
    plot(runs)
    print(table(runs))


@torch.inference_mode()
def losses(generator: Generator, text: str, *, length: int) -> Tensor:
    """The mean loss at each place of windows of `length` tokens."""
    ids = torch.tensor(generator.tokenizer.source.encode(text))
    windows = ids[: (len(ids) - 1) // length * length].view(-1, length)
    expected = ids[1 : windows.numel() + 1].view(-1, length)
    sums = torch.zeros(length)
    for rows, wanted in zip(windows.split(WINDOWS), expected.split(WINDOWS), strict=True):
        logits = generator.model.unembed(generator.model.hidden(rows))
        sums += F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none").sum(dim=0)
    return sums / len(windows)


def described(name: str, by_place: Tensor, *, context: int) -> dict[str, Any]:
    return {
        "name": name,
        "context": context,
        "whole": {str(times): round(float(by_place[: times * context].mean()), 4) for times in TIMES},
        "beyond": {
            str(times): round(float(by_place[times * context // 2 : times * context].mean()), 4)
            for times in TIMES
            if times > 1
        },
        "by_place": [round(float(one), 4) for one in by_place],
    }


def table(runs: list[dict[str, Any]]) -> str:
    context = runs[0]["context"]
    heads = [f"{times} x {context}" for times in TIMES]
    heads += [f"places {times * context // 2} to {times * context}" for times in TIMES if times > 1]
    rows = [["positions", *heads], ["---", *["---:"] * len(heads)]]
    for run in runs:
        rows.append([run["name"], *(f"{value:.3f}" for value in [*run["whole"].values(), *run["beyond"].values()])])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(runs: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(figsize=(8.6, 4.2), layout="constrained")
    context = runs[0]["context"]
    for run, colour in zip(runs, COLOURS, strict=False):
        smooth = torch.tensor(run["by_place"]).view(-1, context // 8).mean(dim=1)
        places = (torch.arange(len(smooth)) + 0.5) * (context // 8)
        axes.plot(places, smooth, color=colour, linewidth=2, label=run["name"])
    axes.axvline(context, color="#444444", linewidth=1, linestyle=":")
    axes.annotate("trained length", (context, axes.get_ylim()[1]), xytext=(4, -12), textcoords="offset points")
    axes.set(xlabel="place in the text", ylabel="loss (nats a token)", xlim=(0, max(TIMES) * context))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right center")
    figure.suptitle("Beyond the trained length, by kind of position", x=0.01, ha="left")
    figure.savefig(HERE / "beyond_length.png", dpi=130)


if __name__ == "__main__":
    main()
