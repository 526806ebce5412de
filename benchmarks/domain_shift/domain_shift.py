"""Fine-tune a caption model on everyday sentences, and score it on both domains.

    python -m benchmarks.domain_shift.domain_shift runs/raw --reverse runs/raw-de-en --data FOLDER --runs runs/shift

FOLDER holds multi30k/ and tatoeba/deu-eng/. The run is fine-tuned on pairs of Tatoeba with all weights, with LoRA,
and on back-translations of their target side by the reverse run, together with the captions. Unfinished runs are
resumed and finished runs are reused.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import Bleu, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
LORA = ("training.lora={rank: 16, alpha: 32}", "training.optimizer.learning_rate=0.004")
"""LoRA trains at a higher learning rate than all weights."""
SETS = {"captions": "multi30k/test_2016_flickr", "everyday": "tatoeba/deu-eng/test"}


def main() -> None:
    arguments = parse_arguments()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    pairs = everyday_pairs(arguments)
    variants: dict[str, tuple[Path, Path, list[str]]] = {
        "all weights": (*pairs, []),
        "LoRA": (*pairs, [*set_options(LORA)]),
    }
    if arguments.reverse is not None:
        captions = [arguments.data / f"multi30k/train.{side}.gz" for side in ("en", "de")]
        variants["back-translation"] = (captions[0], captions[1], backtranslate(pairs[1], arguments))
    runs = {"before": arguments.run}
    for name, (source, target, options) in variants.items():
        runs[name] = fine_tune(name, source, target, options, arguments)
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "pairs": arguments.pairs,
        "signature": "",
        "runs": {},
    }
    for name, run in runs.items():
        scores = {kind: score_run(run, arguments.data / prefix) for kind, prefix in SETS.items()}
        tree["signature"] = scores["captions"].signature
        seconds = None if name == "before" else RunFolder(run).read_scores()["seconds"]
        tree["runs"][name] = {kind: round(one.value, 2) for kind, one in scores.items()} | {"seconds": seconds}
    update_results(arguments.out, tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run of examples/multi30k_en_de_raw.yaml")
    parser.add_argument("--reverse", type=Path, help="a run of the other direction, for back-translation")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder to train in")
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs, the first ones of Tatoeba")
    parser.add_argument("--set", action="append", default=[], dest="assignments", help="a setting for every variant")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def everyday_pairs(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Write the first pairs of Tatoeba to files in the folder of the runs."""
    paths = []
    for side in ("en", "de"):
        path = arguments.runs / f"everyday.{side}"
        some = islice(read_lines(arguments.data / f"tatoeba/deu-eng/train.{side}.gz"), arguments.pairs)
        path.write_text("".join(f"{text}\n" for _, text in some), encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def backtranslate(target: Path, arguments: argparse.Namespace) -> list[str]:
    """Back-translate everyday targets, and return the setting that adds them to the captions."""
    out = arguments.runs / "backtranslated"
    if not out.exists():
        options = ["--monolingual", str(target), "--out", str(out), "--method", "sampling"]
        run_dragoman("backtranslate", str(arguments.reverse), *options)
    corpus = f"{{kind: files, source: {out / 'source.txt'}, target: {out / 'target.txt'}}}"
    return ["--set", f"data.extra_corpora=[{{corpus: {corpus}}}]"]


def fine_tune(name: str, source: Path, target: Path, options: list[str], arguments: argparse.Namespace) -> Path:
    """Fine-tune the run on these pairs, validated on Tatoeba."""
    folder = RunFolder(arguments.runs / name.replace(" ", "-"))
    if folder.config.exists() and not folder.weights.exists():
        run_dragoman("train", "--resume", str(folder.path))
    elif not folder.weights.exists():
        valid = [str(arguments.data / f"tatoeba/deu-eng/dev.{side}.gz") for side in ("en", "de")]
        corpora = ["--source", str(source), "--target", str(target)]
        held_out = ["--valid-source", valid[0], "--valid-target", valid[1]]
        assignments = list(set_options(arguments.assignments))
        where = ["--init-from", str(arguments.run), "--out", str(folder.path)]
        run_dragoman("train", *where, *corpora, *held_out, *assignments, *options)
    return folder.path


def set_options(assignments: Iterable[str]) -> Iterator[str]:
    for assignment in assignments:
        yield from ("--set", assignment)


def run_dragoman(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "dragoman", *arguments], check=True)


def score_run(run: Path, prefix: Path) -> Any:
    """Return BLEU with beam 5 on a test set."""
    source, reference = (
        [text for _, text in read_lines(prefix.parent / f"{prefix.name}.{side}.gz")] for side in ("en", "de")
    )
    outputs = [result.text for result in dragoman.load(run).translate(source)]
    return corpus_score(outputs, [reference], Bleu())


def format_table(tree: dict[str, Any]) -> str:
    rows = ["| fine-tuned | everyday | captions | minutes |", "|---|---:|---:|---:|"]
    for name, run in tree["runs"].items():
        minutes = "" if run["seconds"] is None else f"{run['seconds'] / 60:.0f}"
        rows.append(f"| {name} | {run['everyday']:.2f} | {run['captions']:.2f} | {minutes} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
