"""What is learnt from single texts: the next token, or the words that were hidden."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.data.batching.packing import TextBatch
from dragoman.shapes import Lengths
from dragoman.training.losses import Loss, unembedding_loss
from dragoman.training.precision import PrecisionName, large_products
from dragoman.training.step import Objective, Projection
from dragoman.typing import Float, Int

Tokens = Int[Tensor, "batch places"]


@runtime_checkable
class CausalLearner(Protocol):
    """What a decoder-only network must offer to be trained."""

    unembedding: Projection

    def hidden(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch places size"]: ...


@runtime_checkable
class EncoderLearner(Protocol):
    """What an encoder-only network must offer to be trained on hidden words."""

    unembedding: Projection

    def hidden(self, tokens: Tokens, lengths: Lengths) -> Float[Tensor, "batch places size"]: ...

    def before_unembedding(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions size"]: ...


def next_token(smoothing: float = 0.0, *, precision: PrecisionName = "float32") -> Objective[CausalLearner, TextBatch]:
    r"""$-\sum_t \log p(x_{t+1} | x_{\le t})$ over the places that count (Radford et al., 2018).

    The network is told which document each token is part of only where a row holds several; else its causal mask does.
    """

    def objective(model: CausalLearner, batch: TextBatch) -> Loss:
        hidden = model.hidden(batch.tokens, batch.documents if batch.several else None)
        return _loss(hidden[batch.counted], model.unembedding, batch, smoothing=smoothing, precision=precision)

    return objective


def masked_tokens(
    smoothing: float = 0.0, *, precision: PrecisionName = "float32"
) -> Objective[EncoderLearner, TextBatch]:
    """Every place that was chosen predicts its word, whatever stands there now (Devlin et al., 2019, section 3.1)."""

    def objective(model: EncoderLearner, batch: TextBatch) -> Loss:
        hidden = model.hidden(batch.tokens, batch.lengths)
        ready = model.before_unembedding(hidden[batch.counted])
        return _loss(ready, model.unembedding, batch, smoothing=smoothing, precision=precision)

    return objective


def _loss(
    hidden: Float[Tensor, "tokens size"],
    projection: Projection,
    batch: TextBatch,
    *,
    smoothing: float,
    precision: PrecisionName,
) -> Loss:
    return unembedding_loss(
        hidden,
        projection.weight,
        projection.bias,
        batch.expected[batch.counted],
        smoothing=smoothing,
        products=large_products(precision, hidden.device),
    )
