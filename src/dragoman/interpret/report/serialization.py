"""Explanations and error analyses as JSON values, for HTML reports and for `--json`.

Arrays are nested lists, or compactly `{"shape": [...], "kind": "f4", "data": base64}` of little-endian numbers:
float32, or 16-bit integers (`u2`) in units of 1/65535 for values between 0 and 1.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from dragoman.array_types import Bool, Shaped
from dragoman.data.tokenizers import EOS, LanguageTokenizer
from dragoman.evaluation import PairedResult
from dragoman.evaluation.error_analysis import ErrorAnalysis, WorstSentence
from dragoman.interpret.attention_heads import mean_over_heads
from dragoman.interpret.attention_recorder import ForwardPass
from dragoman.interpret.beam_tree import SearchRecord
from dragoman.interpret.explain_text import Explanation

_Tree = dict[str, Any]
ToJson = Callable[[Shaped[Tensor, "..."]], Any]
FRACTION_UNITS = 65_535
OMITTED = ("forward_pass", "rollout", "head_effects", "search")
"""Fields of an explanation that are converted one by one."""
METHOD_NOTES = {
    "beam_search": "the best of all finished hypotheses",
    "mbr": "the finished hypothesis that agrees best with the others (minimum Bayes risk)",
}
UNFINISHED_NOTE = "the best hypothesis at the length limit; none is finished"
SentencePasses = Mapping[int, tuple[Sequence[str], Sequence[str], ForwardPass]]
"""Source tokens, target tokens and forward pass of some sentences, by index."""


class ExplainedSystem(NamedTuple):
    """Explanations of a list of texts by one model."""

    name: str
    facts: Sequence[tuple[str, str]]
    """Facts about the model: names and values in words."""
    explanations: Sequence[Explanation]
    tokenizer: LanguageTokenizer
    """Tokenizer of the outputs."""


def explanations_to_dict(
    systems: Sequence[ExplainedSystem],
    *,
    title: str,
    cross_scores: Sequence[Sequence[Sequence[float]]] | None = None,
    compact: bool = False,
) -> _Tree:
    """Return the explanations of some texts by one or more models.

    `cross_scores` are, for each text, the log-probabilities of every model's output (row) by every model (column).
    """
    return {
        "title": title,
        "cross_scores": cross_scores,
        "systems": [
            {
                "name": system.name,
                "facts": [list(fact) for fact in system.facts],
                "sentences": [_explanation(one, system.tokenizer, compact=compact) for one in system.explanations],
            }
            for system in systems
        ],
    }


def error_analysis_to_dict(
    systems: Sequence[tuple[ErrorAnalysis, SentencePasses]],
    *,
    title: str,
    signature: str,
    differences: Sequence[PairedResult] = (),
    compact: bool = False,
) -> _Tree:
    """Return the error analyses of some systems, with the cross-attention of their worst sentences, if it is known.

    `differences` are those of BLEU from the first system, in the same order.
    """
    return {
        "title": title,
        "signature": signature,
        "systems": [_error_analysis(analysis, passes, compact=compact) for analysis, passes in systems],
        "differences": [
            {"bleu": one.difference, "p_bootstrap": one.p_bootstrap, "p_randomization": one.p_randomization}
            for one in differences
        ],
    }


def _error_analysis(analysis: ErrorAnalysis, passes: SentencePasses, *, compact: bool) -> _Tree:
    tree = asdict(analysis)
    for group in ("by_frequency", "by_kind"):
        rows = getattr(analysis, group)
        tree[group] = [asdict(one) | {"recall": one.recall, "precision": one.precision} for one in rows]
    tree["worst"] = [_worst_sentence(one, passes, compact=compact) for one in analysis.worst]
    return tree


def _worst_sentence(one: WorstSentence, passes: SentencePasses, *, compact: bool) -> _Tree:
    tree = asdict(one)
    if one.index in passes:
        source, target, forward_pass = passes[one.index]
        if "cross" in forward_pass.weights:
            mean = mean_over_heads(forward_pass.weights["cross"])
            weights = _pack_fractions(mean) if compact else _to_list(mean)
            tree["attention"] = {"source": list(source), "target": list(target), "weights": weights}
    return tree


def _explanation(one: Explanation, tokenizer: LanguageTokenizer, *, compact: bool) -> _Tree:
    fractions, numbers = (_pack_fractions, _pack_floats) if compact else (_to_list, _to_list)
    forward_pass = one.forward_pass
    return {
        **{
            field.name: _to_json(getattr(one, field.name), numbers)
            for field in fields(one)
            if field.name not in OMITTED
        },
        "log_prob": one.log_prob,
        "has_end_symbol": one.task in ("translation", "continuation") and forward_pass.target[-1:] == (EOS,),
        "projected": sorted(forward_pass.projected),
        "weights": {kind: fractions(weights) for kind, weights in forward_pass.weights.items()},
        "masks": {kind: fractions(_deduplicate(mask).float()) for kind, mask in forward_pass.masks.items()},
        "rollout": None if one.rollout is None else fractions(one.rollout),
        "head_effects": {kind: effects.tolist() for kind, effects in one.head_effects.items()},
        "beam": None if one.search is None else _search(one.search, tokenizer),
    }


def _to_json(value: Any, numbers: ToJson) -> Any:
    """Convert tensors, dataclasses and collections, links sorted."""
    match value:
        case Tensor():
            return numbers(value)
        case Mapping():
            return {key: _to_json(one, numbers) for key, one in value.items()}
        case tuple() | list():
            return [_to_json(one, numbers) for one in value]
        case frozenset():
            return sorted(map(list, value))
        case _ if is_dataclass(value):
            return {field.name: _to_json(getattr(value, field.name), numbers) for field in fields(value)}
        case _:
            return value


def _deduplicate(mask: Bool[Tensor, "layers heads rows columns"]) -> Bool[Tensor, "_ _ rows columns"]:
    """Return one mask if all layers and heads share it; BigBird samples another one for each head."""
    shared = mask[:1, :1]
    return shared if bool((mask == shared).all()) else mask


def _search(record: SearchRecord, tokenizer: LanguageTokenizer) -> _Tree:
    """Return the tree with readable tokens, the scores of finished candidates, and the result of greedy search."""
    names: dict[int, str] = {}

    def name(token: int) -> str:
        return names.setdefault(token, tokenizer.ids_to_tokens([token])[0])

    steps = [
        [
            asdict(one) | {"token": name(one.token), "score": record.scores.get((step, index))}
            for index, one in enumerate(candidates)
        ]
        for step, candidates in enumerate(record.tree.steps)
    ]
    return {
        "beam_size": record.tree.beam_size,
        "steps": steps,
        "best_path": list(record.best_path),
        "best_score": record.best.score,
        "method": METHOD_NOTES[record.method] if record.scores else UNFINISHED_NOTE,
        "finished": [list(position) for position in record.scores],
        "greedy_path": list(record.greedy_path),
        "note": _greedy_note(record, tokenizer),
    }


def _greedy_note(record: SearchRecord, tokenizer: LanguageTokenizer) -> str:
    """Compare the results of greedy search and beam search."""
    greedy, best, path = record.greedy, record.best, record.greedy_path
    if greedy.tokens == best.tokens:
        return "Greedy search finds the same output."
    outcome = record.tree.steps[len(path) - 1][path[-1]].outcome if path else "pruned"
    end = {"continued": "lost after", "finished": "finished at", "pruned": "pruned at"}[outcome]
    return (
        f"Greedy search finds “{tokenizer.decode(greedy.tokens)}” with log-probability {greedy.log_prob:z.4f} and "
        f"score "
        f"{greedy.score:z.4f}; beam search reaches {best.log_prob:z.4f} and {best.score:z.4f}. The path of greedy "
        f"search "
        f"is framed; in the beam it is {end} step {len(path)}."
    )


def _to_list(numbers: Shaped[Tensor, "..."]) -> list[Any]:
    values: list[Any] = numbers.double().numpy().round(6).tolist()
    return values


def _pack_floats(numbers: Shaped[Tensor, "..."]) -> _Tree:
    return _pack(numbers.float().numpy().astype("<f4"), "f4")


def _pack_fractions(numbers: Shaped[Tensor, "..."]) -> _Tree:
    return _pack((numbers.clamp(0, 1).numpy() * FRACTION_UNITS).round().astype("<u2"), "u2")


def _pack(array: np.ndarray, kind: str) -> _Tree:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"shape": list(array.shape), "kind": kind, "data": data}
