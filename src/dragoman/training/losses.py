r"""Cross-entropy with label smoothing (Szegedy et al., 2016, section 7), summed over tokens.

For a word $y$ and smoothing $\epsilon$ over a vocabulary of $V$ words,
$L = -(1-\epsilon)\log p_y - \frac{\epsilon}{V} \sum_v \log p_v$.

`smoothed_cross_entropy` is the equation. `unembedding_loss` is the fast road for training: projection, loss and both
gradients in chunks of rows, so that the logits of a batch are never held at once. The two agree by law. A distribution
may be taught beside the word, which takes a share of the loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.nn.cpu_ops import LOGITS, core_for
from dragoman.training.precision import ALIKE, rounded
from dragoman.typing import Float, Int

CHUNK_BYTES = 8 * 2**20  # float32 logits of one chunk


@dataclass(frozen=True)
class Loss:
    """Sums over tokens: what is minimised, and the plain negative log-likelihood beside it."""

    objective: Float[Tensor, ""]
    negative_log_likelihood: Float[Tensor, ""]


@dataclass(frozen=True)
class Taught:
    r"""What tokens are to be like; of a share $\lambda$ the loss is $(1-\lambda) L + \lambda KL(q \| p)$."""

    share: float
    distribution: Callable[[slice], Float[Tensor, "tokens vocabulary"]]


def smoothed_cross_entropy(
    logits: Float[Tensor, "tokens vocabulary"], expected: Int[Tensor, " tokens"], *, smoothing: float
) -> Loss:
    """The equation above, holding all logits."""
    log_probs = logits.float().log_softmax(dim=-1)
    nll = -log_probs.gather(1, expected[:, None]).sum()
    uniform = -log_probs.mean(dim=-1).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())


def unembedding_loss(
    hidden: Float[Tensor, "tokens size"],
    weight: Float[Tensor, "vocabulary size"],
    bias: Float[Tensor, " vocabulary"] | None,
    expected: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    taught: Taught | None = None,
    products: torch.dtype = torch.float32,
) -> Loss:
    """The same from the hidden states: logits exist a chunk at a time, and gradients are made in the same pass.

    `products` is the number format of the three large products; softmax and sums are in float32 whatever it is.
    """
    objective, nll = _UnembeddingLoss.apply(hidden, weight, bias, expected, smoothing, taught, products)  # type: ignore[no-untyped-call]
    return Loss(objective, nll)


def rows_of_chunks(vocabulary: int, products: torch.dtype, *, passes: int = 1) -> int:
    """How many tokens have their logits at a time, where each is read in so many passes."""
    rows = max(1, CHUNK_BYTES // (4 * vocabulary * passes))
    return rows if products == torch.float32 or rows < ALIKE else rows - rows % ALIKE


class _UnembeddingLoss(torch.autograd.Function):
    r"""The gradient in the logits is $p - (1-\lambda)\,((1-\epsilon)\,e_y + \epsilon/V) - \lambda q$, with $q$ what is
    taught; the constant is folded in at the end."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        expected: Tensor,
        smoothing: float,
        taught: Taught | None,
        products: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:3])
        sums = _ChunkSums.start(hidden, weight, bias, smoothing=smoothing, taught=taught, gradients=wanted)
        small = hidden.to(products), weight.to(products), None if bias is None else bias.to(products)
        rows = rows_of_chunks(len(weight), products)
        for begin in range(0, hidden.shape[0], rows):
            sums.add(slice(begin, begin + rows), *small, expected)
        if wanted:
            sums.fold_in_uniform(hidden, weight)
            ctx.save_for_backward(sums.hidden_gradient, sums.weight_gradient, sums.bias_gradient)
        ctx.mark_non_differentiable(sums.nll)
        return sums.objective, sums.nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, None if bias is None else bias * scale, None, None, None, None


@dataclass
class _ChunkSums:
    """Losses and gradients gathered chunk by chunk; a word weighs `certainty`, and all together weigh `uniform`."""

    certainty: float
    uniform: float
    taught: Taught | None
    weight_sum: Tensor
    bias_sum: Tensor | float
    objective: Tensor
    nll: Tensor
    hidden_gradient: Tensor | None
    weight_gradient: Tensor | None
    bias_gradient: Tensor | None

    @classmethod
    def start(
        cls,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *,
        smoothing: float,
        taught: Taught | None,
        gradients: bool,
    ) -> "_ChunkSums":
        own = 1.0 if taught is None else 1 - taught.share
        return cls(
            certainty=own * (1 - smoothing),
            uniform=own * smoothing,
            taught=taught,
            weight_sum=weight.float().sum(dim=0),
            bias_sum=0.0 if bias is None else bias.float().sum(),
            objective=hidden.new_zeros((), dtype=torch.float32),
            nll=hidden.new_zeros((), dtype=torch.float32),
            hidden_gradient=torch.empty_like(hidden) if gradients else None,
            weight_gradient=torch.zeros_like(weight) if gradients else None,
            bias_gradient=torch.zeros_like(bias) if gradients and bias is not None else None,
        )

    def add(self, chunk: slice, hidden: Tensor, weight: Tensor, bias: Tensor | None, expected: Tensor) -> None:
        rows, words = hidden[chunk], expected[chunk, None]
        filled = rounded(rows, rows.dtype)
        logits = F.linear(filled, weight, bias)
        wanted = None if self.taught is None else self.taught.distribution(slice(chunk.start, chunk.start + len(rows)))
        core = core_for(self.weight_sum) if logits.dtype in LOGITS else None
        if core is not None:
            self._add_by_core(core, chunk, logits, weight, filled, expected[chunk], wanted)
            return
        logits = logits[: len(rows)].float()
        probs = logits.softmax(dim=-1)  # the one pass that computes exponentials
        likeliest = probs.amax(dim=-1, keepdim=True)  # at least 1/V, so its logarithm is exact enough
        log_normaliser = logits.amax(dim=-1, keepdim=True) - likeliest.log()
        chosen = logits.gather(1, words) - log_normaliser
        self.nll -= chosen.sum()
        # sum_v log p_v = sum_v z_v - V log Z: no further pass over the vocabulary.
        mean_log_prob = (rows.float() @ self.weight_sum + self.bias_sum) / weight.shape[0] - log_normaliser[:, 0]
        self.objective -= self.certainty * chosen.sum() + self.uniform * mean_log_prob.sum()
        if wanted is not None:
            self._add_divergence(wanted, torch.dot(wanted.flatten(), (logits - log_normaliser).flatten()))
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        gradient = probs
        gradient.scatter_add_(1, words, gradient.new_full(words.shape, -self.certainty))
        if wanted is not None:
            gradient.sub_(wanted, alpha=self.share)
        if self.bias_gradient is not None:
            self.bias_gradient += gradient.sum(dim=0)
        gradient = rounded(gradient, weight.dtype)
        self.hidden_gradient[chunk] = (gradient @ weight)[: len(rows)]
        self.weight_gradient += gradient.t() @ filled

    @property
    def share(self) -> float:
        """Of what is taught."""
        return 0.0 if self.taught is None else self.taught.share

    def _add_divergence(self, wanted: Tensor, mean_log_prob: Tensor | float) -> None:
        r"""$KL(q \| p)$ of a stretch, from the mean of $\log p$ under $q$, summed."""
        logarithms = wanted.clamp_min(torch.finfo(wanted.dtype).tiny).log_()  # 0 log 0 is 0
        self.objective += self.share * (torch.dot(wanted.flatten(), logarithms.flatten()) - mean_log_prob)

    def _add_by_core(
        self,
        core: Any,
        chunk: slice,
        logits: Tensor,
        weight: Tensor,
        filled: Tensor,
        expected: Tensor,
        wanted: Tensor | None,
    ) -> None:
        """The same in one pass over each row of logits, which becomes their gradient where it stands."""
        count = len(expected)
        nll, mean_log_prob, taught = core.losses(
            logits[:count], expected, self.certainty, wanted, self.share, self.bias_gradient
        )
        self.nll += nll
        self.objective += self.certainty * nll - self.uniform * mean_log_prob
        if wanted is not None:
            self._add_divergence(wanted, taught)
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        logits[count:] = 0
        self.hidden_gradient[chunk] = (logits @ weight)[:count]
        self.weight_gradient += logits.t() @ filled

    def fold_in_uniform(self, hidden: Tensor, weight: Tensor) -> None:
        share = self.uniform / weight.shape[0]
        assert self.hidden_gradient is not None
        assert self.weight_gradient is not None
        self.hidden_gradient -= share * self.weight_sum
        self.weight_gradient -= share * hidden.sum(dim=0)
        if self.bias_gradient is not None:
            self.bias_gradient -= share * hidden.shape[0]
