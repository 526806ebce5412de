"""Times the pieces of the compiled core on a model of random weights: reading sources, steps by rows.

    python benchmarks/decode/core_steps.py --compute int8 --threads 2

The model is `base` (6+6 layers, 512/2048, 32,000 words) unless `--tiny` asks for one that only checks that this runs.
Every number is the median over all steps of some decodings, in milliseconds; a decoding is 24 source and 32 target
tokens, the work that the peers are compared on.
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


def configuration(sizes: Sizes) -> dict[str, Any]:
    """The paper's base model, normed before each sublayer."""
    attention = {"score": {"kind": "scaled_dot"}, "pattern": {"kind": "full"}}
    return {
        "kind": "transformer",
        "size": sizes.size,
        "heads": sizes.heads,
        "key_value_heads": None,
        "feed_forward": sizes.feed_forward,
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
        "tie": "all",
        "source_vocabulary": sizes.vocabulary,
        "target_vocabulary": sizes.vocabulary,
    }


def random_weights(sizes: Sizes) -> Weights:
    """At the scale of a model as training begins."""
    generator = np.random.default_rng(0)
    weights: Weights = {"source_embedding.tokens.weight": matrix(generator, sizes.vocabulary, sizes.size)}
    weights["unembedding.bias"] = np.zeros(sizes.vocabulary, np.float32)
    for stack, attentions in (("encoder", ("attention",)), ("decoder", ("attention", "cross_attention"))):
        for block in (f"{stack}.{layer}" for layer in range(sizes.layers)):
            for attention in attentions:
                for part in ("query", "key", "value", "output"):
                    weights |= linear(generator, f"{block}.{attention}.{part}", sizes.size, sizes.size)
                weights |= norm(f"{block}.around_{attention}.norm", sizes.size)
            weights |= norm(f"{block}.around_feed_forward.norm", sizes.size)
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


def best_by_logits(
    model: cpu.Model, tokens: np.ndarray, memory: cpu.Memory, state: cpu.State, k: int
) -> tuple[np.ndarray, np.ndarray, cpu.State]:
    """What `Model.best` gives, found by numpy in all logits."""
    logits, after = model.step(tokens, memory, state)
    most = logits.max(axis=-1, keepdims=True)
    normaliser = most + np.log(np.exp(logits - most).sum(axis=-1, keepdims=True))
    some = np.argpartition(-logits, k - 1, axis=-1)[..., :k].astype(np.int32)
    values = np.take_along_axis(logits, some, axis=-1)
    order = np.argsort(-values, axis=-1)
    log_probs = np.take_along_axis(values, order, axis=-1) - normaliser
    return log_probs, np.take_along_axis(some, order, axis=-1), after


def decoded(model: cpu.Model, sentences: int, beam: int, *, steps: int, logits: bool) -> tuple[float, list[float]]:
    """Milliseconds of reading the sources, and of each step; hypotheses change places as in a search."""
    best_of = partial(best_by_logits, model) if logits else model.best
    generator = np.random.default_rng(1)
    ids = generator.integers(4, model.vocabulary, size=(sentences, SOURCE), dtype=np.int32)
    began = time.perf_counter()
    memory = model.encode(ids, np.full(sentences, SOURCE))
    read = time.perf_counter() - began
    state = model.start(memory, beam)
    tokens = np.full((sentences, beam), 2, np.int32)
    parents = generator.integers(beam, size=(sentences, beam), dtype=np.int32)
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        _, best, state = best_of(tokens, memory, state, 2 * beam if beam > 1 else 1)
        if beam > 1:
            state = state.select(parents)
        times.append(1e3 * (time.perf_counter() - began))
        tokens = np.ascontiguousarray(best[:, :, 0])
    return 1e3 * read, times


def measured(
    model: cpu.Model, sentences: int, beam: int, *, steps: int, rounds: int, logits: bool = False
) -> dict[str, Any]:
    decoded(model, sentences, beam, steps=2, logits=logits)
    runs = [decoded(model, sentences, beam, steps=steps, logits=logits) for _ in range(rounds)]
    return {
        "sentences": sentences,
        "beam": beam,
        "encode_ms": round(statistics.median(read for read, _ in runs), 3),
        "step_ms": round(statistics.median(one for _, times in runs for one in times), 3),
        "decoder_ms": round(statistics.median(sum(times) for _, times in runs), 2),
        "least_decoder_ms": round(min(sum(times) for _, times in runs), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute", choices=["int8", "bfloat16", "float32"], default="int8")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--instruction-set", choices=cpu.instruction_sets())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least-sentences", type=int, default=1)
    parser.add_argument("--most-sentences", type=int, default=64)
    parser.add_argument("--logits", action="store_true", help="search all logits, instead of asking for the best")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that this runs")
    given = parser.parse_args()
    sizes = TINY if given.tiny else Sizes()
    model = cpu.Model(
        configuration(sizes),
        random_weights(sizes),
        compute=given.compute,
        threads=given.threads,
        instruction_set=given.instruction_set,
    )
    print(json.dumps({"compute": given.compute, "threads": model.threads, "instruction_set": model.instruction_set}))
    for sentences, beam in WORK:
        if given.least_sentences <= sentences <= given.most_sentences:
            found = measured(model, sentences, beam, steps=TARGET, rounds=given.rounds, logits=given.logits)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
