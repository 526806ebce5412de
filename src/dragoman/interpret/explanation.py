"""One text and what a network made of it, looked at from every side: what a page, a figure or a file shows of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import DataError
from dragoman.evaluation.alignment import Links
from dragoman.interpret.alignment import (
    Look,
    WordWeights,
    agreement_with,
    best_look,
    both_ways,
    by_target,
    leave_one_out,
    looked_at,
)
from dragoman.interpret.attention_heads import Gates, ablation, alike_in_heads
from dragoman.interpret.attribution import (
    POINTS,
    Attribution,
    gradient_times_input,
    integrated_gradients,
    left_unexplained,
)
from dragoman.interpret.beam_tree import SearchSeen
from dragoman.interpret.forward_pass import BuildFeatures, Ids, Pass, watched, without_dropout
from dragoman.interpret.head_statistics import HeadStatistics, head_statistics, is_punctuation, rollout
from dragoman.interpret.model_calls import Asked, of_pair
from dragoman.interpret.recorder import Kind
from dragoman.interpret.word_merging import Words, words_of_ids
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Float

Task = Literal["translation", "continuation", "label", "tags", "answer"]
"""What a network was asked for."""
MOST_INTEGRATED = 100_000
"""Tokens, those of both sides for each outcome, that gradients are integrated over: a few seconds of one core."""
LEAST_POINTS = 8
"""Of the way of integrated gradients, which are left out where the bound allows of fewer."""
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
    """One step of decoding, or one finding: what was written or found, and what else might have been."""

    token: str
    log_prob: float
    rank: int
    """How many classes were more probable."""
    best: tuple[tuple[str, float], ...]
    """The most probable classes with their probabilities, best first."""


@dataclass(frozen=True)
class Contribution:
    """What each column adds to the log-probability of each row's finding, in nats."""

    values: Float[Tensor, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    note: str = ""


NO_WORDS = Words((), ())


@dataclass(frozen=True)
class Study:
    """What a network does with one text. Tokens are readable; the last of a translation is the end symbol."""

    task: Task
    source_text: str
    target_text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    read: tuple[str, ...]
    """The places of masked attention: those of what was written, or of all that a decoder reads."""
    places: tuple[int | None, ...]
    """The place of self-attention where each step is predicted; of translations the number of the step."""
    passed: Pass
    steps: tuple[Step, ...]
    source_words: Words = NO_WORDS
    target_words: Words = NO_WORDS
    statistics: tuple[HeadStatistics, ...] = ()
    rollout: Float[Tensor, "layers source source"] | None = None
    alignments: tuple[WordAlignment, ...] = ()
    attributions: Mapping[str, Contribution] = field(default_factory=dict)
    heads: Gates = field(default_factory=dict)
    """What the log-probability changes by without each head, in nats."""
    search: SearchSeen | None = None

    @property
    def log_prob(self) -> float:
        """Of all that was written or found, an end symbol included."""
        return sum(step.log_prob for step in self.steps)

    def sides(self, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the queries and keys of a kind of attention."""
        named = {"encoder": (self.source,) * 2, "masked": (self.read,) * 2, "cross": (self.target, self.source)}
        return named[kind]


def study(
    model: EncoderDecoder[Any, Any],
    tokenizer: Tokenizer,
    source: Ids,
    target: Ids,
    *,
    source_text: str | None = None,
    symbols: SpecialSymbols | None = None,
    look: Look | None = None,
    source_features: BuildFeatures | None = None,
    log_probs: Float[Tensor, "steps vocabulary"] | None = None,
) -> Study:
    """Look at a pair of ids, which stand without begin and end.

    `look` says which attention to the source is read as the alignment; without it, the one that agrees
    best with what leaving words out says of this pair.
    `log_probs` are those of what else computes the network, to be told in place of its own. Raises DataError on an
    empty source.
    """
    if not source:
        raise DataError("an empty text gives nothing to look at; give a text with a word in it")
    symbols = symbols or SpecialSymbols()
    (passed,) = watched(model, [source], [target], symbols=symbols, source_features=source_features)
    if log_probs is not None:
        passed = replace(passed, log_probs=log_probs)
    names = tuple(tokenizer.target.ids_to_tokens(passed.target))
    begun = Study(
        task="translation",
        source_text=tokenizer.source.decode(source) if source_text is None else source_text,
        target_text=tokenizer.target.decode(target),
        source=tuple(tokenizer.source.ids_to_tokens(passed.source)),
        target=names,
        read=("<bos>", *names[:-1]),
        places=tuple(range(len(names))),
        passed=passed,
        steps=steps_of(passed.log_probs, passed.target, tokenizer.target.ids_to_tokens),
        source_words=words_of_ids(tokenizer.source, source),
        target_words=words_of_ids(tokenizer.target, target),
    )
    left_out = leave_one_out(
        model,
        source,
        target,
        source_words=begun.source_words,
        target_words=begun.target_words,
        symbols=symbols,
        source_features=source_features,
    )
    asked = of_pair(model, source, target, symbols=symbols, source_features=source_features)
    aligned = replace(begun, alignments=tuple(_alignments(begun, look, left_out)))
    return completed(aligned, asked, columns=(*begun.source, *begun.read), rows=names)


def completed(begun: Study, asked: Asked, *, columns: tuple[str, ...], rows: tuple[str, ...]) -> Study:
    """With what every task has in common: statistics, rollout, attribution, and what each head is worth.

    The first outcomes that are asked about are those of the steps; `columns` and `rows` are what the tokens and the
    outcomes of attribution are called.
    """
    return replace(
        begun,
        statistics=tuple(_statistics(begun)),
        rollout=_rollout(begun.passed),
        attributions={**begun.attributions, **dict(_attributions(asked, rows=rows, columns=columns))},
        heads=_worth_of_heads(asked, steps=len(begun.steps)),
    )


def steps_of(
    log_probs: Float[Tensor, "steps classes"], own: Sequence[int], names: Callable[[Sequence[int]], Sequence[str]]
) -> tuple[Step, ...]:
    """What each step found, `own`, among all classes, which `names` spells."""
    best = log_probs.topk(min(SHOWN_WORDS, log_probs.shape[1]), dim=1)
    found = log_probs.gather(1, torch.tensor(own)[:, None])
    ranks = (log_probs > found).sum(dim=1).tolist()
    rows = zip(found[:, 0].tolist(), ranks, best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return tuple(
        Step(token, log_prob, rank, tuple(zip(names(ids), shares, strict=True)))
        for token, (log_prob, rank, ids, shares) in zip(names(own), rows, strict=True)
    )


def _rollout(passed: Pass) -> Float[Tensor, "layers source source"] | None:
    if "encoder" not in passed.weights or "encoder" in passed.mixtures:
        return None
    return rollout(passed.weights["encoder"])


def _statistics(one: Study) -> Iterator[HeadStatistics]:
    """Of all kinds whose keys are places."""
    for kind, weights in one.passed.weights.items():
        if kind not in one.passed.mixtures:
            keys = one.sides(kind)[1]
            end = torch.tensor([token == "<eos>" for token in keys])  # noqa: S105  # a symbol, no password
            yield from head_statistics(kind, weights, punctuation=is_punctuation(keys), end=end)


def _alignments(one: Study, look: Look | None, left_out: WordWeights) -> Iterator[WordAlignment]:
    """By attention to the source, where there is any, and by leaving words out."""
    links = by_target(left_out)
    if "cross" in one.passed.weights:
        yield _by_attention(one, look, links)
    yield WordAlignment("leave one out", "nats that a target word loses without a source word", left_out, links)


def _by_attention(one: Study, look: Look | None, links: Links) -> WordAlignment:
    """The alignment of the chosen look, or of the one that agrees best with these links."""
    pair = (one.passed, one.source_words, one.target_words)
    chosen = best_look([pair], agreement_with([links]))[0].look if look is None else look
    weights = looked_at(one.passed, chosen, source=one.source_words, target=one.target_words)
    head = "mean of heads" if chosen.head is None else f"head {chosen.head + 1}"
    how = f"layer {chosen.layer + 1}, {head}" + (", of the step that has read the word" if chosen.shifted else "")
    return WordAlignment("attention", how, weights, both_ways(weights))


def _attributions(
    asked: Asked, *, rows: tuple[str, ...], columns: tuple[str, ...]
) -> Iterator[tuple[str, Contribution]]:
    points = min(POINTS, MOST_INTEGRATED // (len(rows) * len(columns)))
    note = "" if points >= LEAST_POINTS else "Integrated gradients are left out: of texts this long they take minutes."
    yield "gradient × input", Contribution(gradient_times_input(asked), rows, columns, note)
    if points >= LEAST_POINTS:
        found = integrated_gradients(asked, points=points)
        yield "integrated gradients", Contribution(found, rows, columns, _how_well(asked, found, points))


def _how_well(asked: Asked, found: Attribution, points: int) -> str:
    """What integrated gradients promise, and how far they are from it."""
    missed = left_unexplained(asked, found)
    return (
        f"Integrated over {points} points from unknown symbols to this text. A row should sum to what the text changes "
        f"of its log-probability, and misses that by {missed.mean():.2f} nats on average, {missed.max():.2f} at most."
    )


def _worth_of_heads(asked: Asked, *, steps: int) -> Gates:
    """By ablation, in nats; nothing for networks without heads, or with fewer in some layers than in others."""

    def judge() -> float:
        return float(asked.together()[:steps].sum())

    if not alike_in_heads(asked.network):
        return {}
    with without_dropout(asked.network), torch.no_grad():
        return ablation(asked.network, judge)
