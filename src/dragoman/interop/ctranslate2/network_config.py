"""Configuration of a network from the variables of CTranslate2, whose shapes and attributes determine it, and back.

Differences of CTranslate2 to remember: sinusoidal positions that it computes itself start at 1, with all sines before
all cosines and rates up to 1/10000, as in OpenNMT-tf; norms have an epsilon of 1e-5, and of 1e-6 without a shift;
`num_heads` is 8 where it is not said, and 16 in the older `TransformerBig`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import torch

from dragoman.config import parse
from dragoman.errors import ConfigError, DataError, shorten
from dragoman.interop.ctranslate2.attributes import Attributes
from dragoman.interop.ctranslate2.model_keys import ACTIVATIONS
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, SinusoidalConfig, TransformerConfig
from dragoman.nn.positions.sinusoidal import sinusoidal_positions

Weights = Mapping[str, np.ndarray]
SEQ2SEQ, DECODER_ONLY = "TransformerSpec", "TransformerDecoderSpec"
SPEC_HEADS: Final = {"TransformerBase": 8, "TransformerBig": 16, SEQ2SEQ: 8, DECODER_ONLY: 8}
"""Attention heads of each specification where the file does not say so."""
REVISIONS: Final = {"TransformerBase": range(2, 8), "TransformerBig": range(2, 8), SEQ2SEQ: range(2, 8)}
REVISIONS[DECODER_ONLY] = range(1, 9)
COMPUTED: Final = SinusoidalConfig(order="halves", inclusive=True, offset=1)
"""Positions of a model without a table of positions."""
_ATTRIBUTES: Final = {"norm_position": "pre_norm", "scale_embedding": "scale_embeddings"}
"""Names of settings there that are not ours."""
_TABLE_TOLERANCE = 2e-3
"""Difference of a table of sinusoids in float32 to the exact values at position 5,000; float16 rounds by 5e-4."""
_COMPARED = 1024
_SINUSOIDS: Final = tuple(
    SinusoidalConfig(order=order, inclusive=inclusive, offset=offset)
    for offset in (0, 1, 2)
    for order in ("interleaved", "halves")
    for inclusive in (False, True)
)


@final
@dataclass(frozen=True)
class ReadNetwork:
    """Configuration of a network, and what the conversion of its weights depends on."""

    config: EncoderDecoderConfig | DecoderOnlyConfig
    is_interleaved: bool
    """Whether rotary positions turn pairs of neighboring features."""
    num_positions: int | None
    """Rows of the table of positions; None without one."""


def read_network(
    weights: Weights, attributes: Attributes, spec: str, *, epsilon: float | None, where: str
) -> ReadNetwork:
    """Return the configuration of a network. Raises DataError if it computes something that our networks do not."""
    heads = attributes.integer("num_heads", SPEC_HEADS[spec])
    shared = {"pre_norm": attributes.integer("pre_norm", 1), "activation": attributes.integer("activation", 0)}
    scopes = ["decoder"] if spec == DECODER_ONLY else ["encoder", "decoder"]
    stacks = {scope: _Stack(scope, weights, attributes, where=where).read(heads=heads, **shared) for scope in scopes}
    layers = {scope: stack.pop("layers") for scope, stack in stacks.items()}
    is_interleaved = [stack["positions"].pop("is_interleaved", False) for stack in stacks.values()][-1]
    tables = (weights.get(f"{scope}/position_encodings/encodings") for scope in scopes)
    num_positions = min((len(table) for table in tables if table is not None), default=None)
    options = stacks["decoder"]
    for key, value in stacks.get("encoder", options).items():
        if value != options[key]:
            name = _ATTRIBUTES.get(key, key)
            raise DataError(
                f"{where}: encoder/{name} and decoder/{name} differ ({value} and {options[key]}), and dragoman has one "
                f"{key} for both. Import another model."
            )
    if epsilon is not None:
        options["norm_epsilon"] = epsilon
    scores = {"score": {"kind": options.pop("score")}}
    is_tied, output_scale = _is_tied(weights), _output_scale(attributes, options["d_model"], where=where)
    options["output_bias"] = "decoder/projection/bias" in weights
    if spec == DECODER_ONLY:
        if output_scale:
            raise DataError(f"{where}: the output of a decoder-only model is scaled, which dragoman does not support")
        tree: dict[str, Any] = {
            "kind": "decoder_only",
            "num_layers": layers["decoder"],
            "tie_embeddings": is_tied,
            "attention": scores,
        }
        return ReadNetwork(_parse(DecoderOnlyConfig, tree | options, where=where), is_interleaved, num_positions)
    tree = {f"{scope}_layers": count for scope, count in layers.items()}
    tree |= {
        "kind": "encoder_decoder",
        "attention": {"encoder": scores, "decoder": scores, "cross": scores},
        "tie_embeddings": tied_embeddings(weights) if is_tied else "none",
        "scale_output": output_scale,
    }
    return ReadNetwork(_parse(EncoderDecoderConfig, tree | options, where=where), is_interleaved, num_positions)


def source_embeddings_name(weights: Weights) -> str:
    """Return the name of the source embeddings: newer files number them."""
    name = "encoder/embeddings_0/weight"
    return name if name in weights else "encoder/embeddings/weight"


def fold_output_scale(weights: dict[str, np.ndarray], attributes: Attributes) -> None:
    """Scale an output projection that is not tied in place, because our networks scale outputs of tied ones only."""
    name = "decoder/projection/weight"
    if name in weights and not _is_tied(weights):
        weights[name] = weights[name] * np.float32(attributes.number("decoder/scale_outputs", 1.0))


def tied_embeddings(weights: Weights) -> str:
    """Return which embeddings are equal to the output projection, which is that of the target."""
    source = weights.get(source_embeddings_name(weights))
    return "all" if source is not None and np.array_equal(source, weights["decoder/embeddings/weight"]) else "target"


def encodings_table(config: TransformerConfig, length: int) -> np.ndarray | None:
    """Return the table of sinusoidal positions; None where CTranslate2 computes the same, and for other positions."""
    positions = config.positions
    if not isinstance(positions, SinusoidalConfig) or positions == COMPUTED:
        return None
    return _sinusoids(positions, length, config.d_model)


def _sinusoids(config: SinusoidalConfig, length: int, size: int) -> np.ndarray:
    positions = torch.arange(length) + config.offset
    found = sinusoidal_positions(positions, size, order=config.order, inclusive=config.inclusive)
    return np.asarray(found.numpy())


def _parse(kind: type[Any], tree: Mapping[str, Any], *, where: str) -> Any:
    try:
        return parse(kind, tree, where=where)
    except ConfigError as error:
        raise DataError(f"{where}: the sizes do not fit each other: {error.problems[0].message}") from error


def _is_tied(weights: Weights) -> bool:
    try:
        return np.array_equal(weights["decoder/embeddings/weight"], weights["decoder/projection/weight"])
    except KeyError:
        return False


def _output_scale(attributes: Attributes, size: int, *, where: str) -> bool:
    value = attributes.number("decoder/scale_outputs", 1.0)
    if value != 1 and abs(value * size**0.5 - 1) > 1e-4:
        raise DataError(f"{where}: outputs are scaled by {value:g}, and dragoman scales by 1 or {size}^(-1/2)")
    return value != 1


class _Stack:
    """Encoder or decoder."""

    def __init__(self, scope: str, weights: Weights, attributes: Attributes, *, where: str) -> None:
        self._scope = scope
        self._weights = weights
        self._attributes = attributes
        self._where = where
        self._attention = f"{scope}/layer_0/self_attention"

    def read(self, *, heads: int, pre_norm: int, activation: int) -> dict[str, Any]:
        """Return the options of the stack by their key, and the number of its `layers`."""
        attributes, scope = self._attributes, self._scope
        d_model, d_ff = self._embeddings().shape[1], self._rows(f"{scope}/layer_0/ffn/linear_0/weight")
        heads = attributes.integer(f"{scope}/num_heads", heads)
        layers = self._count_layers()
        if not 0 < heads <= d_model or not layers:
            raise DataError(f"{self._where}: the {scope} has {heads} attention heads and {layers} layers")
        activation = attributes.integer(f"{scope}/activation", activation)
        sizes = self._heads(heads, d_model, layers)
        is_rms = f"{scope}/layer_0/ffn/layer_norm/beta" not in self._weights
        return {
            "layers": layers,
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": heads,
            "norm": "rms" if is_rms else "layer",
            "norm_position": "pre" if attributes.flag(f"{scope}/pre_norm", default=bool(pre_norm)) else "post",
            "activation": ACTIVATIONS[activation],
            "gated": f"{scope}/layer_0/ffn/linear_0_noact/weight" in self._weights,
            "norm_embedding": f"{scope}/layernorm_embedding/gamma" in self._weights,
            "scale_embedding": self._scale_embedding(d_model),
            "positions": self._positions(sizes["head_size"] or d_model // heads),
            **self._biases(),
            **sizes,
        }

    def _embeddings(self) -> np.ndarray:
        name = source_embeddings_name(self._weights) if self._scope == "encoder" else "decoder/embeddings/weight"
        if "encoder/embeddings_1/weight" in self._weights:
            raise DataError(f"{self._where}: sources have factors, which dragoman does not support")
        return self._matrix(name)

    def _matrix(self, name: str) -> np.ndarray:
        found = self._weights.get(name)
        if found is None or found.ndim != 2 or not found.size:
            raise DataError(f"{self._where}: {shorten(name)} is missing or no matrix; convert the model again")
        return found

    def _rows(self, name: str) -> int:
        return self._matrix(name).shape[0]

    def _count_layers(self) -> int:
        prefix = f"{self._scope}/layer_"
        numbers = {name[len(prefix) :].partition("/")[0] for name in self._weights if name.startswith(prefix)}
        return next(count for count in range(len(numbers) + 1) if str(count) not in numbers)

    def _scale_embedding(self, d_model: int) -> bool:
        default = self._attributes.scale(f"{self._scope}/embeddings/multiply_by_sqrt_depth", d_model, default=True)
        return self._attributes.scale(f"{self._scope}/scale_embeddings", d_model, default=default)

    def _biases(self) -> dict[str, Any]:
        """Return whether there are biases; a model that has some of a kind has zeros in place of the others."""
        inputs = "self_attention/linear_0", "attention/linear_0", "attention/linear_1"
        outputs = (
            r"self_attention/linear_1",
            r"attention/linear_2",
            "ffn/linear_0",
            "ffn/linear_1",
            "ffn/linear_0_noact",
        )
        layer = f"{self._scope}/layer_0"
        has = {
            name: any(f"{layer}/{one}/bias" in self._weights for one in names)
            for name, names in (("qkv_bias", inputs), ("bias", outputs))
        }
        return has if has["qkv_bias"] != has["bias"] else {"bias": has["bias"], "qkv_bias": None}

    def _heads(self, heads: int, d_model: int, layers: int) -> dict[str, Any]:
        """Return the sizes of heads and the score of attention, which are those of all layers."""
        found = set()
        for layer in range(layers):
            for kind in ("self_attention", "attention"):
                if f"{self._scope}/layer_{layer}/{kind}/linear_0/weight" not in self._weights:
                    continue
                scope = f"{self._scope}/layer_{layer}/{kind}"
                named = self._attributes.integer(f"{scope}/head_dim", d_model // heads)
                # The default of the scale is that of `head_dim`, and the heads are as wide as the weights say (T5).
                size = self._matrix(f"{scope}/linear_{1 if kind == 'self_attention' else 2}/weight").shape[1] // heads
                kv_heads = self._attributes.integer(f"{scope}/num_heads_kv", heads)
                kv_heads = 1 if self._attributes.flag(f"{scope}/multi_query", default=False) else kv_heads
                scale = self._attributes.number(f"{scope}/queries_scale", max(named, 1) ** -0.5)
                found.add((size, kv_heads, scale))
        if len(found) != 1:
            raise DataError(f"{self._where}: the layers of the {self._scope} have attention heads of different sizes")
        size, kv_heads, scale = found.pop()
        if size < 1 or not 0 < kv_heads <= heads:
            raise DataError(f"{self._where}: the {self._scope} has {kv_heads} key-value heads of size {size}")
        if scale != 1 and abs(scale * size**0.5 - 1) > 1e-4:
            raise DataError(f"{self._where}: queries are scaled by {scale:g}, not by 1 or {size}^(-1/2)")
        return {
            "head_size": None if size * heads == d_model else size,
            "num_kv_heads": None if kv_heads == heads else kv_heads,
            "score": "dot" if scale == 1 else "scaled_dot",
        }

    def _positions(self, head_size: int) -> dict[str, Any]:
        """Return the configuration of the positions."""
        has_alibi, scales = (
            self._attributes.flag(f"{self._scope}/{name}", default=False) for name in ("alibi", "scale_alibi")
        )
        if has_alibi and scales:
            raise DataError(f"{self._where}: ALiBi is scaled, which dragoman does not support")
        keys = self._weights.get(f"{self._attention}/relative_position_keys")
        if keys is not None:
            values = f"{self._attention}/relative_position_values" in self._weights
            return {"kind": "shaw", "max_distance": (len(keys) - 1) // 2, "values": values}
        buckets = self._weights.get(f"{self._attention}/relative_attention_bias")
        if buckets is not None:
            self._check_equal_biases(buckets)
            distance = self._each_layer("relative_attention_max_distance", 128.0)
            return {"kind": "t5_bias", "num_buckets": len(buckets), "max_distance": int(distance)}
        if (rotary := self._rotary(head_size)) is not None:
            return rotary
        if has_alibi:
            return {"kind": "alibi"}
        return self._absolute_positions()

    def _check_equal_biases(self, first: np.ndarray) -> None:
        """Raise DataError if a layer has another bias of distances than the first one, as those of UMT5 do."""
        for layer in range(1, self._count_layers()):
            name = f"{self._scope}/layer_{layer}/self_attention/relative_attention_bias"
            if not np.array_equal(self._weights.get(name, first), first):
                raise DataError(
                    f"{self._where}: {name} differs from that of the first layer, and dragoman has one bias of "
                    "distances for all layers. Import a model with equal biases, such as T5 or mT5."
                )

    def _absolute_positions(self) -> dict[str, Any]:
        name = f"{self._scope}/position_encodings/encodings"
        if name not in self._weights:
            return COMPUTED.model_dump()
        table = self._matrix(name)
        compared = table[:_COMPARED]
        for config in _SINUSOIDS:
            if np.abs(compared - _sinusoids(config, *compared.shape)).max() < _TABLE_TOLERANCE:
                return config.model_dump()
        return {"kind": "learned", "max_length": len(table)}

    def _rotary(self, head_size: int) -> dict[str, Any] | None:
        dim = self._each_layer("rotary_dim", -1.0)
        if dim < 0:
            return None
        if dim not in (0, head_size):
            raise DataError(f"{self._where}: rotary positions turn {dim:g} of {head_size} features, not all of them")
        interleaved, base = self._each_layer("rotary_interleave", 1.0), self._each_layer("rotary_base", 10_000.0)
        kind, factor = self._each_layer("rotary_scaling_type", -1.0), self._each_layer("rotary_scaling_factor", 1.0)
        low, high = self._each_layer("rotary_low_freq_factor", 1.0), self._each_layer("rotary_high_freq_factor", 4.0)
        length = self._each_layer("original_max_position_embeddings", 0.0)
        scaling: dict[str, Any] | None = None
        if kind == 0:
            scaling = {"kind": "linear", "factor": factor}
        elif kind == 2:
            scaling = {"kind": "llama3", "factor": factor, "low_frequency_factor": low, "high_frequency_factor": high}
            scaling["original_length"] = int(length)
        elif kind != -1:
            raise DataError(f"{self._where}: rotary positions are scaled in a way that dragoman does not support")
        return {"kind": "rotary", "base": base, "scaling": scaling, "is_interleaved": bool(interleaved)}

    def _each_layer(self, name: str, default: float) -> float:
        """Return an attribute of the self-attention of every layer. Raises DataError if they differ."""
        layers = range(self._count_layers())
        names = [f"{self._scope}/layer_{layer}/self_attention/{name}" for layer in layers]
        found = {self._attributes.number(one, default) for one in names}
        if len(found) > 1:
            raise DataError(f"{self._where}: {name} differs between the layers of the {self._scope}")
        return found.pop() if found else default
