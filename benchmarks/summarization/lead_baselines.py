"""Score sentences of an abstract as its summary by ROUGE: the first, the last, and the best for the references.

    python -m benchmarks.summarization.lead_baselines FOLDER/summarisation/scitldr/test.jsonl.gz --run runs/scitldr

`--evaluated NAME=FILE` adds a system from the output of `dragoman evaluate --json`.

The best sentence, chosen by the references, is the limit of copying one sentence. Scores are those of `dragoman
evaluate`: the mean over abstracts of the best F1 over references. Writes results.json.
"""

import argparse
import json
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import read_results, update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import Rouge, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
METRICS = tuple(Rouge(variant=variant, stemmer=True) for variant in ("1", "2", "L"))


def main() -> None:
    arguments = parse_arguments()
    rows = [json.loads(line) for _, line in read_lines(arguments.corpus)]
    abstracts = [[sentence.strip() for sentence in row["source"]] for row in rows]
    references = [row["target"] for row in rows]
    best = [best_sentence(*pair) for pair in zip(abstracts, references, strict=True)]
    tree: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "abstracts": len(rows),
        "systems": {
            "first sentence": scores_of([one[0] for one in abstracts], references),
            "last sentence": scores_of([one[-1] for one in abstracts], references),
            "best sentence for the references": scores_of(best, references),
        },
    }
    tree["systems"] = read_results(HERE / "results.json").get("systems", {}) | tree["systems"]
    if arguments.run is not None:
        tree["run"] = run_scores(RunFolder(arguments.run))
        tree["systems"]["Transformer tiny"] = tree["run"].pop("scores")
    for name, file in arguments.evaluated:
        found = json.loads(file.read_text(encoding="utf-8"))["scores"]
        tree["systems"][name] = {one["metric"]: round(one["score"], 2) for one in found}
    update_results(HERE / "results.json", tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="JSON objects with `source`, a list of sentences, and `target`")
    parser.add_argument("--run", type=Path, help="a run with scores on the same corpus")
    parser.add_argument(
        "--evaluated",
        type=_named_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a system, and the output of dragoman evaluate --json (repeatable)",
    )
    return parser.parse_args()


def _named_file(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    return name, Path(file)


def best_sentence(sentences: list[str], references: list[str]) -> str:
    """Return the sentence with the highest ROUGE-L."""

    def score(sentence: str) -> float:
        return corpus_score([sentence], [[reference] for reference in references], METRICS[-1]).value

    return max(sentences, key=score)


def scores_of(outputs: list[str], references: list[list[str]]) -> dict[str, float]:
    """Return scores by metric; missing references are empty strings, which never score best."""
    columns = [list(column) for column in zip_longest(*references, fillvalue="")]
    found = [corpus_score(outputs, columns, metric) for metric in METRICS]
    return {one.metric: round(one.value, 2) for one in found}


def run_scores(run: RunFolder) -> dict[str, Any]:
    scores = run.read_scores()
    found = {one["metric"]: one for one in scores["scores"]["test"]}
    return {
        "steps": scores["steps"],
        "minutes": round(scores["seconds"] / 60, 1),
        "signature": found["ROUGE-L"]["signature"],
        "scores": {name: round(one["value"], 2) for name, one in found.items()},
    }


def format_table(tree: dict[str, Any]) -> str:
    names = [f"ROUGE-{variant}" for variant in ("1", "2", "L")]
    rows = [["summary", *names], ["---", *["---:"] * 3]]
    rows += [[system, *(f"{scores[name]:.2f}" for name in names)] for system, scores in tree["systems"].items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
