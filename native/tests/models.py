"""Small models with random weights."""

from typing import Any

import numpy as np
import pytest

cpu = pytest.importorskip(
    "dragoman_cpu", reason="the CPU library is not installed; `make test` builds it if there is a C++17 compiler"
)

Weights = dict[str, np.ndarray]
VOCABULARY = 197
COMPUTE_TYPES = ("float32", "bfloat16", "int8", "int8_int16")
INSTRUCTION_SETS = cpu.instruction_sets()
KINDS = ("encoder_decoder", "decoder_only", "ssru")
"""Kinds of models, and an encoder-decoder whose decoder has recurrent layers."""


def config(kind: str = "encoder_decoder", **changes: Any) -> dict[str, Any]:
    """Return a model that covers many code paths: grouped queries, a gate, sizes that fill no register."""
    attention = {"score": {"kind": "scaled_dot"}, "pattern": {"kind": "full"}}
    common = {
        "kind": "encoder_decoder" if kind == "ssru" else kind,
        "d_model": 66,
        "num_heads": 6,
        "num_kv_heads": 2,
        "d_ff": 83,
        "activation": "silu",
        "gated": True,
        "norm": "layer",
        "norm_position": "pre",
        "bias": True,
        "positions": {"kind": "alibi"},
        "scale_embedding": True,
        "norm_embedding": False,
        "dropout": {},
    }
    if kind == "decoder_only":
        specific = {"num_layers": 2, "attention": attention, "tie_embeddings": True, "vocabulary": VOCABULARY}
    else:
        roles = {"encoder": attention, "decoder": attention, "cross": {"score": {"kind": "scaled_dot"}}}
        specific = {"encoder_layers": 2, "decoder_layers": 2, "attention": roles, "tie_embeddings": "all"}
        specific |= {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
        specific |= {"decoder_layer": "ssru" if kind == "ssru" else "self_attention"}
    return common | specific | changes


def pruned(kind: str = "encoder_decoder") -> dict[str, Any]:
    """Return a model whose layers keep different heads."""
    kept = {"encoder": [[0, 2, 5], [3]], "decoder": [[5], [0, 1, 2, 3, 4, 5]], "cross": [[1, 2, 3, 4], [0, 2]]}
    return _pruned(kind, kept, [[1, 4], [0, 1, 2, 3, 5]], num_kv_heads=None)


def pruned_groups(kind: str = "encoder_decoder") -> dict[str, Any]:
    """Return a model with grouped queries whose layers keep different groups."""
    kept = {"encoder": [[0, 1, 4, 5], [2, 3]], "decoder": [[4, 5], [0, 1, 2, 3]], "cross": [[2, 3, 4, 5], [0, 1]]}
    return _pruned(kind, kept, [[2, 3], [0, 1, 4, 5]], num_kv_heads=3)


def _pruned(kind: str, kept: dict[str, Any], decoder_only_kept: list[list[int]], **changes: Any) -> dict[str, Any]:
    attention = config(kind)["attention"]
    if kind == "decoder_only":
        return config(kind, attention=attention | {"kept_heads": decoder_only_kept}, **changes)
    return config(kind, attention={role: attention[role] | {"kept_heads": kept[role]} for role in kept}, **changes)


class _RandomWeights:
    """Weights of one configuration, drawn in a fixed order."""

    def __init__(self, config: dict[str, Any], seed: int) -> None:
        self.arrays: Weights = {}
        self.d_model, self.d_ff, self.num_heads = config["d_model"], config["d_ff"], config["num_heads"]
        self.head_dim = self.d_model // self.num_heads
        self.num_kv_heads = config["num_kv_heads"] or self.num_heads
        self.generator = np.random.default_rng(seed)

    def add_array(self, name: str, *shape: int) -> None:
        self.arrays[name] = (self.generator.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    def add_linear(self, name: str, inputs: int, outputs: int) -> None:
        self.add_array(f"{name}.weight", outputs, inputs)
        self.add_array(f"{name}.bias", outputs)

    def add_norm(self, name: str) -> None:
        self.arrays[f"{name}.weight"] = self.generator.uniform(0.5, 1.5, self.d_model).astype(np.float32)
        self.add_array(f"{name}.bias", self.d_model)

    def add_attention(self, name: str, kept: list[int] | None) -> None:
        num_heads = len(kept) if kept else self.num_heads
        num_kv_heads = num_heads * self.num_kv_heads // self.num_heads
        for part, heads in (("query", num_heads), ("key", num_kv_heads), ("value", num_kv_heads)):
            self.add_linear(f"{name}.{part}", self.d_model, heads * self.head_dim)
        self.add_linear(f"{name}.output", num_heads * self.head_dim, self.d_model)

    def add_ssru(self, name: str) -> None:
        self.add_array(f"{name}.input.weight", self.d_model, self.d_model)
        self.add_linear(f"{name}.forget_gate", self.d_model, self.d_model)

    def add_blocks(self, name: str, layers: int, *, ssru: bool = False, **attentions: dict[str, Any]) -> None:
        for layer, block in ((layer, f"{name}.{layer}") for layer in range(layers)):
            for attention, options in attentions.items():
                if ssru and attention == "attention":
                    self.add_ssru(f"{block}.ssru")
                else:
                    kept = options.get("kept_heads")
                    self.add_attention(f"{block}.{attention}", kept and kept[layer])
                self.add_norm(f"{block}.{attention}_residual.norm")
            self.add_norm(f"{block}.feed_forward_residual.norm")
            self.add_linear(f"{block}.feed_forward.inner", self.d_model, self.d_ff)
            self.add_linear(f"{block}.feed_forward.gate", self.d_model, self.d_ff)
            self.add_linear(f"{block}.feed_forward.outer", self.d_ff, self.d_model)


def weights(config: dict[str, Any], seed: int = 0) -> Weights:
    """Draw weights with the names and shapes of a run."""
    drawn = _RandomWeights(config, seed)
    if config["kind"] == "decoder_only":
        drawn.add_array("embedding.tokens.weight", config["vocabulary"], drawn.d_model)
        drawn.add_blocks("blocks", config["num_layers"], attention=config["attention"])
        drawn.add_norm("norm")
    else:
        drawn.add_array("source_embedding.tokens.weight", config["source_vocabulary"], drawn.d_model)
        encoder, decoder, cross = (config["attention"][role] for role in ("encoder", "decoder", "cross"))
        drawn.add_blocks("encoder", config["encoder_layers"], attention=encoder)
        ssru = config["decoder_layer"] == "ssru"
        drawn.add_blocks("decoder", config["decoder_layers"], ssru=ssru, attention=decoder, cross_attention=cross)
        drawn.add_norm("encoder_norm")
        drawn.add_norm("decoder_norm")
    drawn.add_array("unembedding.bias", VOCABULARY)
    return drawn.arrays


def model(kind: str = "encoder_decoder", model_config: dict[str, Any] | None = None, **options: Any) -> Any:
    """Load a model with random weights; by default in float32 on one thread."""
    model_config = model_config or config(kind)
    options = {"compute_type": "float32", "num_threads": 1, **options}
    return cpu.Model(model_config, weights(model_config), **options)


def sources(count: int, *, seed: int = 0, max_length: int = 37) -> tuple[np.ndarray, np.ndarray]:
    """Draw ids and lengths of sources of very different lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, max_length + 1, count)
    return generator.integers(VOCABULARY, size=(count, max_length)), lengths


def tokens(batch: int, beam: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(VOCABULARY, size=(batch, beam))
