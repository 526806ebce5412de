r"""Which tokens a prediction came from, asked of its gradient: an alternative to attention that any network answers.

For the log-probability $f$ of a step's own token and the embedded tokens $x_j$:

- gradient times input, $x_j \cdot \partial f / \partial x_j$ (Simonyan et al., 2014; Denil et al., 2014);
- integrated gradients, $(x_j - x'_j) \cdot \frac{1}{m} \sum_k \partial f / \partial x_j$ at $m$ points between $x'$ and
  $x$ (Sundararajan et al., 2017, eq. 3), which sum over all tokens to $f(x) - f(x')$ as $m$ grows. The baseline $x'$ is
  the same sequence of unknown symbols, at the same places and with the same begin and end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.inspection.passes import at_least_single, module_of, without_dropout
from dragoman.models.interfaces import Seq2Seq
from dragoman.models.symbols import Symbols

ROWS = 32
"""Steps of an output whose gradients are computed at a time."""


@dataclass(frozen=True)
class Attribution:
    """What each token contributed to the log-probability of each step, in nats."""

    source: Float[Tensor, "steps source"]
    """Of the source, its end symbol last."""
    target: Float[Tensor, "steps read"]
    """Of the target read so far, the begin symbol first; zero for what was not yet read."""


def gradient_times_input(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], *, symbols: Symbols
) -> Attribution:
    """For one source and one target, without begin and end symbols; the last step is that of the end symbol."""
    sides = _embedded(model, source, target, symbols)
    found = _gradients(model, source, target, sides, symbols)
    return Attribution(*(_contracted(side[None], gradient) for side, gradient in zip(sides, found, strict=True)))


def integrated_gradients(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], *, symbols: Symbols, points: int = 16
) -> Attribution:
    """Likewise, along `points` points of the straight line from the baseline, each in the middle of its stretch."""
    sides = _embedded(model, source, target, symbols)
    unknown = _embedded(model, [symbols.unknown] * len(source), [symbols.unknown] * len(target), symbols)
    sums = [torch.zeros(1), torch.zeros(1)]
    for point in range(points):
        way = (point + 0.5) / points
        between = (unknown[0].lerp(sides[0], way), unknown[1].lerp(sides[1], way))
        found = _gradients(model, source, target, between, symbols)
        sums = [total + gradient / points for total, gradient in zip(sums, found, strict=True)]
    moved = (side - base for side, base in zip(sides, unknown, strict=True))
    return Attribution(*(_contracted(step[None], total) for step, total in zip(moved, sums, strict=True)))


Sides = tuple[Float[Tensor, "source size"], Float[Tensor, "read other_size"]]
Gradients = tuple[Float[Tensor, "steps source size"], Float[Tensor, "steps read other_size"]]


def _embeddings(model: Seq2Seq[Any, Any]) -> tuple[nn.Module, nn.Module]:
    module: Any = module_of(model)
    return module.source_embedding, module.target_embedding


def _ids(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], symbols: Symbols
) -> tuple[Int[Tensor, "1 source"], Int[Tensor, "1 read"], Int[Tensor, "1 read"]]:
    """What the encoder reads, what the decoder reads, and what it is to predict."""
    device = next(module_of(model).parameters()).device
    rows = ([*source, symbols.end], [symbols.begin, *target], [*target, symbols.end])
    first, second, third = (torch.tensor([row], device=device) for row in rows)
    return first, second, third


@torch.no_grad()
def _embedded(model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], symbols: Symbols) -> Sides:
    """The embedded tokens of both sides."""
    with without_dropout(module_of(model)):
        first, second, _ = _ids(model, source, target, symbols)
        of_source, of_target = _embeddings(model)
        places = (torch.arange(ids.shape[1], device=ids.device)[None] for ids in (first, second))
        return of_source(first, next(places))[0], of_target(second, next(places))[0]


def _gradients(
    model: Seq2Seq[Any, Any], source: Sequence[int], target: Sequence[int], sides: Sides, symbols: Symbols
) -> Gradients:
    """Of each step's log-probability by both sides: as many rows as steps, each of which answers for one."""
    first, second, expected = _ids(model, source, target, symbols)
    steps = expected.shape[1]
    parts: list[tuple[Tensor, Tensor]] = []
    for begin in range(0, steps, ROWS):
        some = torch.arange(begin, min(begin + ROWS, steps), device=first.device)
        given = tuple(side.expand(len(some), -1, -1).clone().requires_grad_() for side in sides)
        lengths = torch.full((len(some),), first.shape[1], device=first.device)
        with torch.inference_mode(mode=False), torch.enable_grad(), without_dropout(module_of(model)):
            with _reading(model, *given):
                hidden = model.hidden(first.expand(len(some), -1), lengths, second.expand(len(some), -1))
            own = hidden[torch.arange(len(some)), some]
            log_probs = at_least_single(model.unembed(own)).log_softmax(dim=-1).gather(1, expected[0, some, None])
            of_source, of_target = torch.autograd.grad(log_probs.sum(), given)
        parts.append((of_source.cpu(), of_target.cpu()))
    of_source, of_target = (torch.cat(side) for side in zip(*parts, strict=True))
    return of_source, of_target


@contextmanager
def _reading(
    model: Seq2Seq[Any, Any], source: Float[Tensor, "steps source size"], target: Float[Tensor, "steps read other_size"]
) -> Iterator[None]:
    """Inside, the network reads these in place of what its embeddings give."""
    of_source, of_target = _embeddings(model)
    handles = [
        of_source.register_forward_hook(lambda *_: source),
        of_target.register_forward_hook(lambda *_: target),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _contracted(
    vectors: Float[Tensor, "1 tokens size"], gradients: Float[Tensor, "steps tokens size"]
) -> Float[Tensor, "steps tokens"]:
    return (vectors.cpu() * gradients).sum(dim=-1)
