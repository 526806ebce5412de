"""What may be chosen about a Transformer."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.nn.blocks import NormPosition
from dragoman.nn.feedforward import ActivationName
from dragoman.nn.norms import NormName

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class SinusoidalConfig(Config):
    """Sines and cosines of the position, without parameters and without end."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(Config):
    """A learnt vector for each place, up to a length."""

    kind: Literal["learned"] = "learned"
    length: PositiveInt = Field(1024, description="number of places; longer sequences are refused")


PositionsConfig = Annotated[SinusoidalConfig | LearnedConfig, Field(discriminator="kind")]


class DropoutConfig(Config):
    """How much is dropped in training, place by place."""

    embedding: Probability = Field(0.1, description="on the sum of token and position")
    residual: Probability = Field(0.1, description="on the output of each sublayer, before it is added")
    attention: Probability = Field(0.0, description="on the attention weights; above 0 the fused kernels are left")
    feed_forward: Probability = Field(0.0, description="inside the feed-forward network, after the activation")


class TransformerConfig(Config):
    """An encoder-decoder Transformer."""

    kind: Literal["transformer"] = "transformer"
    size: PositiveInt = Field(512, description="width of the residual stream")
    encoder_layers: PositiveInt = Field(6, description="number of encoder blocks")
    decoder_layers: PositiveInt = Field(6, description="number of decoder blocks")
    heads: PositiveInt = Field(8, description="attention heads; divides size")
    key_value_heads: PositiveInt | None = Field(
        None, description="heads of keys and values, each shared by a group of query heads; none: as many as heads"
    )
    feed_forward: PositiveInt = Field(2048, description="hidden width of the feed-forward network")
    activation: ActivationName = Field("relu", description="of the feed-forward network")
    gated: bool = Field(False, description="gate the feed-forward network (GeGLU with gelu, SwiGLU with silu)")
    norm: NormName = Field("layer", description="LayerNorm or RMSNorm")
    norm_position: NormPosition = Field("pre", description="norm before each sublayer, or after it as in the paper")
    bias: bool = Field(True, description="biases in the linear maps")
    positions: PositionsConfig = SinusoidalConfig()
    dropout: DropoutConfig = DropoutConfig()
    tie: Literal["all", "target", "none"] = Field(
        "all", description="what shares the unembedding's weight: both embeddings, the target's, or none"
    )

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.size % self.heads:
            raise ValueError(
                f"model.heads = {self.heads} does not divide model.size = {self.size}; "
                f"choose one of {_divisors(self.size)}"
            )
        if self.key_value_heads is not None and self.heads % self.key_value_heads:
            raise ValueError(
                f"model.key_value_heads = {self.key_value_heads} does not divide model.heads = {self.heads}; "
                f"choose one of {_divisors(self.heads)}"
            )
        return self


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
