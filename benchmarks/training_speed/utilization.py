"""Measure model FLOPs utilization: the share of a device's peak that a training reaches.

    python -m benchmarks.training_speed.utilization --preset base --device cuda

The training is `dragoman train` on random text, a process of its own, stopped after `--steps`; its speed is the
median of the logged speeds after the first third. Operations are those of the model's weights, once forward and twice
backward; padding, attention products and the optimizer are not counted. The peak is that of large matrix products of
the same number format by PyTorch on the same device, just before the training. Writes to results.json.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.collect_runs import update_results
from benchmarks.training_speed.train_with_dragoman import stop_after
from benchmarks.training_speed.training_speed import processor_name
from dragoman.profiling.memory_and_time_estimate import build_meta_model, training_flops
from dragoman.profiling.peak_performance import peak_flops
from dragoman.runs.folder import RunFolder

RESULTS = Path(__file__).parent / "results.json"
LENGTHS = (10, 40)
LOG_EVERY = 5
FORMATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def main() -> None:
    arguments = parse_arguments()
    device = torch.device(arguments.device)
    peak = peak_flops(device, FORMATS[arguments.precision])
    print(f"peak of products: {peak / 1e12:.2f} TFLOP/s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        speed, operations = measure_training(arguments, Path(folder))
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name(),
        "torch": version("torch"),
        "preset": arguments.preset,
        "precision": arguments.precision,
        "batch_tokens": arguments.batch_tokens,
        "vocabulary": arguments.vocabulary,
        "target_tokens_per_second": round(speed),
        "operations_per_target_token": round(operations),
        "operations_per_second": round(speed * operations),
        "peak_operations_per_second": round(peak),
        "utilization": round(speed * operations / peak, 4),
    }
    update_results(RESULTS, {arguments.name: result})
    print(f"{speed:,.0f} target tokens/s, {result['utilization']:.1%} of the peak")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=FORMATS, default="bfloat16")
    parser.add_argument("--batch-tokens", type=int, default=32_768)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=120, help=f"a multiple of {LOG_EVERY}")
    parser.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    parser.add_argument("--name", default="utilization", help="entry of results.json")
    return parser.parse_args()


def measure_training(arguments: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """Return target tokens a second of the command, and the operations of training on one target token."""
    words = [f"w{number}" for number in range(arguments.vocabulary - 4)]
    for name, pairs in (("train", arguments.pairs), ("valid", 100)):
        for side in ("source", "target"):
            write_random_texts(folder / f"{name}.{side}", words, pairs=pairs, generator=random.Random(f"{name}.{side}"))
    run = folder / "run"
    chosen = [
        f"preset={arguments.preset}",
        f"tokenizer={{kind: words, vocab_size: {arguments.vocabulary}}}",
        f"training.precision={arguments.precision}",
        f"training.batch_tokens={arguments.batch_tokens}",
        f"training.log_every={LOG_EVERY}",
        *arguments.set,
    ]
    files = {"--source": "train.source", "--target": "train.target"}
    held = {"--valid-source": "valid.source", "--valid-target": "valid.target"}
    command = [sys.executable, "-m", "dragoman", "train", "--device", arguments.device, "--out", str(run)]
    command += [part for option, name in (files | held).items() for part in (option, str(folder / name))]
    command += [part for setting in chosen for part in ("--set", setting)]
    stop_after(command, dict(os.environ), steps=arguments.steps)
    reports = [event["tokens_per_second"] for event in read_events(run) if "tokens_per_second" in event]
    opened = RunFolder(run)
    return statistics.median(reports[len(reports) // 3 :]), training_flops(
        build_meta_model(opened.read_config(), opened)
    )


def write_random_texts(path: Path, words: list[str], *, pairs: int, generator: random.Random) -> None:
    """Write texts of random words; both sides of a pair have the same length."""
    lengths = random.Random(str(pairs))
    with path.open("w", encoding="utf-8") as file:
        for _ in range(pairs):
            file.write(" ".join(generator.choices(words, k=lengths.randint(*LENGTHS))) + "\n")


def read_events(run: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
