"""The bottleneck, seen: BLEU of several runs by the length of the source, as a table and a plot.

    python benchmarks/bottleneck/by_length.py lstm=runs/lstm attentive=runs/attentive transformer=runs/tiny \
        --source test.en --reference test.de

A network without attention has the same few numbers for a sentence of forty words as for one of four.
"""

import argparse
import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dragoman
from dragoman.data.readers import lines
from dragoman.decoding import Average
from dragoman.evaluation import Bleu, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
EDGES = (1, 8, 10, 12, 14, 17, 21, 1000)
"""Words of a source: from one edge to below the next."""
COLOURS = ("#c8553d", "#b08d2f", "#1b6ca8", "#4f7942", "#7b5ea7")


def main() -> None:
    arguments = parse()
    sources, references = ([line for _, line in lines(path)] for path in (arguments.source, arguments.reference))
    lengths = [len(source.split()) for source in sources]
    buckets = [[row for row, length in enumerate(lengths) if low <= length < high] for low, high in pairwise(EDGES)]
    metric = Bleu(tokenize=arguments.tokenize)
    runs = [measured(name, folder, sources, references, buckets, metric) for name, folder in arguments.runs]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "beam": 5,
        "signature": runs[0].pop("signature"),
        "words": [label(number) for number in range(len(buckets))],
        "sentences": [len(rows) for rows in buckets],
        "runs": [{key: value for key, value in run.items() if key != "signature"} for run in runs],
    }
    (HERE / "by_length.json").write_text(json.dumps(tree, indent=2) + "\n")
    plot(tree)
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--tokenize", default="none", help="tokenisation of sacreBLEU")
    return parser.parse_args()


def measured(
    name: str, folder: str, sources: list[str], references: list[str], buckets: list[list[int]], metric: Bleu
) -> dict[str, Any]:
    outputs = dragoman.load(folder).translate(sources, beam=5, normalisation=Average())

    def bleu(rows: list[int]) -> float:
        return round(corpus_score([outputs[row] for row in rows], [[references[row] for row in rows]], metric).value, 2)

    whole = corpus_score(outputs, [references], metric)
    scores = RunFolder(Path(folder)).read_scores()
    return {
        "name": name,
        "bleu": round(whole.value, 2),
        "by_length": [bleu(rows) for rows in buckets],
        "updates": scores["updates"],
        "minutes": round(scores["seconds"] / 60, 1),
        "signature": whole.signature,
    }


def label(number: int) -> str:
    low, high = EDGES[number], EDGES[number + 1] - 1
    return f"{low}-{high}" if high < EDGES[-1] - 1 else f"{low} and more"


def table(tree: dict[str, Any]) -> str:
    rows = [["run", "all", *tree["words"]], ["---", *["---:"] * (len(tree["words"]) + 1)]]
    rows.append(["sentences", str(sum(tree["sentences"])), *map(str, tree["sentences"])])
    rows += [[run["name"], f"{run['bleu']:.1f}", *(f"{one:.1f}" for one in run["by_length"])] for run in tree["runs"]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(tree: dict[str, Any]) -> None:
    """BLEU, and beside it the share of the last run's, since long captions are harder for every network."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    places, last = range(len(tree["words"])), tree["runs"][-1]
    for run, colour in zip(tree["runs"], COLOURS, strict=False):
        style = {"color": colour, "linewidth": 2.2, "marker": "o", "markersize": 5, "label": run["name"]}
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
