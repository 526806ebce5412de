r"""Which tokens a prediction came from, asked of its gradient: an alternative to attention that any network answers.

For the log-probability $f$ of an outcome (a step's own token, a label) and the embedded tokens $x_j$:

- gradient times input, $x_j \cdot \partial f / \partial x_j$ (Simonyan et al., 2014; Denil et al., 2014);
- integrated gradients, $(x_j - x'_j) \cdot \frac{1}{m} \sum_k \partial f / \partial x_j$ at $m$ points between $x'$ and
  $x$ (Sundararajan et al., 2017, eq. 3), which sum over all tokens to $f(x) - f(x')$ as $m$ grows. The baseline $x'$ is
  the same sequence of unknown symbols, at the same places and with the same begin and end.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from dragoman.interpret.forward_pass import without_dropout
from dragoman.interpret.model_calls import Asked
from dragoman.typing import Float

ROWS = 32
"""Outcomes whose gradients are computed at a time."""
POINTS = 16
"""Of the way that gradients are integrated on, where nothing is said."""

Attribution = Float[Tensor, "outcomes tokens"]
"""What each token contributed to the log-probability of each outcome, in nats: a row an outcome, and in it the tokens
of all sequences that the network reads, one sequence behind the other. What was not yet read contributes zero."""
Vectors = list[Float[Tensor, "_ _ _"]]
"""Of each sequence by itself: rows, tokens and size, of which no two sequences need have the same."""


def gradient_times_input(asked: Asked) -> Attribution:
    """Of every outcome, at the tokens as they are."""
    vectors = _embedded(asked, unknown=False)
    return _contracted(vectors, _gradients(asked, vectors))


def integrated_gradients(asked: Asked, *, points: int = POINTS) -> Attribution:
    """Likewise, along `points` points of the straight line from the baseline, each in the middle of its stretch."""
    vectors, unknown = _embedded(asked, unknown=False), _embedded(asked, unknown=True)
    sums = [torch.zeros(1) for _ in vectors]
    for point in range(points):
        way = (point + 0.5) / points
        between = [base.lerp(side, way) for base, side in zip(unknown, vectors, strict=True)]
        sums = [total + one / points for total, one in zip(sums, _gradients(asked, between), strict=True)]
    return _contracted([side - base for side, base in zip(vectors, unknown, strict=True)], sums)


@torch.no_grad()
def left_unexplained(asked: Asked, found: Attribution) -> Float[Tensor, " outcomes"]:
    """How far the attributions of each outcome are from summing to $f(x) - f(x')$, in nats."""
    with without_dropout(asked.network):
        difference = asked.together() - asked.together(unknown=True)
    return (found.sum(dim=1) - difference.cpu()).abs()


@torch.no_grad()
def _embedded(asked: Asked, *, unknown: bool) -> Vectors:
    """The embedded tokens of every sequence, caught where the network makes them."""
    caught: dict[nn.Module, Tensor] = {}

    def catch(embedding: nn.Module, _: object, output: Tensor) -> None:
        caught[embedding] = output

    with ExitStack() as hooks, without_dropout(asked.network):
        for embedding in asked.embeddings:
            hooks.callback(embedding.register_forward_hook(catch).remove)
        asked.states(1, unknown)
    return [caught[embedding] for embedding in asked.embeddings]


def _gradients(asked: Asked, vectors: Vectors) -> Vectors:
    """Of each outcome's log-probability by every token: as many rows as outcomes, each of which answers for one."""
    parts: list[list[Tensor]] = []
    for some in torch.arange(len(asked.wanted), device=asked.wanted.device).split(ROWS):
        given = [one.expand(len(some), -1, -1).clone().requires_grad_() for one in vectors]
        with torch.inference_mode(mode=False), torch.enable_grad(), without_dropout(asked.network):
            with _reading(asked, given):
                log_probs = asked.one_each(some)
            parts.append([one.cpu() for one in torch.autograd.grad(log_probs.sum(), given)])
    return [torch.cat(sequence) for sequence in zip(*parts, strict=True)]


@contextmanager
def _reading(asked: Asked, vectors: Vectors) -> Iterator[None]:
    """Inside, the network reads these in place of what its embeddings give."""
    with ExitStack() as hooks:
        for embedding, given in zip(asked.embeddings, vectors, strict=True):
            hooks.callback(embedding.register_forward_hook(lambda *_, given=given: given).remove)
        yield


def _contracted(vectors: Vectors, gradients: Vectors) -> Attribution:
    sides = [(one.cpu() * gradient).sum(dim=-1) for one, gradient in zip(vectors, gradients, strict=True)]
    return torch.cat(sides, dim=1)
