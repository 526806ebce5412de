r"""Attribution of predictions to tokens by gradients, for any model.

For the log-probability $f$ of an outcome (the token of a step, or a label) and the embedded tokens $x_j$:

- gradient times input, $x_j \cdot \partial f / \partial x_j$ (Simonyan et al., 2014; Denil et al., 2014);
- integrated gradients, $(x_j - x'_j) \cdot \frac{1}{m} \sum_k \partial f / \partial x_j$ at $m$ points between $x'$ and
  $x$ (Sundararajan et al., 2017, eq. 3), which sum over all tokens to $f(x) - f(x')$ as $m$ grows. The baseline $x'$ is
  the sequence of unknown symbols with the same begin and end symbols.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.interpret.attention_recorder import BuildFeatures, Ids, as_module, at_least_float32, eval_mode
from dragoman.models.protocols import DecoderOnly, EncoderDecoder, source_arguments
from dragoman.models.special_symbols import BOS, EOS, UNK
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead

_BATCH_SIZE = 32
"""Outcomes whose gradients are computed at a time."""
POINTS = 16
"""Default number of points of integrated gradients."""

Attribution = Float[Tensor, "outcomes tokens"]
"""Contribution of each token to the log-probability of each outcome, in nats. The tokens of all input sequences are
concatenated; tokens that were not read yet contribute zero."""
Embedded = list[Float[Tensor, "_ _ _"]]
"""Embedded tokens of each input sequence: rows, tokens and size."""
Batches = Sequence[Int[Tensor, "rows _"]]
"""Rows of ids of each input sequence."""


@dataclass(frozen=True)
class OutcomeQuery:
    """Function from an input to the log-probabilities of outcomes.

    An outcome is a predicted class: the token of a step, the label of a text or word, or the first token of an answer.
    """

    model: nn.Module
    embeddings: Sequence[nn.Module]
    """One per input sequence, in the order of the attributed tokens."""
    inputs: Sequence[Ids]
    """Ids of each input sequence, with special symbols."""
    classes: Int[Tensor, " outcomes"]
    """Class of each outcome."""
    states: Callable[..., Float[Tensor, "rows outcomes features"]]
    """Function from a batch of each input sequence to the state of each outcome."""
    logits: Callable[[Float[Tensor, "*some features"]], Float[Tensor, "*some classes"]]
    """Function from states to logits."""

    def rows(self, count: int, *, unknown: bool = False) -> Batches:
        """Return equal rows of every input sequence; `unknown` replaces all but begin and end by unknown symbols."""
        replaced = [[one if not unknown or one in (BOS, EOS) else UNK for one in ids] for ids in self.inputs]
        return [torch.tensor([ids], device=self.classes.device).expand(count, -1) for ids in replaced]

    def class_log_probs(self, inputs: Batches) -> Float[Tensor, "rows outcomes classes"]:
        """Return the log-probabilities of all classes for each outcome."""
        return self._log_softmax(self.states(*inputs))

    def log_probs(self, inputs: Batches) -> Float[Tensor, "rows outcomes"]:
        """Return the log-probabilities of all outcomes."""
        found = self.class_log_probs(inputs)
        return found.gather(2, self.classes.expand(len(found), -1)[..., None])[..., 0]

    def row_log_probs(self, outcomes: Int[Tensor, " some"]) -> Float[Tensor, " some"]:
        """Return the log-probabilities of some outcomes by number, each computed in its own row."""
        states = self.states(*self.rows(len(outcomes)))[torch.arange(len(outcomes), device=outcomes.device), outcomes]
        return self._log_softmax(states).gather(1, self.classes[outcomes, None])[:, 0]

    def _log_softmax(self, states: Float[Tensor, "*some features"]) -> Float[Tensor, "*some classes"]:
        return at_least_float32(self.logits(states)).log_softmax(dim=-1)


def query_translation(
    model: EncoderDecoder[Any, Any], source: Ids, target: Ids, *, source_features: BuildFeatures | None = None
) -> OutcomeQuery:
    """Query the tokens of a translation and its end symbol; ids are without begin and end symbols.

    Attributed tokens are the source with the end symbol, then the begin symbol and the target.
    """
    module: Any = as_module(model)

    def states(encoded: Tensor, decoded: Tensor) -> Float[Tensor, "rows steps size"]:
        rows, length = encoded.shape
        features = None if source_features is None else source_features([source] * rows)
        lengths = torch.full((rows,), length, device=encoded.device)
        return model.hidden(encoded, lengths, decoded, **source_arguments(model, features))

    embeddings, inputs = (module.source_embedding, module.target_embedding), ((*source, EOS), (BOS, *target))
    return OutcomeQuery(module, embeddings, inputs, _on_device(module, [*target, EOS]), states, model.unembed)


def query_continuation(model: DecoderOnly[Any, Any], prompt: Ids, output: Ids, *, finished: bool) -> OutcomeQuery:
    """Query the tokens of a continuation, and its end symbol if it is finished. Attributed tokens are all inputs."""
    module: Any = as_module(model)
    expected = [*output, EOS] if finished else [*output]

    def states(tokens: Tensor) -> Float[Tensor, "rows steps size"]:
        return model.hidden(tokens)[:, len(prompt) - 1 :]

    inputs, classes = (*prompt, *expected[:-1]), _on_device(module, expected)
    return OutcomeQuery(module, (module.embedding,), (inputs,), classes, states, model.unembed)


def query_task_head(
    model: ModelWithHead,
    ids: Ids,
    classes: Sequence[int],
    logits: Callable[..., Float[Tensor, "rows outcomes classes"]],
) -> OutcomeQuery:
    """Query classes of a model with a task head; `logits` is a function from rows of ids to the logits of outcomes."""
    backbone: Any = model.backbone.model if isinstance(model.backbone, DecoderOnlyBackbone) else model.backbone
    return OutcomeQuery(model, (backbone.embedding,), (ids,), _on_device(model, classes), logits, lambda states: states)


def _on_device(module: nn.Module, classes: Sequence[int]) -> Int[Tensor, " outcomes"]:
    return torch.tensor(classes, device=next(module.parameters()).device)


def gradient_times_input(query: OutcomeQuery) -> Attribution:
    embedded = _embed(query, unknown=False)
    return _contract(embedded, _gradients(query, embedded))


def integrated_gradients(query: OutcomeQuery, *, points: int = POINTS) -> Attribution:
    """Integrate over `points` points of the line from the baseline, each in the middle of its interval."""
    embedded, baseline = _embed(query, unknown=False), _embed(query, unknown=True)
    sums = [torch.zeros(1) for _ in embedded]
    for point in range(points):
        fraction = (point + 0.5) / points
        between = [start.lerp(end, fraction) for start, end in zip(baseline, embedded, strict=True)]
        sums = [total + one / points for total, one in zip(sums, _gradients(query, between), strict=True)]
    return _contract([end - start for end, start in zip(embedded, baseline, strict=True)], sums)


@torch.no_grad()
def completeness_error(query: OutcomeQuery, attribution: Attribution) -> Float[Tensor, " outcomes"]:
    """Return the difference between the sum of the attributions of each outcome and $f(x) - f(x')$, in nats."""
    with eval_mode(query.model):
        difference = query.log_probs(query.rows(1)) - query.log_probs(query.rows(1, unknown=True))
    return (attribution.sum(dim=1) - difference[0].cpu()).abs()


@torch.no_grad()
def _embed(query: OutcomeQuery, *, unknown: bool) -> Embedded:
    """Return the embedded tokens of every sequence, as the model computes them."""
    outputs: dict[nn.Module, Tensor] = {}

    def store(embedding: nn.Module, _: object, output: Tensor) -> None:
        outputs[embedding] = output

    with ExitStack() as hooks, eval_mode(query.model):
        for embedding in query.embeddings:
            hooks.enter_context(embedding.register_forward_hook(store))
        query.states(*query.rows(1, unknown=unknown))
    return [outputs[embedding] for embedding in query.embeddings]


def _gradients(query: OutcomeQuery, embedded: Embedded) -> Embedded:
    """Return the gradients of each outcome's log-probability, one outcome per row."""
    parts: list[list[Tensor]] = []
    for outcomes in torch.arange(len(query.classes), device=query.classes.device).split(_BATCH_SIZE):
        inputs = [one.expand(len(outcomes), -1, -1).clone().requires_grad_() for one in embedded]
        with ExitStack() as hooks, torch.inference_mode(mode=False), torch.enable_grad(), eval_mode(query.model):
            for embedding, given in zip(query.embeddings, inputs, strict=True):
                hooks.enter_context(embedding.register_forward_hook(lambda *_, given=given: given))
            gradients = torch.autograd.grad(query.row_log_probs(outcomes).sum(), inputs)
        parts.append([one.cpu() for one in gradients])
    return [torch.cat(sequence) for sequence in zip(*parts, strict=True)]


def _contract(embedded: Embedded, gradients: Embedded) -> Attribution:
    return torch.cat([(one.cpu() * grad).sum(dim=-1) for one, grad in zip(embedded, gradients, strict=True)], dim=1)
