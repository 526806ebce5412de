"""Measure how well confidence and warnings find bad translations.

    python -m benchmarks.confidence.confidence multi30k=runs/en-de --valid val.en val.de --test test.en test.de

Correlations are those of a signal with sentence chrF on the test set. The validation set calibrates the curve. The
warnings are measured on references, whole and with one fault each. Results of other names are kept, and --plot draws
all of them.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dragoman
from benchmarks.collect_runs import update_results
from dragoman.data.readers.line_reader import read_lines
from dragoman.evaluation import Chrf, sentence_scores
from dragoman.evaluation.quality_profile import correlation, measure_profile, ranks
from dragoman.evaluation.translation_checks import check_translation
from dragoman.inference.quality_signals import mean_probability
from dragoman.inference.translation_result import TranslationResult, TranslationWarning

HERE = Path(__file__).parent
SIGNALS: dict[str, Callable[[TranslationResult], float]] = {
    "mean token probability (`confidence`)": lambda found: mean_probability(found[0].hypothesis.token_log_probs),
    "mean token log-probability": lambda found: float(np.mean(found[0].hypothesis.token_log_probs)),
    "log-probability": lambda found: found.log_prob,
    "least probable token": lambda found: min(found[0].hypothesis.token_log_probs),
    "least probable word": lambda found: min(word_log_probs(found)),
    "deviation of token log-probabilities, negative": lambda found: -float(np.std(found[0].hypothesis.token_log_probs)),
    "gap to the second hypothesis": lambda found: found[0].score - found[-1].score,
    "number of tokens, negative": lambda found: -len(found.tokens),
}
FAULTS: dict[str, Callable[[str, str], str]] = {
    "copied": lambda source, _: source,
    "second half copied": lambda source, text: f"{first_half(text)} {second_half(source)}",
    "second half repeated": lambda _, text: f"{first_half(text)} {second_half(text)} {second_half(text)}",
    "cut to a third": lambda _, text: " ".join(text.split()[: max(1, len(text.split()) // 3)]),
    "three times": lambda _, text: f"{text} {text.upper()} {text.title()}",
    "a word in Cyrillic": lambda _, text: " ".join([*text.split()[:-2], "неизвестно", *text.split()[-1:]]),
}


def main() -> None:
    arguments = parse_arguments()
    tree: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "runs": {}}
    if arguments.out.exists():
        tree["runs"] = json.loads(arguments.out.read_text())["runs"]
    if arguments.run:
        name, folder = arguments.run
        tree["runs"][name] = measure_run(folder, *map(read_pairs, (arguments.valid, arguments.test)))
        update_results(arguments.out, tree)
    print(format_tables(tree["runs"]))
    if arguments.plot:
        plot(tree["runs"], arguments.plot)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=lambda text: tuple(text.split("=", 1)), metavar="NAME=RUN")
    parser.add_argument("--valid", nargs=2, type=Path, metavar=("SOURCE", "REFERENCE"))
    parser.add_argument("--test", nargs=2, type=Path, metavar=("SOURCE", "REFERENCE"))
    parser.add_argument("--plot", type=Path, help="PNG file")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    return parser.parse_args()


Pairs = tuple[list[str], list[str]]


def read_pairs(paths: Sequence[Path]) -> Pairs:
    sources, references = ([line for _, line in read_lines(path)] for path in paths)
    return sources, references


def measure_run(folder: str, valid: Pairs, test: Pairs) -> dict[str, Any]:
    """Return the correlations, the calibration and the precision of warnings of a run."""
    translator = dragoman.load(folder, dragoman.Translator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        found = {
            name: translator.translate(pairs[0], beam_size=5, n_best=2)
            for name, pairs in (("valid", valid), ("test", test))
        }
    confidences = {name: [one.quality.confidence for one in some] for name, some in found.items()}
    profile, _ = measure_profile(valid[0], [one.text for one in found["valid"]], valid[1], confidences["valid"])
    texts = [one.text for one in found["test"]]
    chrf = [one.value for one in sentence_scores(texts, [test[1]], Chrf())]
    expected = [profile.curve(one) for one in confidences["test"]]
    warned = [
        bool(check_translation(source, text, profile.statistics)) for source, text in zip(test[0], texts, strict=True)
    ]
    return {
        "sentences": {"valid": len(valid[0]), "test": len(test[0])},
        "chrf": round(float(np.mean(chrf)), 1),
        "correlations": {
            name: correlations([signal(one) for one in found["test"]], chrf) for name, signal in SIGNALS.items()
        },
        "expected_chrf": {
            "mean error": mean_error(expected, chrf),
            "mean error of the mean": mean_error([np.mean(chrf)] * len(chrf), chrf),
        },
        "calibration": calibration(expected, chrf),
        "review": review(confidences["test"], chrf),
        "warned": {
            "sentences": sum(warned),
            "chrf": round(
                float(np.mean([one for one, is_warned in zip(chrf, warned, strict=True) if is_warned] or [np.nan])), 1
            ),
        },
        "faults": {
            name: find_faults(test, change, profile.statistics)
            for name, change in {"none": lambda _, text: text, **FAULTS}.items()
        },
    }


def correlations(signal: Sequence[float], chrf: Sequence[float]) -> dict[str, float]:
    return {
        "pearson": round(correlation(signal, chrf), 3),
        "spearman": round(correlation(ranks(signal), ranks(chrf)), 3),
    }


def mean_error(expected: Sequence[Any], chrf: Sequence[float]) -> float:
    return round(float(np.abs(np.array(expected) - np.array(chrf)).mean()), 1)


def calibration(expected: Sequence[float], chrf: Sequence[float]) -> list[dict[str, float]]:
    """Return expected and actual chrF, with its standard error, of ten groups with similar expectations."""
    rows = np.array([expected, chrf])[:, np.argsort(expected, kind="stable")]
    return [
        {
            "expected": round(float(group[0].mean()), 1),
            "actual": round(float(group[1].mean()), 1),
            "standard_error": round(float(group[1].std(ddof=1) / group.shape[1] ** 0.5), 2),
        }
        for group in np.array_split(rows, 10, axis=1)
    ]


def review(confidences: Sequence[float], chrf: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return the mean chrF of the least confident sentences, and how many of the worst tenth are among them."""
    order, worst = (
        np.argsort(confidences, kind="stable"),
        set(np.argsort(chrf, kind="stable")[: len(chrf) // 10].tolist()),
    )
    found = {}
    for share in (0.1, 0.2, 0.5):
        chosen = order[: round(share * len(order))]
        found[f"{share:.0%}"] = {
            "chrf": round(float(np.array(chrf)[chosen].mean()), 1),
            "of the worst tenth": round(len(worst.intersection(chosen.tolist())) / len(worst), 3),
        }
    return found


def find_faults(pairs: Pairs, change: Callable[[str, str], str], statistics: Any) -> dict[str, int]:
    """Return how many sentences have a fault, and how many of those a warning."""
    rows = [(source, change(source, text)) for source, text in zip(*pairs, strict=True) if len(text.split()) > 5]
    found = [{one.kind for one in check_translation(source, text, statistics)} for source, text in rows]
    kinds = sorted(set().union(*found))
    return {
        "sentences": len(rows),
        "warned": sum(map(bool, found)),
        **{kind: sum(kind in one for one in found) for kind in kinds},
    }


def word_log_probs(found: TranslationResult) -> list[float]:
    """Return the log-probability of each word: the sum of those of its tokens."""
    words: list[float] = []
    for token, log_prob in zip(found.tokens, found[0].hypothesis.token_log_probs, strict=False):
        if token.startswith("▁") or not words:
            words.append(0.0)
        words[-1] += log_prob
    return words or [0.0]


def first_half(text: str) -> str:
    return " ".join(text.split()[: len(text.split()) // 2])


def second_half(text: str) -> str:
    return " ".join(text.split()[len(text.split()) // 2 :])


def format_tables(runs: dict[str, Any]) -> str:
    head = [f"| {' | '.join(runs)} |", f"|---|{'---:|' * len(runs)}"]
    signals = {
        name: ["{pearson:.3f} and {spearman:.3f}".format(**run["correlations"][name]) for run in runs.values()]
        for name in SIGNALS
    }
    faults = {
        name: ["{warned:,} of {sentences:,}".format(**run["faults"][name]) for run in runs.values()]
        for name in ("none", *FAULTS)
    }
    lines = []
    for title, rows in (("signal", signals), ("fault", faults)):
        lines += [
            f"| {title} {head[0]}",
            head[1],
            *(f"| {name} | {' | '.join(row)} |" for name, row in rows.items()),
            "",
        ]
    return "\n".join(lines)


def plot(runs: dict[str, Any], path: Path) -> None:
    """Draw expected and actual chrF of each run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([20, 100], [20, 100], color="0.7", linewidth=1, label="perfect calibration")
    for (name, run), marker in zip(runs.items(), "os^vD", strict=False):
        points = np.array([[one["expected"], one["actual"], 2 * one["standard_error"]] for one in run["calibration"]])
        axes.errorbar(points[:, 0], points[:, 1], yerr=points[:, 2], marker=marker, linewidth=1, capsize=2, label=name)
    axes.set(xlabel="expected sentence chrF", ylabel="actual sentence chrF, two standard errors")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
