"""Runs that differ in what queries and keys are compared by: BLEU, the time of an update and its memory, in one table.

    python benchmarks/scores/compare.py dot=runs/dot scaled_dot=runs/scaled_dot …

BLEU is that of the run. Time and memory are measured here, on one batch of random words, in processes of their own
that take turns: the median of all updates, and the peak of resident memory above that of the network at rest (Linux).
Writes results.json and README.md beside this file.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dragoman.data.batching.token_batches import Batch
from dragoman.models.special_symbols import Symbols
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import task_of
from dragoman.training.optimizers import build_optimiser
from dragoman.training.step import apply_gradients, compute_gradients, teacher_forced

HERE = Path(__file__).parent
SENTENCES, WORDS = 128, 16
"""A batch of this corpus."""
WARMING, TIMED, ROUNDS = 2, 8, 3


def main() -> None:
    arguments = parse()
    if arguments.measure is not None:
        print(json.dumps(measured(arguments.measure, threads=arguments.threads)))
        return
    rounds = [
        {name: in_its_own_process(folder, threads=arguments.threads) for name, folder in arguments.runs}
        for _ in range(ROUNDS)
    ]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "threads": arguments.threads,
        "batch": {"sentences": SENTENCES, "words": WORDS},
        "runs": [row(name, folder, [one[name] for one in rounds]) for name, folder in arguments.runs],
    }
    (HERE / "results.json").write_text(json.dumps(tree, indent=2) + "\n")
    (HERE / "README.md").write_text(page(tree))
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def in_its_own_process(folder: str, *, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", folder, "--threads", str(threads)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    measurement: dict[str, Any] = json.loads(found.stdout)
    return measurement


def measured(folder: Path, *, threads: int) -> dict[str, Any]:
    """Seconds of each timed update of the run's network, and MiB that updates need above the network at rest."""
    torch.set_num_threads(threads)
    run = RunFolder(folder)
    experiment = run.read_config()
    model = task_of(experiment).network(run, device=torch.device("cpu")).train()
    optimiser = build_optimiser(experiment.training.optimiser, model)
    objective = teacher_forced(experiment.training.label_smoothing, precision=experiment.training.precision)
    batch = random_batch(len(run.read_tokenizer().target))
    at_rest = peak_mib()
    seconds = []
    for number in range(WARMING + TIMED):
        begun = time.perf_counter()
        compute_gradients(model, [batch], objective, seeds=(1, number), precision=experiment.training.precision)
        apply_gradients(model, optimiser, clip=experiment.training.clip)
        seconds.append(time.perf_counter() - begun)
    return {"seconds": seconds[WARMING:], "mib": peak_mib() - at_rest}


def random_batch(vocabulary: int) -> Batch:
    symbols = Symbols()
    generator = torch.Generator().manual_seed(1)
    source, words = (
        torch.randint(symbols.end + 1, vocabulary, (SENTENCES, WORDS), generator=generator) for _ in range(2)
    )
    source[:, -1] = symbols.end
    target, expected = words.clone(), words.roll(-1, dims=1)
    target[:, 0], expected[:, -1] = symbols.begin, symbols.end
    lengths = torch.full((SENTENCES,), WORDS)
    return Batch(
        source=source,
        source_lengths=lengths,
        target=target,
        expected=expected,
        target_lengths=lengths,
        rows=range(SENTENCES),
    )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(name: str, folder: str, measurements: list[dict[str, Any]]) -> dict[str, Any]:
    run = RunFolder(Path(folder))
    scores = run.read_scores()
    [bleu] = [one for one in scores["scores"]["test"] if one["metric"] == "BLEU"]
    [valid] = [one for one in scores["scores"]["valid"] if one["metric"] == "BLEU"]
    return {
        "name": name,
        "parameters": sum(one.numel() for one in network_of(run).parameters()),
        "updates": scores["updates"],
        "valid_bleu": round(valid["value"], 2),
        "test_bleu": round(bleu["value"], 2),
        "signature": bleu["signature"],
        "milliseconds": round(1000 * statistics.median(one for each in measurements for one in each["seconds"]), 1),
        "mib": round(statistics.median(each["mib"] for each in measurements)),
    }


def network_of(run: RunFolder) -> torch.nn.Module:
    return task_of(run.read_config()).network(run, device=torch.device("cpu"))


def table(tree: dict[str, Any]) -> str:
    base = next((one["milliseconds"] for one in tree["runs"] if one["name"] == "scaled_dot"), None)
    rows = [["score", "parameters", "BLEU, validation", "BLEU, test", "ms an update", "ratio", "MiB an update"]]
    rows.append(["---", *["---:"] * (len(rows[0]) - 1)])
    for one in tree["runs"]:
        ratio = "" if base is None else f"{one['milliseconds'] / base:.2f}"
        cells = [f"{one['parameters']:,}", f"{one['valid_bleu']:.2f}", f"{one['test_bleu']:.2f}"]
        rows.append([one["name"], *cells, f"{one['milliseconds']:.0f}", ratio, f"{one['mib']:,}"])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def page(tree: dict[str, Any]) -> str:
    updates = tree["runs"][0]["updates"]
    return f"""# Six scores in one Transformer

Multi30k English to German, lower-cased and tokenised; the Transformer `tiny` with one score in all three kinds of
attention, {updates:,} updates each ([recipe](../../examples/multi30k_en_de_scores.yaml)). BLEU with beam 5:
`{tree["runs"][0]["signature"]}`. An update is that of {SENTENCES} sentences of {WORDS} words on {tree["threads"]}
thread, measured in turns, {tree["date"]}; memory is what updates need above the network at rest.

{table(tree)}

```sh
python benchmarks/scores/compare.py NAME=RUN …
```
"""


if __name__ == "__main__":
    main()
