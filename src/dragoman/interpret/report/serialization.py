"""Studies as a tree of plain values: what the page embeds, and what `--json` writes.

Arrays become `{"shape": [...], "data": base64}` of little-endian numbers, float32 or, for what lies between 0 and 1,
16-bit whole numbers that stand for 65,535ths; or nested lists, where people or other programs are to read them.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.interpret.beam_tree import SearchSeen
from dragoman.interpret.explanation import Step, Study, WordAlignment
from dragoman.interpret.word_merging import Words
from dragoman.typing import Bool, Shaped

Tree = dict[str, Any]
Packed = Callable[[Shaped[Tensor, "..."]], Any]
FULL = 65_535


System = tuple[str, Sequence[tuple[str, str]], Sequence[Study], LanguageTokenizer]
"""A model's name, what is said of it (names and values in words), its studies of the sentences, and the side of its
tokenizer that spells what it writes."""


def tree_of(
    systems: Sequence[System],
    *,
    title: str,
    judged: Sequence[Sequence[Sequence[float]]] | None = None,
    compact: bool = False,
) -> Tree:
    """Everything about some sentences, of one model or of several beside each other.

    `judged` are, of each sentence, the log-probabilities of every model's translation (a row) by every model.
    """
    return {
        "title": title,
        "judged": judged,
        "systems": [
            {
                "name": name,
                "facts": [list(fact) for fact in facts],
                "sentences": [_sentence(study, side, compact=compact) for study in studies],
            }
            for name, facts, studies, side in systems
        ],
    }


def _sentence(study: Study, side: LanguageTokenizer, *, compact: bool) -> Tree:
    shares, numbers = (packed_shares, _packed) if compact else (listed, listed)
    passed = study.passed
    return {
        "task": study.task,
        "source_text": study.source_text,
        "target_text": study.target_text,
        "source": list(study.source),
        "target": list(study.target),
        "read": list(study.read),
        "places": list(study.places),
        "source_words": _words(study.source_words),
        "target_words": _words(study.target_words),
        "log_prob": study.log_prob,
        "steps": [_step(step) for step in study.steps],
        "mixtures": sorted(passed.mixtures),
        "weights": {kind: shares(weights) for kind, weights in passed.weights.items()},
        "masks": {kind: shares(_each_once(allowed).float()) for kind, allowed in passed.allowed.items()},
        "rollout": None if study.rollout is None else shares(study.rollout),
        "statistics": [{name: getattr(row, name) for name in row.__slots__} for row in study.statistics],
        "alignments": [_alignment(one, numbers) for one in study.alignments],
        "attributions": {
            name: {
                "values": numbers(one.values),
                "rows": list(one.rows),
                "columns": list(one.columns),
                "note": one.note,
            }
            for name, one in study.attributions.items()
        },
        "heads": {kind: change.tolist() for kind, change in study.heads.items()},
        "beam": None if study.search is None else _beam(study.search, side),
    }


def _each_once(allowed: Bool[Tensor, "layers heads rows columns"]) -> Bool[Tensor, "_ _ rows columns"]:
    """The masks of all layers and heads, or the one that they share; BigBird draws others for each."""
    shared = allowed[:1, :1]
    return shared if bool((allowed == shared).all()) else allowed


WON_AS = {
    "beam_search": "the best of all that finished",
    "mbr": "of all that finished, what agrees best with the others",
}


def _beam(seen: SearchSeen, side: LanguageTokenizer) -> Tree:
    """The tree with readable tokens, the scores of what ended, and what greedy search would have found."""
    names: dict[int, str] = {}

    def name(token: int) -> str:
        return names.setdefault(token, side.ids_to_tokens([token])[0])

    steps = [
        [
            {
                "parent": one.parent,
                "token": name(one.token),
                "log_prob": one.log_prob,
                "total": one.total,
                "fate": one.fate,
                "score": seen.scores.get((step, place)),
            }
            for place, one in enumerate(candidates)
        ]
        for step, candidates in enumerate(seen.tree.steps)
    ]
    return {
        "beam": seen.tree.beam,
        "steps": steps,
        "winner": list(seen.winner),
        "won": seen.best.score,
        "won_as": WON_AS[seen.method],
        "finished": [list(place) for place in seen.scores],
        "greedy": list(seen.greedy_way),
        "note": _about_greedy(seen, side),
    }


def _about_greedy(seen: SearchSeen, side: LanguageTokenizer) -> str:
    """How greedy search fares beside the beam, and where their ways part."""
    if seen.greedy.tokens == seen.best.tokens:
        return "Greedy search finds the same."
    step = len(seen.greedy_way)
    fate = seen.tree.steps[step - 1][seen.greedy_way[-1]].fate if step else "cut"
    left = f"is cut at step {step}" if fate == "cut" else f"leads to an end at step {step}"
    return (
        f"Greedy search finds “{side.decode(seen.greedy.tokens)}”, with a log-probability of "
        f"{seen.greedy.log_prob:.4f} and a score of {seen.greedy.score:.4f}, against {seen.best.log_prob:.4f} and "
        f"{seen.best.score:.4f} here. Its way is framed; in the beam it "
        f"{left if fate != 'goes on' else f'is left behind after step {step}'}."
    )


def _words(words: Words) -> Tree:
    return {"texts": list(words.texts), "tokens": [list(places) for places in words.tokens]}


def _step(step: Step) -> Tree:
    return {
        "token": step.token,
        "log_prob": step.log_prob,
        "rank": step.rank,
        "best": [[token, share] for token, share in step.best],
    }


def _alignment(one: WordAlignment, numbers: Packed) -> Tree:
    return {"name": one.name, "how": one.how, "weights": numbers(one.weights), "links": sorted(map(list, one.links))}


def listed(numbers: Shaped[Tensor, "..."]) -> list[Any]:
    listed: list[Any] = numbers.double().numpy().round(6).tolist()
    return listed


def _packed(numbers: Shaped[Tensor, "..."]) -> Tree:
    return _base64(numbers.float().numpy().astype("<f4"), "f4")


def packed_shares(numbers: Shaped[Tensor, "..."]) -> Tree:
    return _base64((numbers.clamp(0, 1).numpy() * FULL).round().astype("<u2"), "u2")


def _base64(array: np.ndarray, kind: str) -> Tree:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"shape": list(array.shape), "kind": kind, "data": data}
