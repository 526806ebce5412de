"""Configuration of Transformers: encoder-decoder, decoder-only and encoder-only."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.models.attention_validation import check_kept_heads, check_self_attention
from dragoman.nn.attention import FullConfig
from dragoman.nn.attention_score_functions import ScaledDotConfig, ScoreConfig
from dragoman.nn.blocks import NormPosition
from dragoman.nn.feed_forward import ActivationName
from dragoman.nn.norms import NormName
from dragoman.nn.positions.rotary import RotaryScaling
from dragoman.nn.positions.sinusoidal import SinusoidOrder
from dragoman.nn.sparse.factory import PatternConfig

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
DecoderLayer = Literal["self_attention", "ssru"]
StartEmbedding = Literal["learned", "zero"]
CombineMode = Literal["add", "concatenate"]
KeptHeads = tuple[tuple[int, ...], ...]
"""Indices of the remaining heads, one list per layer."""
TREE_MAX_DISTANCE = 16
MAX_LAYERS = 256
"""Maximum number of blocks of a stack: building one takes milliseconds, whatever its size."""


class SinusoidalConfig(Config):
    """Sinusoidal position encodings, without parameters and without a length limit."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    order: SinusoidOrder = Field(
        default="interleaved", description="sines and cosines by turns (the paper), or all sines, then all cosines"
    )
    inclusive: bool = Field(
        default=False, description="rates 10000^(-i/(T-1)) as in Marian and fairseq, instead of 10000^(-i/T)"
    )
    offset: NonNegativeInt = Field(default=0, description="number of the first position (2 in M2M100)")
    join: CombineMode = Field(default="add", description="add to the embedding, or concatenate with it and project")


class LearnedConfig(Config):
    """Learned position embeddings up to a maximum length."""

    kind: Literal["learned"] = "learned"
    max_length: PositiveInt = Field(default=1024, description="number of positions; longer sequences are refused")
    offset: NonNegativeInt = Field(
        default=0, description="rows of the table before that of the first position (2 in BART and RoBERTa)"
    )
    join: CombineMode = Field(default="add", description="add to the embedding, or concatenate with it and project")


class ShawConfig(Config):
    """Relative position embeddings in self-attention (Shaw et al., 2018)."""

    kind: Literal["shaw"] = "shaw"
    max_distance: PositiveInt = Field(default=16, description="distances are clipped to [-max_distance, max_distance]")
    values: bool = Field(default=True, description="embed distances for the values too (disables the fused kernels)")


class T5BiasConfig(Config):
    """Learned bias per head and bucket of distances (T5; Raffel et al., 2020)."""

    kind: Literal["t5_bias"] = "t5_bias"
    num_buckets: int = Field(default=32, ge=4, multiple_of=4, description="number of buckets")
    max_distance: PositiveInt = Field(default=128, description="larger distances share the last bucket")

    @model_validator(mode="after")
    def _check_max_distance(self) -> Self:
        if self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"model.positions.max_distance = {self.max_distance} leaves no distances for the logarithmic buckets; "
                f"choose more than half of the {self.num_buckets} buckets"
            )
        return self


class RotaryConfig(Config):
    """Rotary position embeddings (RoPE; Su et al., 2021)."""

    kind: Literal["rotary"] = "rotary"
    base: PositiveFloat = Field(default=10000.0, description="base of the rotation frequencies")
    scaling: RotaryScaling | None = Field(default=None, description="extension to longer contexts; null: none")


class AlibiConfig(Config):
    """Attention with linear biases (ALiBi; Press et al., 2022)."""

    kind: Literal["alibi"] = "alibi"


class TreeConfig(Config):
    """Structural positions from the dependency tree of each source (Wang et al., 2019), in the encoder.

    The decoder uses sinusoidal positions.
    """

    kind: Literal["tree"] = "tree"
    absolute: bool = Field(default=True, description="combine sinusoidal encodings of position and tree depth")
    relative: bool = Field(default=True, description="embed the tree relation of each pair of words")
    max_distance: PositiveInt = Field(
        default=TREE_MAX_DISTANCE, description="relations are clipped to [-max_distance, max_distance]"
    )

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if not self.absolute and not self.relative:
            raise ValueError(
                "model.positions.absolute = false and model.positions.relative = false leave no tree positions; set "
                "one of them to true, or choose sinusoidal positions"
            )
        if not self.relative and self.max_distance != TREE_MAX_DISTANCE:
            raise ValueError(
                f"model.positions.max_distance = {self.max_distance} has no effect with model.positions.relative = "
                "false; leave one of them out"
            )
        return self


class NoPositionsConfig(Config):
    """No position encoding."""

    kind: Literal["none"] = "none"


PositionsConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | ShawConfig
    | T5BiasConfig
    | RotaryConfig
    | AlibiConfig
    | TreeConfig
    | NoPositionsConfig,
    Field(discriminator="kind"),
]


class DropoutConfig(Config):
    """Dropout probabilities during training."""

    embedding: Probability = Field(default=0.1, description="on the sum of token and position embeddings")
    residual: Probability = Field(default=0.1, description="on the output of each sublayer, before it is added")
    attention: Probability = Field(
        default=0.0, description="on the attention weights (above 0, disables the fused kernels)"
    )
    feed_forward: Probability = Field(default=0.0, description="after the activation of the feed-forward network")


class SelfAttentionConfig(Config):
    """Self-attention."""

    score: ScoreConfig = ScaledDotConfig()
    """Score of a query and a key."""

    pattern: PatternConfig = FullConfig()
    """Keys that a query may attend to."""

    kept_heads: KeptHeads | None = Field(
        default=None, description="heads kept by pruning in each layer, from 0; null: all heads"
    )


class CrossAttentionConfig(Config):
    """Attention of the decoder to the encoder output."""

    score: ScoreConfig = ScaledDotConfig()
    """Score of a query and a key."""

    kept_heads: KeptHeads | None = Field(
        default=None, description="heads kept by pruning in each layer, from 0; null: all heads"
    )


class EncoderDecoderAttentionConfig(Config):
    """Attentions of an encoder-decoder Transformer."""

    encoder: SelfAttentionConfig = SelfAttentionConfig()
    """Self-attention of the encoder."""

    decoder: SelfAttentionConfig = SelfAttentionConfig()
    """Masked self-attention of the decoder."""

    cross: CrossAttentionConfig = CrossAttentionConfig()
    """Attention of the decoder to the encoder output."""


class AttentionRole(NamedTuple):
    """One attention of a model: its key below `model`, its configuration and the number of its layers."""

    key: str
    config: SelfAttentionConfig | CrossAttentionConfig
    causal: bool
    layers: int


class TransformerConfig(Config):
    """Options of every Transformer."""

    supports_tree_positions: ClassVar[bool] = False
    """True if the encoder may have tree positions."""

    d_model: PositiveInt = Field(default=512, description="hidden size of the model")
    num_heads: PositiveInt = Field(default=8, description="attention heads; divides d_model unless head_size is set")
    num_kv_heads: PositiveInt | None = Field(
        default=None, description="key-value heads, each shared by a group of query heads; null: num_heads"
    )
    head_size: PositiveInt | None = Field(
        default=None, description="features of an attention head; null: d_model / num_heads"
    )
    d_ff: PositiveInt = Field(default=2048, description="hidden size of the feed-forward network")
    activation: ActivationName = Field(default="relu", description="of the feed-forward network")
    gated: bool = Field(default=False, description="gate the feed-forward network (GeGLU with gelu, SwiGLU with silu)")
    norm: NormName = Field(default="layer", description="LayerNorm or RMSNorm")
    norm_epsilon: PositiveFloat | None = Field(
        default=None, description="added to the variance in norms; null: 1e-5 in LayerNorm, 1e-6 in RMSNorm"
    )
    norm_position: NormPosition = Field(
        default="pre", description="norm before each sublayer (pre), or after the residual connection (post)"
    )
    bias: bool = Field(default=True, description="biases in the linear layers")
    qkv_bias: bool | None = Field(default=None, description="biases of queries, keys and values; null: as bias")
    output_bias: bool | None = Field(default=None, description="bias of the output projection; null: as bias")
    positions: PositionsConfig = SinusoidalConfig()
    scale_embedding: bool = Field(default=True, description="multiply embeddings by sqrt(d_model)")
    norm_embedding: bool = Field(
        default=False, description="norm after adding tokens and positions, as in BERT and BART"
    )
    dropout: DropoutConfig = DropoutConfig()

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.head_size is None and self.d_model % self.num_heads:
            raise ValueError(
                f"model.num_heads = {self.num_heads} does not divide model.d_model = {self.d_model}; "
                f"choose one of {_divisors(self.d_model)}, or set model.head_size"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"model.num_kv_heads = {self.num_kv_heads} does not divide model.num_heads = {self.num_heads}; "
                f"choose one of {_divisors(self.num_heads)}"
            )
        if self.positions.kind == "rotary" and self.features_per_head % 2:
            raise ValueError(
                f"model.positions.kind = rotary rotates pairs of features, but a head has {self.features_per_head}; "
                "choose model.d_model and model.num_heads, or model.head_size, so that this number is even"
            )
        return self

    @model_validator(mode="after")
    def _check_attentions(self) -> Self:
        if self.positions.kind == "tree" and not self.supports_tree_positions:
            raise ValueError(
                "model.positions.kind = tree requires the encoder of an encoder-decoder Transformer, whose sources "
                "have dependency trees; choose other positions"
            )
        for role in self.attentions():
            if isinstance(role.config, SelfAttentionConfig):
                check_self_attention(
                    role.key,
                    score=role.config.score.kind,
                    pattern=role.config.pattern.kind,
                    positions=self.positions.kind,
                    causal=role.causal,
                    has_relations=isinstance(self.positions, TreeConfig)
                    and self.positions.relative
                    and not role.causal,
                )
            if role.config.kept_heads is not None:
                sizes = {"layers": role.layers, "heads": self.num_heads, "group": self.heads_per_group}
                check_kept_heads(role.key, role.config.kept_heads, **sizes)
        return self

    @property
    def features_per_head(self) -> int:
        """Number of features of an attention head."""
        return self.d_model // self.num_heads if self.head_size is None else self.head_size

    @property
    def heads_per_group(self) -> int:
        """Number of query heads that share one key-value head."""
        return self.num_heads // (self.num_kv_heads or self.num_heads)

    def attentions(self) -> Iterator[AttentionRole]:
        """Yield the attentions of the model."""
        raise NotImplementedError


class EncoderDecoderConfig(TransformerConfig):
    """An encoder-decoder Transformer."""

    supports_tree_positions: ClassVar[bool] = True
    kind: Literal["encoder_decoder"] = "encoder_decoder"
    encoder_layers: PositiveInt = Field(default=6, le=MAX_LAYERS, description="number of encoder blocks")
    decoder_layers: PositiveInt = Field(default=6, le=MAX_LAYERS, description="number of decoder blocks")
    decoder_layer: DecoderLayer = Field(
        default="self_attention",
        description="first sublayer of decoder blocks: self-attention, or the recurrent SSRU, whose state stays small",
    )
    attention: EncoderDecoderAttentionConfig = EncoderDecoderAttentionConfig()
    tie_embeddings: Literal["all", "target", "none"] = Field(
        default="all", description="tie the output projection to both embeddings (all), to the target's, or to none"
    )
    start_embedding: StartEmbedding = Field(
        default="learned", description="of BOS, with which a target starts: learned, or zero as in Marian and Firefox"
    )
    scale_output: bool = Field(
        default=False, description="multiply hidden states by d_model^(-1/2) before a tied output projection, as in T5"
    )
    source_eos: bool = Field(
        default=True, description="let the encoder see the end symbol of sources; models of OpenNMT do not"
    )

    @model_validator(mode="after")
    def _check_decoder_layer(self) -> Self:
        if self.decoder_layer == "ssru" and self.attention.decoder != SelfAttentionConfig():
            raise ValueError(
                "model.attention.decoder has no effect with model.decoder_layer = ssru, which takes the place of the "
                "decoder's self-attention; leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _check_scale_output(self) -> Self:
        if self.scale_output and self.tie_embeddings == "none":
            raise ValueError(
                "model.scale_output = true is for an output projection that is tied to an embedding, and "
                "model.tie_embeddings = none; leave one of them out"
            )
        return self

    def attentions(self) -> Iterator[AttentionRole]:
        yield AttentionRole("attention.encoder", self.attention.encoder, causal=False, layers=self.encoder_layers)
        if self.decoder_layer == "self_attention":
            yield AttentionRole("attention.decoder", self.attention.decoder, causal=True, layers=self.decoder_layers)
        yield AttentionRole("attention.cross", self.attention.cross, causal=False, layers=self.decoder_layers)


class DecoderOnlyConfig(TransformerConfig):
    """A decoder-only Transformer."""

    kind: Literal["decoder_only"] = "decoder_only"
    num_layers: PositiveInt = Field(default=6, le=MAX_LAYERS, description="number of blocks")
    attention: SelfAttentionConfig = SelfAttentionConfig()
    tie_embeddings: bool = Field(default=True, description="tie the output projection to the embedding")

    def attentions(self) -> Iterator[AttentionRole]:
        yield AttentionRole("attention", self.attention, causal=True, layers=self.num_layers)


class EncoderOnlyConfig(TransformerConfig):
    """An encoder-only Transformer."""

    kind: Literal["encoder_only"] = "encoder_only"
    num_layers: PositiveInt = Field(default=6, le=MAX_LAYERS, description="number of blocks")
    attention: SelfAttentionConfig = SelfAttentionConfig()
    num_segments: PositiveInt = Field(
        default=1, description="segments with embeddings of their own, such as question and context"
    )
    mlm_transform: bool = Field(
        default=True, description="dense layer and norm before masked tokens are predicted, as in BERT"
    )

    def attentions(self) -> Iterator[AttentionRole]:
        yield AttentionRole("attention", self.attention, causal=False, layers=self.num_layers)


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
