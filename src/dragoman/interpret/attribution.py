r"""Attribution of predictions to tokens by gradients, for any model.

For the log-probability $f$ of an outcome (the token of a step, or a label) and the embedded tokens $x_j$:

- gradient times input, $x_j \cdot \partial f / \partial x_j$ (Simonyan et al., 2014; Denil et al., 2014);
- integrated gradients, $(x_j - x'_j) \cdot \frac{1}{m} \sum_k \partial f / \partial x_j$ at $m$ points between $x'$ and
  $x$ (Sundararajan et al., 2017, eq. 3), which sum over all tokens to $f(x) - f(x')$ as $m$ grows. The baseline $x'$ is
  the sequence of unknown symbols with the same begin and end symbols.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.interpret.attention_recorder import BuildFeatures, Ids, as_module, at_least_float32, eval_mode
from dragoman.models.protocols import DecoderOnly, EncoderDecoder, source_arguments
from dragoman.models.special_symbols import BOS, EOS, UNK

_BATCH_SIZE = 32
"""Outcomes whose gradients are computed at a time."""
POINTS = 16
"""Default number of points of integrated gradients."""

Attribution = Float[Tensor, "outcomes tokens"]
"""Contribution of each token to the log-probability of each outcome, in nats. The tokens of all input sequences are
concatenated; tokens that were not read yet contribute zero."""
Embedded = list[Float[Tensor, "_ _ _"]]
"""Embedded tokens of each input sequence: rows, tokens and size."""
_States = Callable[[int, bool], Float[Tensor, "rows outcomes features"]]
"""Function from a number of equal rows to the state of each outcome; True replaces the tokens by unknown symbols."""


@dataclass(frozen=True)
class OutcomeQuery:
    """Function from an input to the log-probabilities of outcomes.

    An outcome is a predicted class: the token of a step, the label of a text or word, or the first token of an answer.
    """

    model: nn.Module
    embeddings: Sequence[nn.Module]
    """One per input sequence, in the order of the attributed tokens."""
    classes: Int[Tensor, " outcomes"]
    """Class of each outcome."""
    states: _States
    logits: Callable[[Float[Tensor, "some features"]], Float[Tensor, "some classes"]]
    """Function from states to logits."""

    def row_log_probs(self, outcomes: Int[Tensor, " some"]) -> Float[Tensor, " some"]:
        """Return the log-probabilities of some outcomes by number, each computed in its own row."""
        states = self.states(len(outcomes), False)[torch.arange(len(outcomes), device=outcomes.device), outcomes]
        return self._log_softmax(states).gather(1, self.classes[outcomes, None])[:, 0]

    def log_probs(self, *, unknown: bool = False) -> Float[Tensor, " outcomes"]:
        """Return the log-probabilities of all outcomes, computed in one row."""
        return self.class_log_probs(unknown=unknown).gather(1, self.classes[:, None])[:, 0]

    def class_log_probs(self, *, unknown: bool = False) -> Float[Tensor, "outcomes classes"]:
        """Return the log-probabilities of all classes for each outcome."""
        return self._log_softmax(self.states(1, unknown)[0])

    def _log_softmax(self, states: Float[Tensor, "some features"]) -> Float[Tensor, "some classes"]:
        return at_least_float32(self.logits(states)).log_softmax(dim=-1)


def query_translation(
    model: EncoderDecoder[Any, Any], source: Ids, target: Ids, *, source_features: BuildFeatures | None = None
) -> OutcomeQuery:
    """Query the tokens of a translation and its end symbol; ids are without begin and end symbols.

    Attributed tokens are the source with the end symbol, then the begin symbol and the target.
    """
    module: Any = as_module(model)
    device = next(module.parameters()).device

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows steps size"]:
        first, second = (replace_by_unk(ids) if unknown else ids for ids in (source, target))
        encoded, decoded = repeat_row([*first, EOS], rows, device), repeat_row([BOS, *second], rows, device)
        lengths = torch.full((rows,), encoded.shape[1], device=device)
        features = None if source_features is None else source_features([source] * rows)
        return model.hidden(encoded, lengths, decoded, **source_arguments(model, features))

    classes = torch.tensor([*target, EOS], device=device)
    return OutcomeQuery(module, (module.source_embedding, module.target_embedding), classes, states, model.unembed)


def query_continuation(model: DecoderOnly[Any, Any], prompt: Ids, output: Ids, *, finished: bool) -> OutcomeQuery:
    """Query the tokens of a continuation, and its end symbol if it is finished. Attributed tokens are all inputs."""
    module: Any = as_module(model)
    device = next(module.parameters()).device
    expected = [*output, EOS] if finished else [*output]
    inputs = [*prompt, *expected[:-1]]

    def states(rows: int, unknown: bool) -> Float[Tensor, "rows steps size"]:
        return model.hidden(repeat_row(replace_by_unk(inputs) if unknown else inputs, rows, device))[
            :, len(prompt) - 1 :
        ]

    return OutcomeQuery(module, (module.embedding,), torch.tensor(expected, device=device), states, model.unembed)


def replace_by_unk(ids: Ids) -> list[int]:
    """Replace all tokens but begin and end symbols by unknown symbols."""
    return [token if token in (BOS, EOS) else UNK for token in ids]


def repeat_row(ids: Ids, rows: int, device: torch.device) -> Int[Tensor, "rows positions"]:
    return torch.tensor([list(ids)], device=device).expand(rows, -1)


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
        difference = query.log_probs() - query.log_probs(unknown=True)
    return (attribution.sum(dim=1) - difference.cpu()).abs()


@torch.no_grad()
def _embed(query: OutcomeQuery, *, unknown: bool) -> Embedded:
    """Return the embedded tokens of every sequence, as the model computes them."""
    outputs: dict[nn.Module, Tensor] = {}

    def store(embedding: nn.Module, _: object, output: Tensor) -> None:
        outputs[embedding] = output

    with ExitStack() as hooks, eval_mode(query.model):
        for embedding in query.embeddings:
            hooks.callback(embedding.register_forward_hook(store).remove)
        query.states(1, unknown)
    return [outputs[embedding] for embedding in query.embeddings]


def _gradients(query: OutcomeQuery, embedded: Embedded) -> Embedded:
    """Return the gradients of each outcome's log-probability, one outcome per row."""
    parts: list[list[Tensor]] = []
    for outcomes in torch.arange(len(query.classes), device=query.classes.device).split(_BATCH_SIZE):
        inputs = [one.expand(len(outcomes), -1, -1).clone().requires_grad_() for one in embedded]
        with torch.inference_mode(mode=False), torch.enable_grad(), eval_mode(query.model):
            with _replace_embeddings(query, inputs):
                log_probs = query.row_log_probs(outcomes)
            parts.append([one.cpu() for one in torch.autograd.grad(log_probs.sum(), inputs)])
    return [torch.cat(sequence) for sequence in zip(*parts, strict=True)]


@contextmanager
def _replace_embeddings(query: OutcomeQuery, embedded: Embedded) -> Iterator[None]:
    with ExitStack() as hooks:
        for embedding, given in zip(query.embeddings, embedded, strict=True):
            hooks.callback(embedding.register_forward_hook(lambda *_, given=given: given).remove)
        yield


def _contract(embedded: Embedded, gradients: Embedded) -> Attribution:
    return torch.cat([(one.cpu() * grad).sum(dim=-1) for one, grad in zip(embedded, gradients, strict=True)], dim=1)
