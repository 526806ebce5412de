"""What pruning heads costs in BLEU and gives in time: runs beside each other, on every road.

    taskset -c 0 python benchmarks/heads/pruned.py whole=RUN quarter=RUN-PRUNED \
        --source test.en.gz --reference test.de.gz

The first run is the whole one. Texts to texts, with the beam of its configuration; the runs take turns on each road,
and the median of all rounds counts. Time is that of the processor, so that other work on the machine counts as little
as it can; on one core alone the compiled core works by one thread, as PyTorch does here. Writes pruned.json beside this
file.
"""

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dragoman.data.readers import lines
from dragoman.decoding import SearchSettings
from dragoman.evaluation import Bleu, compare
from dragoman.inference import Translator
from dragoman.interpret.attention_heads import heads_by_kind
from dragoman.profiling.model_cost import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load, load_in_pytorch

HERE = Path(__file__).parent
ROADS = ("PyTorch", "core, float32", "core, int8")


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    sources, references = ([line for _, line in lines(path)] for path in (arguments.source, arguments.reference))
    runs = {name: Path(folder) for name, folder in arguments.runs}
    settings = RunFolder(next(iter(runs.values()))).read_config().decoding
    rows: dict[str, dict[str, Any]] = {name: described(run) for name, run in runs.items()}
    for road in ROADS:
        translators = {name: by_road(road, run) for name, run in runs.items()}
        outputs, seconds = in_turns(translators, sources, settings, rounds=arguments.rounds)
        paired = compare(outputs, [references], [Bleu(tokenize=arguments.tokenize)])
        for one in paired:
            rows[one.system][road] = {
                "bleu": one.score,
                "p": one.p_randomisation,
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
    (HERE / "pruned.json").write_text(json.dumps(tree, indent=1) + "\n")
    print(table(rows))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--tokenize", default="13a", help="tokenisation of sacreBLEU")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def described(run: Path) -> dict[str, Any]:
    model = load_in_pytorch(run, device="cpu").model
    return {"heads": sum(map(sum, heads_by_kind(model).values())), "parameters": count_parameters(model)}


def by_road(road: str, run: Path) -> Translator:
    if road == "PyTorch":
        return load_in_pytorch(run, device="cpu")
    return load(run, device="cpu", compute="int8" if road.endswith("int8") else "float32")


def in_turns(
    translators: dict[str, Translator], sources: list[str], settings: SearchSettings, *, rounds: int
) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
    """The outputs of each run, and the seconds of each round; a round before them does not count."""
    outputs: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for number in range(rounds + 1):
        for name, translator in translators.items():
            start = time.process_time()
            outputs[name] = [best.text for best, *_ in translator.hypotheses(sources, settings)]
            if number:
                seconds[name].append(time.process_time() - start)
    return outputs, seconds


def table(rows: dict[str, dict[str, Any]]) -> str:
    whole = next(iter(rows.values()))
    shown = [
        f"| run | heads | parameters | BLEU | {' | '.join(f'seconds, {road}' for road in ROADS)} |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        times = (
            f"{row[road]['seconds']:.2f} ({whole[road]['seconds'] / row[road]['seconds']:.2f} x)" for road in ROADS
        )
        bleu = " / ".join(f"{row[road]['bleu']:.2f}" for road in ROADS)
        shown.append(f"| {name} | {row['heads']} | {row['parameters']:,} | {bleu} | {' | '.join(times)} |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
