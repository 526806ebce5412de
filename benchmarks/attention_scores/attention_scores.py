"""Compare runs that differ in their attention score: BLEU, time of a step and memory of a step.

    python -m benchmarks.attention_scores.attention_scores dot=runs/dot scaled_dot=runs/scaled_dot …

BLEU is that of the run. Time and memory are measured on one batch of random tokens, in alternating processes: the
median of all steps, and the peak of resident memory above that of the model at rest (Linux). Writes results.json.
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

from benchmarks.collect_runs import update_results
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.models.special_symbols import BOS, EOS
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import build_task
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import build_optimizer
from dragoman.training.step import apply_gradients, compute_gradients

HERE = Path(__file__).parent
SENTENCES, WORDS = 128, 16
"""Size of a typical batch of Multi30k."""
WARMING, TIMED, ROUNDS = 2, 8, 3


def main() -> None:
    arguments = parse_arguments()
    if arguments.measure is not None:
        print(json.dumps(measure_steps(arguments.measure, threads=arguments.threads)))
        return
    rounds = [
        {name: measure_in_process(folder, threads=arguments.threads) for name, folder in arguments.runs}
        for _ in range(ROUNDS)
    ]
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "threads": arguments.threads,
        "batch": {"sentences": SENTENCES, "words": WORDS},
        "comparison": [row(name, folder, [one[name] for one in rounds]) for name, folder in arguments.runs],
    }
    update_results(HERE / "results.json", tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure_in_process(folder: str, *, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", folder, "--threads", str(threads)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    measurement: dict[str, Any] = json.loads(result.stdout)
    return measurement


def measure_steps(folder: Path, *, threads: int) -> dict[str, Any]:
    """Return the seconds of each timed step, and the MiB above those of the model at rest."""
    torch.set_num_threads(threads)
    run = RunFolder(folder)
    experiment = run.read_config()
    model = build_task(experiment).build_model(run, device=torch.device("cpu")).train()
    optimizer = build_optimizer(experiment.training.optimizer, model)
    objective = cross_entropy_loss(experiment.training.label_smoothing, precision=experiment.training.precision)
    batch = random_batch(len(run.read_tokenizer().target))
    at_rest = peak_mib()
    seconds = []
    for number in range(WARMING + TIMED):
        start = time.perf_counter()
        compute_gradients(model, [batch], objective, seeds=(1, number), precision=experiment.training.precision)
        apply_gradients(model, optimizer, max_grad_norm=experiment.training.max_grad_norm)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds[WARMING:], "mib": peak_mib() - at_rest}


def random_batch(vocabulary: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    source, words = (torch.randint(EOS + 1, vocabulary, (SENTENCES, WORDS), generator=generator) for _ in range(2))
    source[:, -1] = EOS
    target, expected = words.clone(), words.roll(-1, dims=1)
    target[:, 0], expected[:, -1] = BOS, EOS
    lengths = torch.full((SENTENCES,), WORDS)
    return Batch(
        source=source,
        source_lengths=lengths,
        target=target,
        labels=expected,
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
        "parameters": sum(one.numel() for one in build_model(run).parameters()),
        "steps": scores["steps"],
        "valid_bleu": round(valid["value"], 2),
        "test_bleu": round(bleu["value"], 2),
        "signature": bleu["signature"],
        "milliseconds": round(1000 * statistics.median(one for each in measurements for one in each["seconds"]), 1),
        "mib": round(statistics.median(each["mib"] for each in measurements)),
    }


def build_model(run: RunFolder) -> torch.nn.Module:
    return build_task(run.read_config()).build_model(run, device=torch.device("cpu"))


def format_table(tree: dict[str, Any]) -> str:
    base = next((one["milliseconds"] for one in tree["comparison"] if one["name"] == "scaled_dot"), None)
    rows = [["score", "parameters", "BLEU, validation", "BLEU, test", "ms a step", "ratio", "MiB a step"]]
    rows.append(["---", *["---:"] * (len(rows[0]) - 1)])
    for one in tree["comparison"]:
        ratio = "" if base is None else f"{one['milliseconds'] / base:.2f}"
        cells = [f"{one['parameters']:,}", f"{one['valid_bleu']:.2f}", f"{one['test_bleu']:.2f}"]
        rows.append([one["name"], *cells, f"{one['milliseconds']:.0f}", ratio, f"{one['mib']:,}"])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    main()
