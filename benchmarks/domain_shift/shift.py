"""A model of captions meets everyday sentences: what training further gains there, and what it forgets of captions.

    python benchmarks/domain_shift/shift.py runs/raw --reverse runs/raw-de-en --data FOLDER --runs runs/shift

FOLDER holds multi30k/ and tatoeba/deu-eng/. The run at hand is trained further on some pairs of Tatoeba: with all
weights, with low-rank adapters, and, as if those pairs had no sources, on sources that the run of the other direction
makes, together with the captions. Each is scored on both test sets; a run that is there already is taken, or gone on
with.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import dragoman
from dragoman.data.readers import lines
from dragoman.evaluation import Bleu, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
ADAPTERS = ("training.adapters={rank: 16, alpha: 32}", "training.optimiser.learning_rate=0.004")
"""Small changes to some matrices bear a higher rate than changes to all."""
SETS = {"captions": "multi30k/test_2016_flickr", "everyday": "tatoeba/deu-eng/test"}


def main() -> None:
    arguments = parse()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    pairs = taken(arguments)
    roads: dict[str, tuple[Path, Path, list[str]]] = {
        "all weights": (*pairs, []),
        "adapters": (*pairs, [*sets(ADAPTERS)]),
    }
    if arguments.reverse is not None:
        captions = [arguments.data / f"multi30k/train.{side}.gz" for side in ("en", "de")]
        roads["back-translation"] = (captions[0], captions[1], backtranslated(pairs[1], arguments))
    runs = {"before": arguments.run}
    for name, (source, target, options) in roads.items():
        runs[name] = further(name, source, target, options, arguments)
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "pairs": arguments.pairs,
        "signature": "",
        "runs": {},
    }
    for name, run in runs.items():
        scores = {kind: score(run, arguments.data / place) for kind, place in SETS.items()}
        tree["signature"] = scores["captions"].signature
        seconds = None if name == "before" else RunFolder(run).read_scores()["seconds"]
        tree["runs"][name] = {kind: round(one.value, 2) for kind, one in scores.items()} | {"seconds": seconds}
    arguments.out.write_text(json.dumps(tree, indent=2) + "\n")
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run of examples/multi30k_en_de_raw.yaml")
    parser.add_argument("--reverse", type=Path, help="a run of the other direction, for back-translation")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder to train in")
    parser.add_argument("--pairs", type=int, default=20_000, help="of Tatoeba, from its beginning, to learn from")
    parser.add_argument("--set", action="append", default=[], dest="assignments", help="over every road, for a try")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def taken(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """So many pairs of Tatoeba, as files of their own beside the runs."""
    paths = []
    for side in ("en", "de"):
        path = arguments.runs / f"everyday.{side}"
        some = islice(lines(arguments.data / f"tatoeba/deu-eng/train.{side}.gz"), arguments.pairs)
        path.write_text("".join(f"{text}\n" for _, text in some), encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def backtranslated(target: Path, arguments: argparse.Namespace) -> list[str]:
    """Everyday targets with sources that a model made, beside the captions."""
    out = arguments.runs / "backtranslated"
    if not out.exists():
        options = ["--monolingual", str(target), "--out", str(out), "--method", "sampling"]
        command("backtranslate", str(arguments.reverse), *options)
    corpus = f"{{kind: files, source: {out / 'source.txt'}, target: {out / 'target.txt'}}}"
    return ["--set", f"data.beside=[{{corpus: {corpus}}}]"]


def further(name: str, source: Path, target: Path, options: list[str], arguments: argparse.Namespace) -> Path:
    """The run trained further on these pairs, validated on Tatoeba's own."""
    folder = RunFolder(arguments.runs / name.replace(" ", "-"))
    if folder.config.exists() and not folder.weights.exists():
        command("train", "--resume", str(folder.path))
    elif not folder.weights.exists():
        valid = [str(arguments.data / f"tatoeba/deu-eng/dev.{side}.gz") for side in ("en", "de")]
        corpora = ["--source", str(source), "--target", str(target)]
        held_out = ["--valid-source", valid[0], "--valid-target", valid[1]]
        assignments = list(sets(arguments.assignments))
        where = ["--from", str(arguments.run), "--out", str(folder.path)]
        command("train", *where, *corpora, *held_out, *assignments, *options)
    return folder.path


def sets(assignments: Iterable[str]) -> Iterator[str]:
    for assignment in assignments:
        yield from ("--set", assignment)


def command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "dragoman", *arguments], check=True)


def score(run: Path, place: Path) -> Any:
    """BLEU with beam 5 on a test set."""
    source, reference = ([text for _, text in lines(place.parent / f"{place.name}.{side}.gz")] for side in ("en", "de"))
    return corpus_score(dragoman.load(run).translate(source), [reference], Bleu())


def table(tree: dict[str, Any]) -> str:
    rows = ["| trained further by | everyday | captions | minutes |", "|---|---:|---:|---:|"]
    for name, run in tree["runs"].items():
        minutes = "" if run["seconds"] is None else f"{run['seconds'] / 60:.0f}"
        rows.append(f"| {name} | {run['everyday']:.2f} | {run['captions']:.2f} | {minutes} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
