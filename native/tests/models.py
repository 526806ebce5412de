"""Small models for the core, of random arrays alone."""

from typing import Any

import numpy as np
import pytest

cpu = pytest.importorskip(
    "dragoman_cpu", reason="the compiled core is not installed; `make test` builds it where a C++17 compiler is"
)

Weights = dict[str, np.ndarray]
VOCABULARY = 197
COMPUTES = ("float32", "bfloat16", "int8")
INSTRUCTION_SETS = cpu.instruction_sets()


def config(kind: str = "transformer", **changes: Any) -> dict[str, Any]:
    """A model that takes every road: several heads a key, a gate, sizes that fill no register."""
    attention = {"score": {"kind": "scaled_dot"}, "pattern": {"kind": "full"}}
    plain = {
        "kind": kind,
        "size": 66,
        "heads": 6,
        "key_value_heads": 2,
        "feed_forward": 83,
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
    if kind == "causal":
        own = {"layers": 2, "attention": attention, "tie": True, "vocabulary": VOCABULARY}
    else:
        roles = {"encoder": attention, "decoder": attention, "cross": {"score": {"kind": "scaled_dot"}}}
        own = {"encoder_layers": 2, "decoder_layers": 2, "attention": roles, "tie": "all"}
        own |= {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY}
    return plain | own | changes


def pruned(kind: str = "transformer") -> dict[str, Any]:
    """One whose layers have different heads."""
    kept = {"encoder": [[0, 2, 5], [3]], "decoder": [[5], [0, 1, 2, 3, 4, 5]], "cross": [[1, 2, 3, 4], [0, 2]]}
    return _pruned(kind, kept, [[1, 4], [0, 1, 2, 3, 5]], key_value_heads=None)


def pruned_groups(kind: str = "transformer") -> dict[str, Any]:
    """One whose layers have different heads, each of which shares its keys with another."""
    kept = {"encoder": [[0, 1, 4, 5], [2, 3]], "decoder": [[4, 5], [0, 1, 2, 3]], "cross": [[2, 3, 4, 5], [0, 1]]}
    return _pruned(kind, kept, [[2, 3], [0, 1, 4, 5]], key_value_heads=3)


def _pruned(kind: str, kept: dict[str, Any], kept_of_causal: list[list[int]], **changes: Any) -> dict[str, Any]:
    plain = config(kind)["attention"]
    if kind == "causal":
        return config(kind, attention=plain | {"kept": kept_of_causal}, **changes)
    return config(kind, attention={name: plain[name] | {"kept": kept[name]} for name in kept}, **changes)


class _Drawn:
    """Weights of one configuration, drawn one after the other."""

    def __init__(self, config: dict[str, Any], seed: int) -> None:
        self.arrays: Weights = {}
        self.size, self.hidden = config["size"], config["feed_forward"]
        self.head_size, self.heads = config["size"] // config["heads"], config["heads"]
        self.key_heads = config["key_value_heads"] or config["heads"]
        self.generator = np.random.default_rng(seed)

    def put(self, name: str, *shape: int) -> None:
        self.arrays[name] = (self.generator.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.put(f"{name}.weight", outputs, inputs)
        self.put(f"{name}.bias", outputs)

    def norm(self, name: str) -> None:
        self.arrays[f"{name}.weight"] = self.generator.uniform(0.5, 1.5, self.size).astype(np.float32)
        self.put(f"{name}.bias", self.size)

    def attention(self, name: str, kept: list[int] | None) -> None:
        queries = len(kept) if kept else self.heads
        keys = queries * self.key_heads // self.heads
        for part, heads in (("query", queries), ("key", keys), ("value", keys)):
            self.linear(f"{name}.{part}", self.size, heads * self.head_size)
        self.linear(f"{name}.output", queries * self.head_size, self.size)

    def blocks(self, name: str, layers: int, **attentions: dict[str, Any]) -> None:
        for layer, block in ((layer, f"{name}.{layer}") for layer in range(layers)):
            for attention, choices in attentions.items():
                kept = choices.get("kept")
                self.attention(f"{block}.{attention}", kept and kept[layer])
                self.norm(f"{block}.around_{attention}.norm")
            self.norm(f"{block}.around_feed_forward.norm")
            self.linear(f"{block}.feed_forward.inner", self.size, self.hidden)
            self.linear(f"{block}.feed_forward.gate", self.size, self.hidden)
            self.linear(f"{block}.feed_forward.outer", self.hidden, self.size)


def weights(config: dict[str, Any], seed: int = 0) -> Weights:
    """By the names and shapes of a run."""
    drawn = _Drawn(config, seed)
    if config["kind"] == "causal":
        drawn.put("embedding.tokens.weight", config["vocabulary"], drawn.size)
        drawn.blocks("blocks", config["layers"], attention=config["attention"])
        drawn.norm("norm")
    else:
        drawn.put("source_embedding.tokens.weight", config["source_vocabulary"], drawn.size)
        encoder, decoder, cross = (config["attention"][role] for role in ("encoder", "decoder", "cross"))
        drawn.blocks("encoder", config["encoder_layers"], attention=encoder)
        drawn.blocks("decoder", config["decoder_layers"], attention=decoder, cross_attention=cross)
        drawn.norm("encoder_norm")
        drawn.norm("decoder_norm")
    drawn.put("unembedding.bias", VOCABULARY)
    return drawn.arrays


def model(kind: str = "transformer", made: dict[str, Any] | None = None, **options: Any) -> Any:
    made = made or config(kind)
    return cpu.Model(made, weights(made), **{"compute": "float32", "threads": 1, **options})


def texts(count: int, *, seed: int = 0, longest: int = 37) -> tuple[np.ndarray, np.ndarray]:
    """Ids and lengths, which differ much."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, count)
    return generator.integers(VOCABULARY, size=(count, longest)), lengths


def tokens(batch: int, beam: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(VOCABULARY, size=(batch, beam))
