"""What may be chosen about a Transformer: encoder-decoder, decoder-only or encoder-only."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.nn.attention import FullConfig
from dragoman.nn.blocks import NormPosition
from dragoman.nn.feed_forward import ActivationName
from dragoman.nn.norms import NormName
from dragoman.nn.scores import ScaledDotConfig, ScoreConfig
from dragoman.nn.sparse import PatternConfig

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Join = Literal["add", "concatenate"]
Kept = tuple[tuple[int, ...], ...]
"""The heads that are left, a list a layer."""
TREE_REACH = 16


class SinusoidalConfig(Config):
    """Sines and cosines of the position, without parameters and without end."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    join: Join = Field("add", description="added to the embedding, or concatenated with it and projected")


class LearnedConfig(Config):
    """A learnt vector for each place, up to a length."""

    kind: Literal["learned"] = "learned"
    length: PositiveInt = Field(1024, description="number of places; longer sequences are refused")
    join: Join = Field("add", description="added to the embedding, or concatenated with it and projected")


class RelativeConfig(Config):
    """A learnt vector for each distance in self-attention (Shaw et al., 2018)."""

    kind: Literal["relative"] = "relative"
    reach: PositiveInt = Field(16, description="distance from which on all share one vector, on each side")
    values: bool = Field(True, description="vectors for the values too, which leaves the fused kernels")


class BucketedConfig(Config):
    """A learnt number for each head and bucket of distances (Raffel et al., 2020)."""

    kind: Literal["bucketed"] = "bucketed"
    buckets: int = Field(32, ge=4, multiple_of=4, description="number of buckets")
    furthest: PositiveInt = Field(128, description="distance from which on all share the last bucket")

    @model_validator(mode="after")
    def _reach_beyond_the_exact(self) -> Self:
        if self.furthest <= self.buckets // 2:
            raise ValueError(
                f"model.positions.furthest = {self.furthest} leaves no distances for the buckets that grow; "
                f"choose more than half of the {self.buckets} buckets"
            )
        return self


class RotaryConfig(Config):
    """Queries and keys turn with their place (Su et al., 2021)."""

    kind: Literal["rotary"] = "rotary"
    base: PositiveFloat = Field(10000.0, description="the slowest turn takes nearly this many places times two pi")


class AlibiConfig(Config):
    """Scores fall linearly with the distance (Press et al., 2022)."""

    kind: Literal["alibi"] = "alibi"


class StructuralConfig(Config):
    """Places in the dependency tree of each source beside those in its sequence (Wang et al., 2019), for encoders.

    A decoder, which has no tree, has the sinusoids alone.
    """

    kind: Literal["structural"] = "structural"
    absolute: bool = Field(True, description="join the depth of a word to its place, both as sinusoids")
    relative: bool = Field(True, description="a learnt vector for how two words stand to each other in the tree")
    reach: PositiveInt = Field(TREE_REACH, description="relation from which on all share one vector, on each side")

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.absolute and not self.relative:
            raise ValueError(
                "model.positions.absolute = false and model.positions.relative = false leave nothing of the trees; set "
                "one of them to true, or choose sinusoidal positions"
            )
        if not self.relative and self.reach != TREE_REACH:
            raise ValueError(
                f"model.positions.reach = {self.reach} has no effect with model.positions.relative = false; leave one "
                "of them out"
            )
        return self


class NoPositionsConfig(Config):
    """None: only the causal mask, where there is one, tells the order."""

    kind: Literal["none"] = "none"


PositionsConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | RelativeConfig
    | BucketedConfig
    | RotaryConfig
    | AlibiConfig
    | StructuralConfig
    | NoPositionsConfig,
    Field(discriminator="kind"),
]


class DropoutConfig(Config):
    """How much is dropped in training, place by place."""

    embedding: Probability = Field(0.1, description="on the sum of token and position")
    residual: Probability = Field(0.1, description="on the output of each sublayer, before it is added")
    attention: Probability = Field(0.0, description="on the attention weights; above 0 the fused kernels are left")
    feed_forward: Probability = Field(0.0, description="inside the feed-forward network, after the activation")


class SelfAttentionConfig(Config):
    """How the places of one sequence look at one another."""

    score: ScoreConfig = ScaledDotConfig()
    """How a query and a key are compared."""

    pattern: PatternConfig = FullConfig()
    """Which keys a query may reach."""

    kept: Kept | None = Field(None, description="heads that pruning left in each layer, from 0; none: all of them")


class CrossAttentionConfig(Config):
    """How the decoder looks at the encoder's output."""

    score: ScoreConfig = ScaledDotConfig()
    """How a query and a key are compared."""

    kept: Kept | None = Field(None, description="heads that pruning left in each layer, from 0; none: all of them")


class AttentionRoles(Config):
    """The three attentions of an encoder-decoder Transformer, each by itself."""

    encoder: SelfAttentionConfig = SelfAttentionConfig()
    """Self-attention of the encoder."""

    decoder: SelfAttentionConfig = SelfAttentionConfig()
    """Masked self-attention of the decoder."""

    cross: CrossAttentionConfig = CrossAttentionConfig()
    """Attention of the decoder to the encoder's output."""


class StackConfig(Config):
    """What every kind of Transformer may choose."""

    reads_trees: ClassVar[bool] = False
    """Whether trees may be given with what it reads."""

    size: PositiveInt = Field(512, description="width of the residual stream")
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
    scale_embedding: bool = Field(True, description="multiply embeddings by the square root of the size, as the paper")
    norm_embedding: bool = Field(False, description="norm after tokens and positions are joined, as BERT and BART")
    dropout: DropoutConfig = DropoutConfig()

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
        if self.positions.kind == "rotary" and self.size // self.heads % 2:
            raise ValueError(
                f"model.positions.kind = rotary turns pairs of numbers, and a head has {self.size // self.heads}; "
                "choose model.size and model.heads so that it has an even number"
            )
        return self

    @model_validator(mode="after")
    def _attention_fits(self) -> Self:
        if isinstance(self.positions, StructuralConfig) and not self.reads_trees:
            raise ValueError(
                "model.positions.kind = structural is for the encoder of an encoder-decoder Transformer, whose sources "
                "come with their trees; choose other positions"
            )
        for role, attention, masked in self.self_attentions():
            if masked:
                _refuse_future(role, attention.pattern.kind)
            _refuse_score(role, attention.score.kind, self.positions.kind)
            _refuse_pattern(role, attention.pattern.kind, self.positions.kind)
            if isinstance(self.positions, StructuralConfig) and self.positions.relative and not masked:
                _refuse_relations(role, attention)
        return self

    @model_validator(mode="after")
    def _kept_heads_are_there(self) -> Self:
        for role, kept, layers in self.kept_heads():
            _refuse_kept(role, kept, layers=layers, heads=self.heads, group=self.heads_of_a_group)
        return self

    @property
    def heads_of_a_group(self) -> int:
        """How many heads share their keys and values."""
        return self.heads // (self.key_value_heads or self.heads)

    def self_attentions(self) -> Iterator[tuple[str, SelfAttentionConfig, bool]]:
        """The self-attentions: the name of the key, the choice, and whether it may not see what comes later."""
        raise NotImplementedError

    def kept_heads(self) -> Iterator[tuple[str, Kept, int]]:
        """Where heads were pruned: the name of the key, those that are left, and the number of layers."""
        raise NotImplementedError


class TransformerConfig(StackConfig):
    """An encoder-decoder Transformer."""

    reads_trees: ClassVar[bool] = True
    kind: Literal["transformer"] = "transformer"
    encoder_layers: PositiveInt = Field(6, description="number of encoder blocks")
    decoder_layers: PositiveInt = Field(6, description="number of decoder blocks")
    attention: AttentionRoles = AttentionRoles()
    tie: Literal["all", "target", "none"] = Field(
        "all", description="what shares the unembedding's weight: both embeddings, the target's, or none"
    )

    def self_attentions(self) -> Iterator[tuple[str, SelfAttentionConfig, bool]]:
        yield "attention.encoder", self.attention.encoder, False
        yield "attention.decoder", self.attention.decoder, True

    def kept_heads(self) -> Iterator[tuple[str, Kept, int]]:
        encoder, decoder, cross = self.attention.encoder, self.attention.decoder, self.attention.cross
        if encoder.kept is not None:
            yield "attention.encoder", encoder.kept, self.encoder_layers
        if decoder.kept is not None:
            yield "attention.decoder", decoder.kept, self.decoder_layers
        if cross.kept is not None:
            yield "attention.cross", cross.kept, self.decoder_layers


class CausalConfig(StackConfig):
    """A decoder-only Transformer, which continues a text."""

    kind: Literal["causal"] = "causal"
    layers: PositiveInt = Field(6, description="number of blocks")
    attention: SelfAttentionConfig = SelfAttentionConfig()
    tie: bool = Field(True, description="whether the unembedding shares the embedding's weight")

    def self_attentions(self) -> Iterator[tuple[str, SelfAttentionConfig, bool]]:
        yield "attention", self.attention, True

    def kept_heads(self) -> Iterator[tuple[str, Kept, int]]:
        if self.attention.kept is not None:
            yield "attention", self.attention.kept, self.layers


class EncoderConfig(StackConfig):
    """An encoder-only Transformer, which reads a text from both sides."""

    kind: Literal["encoder"] = "encoder"
    layers: PositiveInt = Field(6, description="number of blocks")
    attention: SelfAttentionConfig = SelfAttentionConfig()
    segments: PositiveInt = Field(1, description="texts side by side that are told apart, such as question and context")
    predict_hidden: bool = Field(
        True, description="a layer and a norm before the masked words are predicted, as in BERT"
    )

    def self_attentions(self) -> Iterator[tuple[str, SelfAttentionConfig, bool]]:
        yield "attention", self.attention, False

    def kept_heads(self) -> Iterator[tuple[str, Kept, int]]:
        if self.attention.kept is not None:
            yield "attention", self.attention.kept, self.layers


_SEE_THE_FUTURE = {
    "bigbird": "its global blocks see the whole text, the future included",
    "linformer": "its keys are mixtures of all places, the future included, and cannot grow by one",
}
_INNER_PRODUCTS = {"dot", "scaled_dot"}


def _refuse_score(role: str, score: str, positions: str) -> None:
    if positions == "rotary" and score not in _INNER_PRODUCTS | {"cosine"}:
        raise ValueError(
            f"model.{role}.score.kind = {score} does not go with rotary positions, which turn queries and keys so that "
            "their inner product tells the distance; choose dot, scaled_dot or cosine, or other positions"
        )
    if positions == "relative" and score not in _INNER_PRODUCTS | {"multiplicative"}:
        raise ValueError(
            f"model.{role}.score.kind = {score} does not go with relative positions, which are vectors added to the "
            "keys of an inner product; choose dot, scaled_dot or multiplicative, or other positions"
        )


def _refuse_relations(role: str, attention: SelfAttentionConfig) -> None:
    """Raises ValueError where relations in a tree cannot act in a self-attention."""
    if attention.score.kind not in _INNER_PRODUCTS | {"multiplicative"}:
        raise ValueError(
            f"model.{role}.score.kind = {attention.score.kind} does not go with structural positions, whose relations "
            "are vectors added to the keys of an inner product; choose dot, scaled_dot or multiplicative, or set "
            "model.positions.relative=false"
        )
    if attention.pattern.kind != "full":
        raise ValueError(
            f"model.{role}.pattern.kind = {attention.pattern.kind} does not go with structural positions, whose "
            "relations may join any two words, however far apart; choose full, or set model.positions.relative=false"
        )


def _refuse_pattern(role: str, pattern: str, positions: str) -> None:
    relative = positions in ("relative", "bucketed", "alibi")
    if pattern == "linformer" and (relative or positions == "rotary"):
        raise ValueError(
            f"model.{role}.pattern.kind = linformer does not go with {positions} positions: its keys are mixtures of "
            "places and have no distance; choose sinusoidal, learned or none"
        )
    if pattern == "bigbird" and relative:
        raise ValueError(
            f"model.{role}.pattern.kind = bigbird does not go with {positions} positions: its blocks are gathered from "
            "afar and keep no common distance; choose sinusoidal, learned, rotary or none"
        )


def _refuse_kept(role: str, kept: Kept, *, layers: int, heads: int, group: int) -> None:
    """Raises ValueError where the heads that are left are not those of a pruned network."""
    if len(kept) != layers:
        raise ValueError(
            f"model.{role}.kept names the heads of {len(kept)} layers, and there are {layers}; give a list each"
        )
    for layer, left in enumerate(kept):
        if not left or list(left) != sorted(set(left)) or left[0] < 0 or left[-1] >= heads:
            raise ValueError(
                f"model.{role}.kept[{layer}] = {list(left)} are no heads of {heads}; give at least one, each once, in "
                f"order, from 0 to {heads - 1}"
            )
        whole = [head for head in range(heads) if head // group * group in left]
        if whole != list(left):
            raise ValueError(
                f"model.{role}.kept[{layer}] = {list(left)} takes groups apart: every {group} heads share their keys "
                "and values, and leave together; name all of a group or none"
            )


def _refuse_future(role: str, pattern: str) -> None:
    if pattern in _SEE_THE_FUTURE:
        raise ValueError(
            f"model.{role}.pattern.kind = {pattern} is for encoders alone: {_SEE_THE_FUTURE[pattern]}; choose full or "
            "window"
        )


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
