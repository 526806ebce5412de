"""Explanations of models with a task head: a label, the tags of words, or the answer to a question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.errors import DataError
from dragoman.interpret.attention_recorder import Ids, eval_mode
from dragoman.interpret.attribution import OutcomeQuery, repeat_row, replace_by_unk
from dragoman.interpret.explain_text import (
    Contributions,
    ExplainedTask,
    Explanation,
    add_analyses,
    list_predictions,
    record_query,
)
from dragoman.interpret.word_alignment import Words, without_each_word, words_of_ids
from dragoman.models.special_symbols import BOS, EOS
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead, SequenceHead

NUM_LABELS = 6
"""Most probable labels of a text that are attributed to words and tokens."""
_BATCH_SIZE = 64
"""Texts with a word left out that the model reads at a time."""

LogitFunction = Callable[[Int[Tensor, "rows positions"]], Float[Tensor, "rows outcomes classes"]]
"""Function from rows of one length to the logits of each outcome."""


@dataclass(frozen=True)
class _Outcomes:
    """Predictions of a model for a text."""

    task: ExplainedTask
    text: str
    ids: Ids
    """With special symbols."""
    logits: LogitFunction
    classes: Sequence[int]
    """Class of each attributed outcome; predictions come first."""
    num_predictions: int
    step_positions: tuple[int | None, ...]
    class_names: Callable[[Sequence[int]], Sequence[str]]
    words: Words
    rows: tuple[str, ...] | None = None
    """Names of the outcomes, if those of the classes are ambiguous."""


def explain_label(
    model: ModelWithHead,
    tokenizer: LanguageTokenizer,
    labels: Sequence[str],
    text: str,
    *,
    ids: Ids,
    label: str | None = None,
) -> Explanation:
    """Explain the most probable label of a text, or a given one; `ids` include begin and end symbols.

    Raises DataError if the label is unknown.
    """
    if label is not None and label not in labels:
        raise DataError(f"{label!r} is not one of the {len(labels)} labels. Choose one of {', '.join(labels[:20])}.")
    num_labels = min(NUM_LABELS, len(labels))

    def logits(tokens: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows labels classes"]:
        return model(tokens, _full_lengths(tokens))[:, None].expand(-1, num_labels, -1)

    ranked = _predict(model, logits, ids)[0].argsort(descending=True).tolist()
    if label is not None:
        ranked = [labels.index(label), *(one for one in ranked if labels[one] != label)]
    assert isinstance(model.head, SequenceHead)
    position = {"first": 0, "last": len(ids) - 1, "mean": None}[model.head.pooling]
    outcomes = _Outcomes(
        task="label",
        text=text,
        ids=ids,
        logits=logits,
        classes=ranked[:num_labels],
        num_predictions=1,
        step_positions=(position,),
        class_names=lambda classes: [labels[one] for one in classes],
        words=_words(tokenizer, ids),
    )
    return _explain(model, tokenizer, outcomes)


def explain_tags(
    model: ModelWithHead,
    tokenizer: LanguageTokenizer,
    labels: Sequence[str],
    words: Sequence[str],
    *,
    ids: Ids,
    first_tokens: Sequence[int],
) -> Explanation:
    """Explain the tags of words, each predicted at its first token, whose positions are given."""
    starts = list(first_tokens)

    def logits(tokens: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows words classes"]:
        return model(tokens, _full_lengths(tokens))[:, starts]

    best = _predict(model, logits, ids).argmax(dim=-1).tolist()
    spans = zip(starts, [*starts[1:], len(ids) - 1], strict=True)
    outcomes = _Outcomes(
        task="tags",
        text=" ".join(words),
        ids=ids,
        logits=logits,
        classes=best,
        num_predictions=len(best),
        step_positions=tuple(starts),
        class_names=lambda classes: [labels[one] for one in classes],
        words=Words(tuple(words), tuple(tuple(range(*span)) for span in spans)),
        rows=tuple(f"{word}: {labels[one]}" for word, one in zip(words, best, strict=True)),
    )
    return _explain(model, tokenizer, outcomes)


def explain_answer(
    model: ModelWithHead,
    tokenizer: LanguageTokenizer,
    text: str,
    *,
    ids: Ids,
    context_start: int,
    answer: tuple[int, int],
) -> Explanation:
    """Explain an answer, given by the positions of its first and last token."""

    def logits(tokens: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows ends positions"]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        segments = (positions >= context_start).long().expand_as(tokens)
        return torch.stack(tuple(model(tokens, _full_lengths(tokens), segments)), dim=1)

    tokens = tokenizer.ids_to_tokens(ids)

    def class_names(positions: Sequence[int]) -> list[str]:
        return [tokens[position] if position else "<no answer>" for position in positions]

    outcomes = _Outcomes(
        task="answer",
        text=text,
        ids=ids,
        logits=logits,
        classes=answer,
        num_predictions=2,
        step_positions=(None, None),
        class_names=class_names,
        words=_words(tokenizer, ids),
        rows=tuple(f"{end}: {name}" for end, name in zip(("first", "last"), class_names(answer), strict=True)),
    )
    return _explain(model, tokenizer, outcomes)


def _explain(model: ModelWithHead, tokenizer: LanguageTokenizer, outcomes: _Outcomes) -> Explanation:
    query = _build_query(model, outcomes)
    rows = tuple(outcomes.class_names(outcomes.classes)) if outcomes.rows is None else outcomes.rows
    predicted, ids = tuple(outcomes.classes[: outcomes.num_predictions]), tuple(outcomes.ids)
    forward_pass = record_query(query, outcomes.logits, inputs=ids, source=ids, target=predicted)
    source = tuple(tokenizer.ids_to_tokens(outcomes.ids))
    predictions = list_predictions(forward_pass.log_probs, predicted, outcomes.class_names)
    explanation = Explanation(
        task=outcomes.task,
        source_text=outcomes.text,
        target_text=" ".join(prediction.token for prediction in predictions),
        source=source,
        target=tuple(prediction.token for prediction in predictions),
        inputs=source,
        step_positions=outcomes.step_positions,
        forward_pass=forward_pass,
        predictions=predictions,
        source_words=outcomes.words,
        attributions={"leave one out": _leave_words_out(query, outcomes, rows)},
    )
    return add_analyses(explanation, query, columns=source, rows=rows)


def _build_query(model: ModelWithHead, outcomes: _Outcomes) -> OutcomeQuery:
    device = next(model.parameters()).device

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows outcomes classes"]:
        return outcomes.logits(repeat_row(replace_by_unk(outcomes.ids) if unknown else outcomes.ids, rows, device))

    backbone: Any = model.backbone.model if isinstance(model.backbone, DecoderOnlyBackbone) else model.backbone
    classes = torch.tensor(outcomes.classes, device=device)
    return OutcomeQuery(model, (backbone.embedding,), classes, states, lambda logits: logits)


@torch.no_grad()
def _leave_words_out(query: OutcomeQuery, outcomes: _Outcomes, rows: tuple[str, ...]) -> Contributions:
    """Return the decrease of each outcome's log-probability without each word."""
    texts = torch.tensor(without_each_word(outcomes.ids, outcomes.words), device=query.classes.device)
    classes = query.classes[None, :, None]
    with eval_mode(query.model):
        log_probs = [outcomes.logits(batch).float().log_softmax(dim=-1) for batch in texts.split(_BATCH_SIZE)]
    own = torch.cat([part.gather(2, classes.expand(len(part), -1, 1))[..., 0] for part in log_probs]).cpu()
    note = "Decrease of the log-probability when the tokens of a word are replaced by unknown symbols."
    return Contributions((own[0] - own[1:]).T.contiguous(), rows, outcomes.words.texts, note)


def _words(tokenizer: LanguageTokenizer, ids: Ids) -> Words:
    """Return the words of a text, with their positions among ids that include begin and end symbols."""
    inside = [position for position, token in enumerate(ids) if token not in (BOS, EOS)]
    words = words_of_ids(tokenizer, [ids[position] for position in inside])
    return Words(words.texts, tuple(tuple(inside[index] for index in indexes) for indexes in words.tokens))


@torch.no_grad()
def _predict(model: ModelWithHead, logits: LogitFunction, ids: Ids) -> Float[Tensor, "outcomes classes"]:
    with eval_mode(model):
        return logits(repeat_row(ids, 1, next(model.parameters()).device))[0]


def _full_lengths(tokens: Int[Tensor, "rows positions"]) -> Int[Tensor, " rows"]:
    return torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
