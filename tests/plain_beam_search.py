"""Reference beam search: a plain loop without a cache that decodes every prefix again at every step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.decoding import DecodingConfig, Hypothesis
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.special_symbols import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Prefix:
    """Tokens of a hypothesis and their log-probabilities; of a finished one, EOS included."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)


Candidate = tuple[float, int, int, Prefix]
"""Negative log-probability, token and parent of a continuation, and the continuation."""


@dataclass
class Sentence:
    """State of the search for one sentence."""

    limit: int
    open: list[Prefix]
    finished: list[Prefix]
    truncated: list[Prefix]
    greedy: Prefix | None
    """Output of greedy search so far; None after its end, or if it is not kept."""
    done: bool = False


@torch.inference_mode()
def plain_beam_search(
    model: EncoderDecoder[Any, Any],
    source: Tensor,
    source_lengths: Tensor,
    *,
    limits: list[int],
    settings: DecodingConfig,
    stops: bool = True,
) -> list[list[Hypothesis]]:
    """Return what beam search returns, without the end of a search that can find nothing better.

    Unless it `stops`, it extends hypotheses up to the length limit.
    """
    greedy = Prefix() if settings.keep_greedy else None
    sentences = [Sentence(limit, [Prefix()], [], [], greedy) for limit in limits]
    while not all(sentence.done for sentence in sentences):
        rows = [row for row, sentence in enumerate(sentences) if not sentence.done for _ in sentence.open]
        prefixes = [prefix for sentence in sentences if not sentence.done for prefix in sentence.open]
        target = torch.tensor([[BOS, *prefix.tokens] for prefix in prefixes], device=source.device)
        hidden = model.hidden(source[rows], source_lengths[rows], target)[:, -1]
        log_probs = model.unembed(hidden).float().log_softmax(dim=-1)
        for row, sentence in enumerate(sentences):
            if not sentence.done:
                own = torch.tensor([index for index, other in enumerate(rows) if other == row])
                advance(sentence, log_probs[own], settings=settings)
                sentence.done |= stops and has_enough(sentence, settings)
    return [ranked(sentence, settings) for sentence in sentences]


def advance(sentence: Sentence, log_probs: Tensor, *, settings: DecodingConfig) -> None:
    """Advance the search for one sentence by one step, given the log-probabilities of each open hypothesis."""
    age = len(sentence.open[0].tokens)
    forbidden = {PAD, BOS}
    forbidden |= set() if settings.allow_unk else {UNK}
    forbidden |= {EOS} if age < settings.min_length else set()
    if settings.renormalize and age < settings.min_length:
        log_probs = log_probs.index_fill(1, torch.tensor([EOS], device=log_probs.device), -torch.inf).log_softmax(dim=1)
    values, tokens = log_probs.topk(min(2 * settings.beam_size + len(forbidden), log_probs.shape[1]))
    candidates = [
        (-(prefix.log_prob + value), token, parent, Prefix((*prefix.tokens, token), (*prefix.log_probs, value)))
        for parent, prefix in enumerate(sentence.open)
        for value, token in zip(values[parent].tolist(), tokens[parent].tolist(), strict=True)
        if token not in forbidden and value > -torch.inf
    ]
    candidates.sort(key=lambda candidate: candidate[:3])
    keep_greedy(sentence, candidates, settings.beam_size)
    ended = [(parent, new) for _, token, parent, new in candidates[: settings.beam_size] if token == EOS]
    sentence.finished += [new for _, new in ended]
    longer = [new for _, token, _, new in candidates if token != EOS][: settings.beam_size]
    if age >= sentence.limit or not longer:
        parents = {parent for parent, _ in ended}
        sentence.truncated = [prefix for parent, prefix in enumerate(sentence.open) if parent not in parents]
        sentence.done = True
    elif settings.cut_off != "last" and age + 1 == sentence.limit:
        sentence.truncated, sentence.done = longer, True
    sentence.finished.sort(key=lambda prefix: -hypothesis(prefix, settings, finished=True).score)
    del sentence.finished[settings.beam_size :]
    sentence.open = longer


def keep_greedy(sentence: Sentence, candidates: list[Candidate], beam: int) -> None:
    """Continue the output of greedy search, which takes the last place of the beam if it has none."""
    if sentence.greedy is None:
        return
    parent = sentence.open.index(sentence.greedy)
    best = next((candidate for candidate in candidates if candidate[2] == parent), None)
    sentence.greedy = None if best is None or best[1] == EOS else best[3]
    longer = [candidate for candidate in candidates if candidate[1] != EOS][:beam]
    if best is not None and best not in longer and not (best[1] == EOS and best in candidates[:beam]):
        candidates.remove(best)
        candidates.insert(beam - 1, best)


def has_enough(sentence: Sentence, settings: DecodingConfig) -> bool:
    """Return whether enough hypotheses are finished."""
    if len(sentence.finished) < settings.beam_size or not sentence.open or not greedy_has_lost(sentence, settings):
        return False
    best, worst = sentence.open[0], hypothesis(sentence.finished[-1], settings, finished=True).score
    open_score = by_length(best.log_prob, len(best.tokens), settings)
    return settings.early_stopping or settings.beam_size == 1 or open_score <= worst


def greedy_has_lost(sentence: Sentence, settings: DecodingConfig) -> bool:
    """Return whether greedy search is over, or the best end of its output would score no better than the best."""
    if sentence.greedy is None:
        return True
    bound = by_length(sentence.greedy.log_prob, sentence.limit + 1, settings)
    return bound <= hypothesis(sentence.finished[0], settings, finished=True).score


def ranked(sentence: Sentence, settings: DecodingConfig) -> list[Hypothesis]:
    """Return the best hypotheses, finished ones before truncated ones unless these are ranked with them."""
    finished = [hypothesis(prefix, settings, finished=True) for prefix in sentence.finished]
    truncated = [hypothesis(prefix, settings, finished=False) for prefix in sentence.truncated]
    if settings.cut_off != "last":
        return sorted([*finished, *truncated], key=lambda one: -one.score)[: settings.n_best]
    by_score = [sorted(some, key=lambda one: -one.score) for some in (finished, truncated)]
    return [*by_score[0], *by_score[1]][: settings.n_best]


def hypothesis(prefix: Prefix, settings: DecodingConfig, *, finished: bool) -> Hypothesis:
    """Return a prefix as a hypothesis with its score."""
    tokens = prefix.tokens[:-1] if finished else prefix.tokens
    length = max(1, len(prefix.tokens) + (settings.cut_off == "ended" and not finished))
    score = by_length(prefix.log_prob, length, settings)
    return Hypothesis(tokens, prefix.log_prob, score, prefix.log_probs, finished)


def by_length(log_prob: float, length: int, settings: DecodingConfig) -> float:
    """Return a log-probability after the length penalty."""
    penalty = settings.penalty
    match penalty.kind:
        case "average":
            return log_prob / length**penalty.alpha
        case "gnmt":
            return log_prob / ((5 + length) / 6) ** penalty.alpha
        case "none":
            return log_prob
