"""What faults in the source cost: BLEU of runs on a test set as it is, in capitals, without end marks, mistyped.

    python benchmarks/robustness/robustness.py clean=runs/raw noisy=runs/raw-noise --source test.en --reference test.de

The faults are those of `dragoman evaluate --perturb`: every sentence in capitals, without its end mark, or with one
typing error, the same in every run. Scores are lower-cased, since no reference is in capitals.
"""

import argparse
import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import dragoman
from dragoman.data.augmentation import Perturbation, perturbed
from dragoman.data.readers import lines
from dragoman.evaluation import Bleu, corpus_score
from dragoman.inference.translator import TranslationWarning

HERE = Path(__file__).parent
FAULTS: tuple[Perturbation, ...] = get_args(Perturbation)


def main() -> None:
    arguments = parse()
    sources, references = ([line for _, line in lines(path)] for path in (arguments.source, arguments.reference))
    texts = {"clean": sources} | {
        fault: [perturbed(text, fault, number=number) for number, text in enumerate(sources)] for fault in FAULTS
    }
    runs = {name: measured(folder, texts, references) for name, folder in arguments.runs}
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "sentences": len(sources),
        "changed": {name: sum(map(str.__ne__, sources, faulty)) for name, faulty in texts.items()},
        "signature": next(iter(runs.values()))["signature"],
        "runs": {name: found["BLEU"] for name, found in runs.items()},
    }
    arguments.out.write_text(json.dumps(tree, indent=2) + "\n")
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def measured(folder: str, texts: dict[str, list[str]], references: list[str]) -> dict[str, Any]:
    """BLEU of the translations of each form of the texts, with beam 5."""
    translator = dragoman.load(folder)
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)  # what breaks a model shows in its score
        for name, some in texts.items():
            scores[name] = corpus_score(translator.translate(some), [references], Bleu(lowercase=True))
    signature = next(iter(scores.values())).signature
    return {"signature": signature, "BLEU": {name: round(score.value, 2) for name, score in scores.items()}}


def table(tree: dict[str, Any]) -> str:
    names = list(tree["changed"])
    rows = [["run", *names], ["---", *(["---:"] * len(names))]]
    rows += [[run, *(f"{scores[name]:.2f}" for name in names)] for run, scores in tree["runs"].items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
