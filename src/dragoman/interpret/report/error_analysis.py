"""An error analysis as a tree of plain values: what its page embeds, and what `--json` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dragoman.evaluation import PairedResult
from dragoman.evaluation.error_analysis import ErrorAnalysis, WordAccuracy, WorstSentence
from dragoman.interpret.forward_pass import Pass
from dragoman.interpret.head_statistics import mean_of_heads
from dragoman.interpret.report.serialization import listed, packed_shares

Tree = dict[str, Any]
Looks = Mapping[int, tuple[Sequence[str], Sequence[str], Pass]]
"""By the number of a sentence: its source tokens, its target tokens, and what the network did with them."""


def analysis_tree(
    systems: Sequence[tuple[ErrorAnalysis, Looks]],
    *,
    title: str,
    signature: str,
    differences: Sequence[PairedResult] = (),
    compact: bool = False,
) -> Tree:
    """Everything about the outputs of some systems; of runs there is the attention of the worst sentences too.

    `differences` are those of BLEU from the first system, in the same order.
    """
    return {
        "title": title,
        "signature": signature,
        "systems": [_system(analysis, looks, compact=compact) for analysis, looks in systems],
        "differences": [
            {"bleu": one.difference, "p_bootstrap": one.p_bootstrap, "p_randomization": one.p_randomization}
            for one in differences
        ],
    }


def _system(analysis: ErrorAnalysis, looks: Looks, *, compact: bool) -> Tree:
    tree = asdict(analysis)
    for kind in ("by_frequency", "by_kind"):
        tree[kind] = [_found(one) for one in getattr(analysis, kind)]
    tree["worst"] = [_bad(one, looks, compact=compact) for one in analysis.worst]
    return tree


def _found(one: WordAccuracy) -> Tree:
    return asdict(one) | {"recall": one.recall, "precision": one.precision}


def _bad(one: WorstSentence, looks: Looks, *, compact: bool) -> Tree:
    tree = asdict(one)
    if one.index in looks:
        source, target, passed = looks[one.index]
        if "cross" in passed.weights:
            mean = mean_of_heads(passed.weights["cross"])
            shown = packed_shares(mean) if compact else listed(mean)
            tree["attention"] = {"source": list(source), "target": list(target), "weights": shown}
    return tree
