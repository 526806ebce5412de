"""Word alignments read from a network, beside those of a statistical aligner: error rates on gold, and agreement.

    python benchmarks/alignment/align.py RUN --sentences test.de-en.gz --gold deen.talp.gz --swap \
        --train-source train.en.gz --train-target train.de.gz

Sentences are lines `source ||| target` of words between spaces; `--swap` turns files of the other direction round.
Without `--gold`, every alignment is compared with that of eflomal alone (Östling and Tiedemann, 2016), which is asked
where it is installed, on the sentences and the training text together.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from dragoman.data.corpora import lines
from dragoman.evaluation import GoldAlignment, agreement, alignment_scores, read_gold
from dragoman.evaluation.alignment import Links
from dragoman.experiment.load import load_in_pytorch
from dragoman.inspection.alignments import Look, both_ways, by_target, grown, leave_one_out, looked_at, looks
from dragoman.inspection.passes import watched
from dragoman.inspection.words import words_of_text
from dragoman.models.symbols import Symbols

HERE = Path(__file__).parent
BATCH = 16
Pair = tuple[str, str]


def main() -> None:
    arguments = parse()
    pairs = read_pairs(arguments)
    gold = read_links(arguments, len(pairs))
    statistical = eflomal(pairs, training_text(arguments))
    found = by_methods(arguments.run, pairs)
    if statistical is not None:
        found = {"eflomal": statistical, **found}
    rows = [judged(name, links, gold, statistical) for name, links in found.items()]
    rows.sort(key=lambda row: row.get("error_rate", -row.get("agreement", 0.0)))
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(pairs),
        "gold": None if arguments.gold is None else arguments.gold.name,
        "methods": rows,
    }
    (HERE / f"{arguments.name}.json").write_text(json.dumps(tree, indent=1) + "\n")
    plot(tree, HERE / f"{arguments.name}.png")
    print(table(rows[:24]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--swap", action="store_true", help="turn sentences and gold round")
    parser.add_argument("--train-source", type=Path)
    parser.add_argument("--train-target", type=Path)
    parser.add_argument("--limit", type=int, help="so many sentences, the first ones")
    parser.add_argument("--name", default="results", help="of the files that are written")
    return parser.parse_args()


def read_pairs(arguments: argparse.Namespace) -> list[Pair]:
    pairs = []
    for _, line in islice(lines(arguments.sentences), arguments.limit):
        source, target = (" ".join(side.split()) for side in line.split("|||"))
        pairs.append((target, source) if arguments.swap else (source, target))
    return pairs


def read_links(arguments: argparse.Namespace, number: int) -> list[GoldAlignment] | None:
    if arguments.gold is None:
        return None
    gold = read_gold((line for _, line in lines(arguments.gold)), name=str(arguments.gold))[:number]
    return [GoldAlignment(turned(one.sure), turned(one.possible)) for one in gold] if arguments.swap else gold


def turned(links: Links) -> Links:
    return frozenset((to, at) for at, to in links)


def training_text(arguments: argparse.Namespace) -> list[Pair]:
    if arguments.train_source is None:
        return []
    sides = ([line for _, line in lines(path)] for path in (arguments.train_source, arguments.train_target))
    return [pair for pair in zip(*sides, strict=True) if all(side.strip() for side in pair)]


def eflomal(pairs: Sequence[Pair], more: Sequence[Pair]) -> list[Links] | None:
    """The links of the pairs in both directions, joined; None where the aligner is not installed."""
    program = shutil.which("eflomal-align")
    if program is None:
        print("eflomal-align is not there (pip install eflomal); going on without it")
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "".join(f"{source.lower()} ||| {target.lower()}\n" for source, target in (*pairs, *more))
        (folder / "text").write_text(text, encoding="utf-8")
        outputs = [folder / "forward", folder / "reverse"]
        command = [program, "-i", folder / "text", "--forward-links", outputs[0], "--reverse-links", outputs[1]]
        subprocess.run(command, check=True)
        forward, reverse = (links_in(path, len(pairs)) for path in outputs)
    return [grown(one, other) for one, other in zip(forward, reverse, strict=True)]


def links_in(path: Path, number: int) -> list[Links]:
    """Links from 0 on, `source-target`, of the first lines."""
    with path.open(encoding="utf-8") as file:
        found = [[link.split("-") for link in line.split()] for line in islice(file, number)]
    return [frozenset((int(at), int(to)) for at, to in links) for links in found]


def by_methods(run: Path, pairs: Sequence[Pair]) -> dict[str, list[Links]]:
    """The links of every sentence, by method."""
    translator = load_in_pytorch(run, device="cpu")
    tokenizer, symbols = translator.tokenizer, Symbols()
    found: dict[str, list[Links]] = {}
    for first in range(0, len(pairs), BATCH):
        some = [
            (*words_of_text(tokenizer.source, source), *words_of_text(tokenizer.target, target))
            for source, target in pairs[first : first + BATCH]
        ]
        sources, targets = [one[0] for one in some], [one[2] for one in some]
        passes = watched(translator.model, sources, targets, symbols=symbols)
        for passed, (source, source_words, target, target_words) in zip(passes, some, strict=True):
            for look in looks(passed):
                add(found, name_of(look), looked_at(passed, look, source=source_words, target=target_words))
            words = {"source_words": source_words, "target_words": target_words}
            add(found, "leave one out", leave_one_out(translator.model, source, target, **words, symbols=symbols))
    return found


def add(found: dict[str, list[Links]], name: str, weights: Any) -> None:
    found.setdefault(name, []).append(by_target(weights))
    found.setdefault(f"{name}, both ways", []).append(both_ways(weights))


def name_of(look: Look) -> str:
    head = "mean" if look.head is None else f"head {look.head + 1}"
    return f"layer {look.layer + 1}, {head}{', shifted' if look.shifted else ''}"


def judged(
    name: str, links: list[Links], gold: list[GoldAlignment] | None, statistical: list[Links] | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"method": name}
    if gold is not None:
        row |= asdict(alignment_scores(links, gold))
    if statistical is not None:
        row["agreement"] = agreement(links, statistical)
    return row


def plot(tree: dict[str, Any], path: Path) -> None:
    """The mean of each layer's heads, shifted and not, beside the methods that have no layer."""
    key, label = ("error_rate", "alignment error rate") if tree["gold"] else ("agreement", "agreement with eflomal")
    rows = {row["method"]: row[key] for row in tree["methods"] if key in row}
    layers = sorted({int(name.split()[1].rstrip(",")) for name in rows if name.startswith("layer")})
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for ending, style in (("", "o-"), (", shifted", "s-"), (", both ways", "o--"), (", shifted, both ways", "s--")):
        axes.plot(layers, [rows[f"layer {layer}, mean{ending}"] for layer in layers], style, label=f"attention{ending}")
    for name, colour in (
        ("leave one out", "tab:green"),
        ("leave one out, both ways", "tab:olive"),
        ("eflomal", "black"),
    ):
        if name in rows:
            axes.axhline(rows[name], color=colour, linestyle=":", label=name)
    axes.set(xlabel="decoder layer", ylabel=label, xticks=layers, title=f"{tree['run']}, {tree['sentences']} sentences")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def table(rows: Iterable[dict[str, Any]]) -> str:
    shown = ["| method | AER | precision | recall | agreement with eflomal |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        numbers = [row.get(key) for key in ("error_rate", "precision", "recall", "agreement")]
        cells = ["" if number is None else f"{100 * number:.1f}" for number in numbers]
        shown.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
