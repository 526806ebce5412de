"""An error analysis as a tree of plain values: what its page embeds, and what `--json` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dragoman.evaluation import Paired
from dragoman.evaluation.error_analysis import Analysis, Bad, WordsFound
from dragoman.interpret.forward_pass import Pass
from dragoman.interpret.head_statistics import mean_of_heads
from dragoman.interpret.report.serialization import listed, packed_shares

Tree = dict[str, Any]
Looks = Mapping[int, tuple[Sequence[str], Sequence[str], Pass]]
"""By the number of a sentence: its source tokens, its target tokens, and what the network did with them."""


def analysis_tree(
    systems: Sequence[tuple[Analysis, Looks]],
    *,
    title: str,
    signature: str,
    differences: Sequence[Paired] = (),
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
            {"bleu": one.difference, "p_bootstrap": one.p_bootstrap, "p_randomisation": one.p_randomisation}
            for one in differences
        ],
    }


def _system(analysis: Analysis, looks: Looks, *, compact: bool) -> Tree:
    tree = asdict(analysis)
    for kind in ("by_frequency", "by_kind"):
        tree[kind] = [_found(one) for one in getattr(analysis, kind)]
    tree["worst"] = [_bad(one, looks, compact=compact) for one in analysis.worst]
    return tree


def _found(one: WordsFound) -> Tree:
    return asdict(one) | {"recall": one.recall, "precision": one.precision}


def _bad(one: Bad, looks: Looks, *, compact: bool) -> Tree:
    tree = asdict(one)
    if one.number in looks:
        source, target, passed = looks[one.number]
        if "cross" in passed.weights:
            mean = mean_of_heads(passed.weights["cross"])
            shown = packed_shares(mean) if compact else listed(mean)
            tree["attention"] = {"source": list(source), "target": list(target), "weights": shown}
    return tree
