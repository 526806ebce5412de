"""Which share of a device's peak a training uses: target tokens a second of made-up text, and the operations in them.

    python -m benchmarks.train.utilisation --preset base --device cuda --out benchmarks/train/utilisation.json

The training is that of `dragoman train`, a process of its own, stopped after `--updates`; its speed is the median of
what it reports after the first third, which holds what is done once. Operations are those of the model's weights, once
forward and twice backward; padding, attention's own products and the optimiser are not counted as work. The peak is
that of large products of the same number format, by PyTorch on the same device, just before the training.
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

from benchmarks.train.workers import processor, stop_after
from dragoman.profiling.estimate import blueprint, training_flops
from dragoman.profiling.machine import operations_per_second
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
LENGTHS = (10, 40)
REPORT = 5
FORMATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def main() -> None:
    arguments = parse()
    device = torch.device(arguments.device)
    peak = operations_per_second(device, FORMATS[arguments.precision])
    print(f"peak of products: {peak / 1e12:.2f} TFLOP/s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        speed, operations = trained(arguments, Path(folder))
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "torch": version("torch"),
        "preset": arguments.preset,
        "precision": arguments.precision,
        "batch_tokens": arguments.batch_tokens,
        "vocabulary": arguments.vocabulary,
        "target_tokens_per_second": round(speed),
        "operations_per_target_token": round(operations),
        "operations_per_second": round(speed * operations),
        "peak_operations_per_second": round(peak),
        "utilisation": round(speed * operations / peak, 4),
    }
    arguments.out.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{speed:,.0f} target tokens/s, {facts['utilisation']:.1%} of the peak")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=FORMATS, default="bfloat16")
    parser.add_argument("--batch-tokens", type=int, default=32_768)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=120, help=f"a multiple of {REPORT}")
    parser.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    parser.add_argument("--out", type=Path, default=HERE / "utilisation.json")
    return parser.parse_args()


def trained(arguments: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """Target tokens a second of the command, and the operations of learning from one target token."""
    words = [f"w{number}" for number in range(arguments.vocabulary - 4)]
    for name, pairs in (("train", arguments.pairs), ("valid", 100)):
        for side in ("source", "target"):
            made_up(folder / f"{name}.{side}", words, pairs=pairs, chance=random.Random(f"{name}.{side}"))
    run = folder / "run"
    chosen = [
        f"preset={arguments.preset}",
        f"tokenizer={{kind: words, vocabulary: {arguments.vocabulary}}}",
        f"training.precision={arguments.precision}",
        f"training.batch_tokens={arguments.batch_tokens}",
        f"training.report={REPORT}",
        *arguments.set,
    ]
    files = {"--source": "train.source", "--target": "train.target"}
    held = {"--valid-source": "valid.source", "--valid-target": "valid.target"}
    command = [sys.executable, "-m", "dragoman", "train", "--device", arguments.device, "--out", str(run)]
    command += [part for option, name in (files | held).items() for part in (option, str(folder / name))]
    command += [part for setting in chosen for part in ("--set", setting)]
    stop_after(command, dict(os.environ), updates=arguments.updates)
    reports = [event["tokens_per_second"] for event in events(run) if event["event"] == "updated"]
    opened = RunFolder(run)
    return statistics.median(reports[len(reports) // 3 :]), training_flops(blueprint(opened.read_config(), opened))


def made_up(path: Path, words: list[str], *, pairs: int, chance: random.Random) -> None:
    """Texts of words that follow one another by chance, every word somewhere; both sides of a pair are as long."""
    lengths = random.Random(str(pairs))
    with path.open("w", encoding="utf-8") as file:
        for _ in range(pairs):
            file.write(" ".join(chance.choices(words, k=lengths.randint(*LENGTHS))) + "\n")


def events(run: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
