"""What each head of a translation model is worth: BLEU without it, as a map of layers and heads for each attention.

    python benchmarks/heads/ablate.py RUN --source val.en.gz --reference val.de.gz --pruned RUN-PRUNED

Each head is left out by itself, and everything is translated anew with the beam of the run's configuration. A change
counts where paired bootstrap and approximate randomisation both find it at p < 0.05. With `--pruned`, the heads that
`dragoman prune` took from the run are marked. Writes ablation.json and ablation.png beside this file.
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
from matplotlib.patches import Rectangle

from dragoman.data.readers import lines
from dragoman.evaluation import Bleu, compare, corpus_score
from dragoman.interpret.attention_heads import Gates, ablation
from dragoman.interpret.head_pruning import ROLES
from dragoman.interpret.plots import plot_by_head
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load_in_pytorch

HERE = Path(__file__).parent
LEVEL = 0.05
TITLES = {"encoder": "encoder", "masked": "decoder, masked", "cross": "decoder, to the source"}


def main() -> None:
    arguments = parse()
    sources, references = ([line for _, line in lines(path)] for path in (arguments.source, arguments.reference))
    metric = Bleu(tokenize=arguments.tokenize)
    changes, outputs = measured(arguments.run, sources, references, metric)
    whole = corpus_score(outputs[0], [references], metric)
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(sources),
        "bleu": whole.value,
        "signature": whole.signature,
        "change": {kind: table.tolist() for kind, table in changes.items()},
        "certain": certain(changes, outputs, references, metric),
        "taken": {} if arguments.pruned is None else taken(arguments.pruned, changes),
    }
    (HERE / "ablation.json").write_text(json.dumps(tree, indent=1) + "\n")
    plot(tree)
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--tokenize", default="13a", help="tokenisation of sacreBLEU")
    parser.add_argument("--pruned", type=Path, help="what `dragoman prune` made of the run")
    return parser.parse_args()


def measured(run: Path, sources: list[str], references: list[str], metric: Bleu) -> tuple[Gates, list[list[str]]]:
    """The changes of BLEU, and all outputs: of the whole network, then without each head in the order of the tables."""
    translator, settings = load_in_pytorch(run, device="cpu"), RunFolder(run).read_config().decoding
    outputs: list[list[str]] = []

    def bleu() -> float:
        found = [best.text for best, *_ in translator.hypotheses(sources, settings)]
        outputs.append(found)
        return corpus_score(found, [references], metric).value

    return ablation(translator.model, bleu), outputs


def certain(
    changes: Gates, outputs: list[list[str]], references: list[str], metric: Bleu
) -> dict[str, list[list[bool]]]:
    """Where both tests find that the output without a head is another, better or worse."""
    whole, *without = outputs
    found = iter(without)

    def differs(other: list[str]) -> bool:
        systems = {"whole": whole, "without": other}
        return compare(systems, [references], [metric], trials=2000)[1].verdict(level=LEVEL) != "no difference"

    return {kind: [[differs(next(found)) for _ in row] for row in table] for kind, table in changes.items()}


def taken(pruned: Path, changes: Gates) -> dict[str, list[list[int]]]:
    """The heads that each layer lacks after pruning."""
    attention = RunFolder(pruned).read_config().model.attention
    return {
        kind: [sorted(set(range(table.shape[1])) - set(kept)) for kept in getattr(attention, ROLES[kind]).kept]
        for kind, table in changes.items()
    }


def plot(tree: dict[str, Any]) -> None:
    """A map for each attention: red where BLEU falls without the head, a ring around the heads that pruning took."""
    largest = max(abs(number) for table in tree["change"].values() for row in table for number in row)
    figure, grid = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axes, (kind, change) in zip(grid, tree["change"].items(), strict=True):
        plot_by_head(torch.tensor(change), title=TITLES[kind], largest=largest, signed=True, axes=axes)
        for layer, heads in enumerate(tree["taken"].get(kind, [])):
            for head in heads:
                axes.add_patch(Rectangle((head - 0.46, layer - 0.44), 0.92, 0.88, fill=False, linestyle="--"))
    figure.suptitle(f"Change of BLEU ({tree['bleu']:.1f}) without one head; dashed: what pruning a quarter takes")
    figure.savefig(HERE / "ablation.png", dpi=130)


def table(tree: dict[str, Any]) -> str:
    """The heads, the one that costs most first."""
    rows = [
        (change, kind, layer, head)
        for kind, layers in tree["change"].items()
        for layer, heads in enumerate(layers)
        for head, change in enumerate(heads)
    ]
    shown = ["| attention | layer | head | change of BLEU | certain |", "|---|---:|---:|---:|---|"]
    for change, kind, layer, head in sorted(rows):
        sure = "yes" if tree["certain"][kind][layer][head] else ""
        shown.append(f"| {TITLES[kind]} | {layer + 1} | {head + 1} | {change:+.2f} | {sure} |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
