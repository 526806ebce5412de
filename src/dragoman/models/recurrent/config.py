"""What may be chosen about a recurrent network."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.nn.recurrent.cells import CellName
from dragoman.nn.scores import AdditiveConfig, CosineConfig, DotConfig, ScaledDotConfig, ScoreConfig

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class NoAttentionConfig(Config):
    """None: all that the decoder gets of a source is the state in which the encoder ended, however long the source."""

    kind: Literal["none"] = "none"


AttentionConfig = Annotated[NoAttentionConfig | ScoreConfig, Field(discriminator="kind")]


class RecurrentDropoutConfig(Config):
    """How much is dropped in training, place by place."""

    embedding: Probability = Field(0.2, description="on the embedded words of both sides")
    layers: Probability = Field(0.0, description="between the layers of encoder and decoder")
    output: Probability = Field(0.2, description="on what the decoder unembeds, and with input feeding reads again")


class RecurrentConfig(Config):
    """A bidirectional recurrent encoder and a recurrent decoder, with attention or without."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field("lstm", description="long short-term memory, or the gated recurrent unit")
    d_model: PositiveInt = Field(512, description="width of the decoder's states")
    encoder_size: PositiveInt | None = Field(
        None, description="width of the encoder's states, half of it for each direction; none: as size"
    )
    embedding_size: PositiveInt | None = Field(None, description="width of the embedded words; none: as size")
    encoder_layers: PositiveInt = Field(1, description="layers of the encoder, each of which reads both ways")
    decoder_layers: PositiveInt = Field(1, description="layers of the decoder")
    attention: AttentionConfig = AdditiveConfig()
    """How the decoder looks at the encoder's states: the score that compares the two, or none."""

    input_feeding: bool | None = Field(
        None, description="let the decoder read its last attentional state beside each word; none: where it attends"
    )
    dropout: RecurrentDropoutConfig = RecurrentDropoutConfig()
    tie_embeddings: Literal["all", "target", "none"] = Field(
        "all", description="what shares the unembedding's weight: both embeddings, the target's, or none"
    )

    @property
    def resolved_encoder_size(self) -> int:
        """Both directions together."""
        return self.d_model if self.encoder_size is None else self.encoder_size

    @property
    def resolved_embedding_size(self) -> int:
        return self.d_model if self.embedding_size is None else self.embedding_size

    @property
    def use_input_feeding(self) -> bool:
        """Whether the decoder reads its last attentional state."""
        return self.attention.kind != "none" if self.input_feeding is None else self.input_feeding

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.resolved_encoder_size % 2:
            key = "d_model" if self.encoder_size is None else "encoder_size"
            raise ValueError(
                f"model.{key} = {self.resolved_encoder_size} cannot be halved between the encoder's two directions; "
                "choose an even number"
            )
        if self.tie_embeddings != "none" and self.resolved_embedding_size != self.d_model:
            raise ValueError(
                f"model.tie_embeddings = {self.tie_embeddings} needs words as wide as the decoder's states, but model.embedding_size = "
                f"{self.resolved_embedding_size} and model.d_model = {self.d_model}; leave embedding_size out, or choose "
                "model.tie_embeddings=none"
            )
        one_size = isinstance(self.attention, DotConfig | ScaledDotConfig | CosineConfig)
        if one_size and self.resolved_encoder_size != self.d_model:
            raise ValueError(
                f"model.attention.kind = {self.attention.kind} compares states of one size, but model.encoder_size = "
                f"{self.resolved_encoder_size} and model.d_model = {self.d_model}; leave encoder_size out, or choose "
                "multiplicative, reduced_rank or additive"
            )
        return self

    @model_validator(mode="after")
    def _every_choice_has_an_effect(self) -> Self:
        if self.input_feeding and self.attention.kind == "none":
            raise ValueError(
                "model.input_feeding = true has no effect without attention: the state that would be fed is in the "
                "cell already; leave it out, or choose a model.attention"
            )
        if self.dropout.layers and self.encoder_layers == self.decoder_layers == 1:
            raise ValueError(
                f"model.dropout.layers = {self.dropout.layers} has no effect between single layers; leave it out, or "
                "raise model.encoder_layers or model.decoder_layers"
            )
        return self
