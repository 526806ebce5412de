"""One sentence and its translation, looked at from every side: what a page, a figure or a file shows of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding import Raw, score_hypotheses
from dragoman.errors import DataError
from dragoman.evaluation.alignment import Links
from dragoman.inspection.alignments import (
    Look,
    WordWeights,
    agreement_with,
    best_look,
    both_ways,
    by_target,
    leave_one_out,
    looked_at,
)
from dragoman.inspection.attribution import Attribution, gradient_times_input, integrated_gradients
from dragoman.inspection.beam_tree import SearchSeen
from dragoman.inspection.heads import Gates, ablation, alike_in_heads
from dragoman.inspection.passes import Ids, Pass, module_of, padded, watched, without_dropout
from dragoman.inspection.recorder import Kind
from dragoman.inspection.statistics import HeadStatistics, head_statistics, is_punctuation, rollout
from dragoman.inspection.words import Words, words_of_ids
from dragoman.models.interfaces import Seq2Seq
from dragoman.models.symbols import Symbols

LONGEST_INTEGRATED = 100
"""Tokens of both sides above which gradients are not integrated: 16 backward passes for each step take minutes then."""
SHOWN_WORDS = 10
"""The most probable words that are told of each step."""


@dataclass(frozen=True)
class WordAlignment:
    """Links of words, and the weights that they were read from."""

    name: str
    how: str
    weights: WordWeights
    links: Links


@dataclass(frozen=True)
class Step:
    """One step of decoding: the token that was written, and what else might have been."""

    token: str
    log_prob: float
    rank: int
    """How many words were more probable."""
    best: tuple[tuple[str, float], ...]
    """The most probable words with their probabilities, best first."""


@dataclass(frozen=True)
class Study:
    """What a network does with one pair. Tokens are readable; the last of source and target is the end symbol."""

    source_text: str
    target_text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    source_words: Words
    target_words: Words
    passed: Pass
    steps: tuple[Step, ...]
    statistics: tuple[HeadStatistics, ...]
    rollout: Float[Tensor, "layers source source"] | None
    """Of the encoder, where its keys are places."""
    alignments: tuple[WordAlignment, ...]
    attributions: Mapping[str, Attribution]
    heads: Gates
    """The change of the translation's log-probability when a head is left out; nothing where there are no heads."""
    search: SearchSeen | None = None
    """How the translation was found, where it was searched for."""

    @property
    def log_prob(self) -> float:
        """Of the whole translation, its end symbol included."""
        return sum(step.log_prob for step in self.steps)


def study(
    model: Seq2Seq[Any, Any],
    tokenizer: Tokenizer,
    source: Ids,
    target: Ids,
    *,
    source_text: str | None = None,
    symbols: Symbols | None = None,
    look: Look | None = None,
) -> Study:
    """Look at a pair of ids, which stand without begin and end.

    `look` says which attention to the source is read as the alignment; without it, the one that agrees
    best with what leaving words out says of this pair. Raises DataError on an empty source, and on a network that needs
    the tree of its source too.
    """
    if not source:
        raise DataError("an empty text gives nothing to look at; give a text with a word in it")
    symbols = symbols or Symbols()
    (passed,) = watched(model, [source], [target], symbols=symbols)
    source_words, target_words = words_of_ids(tokenizer.source, source), words_of_ids(tokenizer.target, target)
    begun = Study(
        source_text=tokenizer.source.decode(source) if source_text is None else source_text,
        target_text=tokenizer.target.decode(target),
        source=tuple(tokenizer.source.tokens(passed.source)),
        target=tuple(tokenizer.target.tokens(passed.target)),
        source_words=source_words,
        target_words=target_words,
        passed=passed,
        steps=tuple(_steps(passed, tokenizer)),
        statistics=(),
        rollout=_rollout(passed),
        alignments=(),
        attributions=dict(_attributions(model, source, target, symbols=symbols)),
        heads=_worth_of_heads(model, source, target, symbols=symbols),
    )
    left_out = leave_one_out(
        model, source, target, source_words=source_words, target_words=target_words, symbols=symbols
    )
    aligned = [
        *_by_attention(begun, look, left_out),
        WordAlignment(
            "leave one out", "nats that a target word loses without a source word", left_out, by_target(left_out)
        ),
    ]
    return replace(begun, alignments=tuple(aligned), statistics=tuple(_statistics(begun)))


def _steps(passed: Pass, tokenizer: Tokenizer) -> list[Step]:
    tokens = tokenizer.target.tokens(passed.target)
    best = passed.log_probs.topk(min(SHOWN_WORDS, passed.log_probs.shape[1]), dim=1)
    own = passed.token_log_probs
    ranks = (passed.log_probs > own[:, None]).sum(dim=1)
    rows = zip(tokens, own.tolist(), ranks.tolist(), best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return [
        Step(token, log_prob, rank, tuple(zip(tokenizer.target.tokens(ids), shares, strict=True)))
        for token, log_prob, rank, ids, shares in rows
    ]


def _rollout(passed: Pass) -> Float[Tensor, "layers source source"] | None:
    if "encoder" not in passed.weights or "encoder" in passed.mixtures:
        return None
    return rollout(passed.weights["encoder"])


def _statistics(one: Study) -> list[HeadStatistics]:
    """Of all kinds whose keys are places."""
    keys: dict[Kind, Sequence[str]] = {
        "encoder": one.source,
        "masked": ("<begin>", *one.target[:-1]),
        "cross": one.source,
    }
    rows = []
    for kind, weights in one.passed.weights.items():
        if kind not in one.passed.mixtures:
            end = torch.tensor([token == "<end>" for token in keys[kind]])  # noqa: S105  # a symbol, no password
            rows += head_statistics(kind, weights, punctuation=is_punctuation(keys[kind]), end=end)
    return rows


def _by_attention(one: Study, look: Look | None, left_out: WordWeights) -> list[WordAlignment]:
    """The alignment of the chosen look, or of the best; none where there is no attention to the source."""
    if "cross" not in one.passed.weights:
        return []
    pair = (one.passed, one.source_words, one.target_words)
    chosen = best_look([pair], agreement_with([by_target(left_out)]))[0].look if look is None else look
    weights = looked_at(one.passed, chosen, source=one.source_words, target=one.target_words)
    head = "mean of heads" if chosen.head is None else f"head {chosen.head + 1}"
    how = f"layer {chosen.layer + 1}, {head}" + (", of the step that has read the word" if chosen.shifted else "")
    return [WordAlignment("attention", how, weights, both_ways(weights))]


def _attributions(
    model: Seq2Seq[Any, Any], source: Ids, target: Ids, *, symbols: Symbols
) -> Iterator[tuple[str, Attribution]]:
    yield "gradient × input", gradient_times_input(model, source, target, symbols=symbols)
    if len(source) + len(target) <= LONGEST_INTEGRATED:
        yield "integrated gradients", integrated_gradients(model, source, target, symbols=symbols)


def _worth_of_heads(model: Seq2Seq[Any, Any], source: Ids, target: Ids, *, symbols: Symbols) -> Gates:
    """By ablation, in nats; nothing for networks without heads, or with fewer in some layers than in others."""
    module = module_of(model)
    device = next(module.parameters()).device
    ids, lengths = padded([[*source, symbols.end]], symbols, device)

    def judge() -> float:
        found = score_hypotheses(model, ids, lengths, outputs=[target], normalisation=Raw(), symbols=symbols)
        return found[0].log_prob

    if not alike_in_heads(module):
        return {}
    with without_dropout(module):
        return ablation(module, judge)
