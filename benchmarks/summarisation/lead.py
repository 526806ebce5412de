"""ROUGE of the sentences of an abstract taken as its summary: the first, the last, and the best one for its references.

    python benchmarks/summarisation/lead.py FOLDER/summarisation/scitldr/test.jsonl.gz --run runs/scitldr

The first sentence is what a summary must beat that is not simply copied; the best one, which knows the references, is
what copying one sentence can reach. Scores are those of `dragoman evaluate`: the mean over abstracts of the best F1
over references. Writes results.json and README.md beside this file.
"""

import argparse
import json
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dragoman.data.readers import lines
from dragoman.evaluation import Rouge, corpus_score
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
METRICS = tuple(Rouge(variant=variant, stemmer=True) for variant in ("1", "2", "L"))


def main() -> None:
    arguments = parse()
    rows = [json.loads(line) for _, line in lines(arguments.corpus)]
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
    if arguments.run is not None:
        tree["run"] = of_run(RunFolder(arguments.run))
        tree["systems"]["Transformer tiny"] = tree["run"].pop("scores")
    (HERE / "results.json").write_text(json.dumps(tree, indent=2) + "\n")
    (HERE / "README.md").write_text(page(tree))
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="JSON objects with `source`, a list of sentences, and `target`")
    parser.add_argument("--run", type=Path, help="a run whose scores on the same corpus stand beside these")
    return parser.parse_args()


def best_sentence(sentences: list[str], references: list[str]) -> str:
    """The one with the highest ROUGE-L."""

    def score(sentence: str) -> float:
        return corpus_score([sentence], [[reference] for reference in references], METRICS[-1]).value

    return max(sentences, key=score)


def scores_of(outputs: list[str], references: list[list[str]]) -> dict[str, float]:
    """By the name of the metric; an abstract with fewer references than others has empty ones, which never count."""
    columns = [list(column) for column in zip_longest(*references, fillvalue="")]
    found = [corpus_score(outputs, columns, metric) for metric in METRICS]
    return {one.metric: round(one.value, 2) for one in found}


def of_run(run: RunFolder) -> dict[str, Any]:
    scores = run.read_scores()
    found = {one["metric"]: one for one in scores["scores"]["test"]}
    return {
        "updates": scores["updates"],
        "minutes": round(scores["seconds"] / 60, 1),
        "signature": found["ROUGE-L"]["signature"],
        "scores": {name: round(one["value"], 2) for name, one in found.items()},
    }


def table(tree: dict[str, Any]) -> str:
    names = [f"ROUGE-{variant}" for variant in ("1", "2", "L")]
    rows = [["summary", *names], ["---", *["---:"] * 3]]
    rows += [[system, *(f"{scores[name]:.2f}" for name in names)] for system, scores in tree["systems"].items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page(tree: dict[str, Any]) -> str:
    run, learnt = tree.get("run"), ""
    if run is not None:
        learnt = (
            f"\nThe Transformer learnt {run['updates']:,} updates in {run['minutes']} minutes, from the training "
            f"abstracts alone.\nIts signature: `{run['signature']}`\n"
        )
    return f"""# One-line summaries of abstracts (SciTLDR)

{tree["abstracts"]} test abstracts, {tree["date"]}; F1 of ROUGE with stems, the best over the references of each.
{learnt}
{table(tree)}

```sh
dragoman train examples/scitldr.yaml --data FOLDER --out runs/scitldr
python benchmarks/summarisation/lead.py FOLDER/summarisation/scitldr/test.jsonl.gz --run runs/scitldr
```
"""


if __name__ == "__main__":
    main()
