"""Compare word alignments read from translation models with those of a statistical aligner.

    python -m benchmarks.alignment.align RUN --reverse RUN-BACK --sentences test.de-en.gz --gold deen.talp.gz --swap \
        --train-source train.en.gz --train-target train.de.gz --name gold-de-en
    python -m benchmarks.alignment.align RUN --reverse RUN-BACK --sentences val.en.gz --targets val.de.gz \
        --train-source train.en.gz --train-target train.de.gz --name multi30k

Sentences are lines `source ||| target` of words between spaces, or two files whose punctuation is split from words.
`--swap` reverses files of the other direction, and `--reverse` is a run of the other direction. The aligner is
eflomal (Östling and Tiedemann, 2016), if it is installed: once on the sentences with the training text, and once on
the sentences alone. Writes an entry of results.json and NAME.png.
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation.alignment_error_rate import (
    GoldAlignment,
    Links,
    alignment_agreement,
    alignment_scores,
    read_gold_alignments,
)
from dragoman.interpret.attention_recorder import record_pairs
from dragoman.interpret.word_alignment import (
    alignment_heads,
    grow_diagonal,
    leave_one_out,
    link_both,
    link_targets,
    word_attention,
    words_of_text,
)
from dragoman.models.alignment_head import AlignmentHead
from dragoman.runs.load import load_torch_model

HERE = Path(__file__).parent
BATCH = 16
LEFT_OUT = "leave one out"
EFLOMAL = "eflomal"
Pair = tuple[str, str]
Found = dict[str, list[Links]]
"""Links of every sentence, by method."""


@dataclass
class ModelAlignments:
    """Alignments by one model."""

    links: Found
    heads: dict[str, AlignmentHead]
    nats: float
    """Loss per target word."""
    tokens: tuple[float, float]
    """Tokens per word of source and target."""


def main() -> None:
    arguments = parse_arguments()
    pairs = read_pairs(arguments)
    gold = read_links(arguments, len(pairs))
    statistical = align_by_eflomal(pairs, training_text(arguments))
    forward = align_by_model(arguments.run, pairs)
    found = forward.links | statistical
    told: dict[str, Any] = {}
    if arguments.reverse is not None:
        backward = align_by_model(arguments.reverse, [(target, source) for source, target in pairs])
        both, told = join_directions(forward.links, backward.links)
        found |= both
    if gold is not None:
        found["the head that gold chooses"], told["chosen on halves of gold"] = choose_on_gold(forward, gold)
    rows = [score_method(name, links, gold, statistical.get(EFLOMAL)) for name, links in found.items()]
    rows.sort(key=lambda row: row.get("error_rate", -row.get("agreement", 0.0)))
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "reverse": None if arguments.reverse is None else arguments.reverse.name,
        "sentences": len(pairs),
        "gold": None if arguments.gold is None else arguments.gold.name,
        "nats_a_target_word": forward.nats,
        "tokens_a_word": forward.tokens,
        "chosen": told,
        "methods": rows,
    }
    update_results(HERE / "results.json", {arguments.name: tree})
    plot(tree, HERE / f"{arguments.name}.png")
    print(json.dumps({key: value for key, value in tree.items() if key != "methods"}))
    print(format_table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--reverse", type=Path, help="a run from the target language to the source language")
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--targets", type=Path, help="target sentences, if --sentences holds sources only")
    parser.add_argument("--gold", type=Path)
    parser.add_argument("--swap", action="store_true", help="exchange source and target of sentences and gold")
    parser.add_argument("--train-source", type=Path)
    parser.add_argument("--train-target", type=Path)
    parser.add_argument("--limit", type=int, help="number of sentences from the beginning")
    parser.add_argument("--name", default="results", help="entry of results.json, and name of the plot")
    return parser.parse_args()


def read_pairs(arguments: argparse.Namespace) -> list[Pair]:
    if arguments.targets is not None:
        return parallel(arguments.sentences, arguments.targets)[: arguments.limit]
    pairs = []
    for _, line in islice(read_lines(arguments.sentences), arguments.limit):
        source, target = (" ".join(side.split()) for side in line.split("|||"))
        pairs.append((target, source) if arguments.swap else (source, target))
    return pairs


def read_links(arguments: argparse.Namespace, number: int) -> list[GoldAlignment] | None:
    if arguments.gold is None:
        return None
    gold = read_gold_alignments((line for _, line in read_lines(arguments.gold)), name=str(arguments.gold))[:number]
    return (
        [GoldAlignment(reverse_links(one.sure), reverse_links(one.possible)) for one in gold]
        if arguments.swap
        else gold
    )


def reverse_links(links: Links) -> Links:
    return frozenset((to, at) for at, to in links)


def training_text(arguments: argparse.Namespace) -> list[Pair]:
    return [] if arguments.train_source is None else parallel(arguments.train_source, arguments.train_target)


def parallel(source: Path, target: Path) -> list[Pair]:
    """Return pairs of sentences in words between spaces."""
    sides = ([split_marks(line) for _, line in read_lines(path)] for path in (source, target))
    return [pair for pair in zip(*sides, strict=True) if all(side.strip() for side in pair)]


def split_marks(text: str) -> str:
    """Split punctuation from words, as in the gold."""
    return " ".join(re.findall(r"\w+(?:['’-]\w+)*|[^\w\s]", text))


def align_by_eflomal(pairs: Sequence[Pair], more: Sequence[Pair]) -> Found:
    """Return the links of eflomal, or nothing if it is not installed."""
    if shutil.which("eflomal-align") is None:
        print("eflomal-align is not installed; continuing without it (pip install eflomal)")
        return {}
    forward, reverse = run_eflomal(pairs, more)
    found = {EFLOMAL: grow_diag(forward, reverse), f"{EFLOMAL}, forward": forward, f"{EFLOMAL}, reverse": reverse}
    if more:
        found[f"{EFLOMAL} without the training text"] = grow_diag(*run_eflomal(pairs, []))
    return found


def run_eflomal(pairs: Sequence[Pair], more: Sequence[Pair]) -> tuple[list[Links], list[Links]]:
    """Return the links of the pairs in both directions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "".join(f"{source.lower()} ||| {target.lower()}\n" for source, target in (*pairs, *more))
        (folder / "text").write_text(text, encoding="utf-8")
        outputs = [folder / "forward", folder / "reverse"]
        command = ["eflomal-align", "-i", folder / "text", "--forward-links", outputs[0], "--reverse-links", outputs[1]]
        subprocess.run(command, check=True, capture_output=True)
        forward, reverse = (read_link_file(path, len(pairs)) for path in outputs)
        return forward, reverse


def read_link_file(path: Path, number: int) -> list[Links]:
    """Read the zero-based links `source-target` of the first lines."""
    with path.open(encoding="utf-8") as file:
        found = [[link.split("-") for link in line.split()] for line in islice(file, number)]
    return [frozenset((int(at), int(to)) for at, to in links) for links in found]


def grow_diag(one: Sequence[Links], other: Sequence[Links]) -> list[Links]:
    return [grow_diagonal(first, second) for first, second in zip(one, other, strict=True)]


def align_by_model(run: Path, pairs: Sequence[Pair]) -> ModelAlignments:
    """Return the links of every head: one source word per target word, and by grow-diag from both sides."""
    translator = load_torch_model(run, device="cpu")
    tokenizer = translator.tokenizer
    found: Found = {}
    named: dict[str, AlignmentHead] = {}
    nats, counts = 0.0, [0, 0, 0, 0]
    for first in range(0, len(pairs), BATCH):
        some = [
            (*words_of_text(tokenizer.source, source), *words_of_text(tokenizer.target, target))
            for source, target in pairs[first : first + BATCH]
        ]
        passes = record_pairs(translator.model, [one[0] for one in some], [one[2] for one in some])
        for passed, (source, source_words, target, target_words) in zip(passes, some, strict=True):
            for head in alignment_heads(passed):
                named[name_of(head)] = head
                add(found, name_of(head), word_attention(passed, head, source=source_words, target=target_words))
            words = {"source_words": source_words, "target_words": target_words}
            add(found, LEFT_OUT, leave_one_out(translator.model, source, target, **words))
            nats -= float(passed.target_log_probs.sum())
            sizes = (len(source), len(source_words), len(target), len(target_words))
            counts = [count + size for count, size in zip(counts, sizes, strict=True)]
    return ModelAlignments(found, named, nats / counts[3], (counts[0] / counts[1], counts[2] / counts[3]))


def add(found: Found, name: str, weights: Any) -> None:
    found.setdefault(name, []).append(link_targets(weights))
    found.setdefault(f"{name}, both ways", []).append(link_both(weights))


def name_of(choice: AlignmentHead) -> str:
    head = "mean" if choice.head is None else f"head {choice.head + 1}"
    return f"layer {choice.layer + 1}, {head}{', shifted' if choice.shifted else ''}"


def join_directions(forward: Found, backward: Found) -> tuple[Found, dict[str, Any]]:
    """Choose the heads of two models that agree most, without gold, and join their links by grow-diag."""
    back = {
        name: [reverse_links(links) for links in found] for name, found in backward.items() if "both ways" not in name
    }
    value, chosen, reverse = max(
        (alignment_agreement(links, others), name, other)
        for name, links in forward.items()
        if name.startswith("layer") and "both ways" not in name
        for other, others in back.items()
        if other.startswith("layer")
    )
    found = {
        "both directions, chosen by agreement": grow_diag(forward[chosen], back[reverse]),
        "forward, chosen by agreement": forward[chosen],
        "backward, chosen by agreement": back[reverse],
        f"both directions, {LEFT_OUT}": grow_diag(forward[LEFT_OUT], back[LEFT_OUT]),
    }
    return found, {"by agreement": {"forward": chosen, "backward": reverse, "agreement": value}}


def choose_on_gold(read: ModelAlignments, gold: Sequence[GoldAlignment]) -> tuple[list[Links], list[str]]:
    """Choose the head with the lowest error rate on one half of the sentences for the other half, and vice versa."""
    links: list[Links] = [frozenset()] * len(gold)
    names = []
    for half in (0, 1):
        there, elsewhere = slice(half, None, 2), slice(1 - half, None, 2)
        rates = {name: alignment_scores(read.links[name][there], gold[there]).error_rate for name in read.heads}
        names.append(min(rates, key=rates.__getitem__))
        links[elsewhere] = read.links[names[-1]][elsewhere]
    return links, names


def score_method(
    name: str, links: list[Links], gold: list[GoldAlignment] | None, statistical: list[Links] | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"method": name}
    if gold is not None:
        row |= asdict(alignment_scores(links, gold))
    if statistical is not None:
        row["agreement"] = alignment_agreement(links, statistical)
    return row


def plot(tree: Mapping[str, Any], path: Path) -> None:
    """Plot each head by its layer, shifted and not, the mean of the heads as a line, and the other methods."""
    key, label = ("error_rate", "alignment error rate") if tree["gold"] else ("agreement", "agreement with eflomal")
    rows = {row["method"]: row[key] for row in tree["methods"] if key in row}
    layers = sorted({int(name.split()[1].rstrip(",")) for name in rows if name.startswith("layer")})
    figure, axes = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
    for ending, color, aside in (("", "#1b6ca8", -0.09), (", shifted", "#c8553d", 0.09)):
        means = [rows[f"layer {layer}, mean{ending}"] for layer in layers]
        name = f"step that {'has read' if ending else 'writes'} the word"
        axes.plot([layer + aside for layer in layers], means, color=color, label=f"{name}, mean of heads")
        heads = [(layer, rows.get(f"layer {layer}, head {head}{ending}")) for layer in layers for head in range(1, 65)]
        dots = [(layer + aside, value) for layer, value in heads if value is not None]
        axes.scatter(*zip(*dots, strict=True), color=color, s=26, alpha=0.75, label="one head", zorder=3)
    for name, color in (
        (LEFT_OUT, "#4f7942"),
        (f"both directions, {LEFT_OUT}", "#8fb573"),
        ("both directions, chosen by agreement", "#7b5ea7"),
        (f"{EFLOMAL} without the training text", "#999999"),
        (EFLOMAL, "black"),
    ):
        if name in rows and not (name == EFLOMAL and key == "agreement"):
            axes.axhline(rows[name], color=color, linestyle=":", linewidth=2, label=name)
    axes.set(xlabel="decoder layer", ylabel=label, xticks=layers, ylim=(0, 1))
    axes.set_title(f"{tree['run']}, {tree['sentences']} sentences", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=130)


def format_table(rows: Iterable[dict[str, Any]]) -> str:
    shown = ["| method | AER | precision | recall | agreement with eflomal |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        numbers = [row.get(key) for key in ("error_rate", "precision", "recall", "agreement")]
        cells = ["" if number is None else f"{100 * number:.1f}" for number in numbers]
        shown.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
