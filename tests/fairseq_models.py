"""Random checkpoints of fairseq, and their Transformer written from the equations of its papers.

Names of tensors and settings are those that fairseq publishes; the computation is independent of dragoman.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SOURCE_WORDS = ("two", "dogs", "cats", "play", "a", "man", "sleeps", ".")
TARGET_WORDS = ("zwei", "Hunde", "Katzen", "spielen", "ein", "Mann", "schläft", "und", ".")
PAD, EOS = 1, 2
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_fast": lambda x: F.gelu(x, approximate="tanh"), "swish": F.silu}


def settings(**changed: Any) -> dict[str, Any]:
    """Return the settings of a small network, with both sides alike."""
    both = {"embed_dim": 12, "ffn_embed_dim": 17, "attention_heads": 3, "normalize_before": False, "learned_pos": False}
    tree: dict[str, Any] = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in both.items()}
    tree |= {"encoder_layers": 2, "decoder_layers": 1, "arch": "transformer_iwslt_de_en", "task": "translation"}
    tree |= {"source_lang": "en", "target_lang": "de", "max_source_positions": 31, "max_target_positions": 29}
    tree |= {"activation_fn": "relu", "share_all_embeddings": False, "share_decoder_input_output_embed": False}
    for key, value in changed.items():
        tree |= {f"{side}_{key}": value for side in ("encoder", "decoder")} if key in both else {key: value}
    return tree


def random_state(tree: dict[str, Any], sizes: tuple[int, int]) -> dict[str, Tensor]:
    """Return random tensors by the names of fairseq 0.10."""
    generator = torch.Generator().manual_seed(0)
    d_model = tree["encoder_embed_dim"]
    state: dict[str, Tensor] = {}
    for side, size in zip(("encoder", "decoder"), sizes, strict=True):
        state[f"{side}.embed_tokens.weight"] = torch.randn(size, d_model, generator=generator)
        state[f"{side}.version"] = torch.tensor([3.0])
        if tree[f"{side}_learned_pos"]:
            positions = tree[f"max_{'source' if side == 'encoder' else 'target'}_positions"]
            state[f"{side}.embed_positions.weight"] = torch.randn(positions + 2, d_model, generator=generator)
        elif not tree.get("no_token_positional_embeddings"):
            state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for norm, exists in (
            ("layernorm_embedding", "layernorm_embedding"),
            ("layer_norm", f"{side}_normalize_before"),
        ):
            state |= _random_norm(f"{side}.{norm}", d_model, generator) if tree.get(exists) else {}
        for number in range(tree[f"{side}_layers"]):
            state |= _random_layer(f"{side}.layers.{number}", tree, generator)
    if tree["share_all_embeddings"]:
        state["decoder.embed_tokens.weight"] = state["encoder.embed_tokens.weight"]
    output = state["decoder.embed_tokens.weight"]
    if not tree["share_all_embeddings"] and not tree["share_decoder_input_output_embed"]:
        output = torch.randn(sizes[1], d_model, generator=generator)
    return state | {"decoder.output_projection.weight": output}


def _random_layer(name: str, tree: dict[str, Any], generator: torch.Generator) -> dict[str, Tensor]:
    d_model, d_ff = tree["encoder_embed_dim"], tree["encoder_ffn_embed_dim"]
    attentions = ["self_attn"] + ["encoder_attn"] * name.startswith("decoder")
    linear = {f"{one}.{part}_proj": (d_model, d_model) for one in attentions for part in ("q", "k", "v", "out")}
    linear |= {"fc1": (d_ff, d_model), "fc2": (d_model, d_ff)}
    state: dict[str, Tensor] = {}
    for one, shape in linear.items():
        state[f"{name}.{one}.weight"] = torch.randn(*shape, generator=generator) / math.sqrt(shape[1])
        state[f"{name}.{one}.bias"] = torch.randn(shape[0], generator=generator) / 7
    for norm in (*(f"{one}_layer_norm" for one in attentions), "final_layer_norm"):
        state |= _random_norm(f"{name}.{norm}", d_model, generator)
    return state


def _random_norm(name: str, size: int, generator: torch.Generator) -> dict[str, Tensor]:
    weight, bias = torch.randn(2, size, generator=generator) / 5
    return {f"{name}.weight": 1 + weight, f"{name}.bias": bias}


def old_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors by the names of fairseq 0.6."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if "q_proj" in name:
            parts = [state[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            found[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif "k_proj" not in name and "v_proj" not in name and "output_projection" not in name:
            side = name.partition(".")[0]
            numbers = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1}
            numbers["final_layer_norm"] = 1 if side == "encoder" else 2
            for norm, number in numbers.items():
                name = name.replace(norm, f"layer_norms.{number}")
            found[name] = tensor
    if (output := state["decoder.output_projection.weight"]) is not state["decoder.embed_tokens.weight"]:
        found["decoder.embed_out"] = output
    return found


def write_folder(
    folder: Path,
    tree: dict[str, Any],
    *,
    old: bool = False,
    config_groups: bool = False,
    name: str = "checkpoint_best.pt",
) -> dict[str, Tensor]:
    """Write a checkpoint, with the settings of a command line or in groups, and dictionaries; return the tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    source = SOURCE_WORDS if not tree["share_all_embeddings"] else TARGET_WORDS
    for language, words in (("en", source), ("de", TARGET_WORDS)):
        text = "".join(f"{word} {100 - place}\n" for place, word in enumerate(words))
        (folder / f"dict.{language}.txt").write_text(text + "madeupword0000 0\n", encoding="utf-8")
    sizes = (len(source) + 5, len(TARGET_WORDS) + 5)
    state = random_state(tree, sizes)
    saved: dict[str, Any] = {"model": old_names(state) if old else state, "extra_state": {"best": 3.5}, "args": None}
    if config_groups:
        languages = {key: tree[key] for key in ("source_lang", "target_lang")}
        model = {key: value for key, value in tree.items() if key not in (*languages, "task", "arch")}
        groups = {
            "model": argparse.Namespace(**model, _name="transformer"),
            "task": {"_name": "translation"} | languages,
        }
        saved["cfg"] = groups
    else:
        saved["args"] = argparse.Namespace(**tree)
    torch.save(saved, folder / name)
    return state


def logits(state: dict[str, Tensor], tree: dict[str, Any], source: list[int], target: list[int]) -> Tensor:
    """Return the logits after each foreign token of a target, (target, vocabulary)."""
    memory = _stack(state, tree, "encoder", _embed(state, tree, "encoder", source), None)
    hidden = _stack(state, tree, "decoder", _embed(state, tree, "decoder", target), memory)
    return hidden @ state["decoder.output_projection.weight"].T


def greedy(state: dict[str, Tensor], tree: dict[str, Any], source: list[int], limit: int) -> list[int]:
    """Return the most probable tokens one by one, without `<s>` and padding, which a search never takes."""
    tokens = [EOS]
    while len(tokens) <= limit:
        last = logits(state, tree, source, tokens)[-1].clone()
        last[PAD] = -math.inf
        if len(tokens) == 1:
            last[EOS] = -math.inf  # at least one token
        tokens.append(int(last.argmax()))
        if tokens[-1] == EOS:
            return tokens[1:-1]
    return tokens[1:]


def _embed(state: dict[str, Tensor], tree: dict[str, Any], side: str, tokens: list[int]) -> Tensor:
    d_model = tree["encoder_embed_dim"]
    x = state[f"{side}.embed_tokens.weight"][tokens]
    if not tree.get("no_scale_embedding"):
        x = x * math.sqrt(d_model)
    places = torch.arange(len(tokens)) + PAD + 1
    if tree[f"{side}_learned_pos"]:
        x = x + state[f"{side}.embed_positions.weight"][places]
    elif not tree.get("no_token_positional_embeddings"):
        half = d_model // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = places[:, None] * rates
        x = x + torch.cat([angles.sin(), angles.cos()], dim=1)
    return _norm(state, f"{side}.layernorm_embedding", x) if tree.get("layernorm_embedding") else x


def _stack(state: dict[str, Tensor], tree: dict[str, Any], side: str, x: Tensor, memory: Tensor | None) -> Tensor:
    before = tree[f"{side}_normalize_before"]
    activation = ACTIVATIONS[tree["activation_fn"]]

    def sublayer(x: Tensor, norm: str, function: Any) -> Tensor:
        return x + function(_norm(state, norm, x)) if before else _norm(state, norm, x + function(x))

    for layer in (f"{side}.layers.{number}" for number in range(tree[f"{side}_layers"])):
        causal = memory is not None
        x = sublayer(
            x,
            f"{layer}.self_attn_layer_norm",
            lambda y, layer=layer, causal=causal: _attend(state, tree, f"{layer}.self_attn", y, y, causal=causal),
        )
        if memory is not None:
            x = sublayer(
                x,
                f"{layer}.encoder_attn_layer_norm",
                lambda y, layer=layer: _attend(state, tree, f"{layer}.encoder_attn", y, memory, causal=False),
            )
        x = sublayer(
            x,
            f"{layer}.final_layer_norm",
            lambda y, layer=layer: _linear(state, f"{layer}.fc2", activation(_linear(state, f"{layer}.fc1", y))),
        )
    return _norm(state, f"{side}.layer_norm", x) if before else x


def _attend(
    state: dict[str, Tensor], tree: dict[str, Any], name: str, queries: Tensor, memory: Tensor, *, causal: bool
) -> Tensor:
    heads = tree["encoder_attention_heads"]
    size = queries.shape[1] // heads
    outputs = []
    projected = [_linear(state, f"{name}.{part}_proj", x) for part, x in (("q", queries), ("k", memory), ("v", memory))]
    for head in range(heads):
        q, k, v = (one[:, head * size : (head + 1) * size] for one in projected)
        scores = q @ k.T / math.sqrt(size)
        if causal:
            scores = scores + torch.full(scores.shape, -math.inf).triu(1)
        outputs.append(scores.softmax(dim=1) @ v)
    return _linear(state, f"{name}.out_proj", torch.cat(outputs, dim=1))


def _linear(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def _norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    centered = x - x.mean(dim=1, keepdim=True)
    variance = (centered**2).mean(dim=1, keepdim=True)
    return centered / torch.sqrt(variance + 1e-5) * state[f"{name}.weight"] + state[f"{name}.bias"]
