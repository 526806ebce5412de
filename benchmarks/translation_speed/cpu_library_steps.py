"""Time the encoder and the decoder steps of the CPU library on a model with random weights.

    python -m benchmarks.translation_speed.cpu_library_steps --compute-type int8 --threads 2

The model is `base` (6 + 6 layers, 512/2048, vocabulary of 32,000); `--tiny` tests the script. Every number is a
median in milliseconds over all steps of some decodings of 24 source and 32 target tokens, the work of the comparison
with peers.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import dragoman_cpu as cpu
import numpy as np

SOURCE, TARGET = 24, 32
WORK = ((1, 1), (1, 4), (32, 1), (32, 4), (64, 4))
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    size: int = 512
    heads: int = 8
    feed_forward: int = 2048
    layers: int = 6
    vocabulary: int = 32000


TINY = Sizes(size=32, heads=4, feed_forward=64, layers=1, vocabulary=99)


def build_config(sizes: Sizes) -> dict[str, Any]:
    """Return the configuration of `base`, pre-norm."""
    attention = {"score": {"kind": "scaled_dot"}, "pattern": {"kind": "full"}}
    return {
        "kind": "encoder_decoder",
        "d_model": sizes.size,
        "num_heads": sizes.heads,
        "num_kv_heads": None,
        "d_ff": sizes.feed_forward,
        "activation": "relu",
        "gated": False,
        "norm": "layer",
        "norm_position": "pre",
        "bias": True,
        "positions": {"kind": "sinusoidal", "join": "add"},
        "scale_embedding": True,
        "norm_embedding": False,
        "dropout": {},
        "encoder_layers": sizes.layers,
        "decoder_layers": sizes.layers,
        "attention": {"encoder": attention, "decoder": attention, "cross": {"score": {"kind": "scaled_dot"}}},
        "tie_embeddings": "all",
        "source_vocabulary": sizes.vocabulary,
        "target_vocabulary": sizes.vocabulary,
    }


def random_weights(sizes: Sizes) -> Weights:
    """Return random weights at the scale of initialization."""
    generator = np.random.default_rng(0)
    weights: Weights = {"source_embedding.tokens.weight": matrix(generator, sizes.vocabulary, sizes.size)}
    weights["unembedding.bias"] = np.zeros(sizes.vocabulary, np.float32)
    for stack, attentions in (("encoder", ("attention",)), ("decoder", ("attention", "cross_attention"))):
        for block in (f"{stack}.{layer}" for layer in range(sizes.layers)):
            for attention in attentions:
                for part in ("query", "key", "value", "output"):
                    weights |= linear(generator, f"{block}.{attention}.{part}", sizes.size, sizes.size)
                weights |= norm(f"{block}.{attention}_residual.norm", sizes.size)
            weights |= norm(f"{block}.feed_forward_residual.norm", sizes.size)
            weights |= linear(generator, f"{block}.feed_forward.inner", sizes.size, sizes.feed_forward)
            weights |= linear(generator, f"{block}.feed_forward.outer", sizes.feed_forward, sizes.size)
        weights |= norm(f"{stack}_norm", sizes.size)
    return weights


def matrix(generator: np.random.Generator, outputs: int, inputs: int) -> np.ndarray:
    return generator.standard_normal((outputs, inputs), np.float32) / np.float32(inputs**0.5)


def linear(generator: np.random.Generator, name: str, inputs: int, outputs: int) -> Weights:
    return {f"{name}.weight": matrix(generator, outputs, inputs), f"{name}.bias": np.zeros(outputs, np.float32)}


def norm(name: str, size: int) -> Weights:
    return {f"{name}.weight": np.ones(size, np.float32), f"{name}.bias": np.zeros(size, np.float32)}


def top_k_of_logits(
    model: cpu.Model, tokens: np.ndarray, memory: cpu.Memory, state: cpu.State, k: int
) -> tuple[np.ndarray, np.ndarray, cpu.State]:
    """Return the result of the library's top k, computed by numpy from all logits."""
    logits, next_state = model.step(tokens, memory, state)
    largest = logits.max(axis=-1, keepdims=True)
    normalizer = largest + np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
    top = np.argpartition(-logits, k - 1, axis=-1)[..., :k].astype(np.int32)
    values = np.take_along_axis(logits, top, axis=-1)
    order = np.argsort(-values, axis=-1)
    log_probs = np.take_along_axis(values, order, axis=-1) - normalizer
    return log_probs, np.take_along_axis(top, order, axis=-1), next_state


def decode(model: cpu.Model, sentences: int, beam: int, *, steps: int, logits: bool) -> tuple[float, list[float]]:
    """Return the milliseconds of the encoder and of each decoder step; beams are reordered as in a search."""
    top_k_tokens = partial(top_k_of_logits, model) if logits else model.top_k
    generator = np.random.default_rng(1)
    ids = generator.integers(4, model.vocabulary, size=(sentences, SOURCE), dtype=np.int32)
    start = time.perf_counter()
    memory = model.encode(ids, np.full(sentences, SOURCE))
    encoding = time.perf_counter() - start
    state = model.start(memory, beam)
    tokens = np.full((sentences, beam), 2, np.int32)
    parents = generator.integers(beam, size=(sentences, beam), dtype=np.int32)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        _, best, state = top_k_tokens(tokens, memory, state, 2 * beam if beam > 1 else 1)
        if beam > 1:
            state = state.reorder(parents)
        times.append(1e3 * (time.perf_counter() - start))
        tokens = np.ascontiguousarray(best[:, :, 0])
    return 1e3 * encoding, times


def measure(
    model: cpu.Model, sentences: int, beam: int, *, steps: int, rounds: int, logits: bool = False
) -> dict[str, Any]:
    decode(model, sentences, beam, steps=2, logits=logits)
    runs = [decode(model, sentences, beam, steps=steps, logits=logits) for _ in range(rounds)]
    return {
        "sentences": sentences,
        "beam": beam,
        "encode_ms": round(statistics.median(encoding for encoding, _ in runs), 3),
        "step_ms": round(statistics.median(one for _, times in runs for one in times), 3),
        "decoder_ms": round(statistics.median(sum(times) for _, times in runs), 2),
        "least_decoder_ms": round(min(sum(times) for _, times in runs), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute-type", choices=["int8", "bfloat16", "float32"], default="int8")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--instruction-set", choices=cpu.instruction_sets())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least-sentences", type=int, default=1)
    parser.add_argument("--most-sentences", type=int, default=64)
    parser.add_argument("--logits", action="store_true", help="search all logits in numpy instead of calling top k")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to test the script")
    arguments = parser.parse_args()
    sizes = TINY if arguments.tiny else Sizes()
    model = cpu.Model(
        build_config(sizes),
        random_weights(sizes),
        compute_type=arguments.compute_type,
        num_threads=arguments.threads,
        instruction_set=arguments.instruction_set,
    )
    print(
        json.dumps(
            {
                "compute_type": arguments.compute_type,
                "threads": model.num_threads,
                "instruction_set": model.instruction_set,
            }
        )
    )
    for sentences, beam in WORK:
        if arguments.least_sentences <= sentences <= arguments.most_sentences:
            found = measure(model, sentences, beam, steps=TARGET, rounds=arguments.rounds, logits=arguments.logits)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
