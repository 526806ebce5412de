"""Configuration of recurrent sequence-to-sequence models."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.models.config import MAX_LAYERS, Probability
from dragoman.nn.attention_score_functions import SAME_SIZE_SCORES, AdditiveConfig, ScoreConfig
from dragoman.nn.recurrent.cells import CellName
from dragoman.nn.recurrent.decoder import BridgeName


class NoAttentionConfig(Config):
    """No attention: the decoder gets the final encoder state only."""

    kind: Literal["none"] = "none"


AttentionConfig = Annotated[NoAttentionConfig | ScoreConfig, Field(discriminator="kind")]


class RecurrentDropoutConfig(Config):
    """Dropout probabilities during training."""

    embedding: Probability = Field(default=0.2, description="on the token embeddings of both sides")
    layers: Probability = Field(default=0.0, description="between the layers of encoder and decoder")
    output: Probability = Field(default=0.2, description="on the decoder output, which input feeding reads too")


class RecurrentConfig(Config):
    """A recurrent encoder, by default bidirectional, and a recurrent decoder, with attention or without."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field(default="lstm", description="LSTM or GRU")
    d_model: PositiveInt = Field(default=512, description="hidden size of the decoder")
    encoder_size: PositiveInt | None = Field(
        default=None, description="hidden size of the encoder, with two directions half for each; null: d_model"
    )
    embedding_size: PositiveInt | None = Field(default=None, description="size of the token embeddings; null: d_model")
    scale_embedding: bool = Field(default=True, description="multiply embeddings by the root of their size")
    encoder_layers: PositiveInt = Field(default=1, le=MAX_LAYERS, description="number of encoder layers")
    decoder_layers: PositiveInt = Field(default=1, le=MAX_LAYERS, description="number of decoder layers")
    bidirectional: bool = Field(default=True, description="let the encoder read each source in both directions")
    bridge: BridgeName = Field(
        default="linear",
        description="initial state of the decoder: a learned map of the final encoder state (linear), or the state "
        "itself (copy)",
    )
    attention: AttentionConfig = AdditiveConfig()
    """Score of the attention of the decoder to the encoder states, or none."""

    input_feeding: bool | None = Field(
        default=None, description="let the decoder read its previous attentional state; null: if it has attention"
    )
    dropout: RecurrentDropoutConfig = RecurrentDropoutConfig()
    tie_embeddings: Literal["all", "target", "none"] = Field(
        default="all", description="tie the output projection to both embeddings (all), to the target's, or to none"
    )

    @property
    def resolved_encoder_size(self) -> int:
        return self.d_model if self.encoder_size is None else self.encoder_size

    @property
    def resolved_embedding_size(self) -> int:
        return self.d_model if self.embedding_size is None else self.embedding_size

    @property
    def use_input_feeding(self) -> bool:
        return self.attention.kind != "none" if self.input_feeding is None else self.input_feeding

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.bridge == "copy" and self.resolved_encoder_size != self.d_model:
            raise ValueError(
                f"model.bridge = copy needs states of one size, but model.encoder_size = {self.resolved_encoder_size} "
                f"and model.d_model = {self.d_model}; leave encoder_size out, or choose model.bridge=linear"
            )
        if self.bidirectional and self.resolved_encoder_size % 2:
            key = "d_model" if self.encoder_size is None else "encoder_size"
            raise ValueError(
                f"model.{key} = {self.resolved_encoder_size} cannot be halved between the two directions of the "
                "encoder; choose an even number, or model.bidirectional=false"
            )
        if self.tie_embeddings != "none" and self.resolved_embedding_size != self.d_model:
            raise ValueError(
                f"model.tie_embeddings = {self.tie_embeddings} needs embeddings of the hidden size, but "
                f"model.embedding_size = {self.resolved_embedding_size} and model.d_model = {self.d_model}; leave "
                "embedding_size out, or choose model.tie_embeddings=none"
            )
        one_size = isinstance(self.attention, SAME_SIZE_SCORES)
        if one_size and self.resolved_encoder_size != self.d_model:
            raise ValueError(
                f"model.attention.kind = {self.attention.kind} compares states of one size, but model.encoder_size = "
                f"{self.resolved_encoder_size} and model.d_model = {self.d_model}; leave encoder_size out, or choose "
                "multiplicative, reduced_rank or additive"
            )
        return self

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        if self.input_feeding and self.attention.kind == "none":
            raise ValueError(
                "model.input_feeding = true has no effect without attention; leave it out, or choose a model.attention"
            )
        if self.dropout.layers and self.encoder_layers == self.decoder_layers == 1:
            raise ValueError(
                f"model.dropout.layers = {self.dropout.layers} has no effect between single layers; leave it out, or "
                "raise model.encoder_layers or model.decoder_layers"
            )
        return self
