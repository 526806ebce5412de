"""Whose fault is it: the search's, that it misses what the model likes best, or the model's, that it likes that best?

    python benchmarks/search_errors/search_errors.py RUN --source test.en.gz --reference test.de.gz

Beams of several widths look for the output of the highest score in the same sentences. A search errs where the widest
beam, or the reference, has a higher score than what it found. The model errs where the reference has a lower score than
the best that any beam found: it would not write the reference even if nothing were overlooked (Stahlberg and Byrne,
2019, who search exactly). Both for log-probabilities as they are and for the ranking of the run's configuration.
Writes results.json and results.png beside this file.
"""

import argparse
import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dragoman
from dragoman.data.readers import lines
from dragoman.decoding import Normalisation, Raw, SearchSettings
from dragoman.evaluation import Bleu, corpus_score
from dragoman.inference import Translation, Translator
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
WIDTHS = (1, 2, 5, 20, 100)
USUAL = 5
SAME = 1e-4
"""Scores nearer than this are the same, computed with other sentences beside them."""
SEED = 1


@dataclass(frozen=True)
class Sentences:
    """Those that were drawn."""

    sources: list[str]
    references: list[str]


def main() -> None:
    arguments = parse()
    sentences = drawn(arguments)
    translator, decoding = dragoman.load(arguments.run, device="cpu"), RunFolder(arguments.run).read_config().decoding
    metric = Bleu(tokenize=arguments.tokenize)
    rankings = {"log-probability": Raw(), described(decoding.normalisation): decoding.normalisation}
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(sentences.sources),
        "seed": SEED,
        "signature": corpus_score(sentences.references, [sentences.references], metric).signature,
        "rankings": [judged(name, translator, sentences, ranking, metric) for name, ranking in rankings.items()],
    }
    (HERE / "results.json").write_text(json.dumps(tree, indent=1) + "\n")
    plot(tree)
    print(table(tree))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100, help="how many are drawn")
    parser.add_argument("--tokenize", default="13a", help="tokenisation of sacreBLEU")
    return parser.parse_args()


def drawn(arguments: argparse.Namespace) -> Sentences:
    sources, references = ([line for _, line in lines(path)] for path in (arguments.source, arguments.reference))
    rows = sorted(random.Random(SEED).sample(range(len(sources)), arguments.sentences))
    return Sentences([sources[row] for row in rows], [references[row] for row in rows])


def described(ranking: Normalisation) -> str:
    return f"{ranking.kind}, alpha {ranking.alpha}" if not isinstance(ranking, Raw) else "log-probability"


def judged(
    name: str, translator: Translator, sentences: Sentences, ranking: Normalisation, metric: Bleu
) -> dict[str, Any]:
    """What each beam found by one ranking, and what stands against it."""
    found = {width: searched(translator, sentences.sources, ranking, width) for width in WIDTHS}
    scores = {width: [one.hypothesis.score for one in outputs] for width, outputs in found.items()}
    references = [one.score for one in translator.score(sentences.sources, sentences.references, normalisation=ranking)]
    best = [max(each) for each in zip(*scores.values(), strict=True)]
    return {
        "name": name,
        "widths": [
            {
                "beam": width,
                "bleu": corpus_score([one.text for one in outputs], [sentences.references], metric).value,
                "words": words([one.text for one in outputs]) / words(sentences.references),
                "below_widest": above(scores[WIDTHS[-1]], scores[width]),
                "below_best_of_all": above(best, scores[width]),
                "below_reference": above(references, scores[width]),
                "reference_below": above(scores[width], references),
            }
            for width, outputs in found.items()
        ],
        "model_errors": above(best, references),
    }


def searched(translator: Translator, sources: list[str], ranking: Normalisation, width: int) -> list[Translation]:
    settings = SearchSettings(beam=width, normalisation=ranking)
    return [best for best, *_ in translator.hypotheses(sources, settings)]


def above(one: list[float], other: list[float]) -> int:
    """In how many sentences one score is higher."""
    return sum(mine > theirs + SAME for mine, theirs in zip(one, other, strict=True))


def words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def plot(tree: dict[str, Any]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    places = range(len(WIDTHS))
    for ranking, colour in zip(tree["rankings"], ("#c8553d", "#1b6ca8"), strict=True):
        rows = ranking["widths"]
        style = {"color": colour, "linewidth": 2.2, "marker": "o", "markersize": 5}
        left.plot(places, [row["below_best_of_all"] for row in rows], label=f"the search: {ranking['name']}", **style)
        left.axhline(ranking["model_errors"], color=colour, linestyle=":", label=f"the model: {ranking['name']}")
        right.plot(places, [row["bleu"] for row in rows], label=ranking["name"], **style)
    left.set(ylabel=f"errors in {tree['sentences']} sentences", ylim=(0, tree["sentences"] + 2))
    right.set(ylabel="BLEU")
    for axes in (left, right):
        axes.set_xticks(places, map(str, WIDTHS))
        axes.set(xlabel="beam")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(HERE / "results.png", dpi=130)


def table(tree: dict[str, Any]) -> str:
    shown = [
        "| ranked by | beam | below the widest | below the best of all beams | below the reference | BLEU | words |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for ranking in tree["rankings"]:
        for row in ranking["widths"]:
            counts = (row[key] for key in ("below_widest", "below_best_of_all", "below_reference"))
            numbers = " | ".join(map(str, counts))
            shown.append(f"| {ranking['name']} | {row['beam']} | {numbers} | {row['bleu']:.1f} | {row['words']:.2f} |")
        shown.append(f"| {ranking['name']} | model errors | {ranking['model_errors']} | | | | |")
    return "\n".join(shown)


if __name__ == "__main__":
    main()
