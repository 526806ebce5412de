"""Reference beam search: a plain loop without a cache that decodes every prefix again at every step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.decoding import Average, Gnmt, Hypothesis, Raw, SearchSettings
from dragoman.models.protocols import Seq2Seq
from dragoman.models.special_symbols import Symbols


@dataclass(frozen=True)
class Prefix:
    """The tokens of a hypothesis and the log-probability of each, with that of the end symbol when it is finished."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)


@dataclass
class Sentence:
    """The search for one sentence."""

    limit: int
    open: list[Prefix]
    finished: list[Prefix]
    cut_off: list[Prefix]
    over: bool = False


@torch.inference_mode()
def plain_beam_search(
    model: Seq2Seq[Any],
    source: Tensor,
    source_lengths: Tensor,
    *,
    limits: list[int],
    settings: SearchSettings,
    symbols: Symbols,
) -> list[list[Hypothesis]]:
    """What `dragoman.decoding.beam_search` returns, but never stopping before `beam` hypotheses finished."""
    sentences = [Sentence(limit, [Prefix()], [], []) for limit in limits]
    while not all(sentence.over for sentence in sentences):
        rows = [row for row, sentence in enumerate(sentences) if not sentence.over for _ in sentence.open]
        prefixes = [prefix for sentence in sentences if not sentence.over for prefix in sentence.open]
        target = torch.tensor([[symbols.begin, *prefix.tokens] for prefix in prefixes], device=source.device)
        hidden = model.hidden(source[rows], source_lengths[rows], target)[:, -1]
        log_probs = model.unembed(hidden).float().log_softmax(dim=-1)
        for row, sentence in enumerate(sentences):
            if not sentence.over:
                mine = torch.tensor([place for place, other in enumerate(rows) if other == row])
                advance(sentence, log_probs[mine], settings=settings, symbols=symbols)
    return [ranked(sentence, settings) for sentence in sentences]


def advance(sentence: Sentence, log_probs: Tensor, *, settings: SearchSettings, symbols: Symbols) -> None:
    """One step of the search for one sentence, given what may follow each open hypothesis."""
    age = len(sentence.open[0].tokens)
    never = {symbols.pad, symbols.begin}
    never |= set() if settings.allow_unknown else {symbols.unknown}
    never |= {symbols.end} if age < settings.minimum_length else set()
    values, tokens = log_probs.topk(min(2 * settings.beam + len(never), log_probs.shape[1]))
    candidates = [
        (-(prefix.log_prob + value), token, parent, Prefix((*prefix.tokens, token), (*prefix.log_probs, value)))
        for parent, prefix in enumerate(sentence.open)
        for value, token in zip(values[parent].tolist(), tokens[parent].tolist(), strict=True)
        if token not in never and value > -torch.inf
    ]
    candidates.sort(key=lambda candidate: candidate[:3])
    ended = [(parent, new) for _, token, parent, new in candidates[: settings.beam] if token == symbols.end]
    sentence.finished += [new for _, new in ended]
    longer = [new for _, token, _, new in candidates if token != symbols.end][: settings.beam]
    if age >= sentence.limit or not longer:
        parents = {parent for parent, _ in ended}
        sentence.cut_off = [prefix for parent, prefix in enumerate(sentence.open) if parent not in parents]
        sentence.over = True
    if len(sentence.finished) >= settings.beam:
        sentence.over = True
    sentence.open = longer


def ranked(sentence: Sentence, settings: SearchSettings) -> list[Hypothesis]:
    """The best hypotheses, the finished before the cut-off ones."""
    finished = [hypothesis(prefix, settings, finished=True) for prefix in sentence.finished]
    cut_off = [hypothesis(prefix, settings, finished=False) for prefix in sentence.cut_off]
    by_score = [sorted(some, key=lambda one: -one.score) for some in (finished, cut_off)]
    return [*by_score[0], *by_score[1]][: settings.best]


def hypothesis(prefix: Prefix, settings: SearchSettings, *, finished: bool) -> Hypothesis:
    """A prefix as what searches return."""
    tokens = prefix.tokens[:-1] if finished else prefix.tokens
    length = max(1, len(prefix.tokens))
    match settings.normalisation:
        case Average(alpha=alpha):
            score = prefix.log_prob / length**alpha
        case Gnmt(alpha=alpha):
            score = prefix.log_prob / ((5 + length) / 6) ** alpha
        case Raw():
            score = prefix.log_prob
    return Hypothesis(tokens, prefix.log_prob, score, prefix.log_probs, finished)
