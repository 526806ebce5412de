"""Invalid calls, weights and configurations are refused with messages that name the value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from native.tests import models
from native.tests.models import KINDS, cpu

IDS, LENGTHS = models.sources(3)
TOKENS = models.tokens(3, 2)
Call = Callable[[Any, Any, Any], Any]

CALLS: dict[str, tuple[Call, str]] = {
    "token beyond vocabulary": (lambda m, mem, s: m.step(TOKENS + models.VOCABULARY, mem, s), "vocabulary of 197"),
    "negative token": (lambda m, mem, s: m.step(TOKENS - 300, mem, s), "token -"),
    "64-bit token": (lambda m, mem, s: m.step(TOKENS + 2**40, mem, s), "beyond 32-bit"),
    "fractional tokens": (lambda m, mem, s: m.step(TOKENS + 0.5, mem, s), "must hold integers"),
    "tokens of another beam size": (lambda m, mem, s: m.step(TOKENS[:, :1], mem, s), "beam_size of 2"),
    "tokens of another batch": (lambda m, mem, s: m.top_k(TOKENS[:2], mem, s, 3), "2 x 2"),
    "tokens with one axis": (lambda m, mem, s: m.step(TOKENS[0], mem, s), "2 axes"),
    "source token beyond vocabulary": (lambda m, mem, s: m.encode(IDS + 197, LENGTHS), "vocabulary of 197"),
    "length zero": (lambda m, mem, s: m.encode(IDS, LENGTHS * 0), "length of 0"),
    "negative length": (lambda m, mem, s: m.encode(IDS, -LENGTHS), "length of -"),
    "length beyond width": (lambda m, mem, s: m.encode(IDS, LENGTHS + 37), "37 columns"),
    "lengths of other rows": (lambda m, mem, s: m.encode(IDS, LENGTHS[:2]), "2 lengths for 3 rows"),
    "beam size zero": (lambda m, mem, s: m.start(mem, 0), "beam_size = 0"),
    "negative beam size": (lambda m, mem, s: m.start(mem, -1), "beam_size = -1"),
    "huge beam size": (lambda m, mem, s: m.start(mem, 2**40), "beam_size = 1099511627776"),
    "k zero": (lambda m, mem, s: m.top_k(TOKENS, mem, s, 0), "k = 0"),
    "k beyond vocabulary": (lambda m, mem, s: m.top_k(TOKENS, mem, s, 198), "k = 198"),
    "k beyond allowed tokens": (lambda m, mem, s: m.top_k(TOKENS, mem, s, 196, [3, 5]), "195"),
    "suppressed token beyond vocabulary": (
        lambda m, mem, s: m.top_k(TOKENS, mem, s, 1, [197]),
        "suppressed token 197",
    ),
    "attention of several beams": (
        lambda m, mem, s: m.cross_attention(TOKENS[:, 0], mem, s, layer=0),
        "beam_size of 1|no layer with cross-attention",
    ),
    "attention of no layer": (lambda m, mem, s: m.cross_attention(TOKENS[:, 0], mem, s, layer=97), "layer = 97"),
    "parent beyond beam": (lambda m, mem, s: s.reorder(TOKENS * 0 + 2), "parent 2"),
    "negative parent": (lambda m, mem, s: s.reorder(TOKENS * 0 - 1), "parent -1"),
    "parents of another batch": (lambda m, mem, s: s.reorder([[0]]), "1 x 1"),
    "no parents": (lambda m, mem, s: s.reorder(np.empty((3, 0), int)), "one hypothesis"),
    "row beyond batch": (lambda m, mem, s: s.select([3]), "row 3"),
    "negative row": (lambda m, mem, s: mem.select([-1]), "row -1"),
    "states of different beam sizes": (lambda m, mem, s: s.concat(m.start(mem, 3)), "beam_size of 2 and 3"),
    "state of another batch": (
        lambda m, mem, s: m.step(TOKENS[:1], mem, s.select([0])),
        "3 sentences, and the state 1",
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_invalid_call_is_refused_without_side_effects(kind: str, name: str) -> None:
    call, message = CALLS[name]
    model = models.model(kind)
    memory = model.encode(IDS, LENGTHS)
    state = model.start(memory, 2)
    cached_tokens = model.cached_tokens
    with pytest.raises((ValueError, IndexError), match=message):
        call(model, memory, state)
    assert model.cached_tokens == cached_tokens
    logits, _ = model.step(TOKENS, memory, state)
    assert np.isfinite(logits).all()


def test_values_of_another_model_are_refused() -> None:
    model, other = models.model(), models.model()
    memory, foreign = model.encode(IDS, LENGTHS), other.encode(IDS, LENGTHS)
    state = model.start(memory, 2)
    calls: list[Callable[[], Any]] = [
        lambda: model.start(foreign, 2),
        lambda: model.step(TOKENS, foreign, state),
        lambda: other.step(TOKENS, foreign, state),
        lambda: memory.concat(foreign),
        lambda: state.concat(other.start(foreign, 2)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="model"):
            call()


def replace(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[models.Weights], Any]:
    def act(weights: models.Weights) -> None:
        weights[name] = change(weights[name])

    return act


def replace_by_blocks(change: Callable[..., tuple[Any, Any, Any]]) -> Callable[[models.Weights], Any]:
    def act(weights: models.Weights) -> None:
        weights[QUERY], weights[f"{QUERY}_scale"], weights[f"{QUERY}_center"] = change(
            *cpu.quantize_blocks(weights[QUERY])
        )

    return act


EMBEDDING, QUERY = "source_embedding.tokens.weight", "encoder.0.attention.query.weight"
WEIGHTS: dict[str, tuple[Callable[[models.Weights], Any], str]] = {
    "missing": (lambda w: w.pop(QUERY), f"no {QUERY}"),
    "surplus": (lambda w: w.update(surplus=w[QUERY]), "surplus"),
    "another shape": (replace(QUERY, lambda x: x[:, :-1]), "66 x 65"),
    "another number of axes": (replace(QUERY, lambda x: x[0]), "is 66,"),
    "NaN": (replace(QUERY, lambda x: np.where(x == x[3, 5], np.nan, x).astype(np.float32)), "not finite"),
    "infinity": (replace("encoder_norm.bias", lambda x: x / np.float32(0)), "not finite"),
    "double precision": (replace(QUERY, lambda x: x.astype(np.float64)), "float64"),
    "int8 without scales": (replace(QUERY, lambda x: cpu.quantize(x)[0]), f"no {QUERY}_scale"),
    "int8 bias": (replace("unembedding.bias", lambda x: x.astype(np.int8)), "must be float32 or bfloat16"),
    "differing tied weights": (
        lambda w: w.update({"unembedding.weight": w[EMBEDDING] + np.float32(1)}),
        "differ",
    ),
    "int8 of -128": (
        lambda w: w.update({QUERY: np.full((66, 66), -128, np.int8), f"{QUERY}_scale": np.ones(66, np.float32)}),
        "-128",
    ),
    "negative scale": (
        lambda w: w.update({QUERY: np.ones((66, 66), np.int8), f"{QUERY}_scale": -np.ones(66, np.float32)}),
        "scales",
    ),
    "row scales of blocks": (replace_by_blocks(lambda q, s, c: (q, s[:, 0], c)), "66 x 3"),
    "negative scale of a block": (replace_by_blocks(lambda q, s, c: (q, -s, c)), "finite, and scales not negative"),
    "infinite center": (replace_by_blocks(lambda q, s, c: (q, s, c / 0)), "center -?inf"),
    "center of another type": (
        replace_by_blocks(lambda q, s, c: (q, s, c.view(np.uint32).astype(np.uint16))),
        "float32",
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of the division by zero
@pytest.mark.parametrize("name", WEIGHTS)
def test_invalid_weights_are_refused(name: str) -> None:
    act, message = WEIGHTS[name]
    config = models.config()
    arrays = models.weights(config)
    act(arrays)
    with pytest.raises(ValueError, match=message):
        cpu.Model(config, arrays, compute_type="int8", num_threads=1)


CONFIGURATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "indivisible heads": ({"num_heads": 7}, "does not divide"),
    "zero size": ({"d_model": 0}, "d_model = 0"),
    "negative size": ({"d_model": -4}, "d_model = -4"),
    "huge size": ({"d_model": 2**40}, "d_model = 1099511627776"),
    "too many layers": ({"decoder_layers": 2**24}, "there is no decoder.16777215"),
    "wider feed-forward than the weights": ({"d_ff": 2**24}, "83 x 66"),
    "negative rotary base": (
        {"positions": {"kind": "rotary", "base": -1.0}, "num_heads": 3, "num_kv_heads": 1},
        "above 0",
    ),
    "odd rotary head size": ({"positions": {"kind": "rotary", "base": 1.0}}, "even head size"),
    "zero head size": ({"head_size": 0}, "head_size = 0"),
    "huge head size": ({"head_size": 2**40}, "head_size = 1099511627776"),
    "head size of other weights": ({"head_size": 13}, "configuration needs 26 x 66"),
    "negative epsilon": ({"norm_epsilon": -1e-5}, "norm_epsilon = -1e-05"),
    "vanishing epsilon": ({"norm_epsilon": 1e-60}, "norm_epsilon"),
    "biases of other weights": ({"qkv_bias": False}, "attention.key.bias is not part"),
    "bias of the wrong type": ({"output_bias": "yes"}, "output_bias = 'yes'"),
    "negative offset": ({"positions": {"kind": "sinusoidal", "offset": -1}}, "offset = -1"),
    "huge offset": ({"positions": {"kind": "sinusoidal", "offset": 2**40}}, "offset = 1099511627776"),
    "unknown order": ({"positions": {"kind": "sinusoidal", "order": "random"}}, "interleaved, halves"),
    "unknown scaling": (
        {"positions": {"kind": "rotary", "base": 1.0, "scaling": {"kind": "yarn"}}},
        "does not support yarn scaling",
    ),
    "scaling without a factor": (
        {"positions": {"kind": "rotary", "base": 1.0, "scaling": {"kind": "linear"}}},
        "no factor",
    ),
    "unordered scaling factors": (
        {
            "positions": {
                "kind": "rotary",
                "base": 1.0,
                "scaling": {
                    "kind": "llama3",
                    "factor": 8.0,
                    "low_frequency_factor": 4.0,
                    "high_frequency_factor": 4.0,
                    "original_length": 8192,
                },
            },
            "num_heads": 3,
            "num_kv_heads": 1,
        },
        "high_frequency_factor above",
    ),
    "unknown decoder layer": ({"decoder_layer": "lstm"}, "kind lstm"),
    "recurrent layers of other weights": ({"decoder_layer": "ssru"}, "there is no decoder.0.ssru.input.weight"),
    "size of the wrong type": ({"d_model": "large"}, "d_model = 'large'"),
    "unknown activation": ({"activation": "tanh"}, "one of relu"),
    "unknown key": ({"color": 3}, "color"),
    "unknown kind": ({"kind": "recurrent"}, "not recurrent"),
    "tied embeddings of two vocabularies": ({"source_vocabulary": 11}, "one vocabulary"),
    "wrong number of buckets": (
        {"positions": {"kind": "t5_bias", "num_buckets": 6, "max_distance": 9}},
        "multiple of 4",
    ),
    "positions without a kind": ({"positions": {}}, "no kind"),
    "positions of the wrong type": ({"positions": "alibi"}, "wrong type"),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_invalid_configuration_is_refused(name: str) -> None:
    changes, message = CONFIGURATIONS[name]
    with pytest.raises(ValueError, match=message):
        cpu.Model(models.config(**changes), models.weights(models.config()), compute_type="int8")


FULL, PRUNED = models.config(num_kv_heads=None)["attention"], models.pruned()["attention"]


def kept_heads(role: str, heads: Any) -> dict[str, Any]:
    return {"attention": FULL | {role: FULL[role] | {"kept_heads": heads}}}


KEPT_HEADS: dict[str, tuple[dict[str, Any], str]] = {
    "of one layer": (kept_heads("encoder", [[0, 1]]), "encoder.kept_heads"),
    "beyond the last head": (kept_heads("decoder", [[0], [6]]), "decoder.kept_heads"),
    "empty layer": (kept_heads("cross", [[0], []]), "cross.kept_heads"),
    "duplicates": (kept_heads("cross", [[0], [1, 1]]), "cross.kept_heads"),
    "descending": (kept_heads("cross", [[0], [3, 1]]), "cross.kept_heads"),
    "negative": (kept_heads("cross", [[0], [-1]]), "list of head numbers"),
    "no layers": (kept_heads("cross", []), "list of head numbers"),
    "of the wrong type": (kept_heads("cross", ["one", "two"]), "list of head numbers"),
    "incomplete groups": ({"attention": PRUNED, "num_kv_heads": 3}, "groups of 2"),
    "parts of two groups": (
        {"attention": PRUNED | {"decoder": FULL["decoder"] | {"kept_heads": [[0, 3], [0, 1]]}}, "num_kv_heads": 3},
        "groups of 2",
    ),
    "other than the weights": ({"attention": PRUNED | {"cross": FULL["cross"]}}, "44 x 66"),
}


@pytest.mark.parametrize("name", KEPT_HEADS)
def test_invalid_kept_heads_are_refused(name: str) -> None:
    changes, message = KEPT_HEADS[name]
    with pytest.raises(ValueError, match=message):
        cpu.Model(models.pruned() | changes, models.weights(models.pruned()), compute_type="int8")


def test_invalid_options_are_refused() -> None:
    config = models.config()
    for options, message in (
        ({"compute_type": "int4"}, "int8, int8_int16, bfloat16 or float32"),
        ({"instruction_set": "sse9"}, "portable"),
        ({"num_threads": -1}, "num_threads = -1"),
        ({"num_threads": 10**6}, "num_threads = 1000000"),
    ):
        with pytest.raises(ValueError, match=message):
            cpu.Model(config, models.weights(config), **{"compute_type": "int8", **options})


def test_learned_positions_limit_the_length() -> None:
    config = models.config(positions={"kind": "learned", "max_length": 11})
    arrays = models.weights(config)
    for side in ("source", "target"):
        arrays[f"{side}_embedding.positions.table.weight"] = np.ones((11, 66), np.float32)
    model = cpu.Model(config, arrays, compute_type="float32", num_threads=1)
    with pytest.raises(IndexError, match="position 36"):
        model.encode(IDS, [37, 1, 1])
    memory = model.encode(IDS, [11, 1, 1])
    state = model.start(memory, 2)
    for _ in range(11):
        _, state = model.step(TOKENS, memory, state)
    with pytest.raises(IndexError, match="position 11"):
        model.step(TOKENS, memory, state)


@pytest.mark.parametrize("compute_type", models.COMPUTE_TYPES)
def test_weight_format_does_not_change_exact_weights(compute_type: str) -> None:
    """Weights that bfloat16 and int8 represent exactly give the same model in every format."""
    config = models.config()
    exact, bfloat16, int8 = models.weights(config), {}, {}
    for name, array in exact.items():
        rounded = array if array.ndim == 1 else np.rint(array * 100).clip(-127, 127).astype(np.float32)
        if array.ndim == 2:
            rounded[:, 0] = 127.0
            int8[name] = rounded.astype(np.int8)
            int8[f"{name}_scale"] = np.full(len(rounded), 2.0**-7, np.float32)
        else:
            rounded = (rounded.view(np.uint32) & 0xFFFF0000).view(np.float32)
            int8[name] = rounded
        exact[name] = rounded * np.float32(2.0**-7) if array.ndim == 2 else rounded
        bfloat16[name] = (exact[name].view(np.uint32) >> 16).astype(np.uint16)
    results = []
    for arrays in (exact, bfloat16, int8):
        model = cpu.Model(config, arrays, compute_type=compute_type, num_threads=1)
        memory = model.encode(IDS, LENGTHS)
        results.append(model.step(TOKENS, memory, model.start(memory, 2))[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
