r"""Word alignments that nobody asked for: from attention to the source, and from what a network cannot do without.

Rows of weights are target words, columns source words; links are pairs (source word, target word).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.decoding import score_targets
from dragoman.errors import DataError
from dragoman.evaluation.alignment import Links, alignment_agreement
from dragoman.interpret.forward_pass import BuildFeatures, Pass, module_of, padded, without_dropout
from dragoman.interpret.head_statistics import mean_of_heads
from dragoman.interpret.word_merging import Words, merged
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Float, Lengths, SourceFeatures, SourceIds

WordWeights = Float[Tensor, "target_words source_words"]
Extract = Callable[[WordWeights], Links]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, slots=True)
class Look:
    """Which attention to the source is read as an alignment.

    The step that predicts a word looks at the source before it knows the word. With `shifted`, the weights are those of
    the step after it, which has read the word (Chen et al., 2020, section 3).
    """

    layer: int
    head: int | None
    """The mean of the heads where none is named."""
    shifted: bool


def looks(passed: Pass) -> Iterator[Look]:
    """All that can be read as an alignment: of every layer the mean and each head, shifted and not."""
    layers, heads = passed.weights["cross"].shape[:2] if "cross" in passed.weights else (0, 0)
    for layer in range(layers):
        for head in (None, *range(heads)) if heads > 1 else (None,):
            yield Look(layer, head, shifted=False)
            yield Look(layer, head, shifted=True)


def looked_at(passed: Pass, look: Look, *, source: Words, target: Words) -> WordWeights:
    """How much of each source word the network looked at for each target word.

    Raises DataError where the network has no attention to its source.
    """
    if "cross" not in passed.weights:
        raise DataError(
            "this network has no attention to its source, so that no alignment can be read from it; "
            "ask what it cannot do without (leave_one_out)"
        )
    of_heads = passed.weights["cross"][look.layer]
    weights = mean_of_heads(of_heads[None])[0] if look.head is None else of_heads[look.head]
    rows = weights[1:] if look.shifted else weights[:-1]
    return merged(rows, target=target, source=source)


def by_target(weights: WordWeights) -> Links:
    """Each target word with the source word that it looks at most; one of no weight with none."""
    links = zip(weights.argmax(dim=1).tolist(), range(len(weights)), strict=True) if weights.numel() else ()
    return frozenset((at, to) for at, to in links if weights[to, at] > 0)


def by_source(weights: WordWeights) -> Links:
    """Each source word with the target word that looks at it most; one that none looks at with none."""
    return frozenset((at, to) for to, at in by_target(weights.T))


def by_share(weights: WordWeights, *, least: float = 0.25) -> Links:
    """Every source word that has at least such a share of the weights of a target word: many-to-many."""
    found = weights >= least * weights.sum(dim=1, keepdim=True).clamp(min=1e-9)
    return frozenset((at, to) for to, at in found.nonzero().tolist())


def both_ways(weights: WordWeights) -> Links:
    """What target and source words agree on, grown: many-to-many links from one network."""
    return grown(by_target(weights), by_source(weights))


def grown(one: Links, other: Links) -> Links:
    """Both alignments joined (grow-diag of Koehn et al., 2003): their intersection, and from it on, along neighbours,
    every link of either whose source or target word is not yet linked.
    """
    union = one | other
    links = set(one & other)
    waiting = sorted(links)
    while waiting:
        at, to = waiting.pop(0)
        for across, along in NEIGHBOURS:
            near = (at + across, to + along)
            free = near[0] not in {link[0] for link in links} or near[1] not in {link[1] for link in links}
            if near in union and near not in links and free:
                links.add(near)
                waiting.append(near)
    return frozenset(links)


@dataclass(frozen=True, slots=True)
class Judged:
    """A look and how good its links are: the higher the better."""

    look: Look
    value: float


def best_look(pairs: Sequence[tuple[Pass, Words, Words]], value: Callable[[list[WordWeights]], float]) -> list[Judged]:
    """All looks, the best first, on some pairs (pass, source words, target words).

    `value` judges the weights of all pairs: with gold it may be 1 - AER, and without any `agreement_with` the links of
    a network in the other direction, or of leaving words out. That the links of target words and of source words agree
    in one map is not enough: a head that always looks one word back agrees with itself and is wrong everywhere.
    Raises DataError where the network has no attention to its source.
    """
    if not pairs or "cross" not in pairs[0][0].weights:
        raise DataError("there is no attention to a source to choose from; leave_one_out needs none")
    judged = [
        Judged(look, value([looked_at(passed, look, source=source, target=target) for passed, source, target in pairs]))
        for look in looks(pairs[0][0])
    ]
    return sorted(judged, key=lambda one: -one.value)


def agreement_with(wanted: Sequence[Links], extract: Extract | None = None) -> Callable[[list[WordWeights]], float]:
    """How far what is extracted from weights (by default `by_target`) agrees with other links of the same pairs."""
    chosen = extract or by_target

    def value(maps: list[WordWeights]) -> float:
        return alignment_agreement([chosen(weights) for weights in maps], wanted)

    return value


@torch.no_grad()
def leave_one_out(
    model: EncoderDecoder[Any, Any],
    source: Sequence[int],
    target: Sequence[int],
    *,
    source_words: Words,
    target_words: Words,
    symbols: SpecialSymbols,
    source_features: BuildFeatures | None = None,
    rows: int = 64,
) -> WordWeights:
    r"""What each source word is worth to each target word, in nats: $\log p(y_i \mid y_{<i}, x) - \log p(y_i \mid
    y_{<i}, x_{\setminus j})$, where the tokens of word $j$ are the unknown symbol (prediction difference of Li et al.,
    2019, section 3.2, there with an embedding of zeros and of probabilities). What is worth less than nothing is 0.

    It asks any network, those without attention too; `rows` sentences go through it at a time.
    """
    sources = [list(source)] + [
        [symbols.unk if place in set(places) else token for place, token in enumerate(source)]
        for places in source_words.tokens
    ]
    parts = []
    for some in (sources[first : first + rows] for first in range(0, len(sources), rows)):
        # All versions have the features of the source.
        features = None if source_features is None else source_features([source] * len(some))
        with without_dropout(module_of(model)):
            parts.append(_token_log_probs(model, _side_by_side(model, some, symbols), target, symbols, features))
    log_probs = torch.cat(parts)
    worth = (log_probs[:1] - log_probs[1:]).clamp(min=0.0)
    of_words = [worth[:, list(places)].sum(dim=1) for places in target_words.tokens]
    return torch.stack(of_words) if of_words else worth.new_zeros(0, len(source_words))


def _side_by_side(
    model: EncoderDecoder[Any, Any], sources: Sequence[Sequence[int]], symbols: SpecialSymbols
) -> tuple[SourceIds, Lengths]:
    """The sources with their end symbols where the network is, and their lengths."""
    device = next(module_of(model).parameters()).device
    return padded([[*ids, symbols.eos] for ids in sources], symbols, device)


def _token_log_probs(
    model: EncoderDecoder[Any, Any],
    read: tuple[SourceIds, Lengths],
    target: Sequence[int],
    symbols: SpecialSymbols,
    source_features: SourceFeatures | None,
) -> Float[Tensor, "sources target_tokens"]:
    """Of the same target for several sources, without the end symbol."""
    source, lengths = read
    given = torch.tensor([[symbols.bos, *target]], device=source.device).expand(len(source), -1)
    expected = torch.tensor([[*target, symbols.eos]], device=source.device).expand(len(source), -1)
    found = score_targets(model, source, lengths, target=given, expected=expected, source_features=source_features)
    return found[:, :-1].cpu().clone()
