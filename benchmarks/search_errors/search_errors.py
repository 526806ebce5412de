"""Count search errors and model errors of beam search with several beam sizes.

    python -m benchmarks.search_errors.search_errors RUN --source test.en.gz --reference test.de.gz

A search error: the widest beam, or the reference, has a higher score than the output. A model error: the reference
has a lower score than the best output of all beams, so that the model prefers an output to the reference even without
search errors (Stahlberg and Byrne, 2019, search exactly). Both are counted for plain log-probabilities and for the
length penalty of the run. Writes results.json and results.png.
"""

import argparse
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig, LengthPenalty
from dragoman.decoding.length_penalty import hypothesis_score
from dragoman.evaluation import Bleu, corpus_score
from dragoman.inference import Translation, Translator
from dragoman.runs.folder import RunFolder

HERE = Path(__file__).parent
BEAM_SIZES = (1, 2, 5, 20, 100)
TOLERANCE = 1e-4
"""Scores that differ by less are equal: batches change the last bits."""
SEED = 1


@dataclass(frozen=True)
class Sample:
    """Sampled sentences of a test set."""

    sources: list[str]
    references: list[str]


def main() -> None:
    arguments = parse_arguments()
    sentences = sample_sentences(arguments)
    translator, decoding = dragoman.load(arguments.run, device="cpu"), RunFolder(arguments.run).read_config().decoding
    metric = Bleu(tokenize=arguments.tokenize)
    penalties = {"log-probability": LengthPenalty("none", 0.0), describe(decoding.penalty): decoding.penalty}
    tree = {
        "date": datetime.now(UTC).date().isoformat(),
        "run": arguments.run.name,
        "sentences": len(sentences.sources),
        "seed": SEED,
        "signature": corpus_score(sentences.references, [sentences.references], metric).signature,
        "rankings": [measure(name, translator, sentences, penalty, metric) for name, penalty in penalties.items()],
    }
    update_results(HERE / "results.json", tree)
    plot(tree)
    print(format_table(tree))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100, help="number of sampled sentences")
    parser.add_argument("--tokenize", default="13a", help="tokenization of sacreBLEU")
    return parser.parse_args()


def sample_sentences(arguments: argparse.Namespace) -> Sample:
    sources, references = ([line for _, line in read_lines(path)] for path in (arguments.source, arguments.reference))
    rows = sorted(random.Random(SEED).sample(range(len(sources)), arguments.sentences))
    return Sample([sources[row] for row in rows], [references[row] for row in rows])


def describe(penalty: LengthPenalty) -> str:
    return "log-probability" if penalty.kind == "none" else f"{penalty.kind}, alpha {penalty.alpha}"


def measure(
    name: str, translator: Translator, sentences: Sample, penalty: LengthPenalty, metric: Bleu
) -> dict[str, Any]:
    """Return the errors of each beam size with one length penalty."""
    found = {beam_size: translate(translator, sentences.sources, penalty, beam_size) for beam_size in BEAM_SIZES}
    scores = {beam_size: [one.hypothesis.score for one in outputs] for beam_size, outputs in found.items()}
    scored = translator.score(sentences.sources, sentences.references)
    references = [hypothesis_score(one.log_prob, one.length, penalty) for one in scored]
    best = [max(each) for each in zip(*scores.values(), strict=True)]
    return {
        "name": name,
        "widths": [
            {
                "beam": beam_size,
                "bleu": corpus_score([one.text for one in outputs], [sentences.references], metric).value,
                "words": count_words([one.text for one in outputs]) / count_words(sentences.references),
                "below_widest": count_above(scores[BEAM_SIZES[-1]], scores[beam_size]),
                "below_best_of_all": count_above(best, scores[beam_size]),
                "below_reference": count_above(references, scores[beam_size]),
                "reference_below": count_above(scores[beam_size], references),
            }
            for beam_size, outputs in found.items()
        ],
        "model_errors": count_above(best, references),
    }


def translate(translator: Translator, sources: list[str], penalty: LengthPenalty, beam_size: int) -> list[Translation]:
    exponent = None if penalty.kind == "none" else penalty.alpha
    settings = DecodingConfig(beam_size=beam_size, length_penalty_kind=penalty.kind, length_penalty=exponent)
    return [best for best, *_ in translator.translate(sources, settings)]


def count_above(one: list[float], other: list[float]) -> int:
    """Return in how many sentences the first score is higher."""
    return sum(first > second + TOLERANCE for first, second in zip(one, other, strict=True))


def count_words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def plot(tree: dict[str, Any]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    places = range(len(BEAM_SIZES))
    for ranking, color in zip(tree["rankings"], ("#c8553d", "#1b6ca8"), strict=True):
        rows = ranking["widths"]
        style = {"color": color, "linewidth": 2.2, "marker": "o", "markersize": 5}
        left.plot(places, [row["below_best_of_all"] for row in rows], label=f"the search: {ranking['name']}", **style)
        left.axhline(ranking["model_errors"], color=color, linestyle=":", label=f"the model: {ranking['name']}")
        right.plot(places, [row["bleu"] for row in rows], label=ranking["name"], **style)
    left.set(ylabel=f"errors in {tree['sentences']} sentences", ylim=(0, tree["sentences"] + 2))
    right.set(ylabel="BLEU")
    for axes in (left, right):
        axes.set_xticks(places, map(str, BEAM_SIZES))
        axes.set(xlabel="beam")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(HERE / "results.png", dpi=130)


def format_table(tree: dict[str, Any]) -> str:
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
