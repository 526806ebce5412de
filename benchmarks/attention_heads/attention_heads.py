"""Measure what each attention head contributes, and what pruning heads costs and saves.

    python -m benchmarks.attention_heads.attention_heads ablate RUN --source val.en --reference val.de
    taskset -c 0 python -m benchmarks.attention_heads.attention_heads prune whole=RUN quarter=RUN-PRUNED \
        --source test.en --reference test.de

`ablate` masks each head alone and translates everything again with the decoding of the run. A change is significant
where paired bootstrap and approximate randomization both find p < 0.05. `prune` compares runs on every backend,
alternating, by the median of the processor seconds of all rounds; the first run is the whole model. Both write to
results.json.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import statistics
import time

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle

from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig
from dragoman.evaluation import Bleu, compare_systems, corpus_score
from dragoman.inference import Translator
from dragoman.interpret.attention_heads import CONFIG_ROLES, HeadValues, count_heads, head_ablation
from dragoman.interpret.matplotlib_plots import plot_per_head
from dragoman.profiling.memory_and_time_estimate import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load, load_torch_model

RESULTS = Path(__file__).parent / "results.json"
LEVEL = 0.05
TITLES = {"encoder": "encoder", "masked": "decoder self-attention", "cross": "cross-attention"}
BACKENDS = ("torch", "cpu, float32", "cpu, int8")


def main() -> None:
    arguments = parse_arguments()
    arguments.run_command(arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    ablating, pruning = commands.add_parser("ablate"), commands.add_parser("prune")
    ablating.set_defaults(run_command=ablate)
    ablating.add_argument("run", type=Path)
    ablating.add_argument("--pruned", type=Path, help="output of `dragoman prune`, whose missing heads are marked")
    pruning.set_defaults(run_command=prune)
    pruning.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    pruning.add_argument("--rounds", type=int, default=5)
    for command in (ablating, pruning):
        command.add_argument("--source", type=Path, required=True)
        command.add_argument("--reference", type=Path, required=True)
        command.add_argument("--tokenize", default="13a", help="tokenization of sacreBLEU")
    return parser.parse_args()


def ablate(arguments: argparse.Namespace) -> None:
    """Measure the change of BLEU without each head."""
    sources, references = ([line for _, line in read_lines(path)] for path in (arguments.source, arguments.reference))
    metric = Bleu(tokenize=arguments.tokenize)
    changes, outputs = translate_without_heads(arguments.run, sources, references, metric)
    whole = corpus_score(outputs[0], [references], metric)
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(sources),
        "bleu": whole.value,
        "signature": whole.signature,
        "change": {kind: table.tolist() for kind, table in changes.items()},
        "significant": significant_changes(changes, outputs, references, metric),
        "pruned": {} if arguments.pruned is None else pruned_heads(arguments.pruned, changes),
    }
    update_results(RESULTS, {"ablation": tree})
    plot_ablation(tree)
    print(ablation_table(tree))


def translate_without_heads(
    run: Path, sources: list[str], references: list[str], metric: Bleu
) -> tuple[HeadValues, list[list[str]]]:
    """Return the changes of BLEU, and all outputs: of the whole model, then without each head in order."""
    translator, settings = load_torch_model(run, device="cpu"), RunFolder(run).read_config().decoding
    outputs: list[list[str]] = []

    def bleu() -> float:
        found = [best.text for best, *_ in translator.translate(sources, settings)]
        outputs.append(found)
        return corpus_score(found, [references], metric).value

    return head_ablation(translator.model, bleu), outputs


def significant_changes(
    changes: HeadValues, outputs: list[list[str]], references: list[str], metric: Bleu
) -> dict[str, list[list[bool]]]:
    """Return where both significance tests find a change of BLEU."""
    whole, *without = outputs
    found = iter(without)

    def differs(other: list[str]) -> bool:
        systems = {"whole": whole, "without": other}
        return compare_systems(systems, [references], [metric], trials=2000)[1].verdict(level=LEVEL) != "no difference"

    return {kind: [[differs(next(found)) for _ in row] for row in table] for kind, table in changes.items()}


def pruned_heads(pruned: Path, changes: HeadValues) -> dict[str, list[list[int]]]:
    """Return the heads that each layer lacks after pruning."""
    attention = RunFolder(pruned).read_config().model.attention
    return {
        kind: [
            sorted(set(range(table.shape[1])) - set(kept)) for kept in getattr(attention, CONFIG_ROLES[kind]).kept_heads
        ]
        for kind, table in changes.items()
    }


def plot_ablation(tree: dict[str, Any]) -> None:
    """Plot a map for each kind of attention: red where BLEU falls without the head, dashed where pruning removes it."""
    largest = max(abs(number) for table in tree["change"].values() for row in table for number in row)
    figure, grid = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axes, (kind, change) in zip(grid, tree["change"].items(), strict=True):
        plot_per_head(torch.tensor(change), title=TITLES[kind], largest=largest, signed=True, axes=axes)
        for layer, heads in enumerate(tree["pruned"].get(kind, [])):
            for head in heads:
                axes.add_patch(Rectangle((head - 0.46, layer - 0.44), 0.92, 0.88, fill=False, linestyle="--"))
    figure.suptitle(f"Change of BLEU ({tree['bleu']:.1f}) without one head; dashed: pruned when a quarter is")
    figure.savefig(RESULTS.parent / "ablation.png", dpi=130)


def ablation_table(tree: dict[str, Any]) -> str:
    """Format the heads, largest loss of BLEU first."""
    rows = [
        (change, kind, layer, head)
        for kind, layers in tree["change"].items()
        for layer, heads in enumerate(layers)
        for head, change in enumerate(heads)
    ]
    shown = ["| attention | layer | head | change of BLEU | significant |", "|---|---:|---:|---:|---|"]
    for change, kind, layer, head in sorted(rows):
        sure = "yes" if tree["significant"][kind][layer][head] else ""
        shown.append(f"| {TITLES[kind]} | {layer + 1} | {head + 1} | {change:+.2f} | {sure} |")
    return "\n".join(shown)


def prune(arguments: argparse.Namespace) -> None:
    """Compare runs by BLEU and processor time on every backend."""
    torch.set_num_threads(1)
    sources, references = ([line for _, line in read_lines(path)] for path in (arguments.source, arguments.reference))
    runs = {name: Path(folder) for name, folder in arguments.runs}
    settings = RunFolder(next(iter(runs.values()))).read_config().decoding
    rows: dict[str, dict[str, Any]] = {name: describe(run) for name, run in runs.items()}
    for backend in BACKENDS:
        translators = {name: load_backend(backend, run) for name, run in runs.items()}
        outputs, seconds = alternate(translators, sources, settings, rounds=arguments.rounds)
        paired = compare_systems(outputs, [references], [Bleu(tokenize=arguments.tokenize)])
        for one in paired:
            rows[one.system][backend] = {
                "bleu": one.score,
                "p": one.p_randomization,
                "seconds": statistics.median(seconds[one.system]),
                "all_seconds": seconds[one.system],
            }
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": arguments.rounds,
        "sentences": len(sources),
        "signature": paired[0].signature,
        "runs": rows,
    }
    update_results(RESULTS, {"pruning": tree})
    print(pruning_table(rows))


def describe(run: Path) -> dict[str, Any]:
    model = load_torch_model(run, device="cpu").model
    return {"heads": sum(map(sum, count_heads(model).values())), "parameters": count_parameters(model)}


def load_backend(backend: str, run: Path) -> Translator:
    if backend == "torch":
        return load_torch_model(run, device="cpu")
    return load(run, Translator, device="cpu", compute_type="int8" if backend.endswith("int8") else "float32")


def alternate(
    translators: dict[str, Translator], sources: list[str], settings: DecodingConfig, *, rounds: int
) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    """Return the outputs of each run, and the processor seconds of each round after a warm-up round."""
    outputs: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for number in range(rounds + 1):
        for name, translator in translators.items():
            start = time.process_time()
            outputs[name] = [best.text for best, *_ in translator.translate(sources, settings)]
            if number:
                seconds[name].append(time.process_time() - start)
    return outputs, seconds


def pruning_table(rows: dict[str, dict[str, Any]]) -> str:
    whole = next(iter(rows.values()))
    shown = [
        f"| run | heads | parameters | BLEU | {' | '.join(f'seconds, {backend}' for backend in BACKENDS)} |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        times = (
            f"{row[backend]['seconds']:.2f} ({whole[backend]['seconds'] / row[backend]['seconds']:.2f} x)"
            for backend in BACKENDS
        )
        bleu = " / ".join(f"{row[backend]['bleu']:.2f}" for backend in BACKENDS)
        shown.append(f"| {name} | {row['heads']} | {row['parameters']:,} | {bleu} | {' | '.join(times)} |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
