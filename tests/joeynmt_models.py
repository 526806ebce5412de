"""Random checkpoints of JoeyNMT, and their Transformer written from the equations of its papers.

Names of tensors and settings are those that JoeyNMT publishes; the computation is independent of dragoman.
"""

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import yaml
from torch import Tensor

SOURCE_TOKENS = ("<unk>", "<pad>", "<s>", "</s>", "two", "dogs", "cats", "play", ".")
TARGET_TOKENS = ("<unk>", "<pad>", "<s>", "</s>", "zwei", "Hunde", "Katzen", "spielen", "und", "ein", ".")
BOS, EOS = 2, 3
D_MODEL, D_FF, HEADS = 12, 17, 3
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


def settings(*, norm: str | None = "post", scale: bool = True, activation: str = "relu", tied: str = "none") -> Any:
    """Return the settings of a small model; without `norm`, those of version 1."""
    stack = {
        "type": "transformer",
        "hidden_size": D_MODEL,
        "ff_size": D_FF,
        "num_heads": HEADS,
        "activation": activation,
    }
    stack |= {"embeddings": {"embedding_dim": D_MODEL, "scale": scale}} | ({"layer_norm": norm} if norm else {})
    sides = {side: {"lang": lang, "level": "word"} for side, lang in (("src", "en"), ("trg", "de"))}
    return {
        "name": "small",
        "data": sides if norm else {"src": "en", "trg": "de", "level": "word"},
        "testing": {"beam_size": 4, "beam_alpha": 0.6},
        "model": {
            "encoder": stack | {"num_layers": 2},
            "decoder": stack | {"num_layers": 1},
            "tied_softmax": tied != "none",
            "tied_embeddings": tied == "all",
        },
    }


def is_pre_norm(tree: Any) -> bool:
    return tree["model"]["encoder"].get("layer_norm", "pre") == "pre"


def random_state(tree: Any) -> dict[str, Tensor]:
    """Return random tensors."""
    generator = torch.Generator().manual_seed(1)
    tied = tree["model"]
    state = {"src_embed.lut.weight": torch.randn(_source_size(tree), D_MODEL, generator=generator)}
    state["trg_embed.lut.weight"] = torch.randn(len(TARGET_TOKENS), D_MODEL, generator=generator)
    if tied["tied_embeddings"]:
        state["trg_embed.lut.weight"] = state["src_embed.lut.weight"]
    state["decoder.output_layer.weight"] = torch.randn(len(TARGET_TOKENS), D_MODEL, generator=generator)
    if tied["tied_softmax"]:
        state["decoder.output_layer.weight"] = state["trg_embed.lut.weight"]
    linear: dict[str, tuple[int, int]] = {}
    norms = [f"{side}.layer_norm" for side in ("encoder", "decoder") if is_pre_norm(tree)]
    for side, layers in (("encoder", 2), ("decoder", 1)):
        state[f"{side}.pe.pe"] = torch.zeros(1, 5000, D_MODEL)
        attentions = ("src_src_att",) if side == "encoder" else ("trg_trg_att", "src_trg_att")
        own = ("layer_norm",) if side == "encoder" else ("x_layer_norm", "dec_layer_norm")
        for layer in (f"{side}.layers.{number}" for number in range(layers)):
            for attention in attentions:
                for part in ("q_layer", "k_layer", "v_layer", "output_layer"):
                    linear[f"{layer}.{attention}.{part}"] = (D_MODEL, D_MODEL)
            linear[f"{layer}.feed_forward.pwff_layer.0"] = (D_FF, D_MODEL)
            linear[f"{layer}.feed_forward.pwff_layer.3"] = (D_MODEL, D_FF)
            norms += [f"{layer}.{name}" for name in (*own, "feed_forward.layer_norm")]
    for name, shape in linear.items():
        state[f"{name}.weight"] = torch.randn(*shape, generator=generator) / math.sqrt(shape[1])
        state[f"{name}.bias"] = torch.randn(shape[0], generator=generator) / 7
    for name in norms:
        state[f"{name}.weight"] = 1 + torch.randn(D_MODEL, generator=generator) / 5
        state[f"{name}.bias"] = torch.randn(D_MODEL, generator=generator) / 5
    return state


def write_folder(folder: Path, tree: Any) -> dict[str, Tensor]:
    """Write settings, vocabularies and a checkpoint; return its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    state = random_state(tree)
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    source = TARGET_TOKENS if tree["model"]["tied_embeddings"] else SOURCE_TOKENS
    for name, tokens in (("src_vocab.txt", source), ("trg_vocab.txt", TARGET_TOKENS)):
        (folder / name).write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    facts = {"steps": 7, "best_ckpt_score": 1.5, "optimizer_state": {"state": {}, "param_groups": [{"lr": 0.1}]}}
    torch.save({**facts, "model_state": state, "scheduler_state": None}, folder / "best.ckpt")
    return state


def logits(state: dict[str, Tensor], tree: Any, source: list[int], target: list[int]) -> Tensor:
    """Return the logits after each foreign token of a target, (target, vocabulary)."""
    pre, activation = is_pre_norm(tree), ACTIVATIONS[tree["model"]["encoder"]["activation"]]

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (D_MODEL,), state[f"{name}.weight"], state[f"{name}.bias"], eps=1e-6)

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def attend(name: str, queries: Tensor, keys: Tensor, *, causal: bool) -> Tensor:
        q, k, v = (
            linear(f"{name}.{part}_layer", x).view(len(x), HEADS, -1).transpose(0, 1)
            for part, x in (("q", queries), ("k", keys), ("v", keys))
        )
        scores = (q / math.sqrt(D_MODEL // HEADS)) @ k.transpose(1, 2)
        if causal:
            scores = scores.masked_fill(torch.ones(len(queries), len(queries), dtype=torch.bool).triu(1), -math.inf)
        joined = (scores.softmax(dim=-1) @ v).transpose(0, 1).reshape(len(queries), D_MODEL)
        return linear(f"{name}.output_layer", joined)

    def sublayer(name: str, x: Tensor, function: Any) -> Tensor:
        return x + function(norm(name, x)) if pre else norm(name, x + function(x))

    def feed_forward(name: str, x: Tensor) -> Tensor:
        return linear(f"{name}.pwff_layer.3", activation(linear(f"{name}.pwff_layer.0", x)))

    def embed(name: str, tokens: list[int]) -> Tensor:
        x = state[f"{name}.lut.weight"][tokens]
        scale = math.sqrt(D_MODEL) if tree["model"]["encoder"]["embeddings"]["scale"] else 1.0
        angles = torch.arange(len(tokens))[:, None] * 10000 ** (-torch.arange(0, D_MODEL, 2) / D_MODEL)
        return scale * x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

    x = embed("src_embed", source)
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        x = sublayer(f"{layer}.layer_norm", x, lambda y, n=layer: attend(f"{n}.src_src_att", y, y, causal=False))
        x = sublayer(f"{layer}.feed_forward.layer_norm", x, lambda y, n=layer: feed_forward(f"{n}.feed_forward", y))
    memory = norm("encoder.layer_norm", x) if pre else x
    layer, x = "decoder.layers.0", embed("trg_embed", target)
    x = sublayer(f"{layer}.x_layer_norm", x, lambda y: attend(f"{layer}.trg_trg_att", y, y, causal=True))
    x = sublayer(f"{layer}.dec_layer_norm", x, lambda y: attend(f"{layer}.src_trg_att", y, memory, causal=False))
    x = sublayer(f"{layer}.feed_forward.layer_norm", x, lambda y: feed_forward(f"{layer}.feed_forward", y))
    x = norm("decoder.layer_norm", x) if pre else x
    return x @ state["decoder.output_layer.weight"].T


def _source_size(tree: Any) -> int:
    return len(TARGET_TOKENS if tree["model"]["tied_embeddings"] else SOURCE_TOKENS)
