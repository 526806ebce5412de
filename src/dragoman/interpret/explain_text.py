"""Explanation of one text and its output: attention, statistics, alignments, attributions and the beam search.

Explanations of translations and continuations; `explain_task_heads` has those of models with a task head.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.array_types import Float
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.errors import DataError
from dragoman.evaluation.alignment_error_rate import Links
from dragoman.interpret.attention_heads import (
    HeadStatistics,
    HeadValues,
    has_uniform_heads,
    head_ablation,
    head_statistics,
    is_punctuation,
    rollout,
)
from dragoman.interpret.attention_recorder import AttentionKind, BuildFeatures, ForwardPass, Ids, eval_mode, record
from dragoman.interpret.attribution import (
    POINTS,
    OutcomeQuery,
    completeness_error,
    gradient_times_input,
    integrated_gradients,
    query_continuation,
    query_translation,
)
from dragoman.interpret.beam_tree import SearchRecord
from dragoman.interpret.word_alignment import (
    Words,
    WordWeights,
    agreement_with,
    leave_one_out,
    link_both,
    link_targets,
    rank_alignment_heads,
    word_attention,
    words_of_ids,
)
from dragoman.models.protocols import DecoderOnly, EncoderDecoder
from dragoman.models.special_symbols import EOS

ExplainedTask = Literal["translation", "continuation", "label", "tags", "answer"]
MAX_INTEGRATED_TOKENS = 100_000
"""Most outcomes times tokens times points of integrated gradients: some seconds on one core."""
MIN_POINTS = 8
"""Integrated gradients with fewer points are left out."""
NUM_ALTERNATIVES = 10
"""Most probable classes listed for each step."""
NO_WORDS = Words((), ())


@dataclass(frozen=True)
class WordAlignment:
    """Links of words, and the weights they come from."""

    name: str
    description: str
    weights: WordWeights
    links: Links


@dataclass(frozen=True)
class Prediction:
    """Token or label predicted at one step, and the alternatives."""

    token: str
    log_prob: float
    rank: int
    """Number of more probable classes."""
    alternatives: tuple[tuple[str, float], ...]
    """Most probable classes with their probabilities, best first."""


@dataclass(frozen=True)
class Contributions:
    """Contribution of each column to the log-probability of each row's prediction, in nats."""

    values: Float[Tensor, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """Explanation of one text. Tokens are readable; the last token of a translation is the end symbol."""

    task: ExplainedTask
    source_text: str
    target_text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    inputs: tuple[str, ...]
    """Tokens at the positions of masked attention or SSRU."""
    step_positions: tuple[int | None, ...]
    """Position of self-attention that predicts each step; for translations the number of the step."""
    forward_pass: ForwardPass
    predictions: tuple[Prediction, ...]
    source_words: Words = NO_WORDS
    target_words: Words = NO_WORDS
    statistics: tuple[HeadStatistics, ...] = ()
    rollout: Float[Tensor, "layers source source"] | None = None
    alignments: tuple[WordAlignment, ...] = ()
    attributions: Mapping[str, Contributions] = field(default_factory=dict)
    head_effects: HeadValues = field(default_factory=dict)
    """Change of the log-probability without each head, in nats."""
    search: SearchRecord | None = None

    @property
    def log_prob(self) -> float:
        """Return the log-probability of all predictions."""
        return sum(prediction.log_prob for prediction in self.predictions)

    def axes(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the queries and keys of a kind of attention. Raises DataError if the model has none."""
        if kind not in self.forward_pass.weights:
            raise DataError(f"The model has no {kind} attention. It has: {', '.join(self.forward_pass.weights)}.")
        names = {"encoder": (self.source,) * 2, "cross": (self.target, self.source)}
        return names.get(kind, (self.inputs,) * 2)


def explain_translation(
    model: EncoderDecoder[Any, Any],
    tokenizer: Tokenizer,
    source: Ids,
    target: Ids,
    *,
    source_text: str | None = None,
    source_features: BuildFeatures | None = None,
    log_probs: Float[Tensor, "steps vocabulary"] | None = None,
    analyses: bool = True,
) -> Explanation:
    """Explain a translation; ids are without begin and end symbols.

    The alignment is read from the attention head that agrees best with leaving words out.
    `log_probs` of another backend replace those of the model. Without `analyses`, which take most of the time, there
    are no statistics, attributions and effects of heads. Raises DataError if the source is empty.
    """
    if not source:
        raise DataError("The text is empty. Give a text with at least one word.")
    query = query_translation(model, source, target, source_features=source_features)
    forward_pass = record_query(query, source=(*source, EOS), target=(*target, EOS), log_probs=log_probs)
    words = words_of_ids(tokenizer.source, source), words_of_ids(tokenizer.target, target)
    left_out = leave_one_out(
        model, source, target, source_words=words[0], target_words=words[1], source_features=source_features
    )
    names = tuple(tokenizer.target.ids_to_tokens(forward_pass.target))
    explanation = Explanation(
        task="translation",
        source_text=tokenizer.source.decode(source) if source_text is None else source_text,
        target_text=tokenizer.target.decode(target),
        source=tuple(tokenizer.source.ids_to_tokens(forward_pass.source)),
        target=names,
        inputs=("<bos>", *names[:-1]),
        step_positions=tuple(range(len(names))),
        forward_pass=forward_pass,
        predictions=list_predictions(forward_pass.log_probs, forward_pass.target, tokenizer.target.ids_to_tokens),
        source_words=words[0],
        target_words=words[1],
        alignments=tuple(_alignments(forward_pass, *words, left_out)),
    )
    if not analyses:
        return explanation
    return add_analyses(explanation, query, columns=(*explanation.source, *explanation.inputs), rows=names)


def explain_continuation(
    model: DecoderOnly[Any, Any],
    tokenizer: LanguageTokenizer,
    prompt: Ids,
    output: Ids,
    *,
    prompt_text: str | None = None,
    finished: bool = True,
) -> Explanation:
    """Explain the continuation of a prompt, which contains its begin symbol; the output is without end symbol.

    For an output that is not `finished`, the end symbol is not a prediction.
    """
    query = query_continuation(model, prompt, output, finished=finished)
    ((inputs,), expected) = query.inputs, tuple(query.classes.tolist())
    forward_pass = record_query(query, source=tuple(prompt), target=expected)
    names, target = tuple(tokenizer.ids_to_tokens(inputs)), tuple(tokenizer.ids_to_tokens(expected))
    explanation = Explanation(
        task="continuation",
        source_text=tokenizer.decode([*prompt]) if prompt_text is None else prompt_text,
        target_text=tokenizer.decode([*output]),
        source=names[: len(prompt)],
        target=target,
        inputs=names,
        step_positions=tuple(range(len(prompt) - 1, len(inputs))),
        forward_pass=forward_pass,
        predictions=list_predictions(forward_pass.log_probs, expected, tokenizer.ids_to_tokens),
    )
    return add_analyses(explanation, query, columns=names, rows=target)


@torch.no_grad()
def record_query(
    query: OutcomeQuery, *, source: tuple[int, ...], target: tuple[int, ...], log_probs: Tensor | None = None
) -> ForwardPass:
    """Record the forward pass of one text; the first outcomes of the query are the target.

    `log_probs` of another backend replace those of the model.
    """
    with eval_mode(query.model), record(query.model) as trace:
        own = query.class_log_probs(query.rows(1))[0, : len(target)].cpu()
    return ForwardPass(
        source=source,
        target=target,
        weights={kind: trace.weights(kind)[:, 0] for kind in trace.kinds},
        masks={kind: trace.mask(kind)[:, 0] for kind in trace.kinds},
        projected=trace.projected_kinds,
        log_probs=own if log_probs is None else log_probs,
    )


def add_analyses(
    explanation: Explanation, query: OutcomeQuery, *, columns: tuple[str, ...], rows: tuple[str, ...]
) -> Explanation:
    """Add what all tasks share: statistics, rollout, attributions and the effect of each head.

    The first outcomes of the query are the predictions; `rows` and `columns` name the outcomes and tokens of
    attributions.
    """
    forward_pass, num_steps = explanation.forward_pass, len(explanation.predictions)
    has_rollout = "encoder" in forward_pass.weights and "encoder" not in forward_pass.projected
    head_effects: HeadValues = {}
    if has_uniform_heads(query.model):
        with eval_mode(query.model), torch.no_grad():
            head_effects = head_ablation(
                query.model, lambda: float(query.log_probs(query.rows(1))[0, :num_steps].sum())
            )
    return replace(
        explanation,
        statistics=tuple(_statistics(explanation)),
        rollout=rollout(forward_pass.weights["encoder"]) if has_rollout else None,
        attributions={**explanation.attributions, **dict(_attributions(query, rows=rows, columns=columns))},
        head_effects=head_effects,
    )


def list_predictions(
    log_probs: Float[Tensor, "steps classes"], predicted: Sequence[int], names: Callable[[Sequence[int]], Sequence[str]]
) -> tuple[Prediction, ...]:
    """Return the predicted class of each step and its alternatives; `names` returns the names of classes."""
    best = log_probs.topk(min(NUM_ALTERNATIVES, log_probs.shape[1]), dim=1)
    own = log_probs.gather(1, torch.tensor(predicted)[:, None])
    ranks = (log_probs > own).sum(dim=1).tolist()
    rows = zip(own[:, 0].tolist(), ranks, best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return tuple(
        Prediction(token, log_prob, rank, tuple(zip(names(ids), probabilities, strict=True)))
        for token, (log_prob, rank, ids, probabilities) in zip(names(predicted), rows, strict=True)
    )


def _statistics(explanation: Explanation) -> Iterator[HeadStatistics]:
    for kind, weights in explanation.forward_pass.weights.items():
        if kind not in explanation.forward_pass.projected:
            keys = explanation.axes(kind)[1]
            eos = torch.tensor([token == "<eos>" for token in keys])  # noqa: S105  # a symbol, not a password
            yield from head_statistics(kind, weights, punctuation=is_punctuation(keys), eos=eos)


def _alignments(
    forward_pass: ForwardPass, source: Words, target: Words, left_out: WordWeights
) -> Iterator[WordAlignment]:
    """Yield the alignments by cross-attention, if there is any, and by leaving words out."""
    links = link_targets(left_out)
    if "cross" in forward_pass.weights:
        ((choice, _), *_) = rank_alignment_heads([(forward_pass, source, target)], agreement_with([links]))
        weights = word_attention(forward_pass, choice, source=source, target=target)
        head = "mean of heads" if choice.head is None else f"head {choice.head + 1}"
        shifted = ", of the step after the word" if choice.shifted else ""
        yield WordAlignment("attention", f"layer {choice.layer + 1}, {head}{shifted}", weights, link_both(weights))
    description = "decrease of the target word's log-probability without the source word, in nats"
    yield WordAlignment("leave one out", description, left_out, links)


def _attributions(
    query: OutcomeQuery, *, rows: tuple[str, ...], columns: tuple[str, ...]
) -> Iterator[tuple[str, Contributions]]:
    points = min(POINTS, MAX_INTEGRATED_TOKENS // (len(rows) * len(columns)))
    omitted = "Integrated gradients are left out, because they take minutes for texts of this length."
    note = "" if points >= MIN_POINTS else omitted
    yield "gradient × input", Contributions(gradient_times_input(query), rows, columns, note)
    if points >= MIN_POINTS:
        values = integrated_gradients(query, points=points)
        error = completeness_error(query, values)
        note = (
            f"Integrated over {points} points from unknown symbols to this text. Each row should sum to the difference "
            f"of the log-probabilities; the error is {error.mean():z.2f} nats on average and {error.max():z.2f} at "
            f"most."
        )
        yield "integrated gradients", Contributions(values, rows, columns, note)
