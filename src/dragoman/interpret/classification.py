"""Texts that are read: what a network with a head finds in one, and where it looked for that.

A classifier finds a label, a tagger a label for every word, an answerer the first and the last token of an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.errors import DataError
from dragoman.interpret.explanation import Contribution, Study, Task, completed, steps_of
from dragoman.interpret.forward_pass import Ids, of_one_text, without_dropout
from dragoman.interpret.model_calls import Asked, as_they_are, masked, repeated
from dragoman.interpret.word_merging import Words, words_of_ids
from dragoman.models.heads import DecoderOnlyBackbone, ModelWithHead, SequenceHead
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.typing import Float, Int

SHOWN_LABELS = 6
"""The most probable labels of a text that words and tokens are asked about."""
ROWS = 64
"""Texts without a word that are read at a time."""

Read = Callable[[Int[Tensor, "rows places"]], Float[Tensor, "rows findings classes"]]
"""From rows of one length to the logits of each finding."""


@dataclass(frozen=True)
class _Found:
    """What was found in a text, and what else might have been."""

    task: Task
    text: str
    ids: Ids
    """With their symbols."""
    read: Read
    wanted: Sequence[int]
    """The class of each finding that is asked about; those of the steps are the first."""
    steps: int
    places: tuple[int | None, ...]
    """Of the states that each step is read off, where it is one."""
    names: Callable[[Sequence[int]], Sequence[str]]
    """Of classes."""
    words: Words
    """By their places among the ids."""
    rows: tuple[str, ...] | None = None
    """What the findings are called where their names do not tell them apart."""


def study_label(
    model: ModelWithHead,
    side: LanguageTokenizer,
    labels: Sequence[str],
    text: str,
    *,
    ids: Ids,
    label: str | None = None,
) -> Study:
    """Look at the label of a text, the most probable one or a given one; `ids` are read between begin and end.

    Raises DataError where the network knows no such label.
    """
    if label is not None and label not in labels:
        raise DataError(f"{label!r} is none of the {len(labels)} labels; choose one of {', '.join(labels[:20])}")
    shown = min(SHOWN_LABELS, len(labels))

    def read(tokens: Int[Tensor, "rows places"]) -> Float[Tensor, "rows labels classes"]:
        return model(tokens, _whole(tokens))[:, None].expand(-1, shown, -1)

    ranked = _logits(model, read, ids)[0].argsort(descending=True).tolist()
    if label is not None:
        ranked = [labels.index(label), *(one for one in ranked if labels[one] != label)]
    assert isinstance(model.head, SequenceHead)
    place = {"first": 0, "last": len(ids) - 1, "mean": None}[model.head.pooling]
    found = _Found(
        task="label",
        text=text,
        ids=ids,
        read=read,
        wanted=ranked[:shown],
        steps=1,
        places=(place,),
        names=lambda classes: [labels[one] for one in classes],
        words=_words(side, ids),
    )
    return _study(model, side, found)


def study_tags(
    model: ModelWithHead,
    side: LanguageTokenizer,
    labels: Sequence[str],
    words: Sequence[str],
    *,
    ids: Ids,
    firsts: Sequence[int],
) -> Study:
    """Look at the labels of words, each read off the first of its tokens, whose places are `firsts`."""
    at = list(firsts)

    def read(tokens: Int[Tensor, "rows places"]) -> Float[Tensor, "rows words classes"]:
        return model(tokens, _whole(tokens))[:, at]

    best = _logits(model, read, ids).argmax(dim=-1).tolist()
    found = _Found(
        task="tags",
        text=" ".join(words),
        ids=ids,
        read=read,
        wanted=best,
        steps=len(best),
        places=tuple(at),
        names=lambda classes: [labels[one] for one in classes],
        words=Words(tuple(words), tuple(tuple(range(*ends)) for ends in zip(at, [*at[1:], len(ids) - 1], strict=True))),
        rows=tuple(f"{word}: {labels[one]}" for word, one in zip(words, best, strict=True)),
    )
    return _study(model, side, found)


def study_answer(
    model: ModelWithHead, side: LanguageTokenizer, text: str, *, ids: Ids, context: int, answer: tuple[int, int]
) -> Study:
    """Look at an answer by the places of its first and last token; the context begins at the place `context`."""

    def read(tokens: Int[Tensor, "rows places"]) -> Float[Tensor, "rows ends places"]:
        segments = (torch.arange(tokens.shape[1], device=tokens.device) >= context).long().expand_as(tokens)
        return torch.stack(tuple(model(tokens, _whole(tokens), segments)), dim=1)

    tokens = side.ids_to_tokens(ids)

    def names(places: Sequence[int]) -> list[str]:
        return [tokens[place] if place else "<nothing>" for place in places]

    found = _Found(
        task="answer",
        text=text,
        ids=ids,
        read=read,
        wanted=answer,
        steps=2,
        places=(None, None),
        names=names,
        words=_words(side, ids),
        rows=tuple(f"{which}: {name}" for which, name in zip(("first", "last"), names(answer), strict=True)),
    )
    return _study(model, side, found)


def _study(model: ModelWithHead, side: LanguageTokenizer, found: _Found) -> Study:
    asked = _asked(model, found)
    with torch.no_grad(), without_dropout(model):
        log_probs = asked.of_all_classes()[: found.steps].cpu()
        tokens = repeated(found.ids, 1, asked.wanted.device)
        own = tuple(found.wanted[: found.steps])
        passed = of_one_text(
            model, lambda: found.read(tokens), source=tuple(found.ids), target=own, log_probs=log_probs
        )
    source = tuple(side.ids_to_tokens(found.ids))
    steps = steps_of(log_probs, own, found.names)
    begun = Study(
        task=found.task,
        source_text=found.text,
        target_text=" ".join(step.token for step in steps),
        source=source,
        target=tuple(step.token for step in steps),
        read=source,
        places=found.places,
        passed=passed,
        steps=steps,
        source_words=found.words,
        attributions={"leave one out": _left_out(asked, found)},
    )
    return completed(begun, asked, columns=source, rows=_rows_of(found))


def _asked(model: ModelWithHead, found: _Found) -> Asked:
    device = next(model.parameters()).device

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows findings classes"]:
        return found.read(repeated(masked(found.ids, SpecialSymbols()) if unknown else found.ids, rows, device))

    backbone: Any = model.backbone.model if isinstance(model.backbone, DecoderOnlyBackbone) else model.backbone
    return Asked(model, (backbone.embedding,), torch.tensor(found.wanted, device=device), states, as_they_are)


def _rows_of(found: _Found) -> tuple[str, ...]:
    return tuple(found.names(found.wanted)) if found.rows is None else found.rows


@torch.no_grad()
def _left_out(asked: Asked, found: _Found) -> Contribution:
    """What each finding's log-probability loses when a word is made of unknown symbols."""
    without = [
        [SpecialSymbols().unk if place in set(places) else token for place, token in enumerate(found.ids)]
        for places in found.words.tokens
    ]
    rows = torch.tensor([list(found.ids), *without], device=asked.wanted.device)
    wanted = asked.wanted[None, :, None]
    with without_dropout(asked.network):
        log_probs = [found.read(some).float().log_softmax(dim=-1) for some in rows.split(ROWS)]
    own = torch.cat([part.gather(2, wanted.expand(len(part), -1, 1))[..., 0] for part in log_probs]).cpu()
    note = "What the log-probability loses when the tokens of a word are replaced by unknown symbols."
    return Contribution((own[0] - own[1:]).T.contiguous(), _rows_of(found), found.words.texts, note)


def _words(side: LanguageTokenizer, ids: Ids) -> Words:
    """Those of the text, without begin and end."""
    symbols = (SpecialSymbols().bos, SpecialSymbols().eos)
    inside = [place for place, token in enumerate(ids) if token not in symbols]
    words = words_of_ids(side, [ids[place] for place in inside])
    return Words(words.texts, tuple(tuple(inside[place] for place in places) for places in words.tokens))


@torch.no_grad()
def _logits(model: ModelWithHead, read: Read, ids: Ids) -> Float[Tensor, "findings classes"]:
    with without_dropout(model):
        return read(repeated(ids, 1, next(model.parameters()).device))[0]


def _whole(tokens: Int[Tensor, "rows places"]) -> Int[Tensor, " rows"]:
    """The lengths of rows without padding."""
    return torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
