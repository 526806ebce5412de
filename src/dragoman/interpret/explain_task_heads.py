"""Explanations of models with a task head: a label, the tags of words, or the answer to a question."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.errors import DataError
from dragoman.interpret.attention_recorder import Ids, eval_mode
from dragoman.interpret.attribution import OutcomeQuery, query_task_head
from dragoman.interpret.explain_text import (
    Contributions,
    ExplainedTask,
    Explanation,
    add_analyses,
    list_predictions,
    record_query,
)
from dragoman.interpret.word_alignment import Words, decrease_without_words, words_of_ids
from dragoman.models.special_symbols import BOS, EOS
from dragoman.models.task_heads import ModelWithHead, SequenceHead

NUM_LABELS = 6
"""Most probable labels of a text that are attributed to words and tokens."""

LogitFunction = Callable[[Int[Tensor, "rows positions"]], Float[Tensor, "rows outcomes classes"]]
"""Function from rows of one length to the logits of each outcome."""


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
    query = query_task_head(model, ids, ranked[:num_labels], logits)
    return _explain(
        query,
        tokenizer,
        task="label",
        text=text,
        words=_words(tokenizer, ids),
        class_names=labels,
        rows=[labels[one] for one in ranked[:num_labels]],
        step_positions=({"first": 0, "last": len(ids) - 1, "mean": None}[model.head.pooling],),
    )


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
    return _explain(
        query_task_head(model, ids, best, logits),
        tokenizer,
        task="tags",
        text=" ".join(words),
        words=Words(tuple(words), tuple(tuple(range(*span)) for span in spans)),
        class_names=labels,
        rows=[f"{word}: {labels[one]}" for word, one in zip(words, best, strict=True)],
        step_positions=tuple(starts),
    )


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

    names = ["<no answer>", *tokenizer.ids_to_tokens(ids)[1:]]
    return _explain(
        query_task_head(model, ids, answer, logits),
        tokenizer,
        task="answer",
        text=text,
        words=_words(tokenizer, ids),
        class_names=names,
        rows=[f"{end}: {names[position]}" for end, position in zip(("first", "last"), answer, strict=True)],
        step_positions=(None, None),
    )


def _explain(
    query: OutcomeQuery,
    tokenizer: LanguageTokenizer,
    *,
    task: ExplainedTask,
    text: str,
    words: Words,
    class_names: Sequence[str],
    rows: Sequence[str],
    step_positions: tuple[int | None, ...],
) -> Explanation:
    """Explain the first outcomes of a query, one for each step position; `rows` are the names of all outcomes."""
    (ids,) = query.inputs
    predicted = tuple(query.classes[: len(step_positions)].tolist())
    forward_pass = record_query(query, source=tuple(ids), target=predicted)
    predictions = list_predictions(forward_pass.log_probs, predicted, lambda classes: [class_names[n] for n in classes])
    source, target = tuple(tokenizer.ids_to_tokens(ids)), tuple(one.token for one in predictions)
    explanation = Explanation(
        task=task,
        source_text=text,
        target_text=" ".join(target),
        source=source,
        target=target,
        inputs=source,
        step_positions=step_positions,
        forward_pass=forward_pass,
        predictions=predictions,
        source_words=words,
        attributions={"leave one out": _leave_words_out(query, words, tuple(rows))},
    )
    return add_analyses(explanation, query, columns=source, rows=tuple(rows))


@torch.no_grad()
def _leave_words_out(query: OutcomeQuery, words: Words, rows: tuple[str, ...]) -> Contributions:
    with eval_mode(query.model):
        decrease = decrease_without_words(query.rows(1)[0][0], words, lambda batch: query.log_probs([batch]))
    note = "Decrease of the log-probability when the tokens of a word are replaced by unknown symbols."
    return Contributions(decrease.T.contiguous(), rows, words.texts, note)


def _words(tokenizer: LanguageTokenizer, ids: Ids) -> Words:
    """Return the words of a text, with their positions among ids that include begin and end symbols."""
    inside = [position for position, token in enumerate(ids) if token not in (BOS, EOS)]
    words = words_of_ids(tokenizer, [ids[position] for position in inside])
    return Words(words.texts, tuple(tuple(inside[index] for index in indexes) for indexes in words.tokens))


@torch.no_grad()
def _predict(model: ModelWithHead, logits: LogitFunction, ids: Ids) -> Float[Tensor, "outcomes classes"]:
    with eval_mode(model):
        return logits(torch.tensor([list(ids)], device=next(model.parameters()).device))[0]


def _full_lengths(tokens: Int[Tensor, "rows positions"]) -> Int[Tensor, " rows"]:
    return torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
