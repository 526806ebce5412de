"""Compare runs by BLEU on clean and perturbed sources: in capitals, without end marks, with typing errors.

    python -m benchmarks.robustness.robustness clean=runs/raw noisy=runs/raw-noise --source test.en --reference test.de

The perturbations are those of `dragoman evaluate --perturb`, the same in every run. BLEU is lower-cased, since no
reference is in capitals.
"""

import argparse
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.augmentation.noise import Perturbation, perturb_text
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import Bleu, corpus_score
from dragoman.inference.translation_result import TranslationWarning

HERE = Path(__file__).parent
PERTURBATIONS: tuple[Perturbation, ...] = get_args(Perturbation)


def main() -> None:
    arguments = parse_arguments()
    sources, references = ([line for _, line in read_lines(path)] for path in (arguments.source, arguments.reference))
    texts = {"clean": sources} | {
        kind: [perturb_text(text, kind, number=number) for number, text in enumerate(sources)] for kind in PERTURBATIONS
    }
    runs = {name: measure_run(folder, texts, references) for name, folder in arguments.runs}
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "sentences": len(sources),
        "changed": {name: sum(map(str.__ne__, sources, perturbed)) for name, perturbed in texts.items()},
        "signature": next(iter(runs.values()))["signature"],
        "runs": {name: found["BLEU"] for name, found in runs.items()},
    }
    update_results(arguments.out, tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def measure_run(folder: str, texts: dict[str, list[str]], references: list[str]) -> dict[str, Any]:
    """Return BLEU of the translations of each perturbation, with beam 5."""
    translator = dragoman.load(folder)
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)  # a failure shows in BLEU
        for name, some in texts.items():
            outputs = [result.text for result in translator.translate(some)]
            scores[name] = corpus_score(outputs, [references], Bleu(lowercase=True))
    signature = next(iter(scores.values())).signature
    return {"signature": signature, "BLEU": {name: round(score.value, 2) for name, score in scores.items()}}


def format_table(tree: dict[str, Any]) -> str:
    names = list(tree["changed"])
    rows = [["run", *names], ["---", *(["---:"] * len(names))]]
    rows += [[run, *(f"{scores[name]:.2f}" for name in names)] for run, scores in tree["runs"].items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
