"""Compare runs by BLEU in buckets of source length, as a table and a plot.

    python -m benchmarks.bottleneck.by_length lstm=runs/lstm transformer=runs/tiny --source test.en --reference test.de

A model without attention has one vector of fixed size for sources of every length.
"""

import argparse
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import Bleu, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
EDGES = (1, 8, 10, 12, 14, 17, 21, 1000)
"""Bounds of the buckets, in source words."""
COLORS = ("#c8553d", "#b08d2f", "#1b6ca8", "#4f7942", "#7b5ea7")


def main() -> None:
    arguments = parse_arguments()
    sources, references = ([line for _, line in read_lines(path)] for path in (arguments.source, arguments.reference))
    lengths = [len(source.split()) for source in sources]
    buckets = [[row for row, length in enumerate(lengths) if low <= length < high] for low, high in pairwise(EDGES)]
    metric = Bleu(tokenize=arguments.tokenize)
    runs = [measure_run(name, folder, sources, references, buckets, metric) for name, folder in arguments.runs]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "beam": 5,
        "signature": runs[0].pop("signature"),
        "words": [bucket_name(number) for number in range(len(buckets))],
        "sentences": [len(rows) for rows in buckets],
        "runs": [{key: value for key, value in run.items() if key != "signature"} for run in runs],
    }
    update_results(HERE / "results.json", {"by_length": tree})
    plot(tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--tokenize", default="none", help="tokenization of sacreBLEU")
    return parser.parse_args()


def measure_run(
    name: str, folder: str, sources: list[str], references: list[str], buckets: list[list[int]], metric: Bleu
) -> dict[str, Any]:
    results = dragoman.load(folder).translate(sources, beam_size=5, length_penalty=1.0)
    outputs = [result.text for result in results]

    def bleu(rows: list[int]) -> float:
        return round(corpus_score([outputs[row] for row in rows], [[references[row] for row in rows]], metric).value, 2)

    whole = corpus_score(outputs, [references], metric)
    scores = RunFolder(Path(folder)).read_scores()
    return {
        "name": name,
        "bleu": round(whole.value, 2),
        "by_length": [bleu(rows) for rows in buckets],
        "steps": scores["steps"],
        "minutes": round(scores["seconds"] / 60, 1),
        "signature": whole.signature,
    }


def bucket_name(number: int) -> str:
    low, high = EDGES[number], EDGES[number + 1] - 1
    return f"{low}-{high}" if high < EDGES[-1] - 1 else f"{low} and more"


def format_table(tree: dict[str, Any]) -> str:
    rows = [["run", "all", *tree["words"]], ["---", *["---:"] * (len(tree["words"]) + 1)]]
    rows.append(["sentences", str(sum(tree["sentences"])), *map(str, tree["sentences"])])
    rows += [[run["name"], f"{run['bleu']:.1f}", *(f"{one:.1f}" for one in run["by_length"])] for run in tree["runs"]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(tree: dict[str, Any]) -> None:
    """Plot BLEU, and BLEU relative to the last run, since long captions are harder for every model."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    places, last = range(len(tree["words"])), tree["runs"][-1]
    for run, color in zip(tree["runs"], COLORS, strict=False):
        style = {"color": color, "linewidth": 2.2, "marker": "o", "markersize": 5, "label": run["name"]}
        shares = [100 * mine / best for mine, best in zip(run["by_length"], last["by_length"], strict=True)]
        left.plot(places, run["by_length"], **style)
        right.plot(places, shares, **style)
    left.set(ylabel="BLEU", ylim=(0, None))
    left.legend(frameon=False, loc="lower left")
    right.set(ylabel=f"% of the BLEU of {last['name']}", ylim=(0, 115))
    for axes in (left, right):
        axes.set_xticks(places, [words.replace(" and more", "+") for words in tree["words"]])
        axes.set(xlabel="words of the source")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Multi30k English to German, by length of the source", x=0.01, ha="left")
    figure.savefig(HERE / "by_length.png", dpi=130)


if __name__ == "__main__":
    main()
