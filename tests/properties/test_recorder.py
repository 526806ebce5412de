"""Recording changes no output bit, leaves no trace on the model, and reports the weights that the model uses."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.interpret import record
from dragoman.interpret.attention_recorder import attention_modules
from dragoman.interpret.simulated_quantization import round_activations
from dragoman.models.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    SelfAttentionConfig,
    TreeConfig,
)
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead, SequenceHead
from dragoman.nn.attention import FullAttention, MultiHeadAttention
from dragoman.nn.attention_score_functions import repeat_kv_heads
from dragoman.nn.masks import causal_mask, padding_mask
from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, bigbird_mask
from dragoman.nn.sparse.linformer import Linformer, project_length
from dragoman.nn.sparse.sliding_window import SlidingWindow, sliding_window_mask
from tests.attention_variants import PATTERNS, POSITIONS, SCORES, attentions, every_combination, is_valid_combination
from tests.fake_models import rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_causal, random_encoder, random_transformer
from tests.random_recurrent_models import random_recurrent, recurrent_configs
from tests.trees import parsed, structure_of

VOCABULARY = 17
CLOSE = {"atol": 1e-6, "rtol": 0.0}
SIZES = {"num_heads": 3, "d_model": 18, "d_ff": 11, "dropout": NO_DROPOUT}
TEXTS = [[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4], [7, 7, 5], [16, 4, 9, 8, 5, 6, 12]]
TOGETHER = [one for one in every_combination() if is_valid_combination(*one[:3], masked=one[3])]
texts = st.lists(st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=11), min_size=1, max_size=3)


class Called:
    """Arguments and result of every attention call of a model."""

    def __init__(self, model: nn.Module) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], Tensor]] = []
        self.hooks = [attention.register_forward_hook(self.note) for _, _, attention in attention_modules(model)]

    def note(self, attention: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        self.calls.append((attention, arguments, output))

    def __enter__(self) -> "Called":
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()


def state_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return every comparable attribute and hook of every module."""
    kept = []
    for module in model.modules():
        things = {name: value for name, value in vars(module).items() if not isinstance(value, dict)}
        inner = {name: list(value) for name, value in vars(module).items() if isinstance(value, dict)}
        kept.append({name: id(value) for name, value in things.items()} | inner)
    return kept


def combined(score: str, positions: str, pattern: str, *, masked: bool) -> nn.Module:
    """Draw one combination of the table; blocks are so small that some are skipped."""
    chosen = BigBirdConfig(block_size=2, num_random_blocks=1) if pattern == "bigbird" else PATTERNS[pattern]
    attention = SelfAttentionConfig(score=SCORES[score], pattern=chosen)
    options = {**SIZES, "num_layers": 2, "positions": POSITIONS[positions][0], "attention": attention}
    if masked:
        return random_causal(DecoderOnlyConfig(**options), vocabulary=VOCABULARY)
    return random_encoder(EncoderOnlyConfig(**options), vocabulary=VOCABULARY)


def dense_mask(attention: MultiHeadAttention, places: int, lengths: Tensor) -> Tensor:
    """Return the pattern's mask row by row, written independently of the implementation."""
    masks = []
    for length in lengths.tolist():
        match attention.pattern:
            case FullAttention(causal=hides):
                mask = causal_mask(places, places) if hides else torch.ones(1, 1, places, places, dtype=torch.bool)
            case SlidingWindow(window=reach, causal=hides):
                mask = sliding_window_mask(places, places, past_length=0, window=reach, causal=hides)
            case BigBird(block_size=block, sampler=draw):
                plan = draw(-(-length // block), attention.key.weight.shape[0] // attention.head_size)
                mask = torch.zeros(1, 3, places, places, dtype=torch.bool)
                mask[0, :, :length, :length] = bigbird_mask(length, block_size=block, random_blocks=plan)
        masks.append(mask.expand(1, 3, -1, -1))
    return torch.cat(masks)


def dense_weights(attention: MultiHeadAttention, arguments: tuple[Any, ...], allowed: Tensor) -> Tensor:
    """Return the weights of the equation over all positions, without the fused path and the pattern."""
    x, seen, _, *places = arguments
    query = attention.project_queries(x, *places[:1])
    logits = attention.score.compare(query, seen.keys)
    if attention.position_bias is not None:
        logits = logits + attention.position_bias.bias(query, keys=seen.length, past_length=0)
    return logits.masked_fill(~allowed, -torch.inf).softmax(dim=-1).nan_to_num(0.0)


@pytest.mark.parametrize(("score", "positions", "pattern", "masked"), TOGETHER)
@torch.no_grad()
def test_recording_leaves_no_trace(score: str, positions: str, pattern: str, masked: bool) -> None:
    model = combined(score, positions, pattern, masked=masked)
    tokens, lengths = rectangle(TEXTS)
    arguments = (tokens,) if masked else (tokens, lengths)
    alone, before = model(*arguments), state_of(model)
    with Called(model) as called, record(model) as trace:
        assert torch.equal(model(*arguments), alone)
    assert state_of(model) == before
    assert torch.equal(model(*arguments), alone)
    assert len(trace.calls) == 2
    for one, (attention, inputs, output) in zip(trace.calls, called.calls, strict=True):
        check_rows(one.weights, one.mask)
        values = inputs[1].values
        if isinstance(attention.pattern, Linformer):
            assert one.projected
            values = project_length(values, attention.pattern.value_projection, inputs[2])
        else:
            real = (
                padding_mask(lengths, tokens.shape[1]).transpose(2, 3)
                if not masked
                else torch.ones(1, dtype=torch.bool)
            )
            allowed = dense_mask(attention, tokens.shape[1], lengths if not masked else torch.tensor([13] * 3))
            allowed = allowed & (padding_mask(lengths, tokens.shape[1]) if not masked else real)
            real = real.expand_as(allowed)
            assert torch.equal(one.mask[real], allowed[real])
            torch.testing.assert_close(one.weights[real], dense_weights(attention, inputs, allowed)[real], **CLOSE)
        attended = one.weights @ values
        if attention.value_positions is not None:
            attended = attended + attention.value_positions.values(one.weights, past_length=0)
        joined = attention.output(attended.transpose(1, 2).flatten(2))
        torch.testing.assert_close(joined, output, atol=2e-5, rtol=1e-5)


def check_rows(weights: Tensor, allowed: Tensor) -> None:
    """Check that rows sum to one, or to zero without allowed keys, and that forbidden keys have exactly zero weight."""
    assert weights.shape == allowed.shape
    assert (weights[~allowed] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), allowed.any(dim=-1).float(), atol=1e-5, rtol=0.0)


@examples(25)
@given(attentions(), texts, st.integers(0, 5))
@torch.no_grad()
def test_all_three_attentions_are_recorded(chosen: Any, sources: list[list[int]], seed: int) -> None:
    positions, roles = chosen
    config = EncoderDecoderConfig(
        **SIZES, encoder_layers=2, decoder_layers=3, positions=positions, attention=roles, tie_embeddings="none"
    )
    model = random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, seed=seed)
    source, lengths = rectangle(sources)
    target, _ = rectangle([[2, *reversed(text)] for text in sources])
    alone, before = model(source, lengths, target), state_of(model)
    with record(model) as trace:
        assert torch.equal(model(source, lengths, target), alone)
    assert state_of(model) == before
    assert trace.kinds == ("encoder", "masked", "cross")
    assert [trace.weights(kind).shape[0] for kind in trace.kinds] == [2, 3, 3]
    for kind in trace.kinds:
        check_rows(trace.weights(kind), trace.mask(kind))
    cross = trace.weights("cross")
    assert cross.shape[1:] == (len(sources), 3, target.shape[1], source.shape[1])
    assert torch.equal(trace.mask("cross"), padding_mask(lengths, source.shape[1])[None].expand_as(cross))


@examples(25)
@given(attentions(), texts)
@torch.no_grad()
def test_recorded_steps_equal_the_parallel_pass(chosen: Any, sources: list[list[int]]) -> None:
    positions, roles = chosen
    config = EncoderDecoderConfig(
        **SIZES, encoder_layers=1, decoder_layers=2, positions=positions, attention=roles, tie_embeddings="none"
    )
    model = random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    source, lengths = rectangle(sources)
    target = torch.tensor([[2, 5, 7, 11, 13]]).expand(len(sources), -1)
    with record(model) as at_once:
        model.hidden(source, lengths, target)
    with record(model) as by_steps:
        memory = model.encode(source, lengths)
        state = model.start(memory, beam_size=1)
        for place in range(target.shape[1]):
            _, state = model.step(target[:, place, None], memory, state)
    for kind in ("masked", "cross"):
        assert torch.equal(by_steps.mask(kind), at_once.mask(kind))
        torch.testing.assert_close(by_steps.weights(kind), at_once.weights(kind), atol=1e-4, rtol=1e-4)


@examples(25)
@given(recurrent_configs(), texts, st.integers(0, 5))
@torch.no_grad()
def test_recurrent_models_are_recorded(config: Any, sources: list[list[int]], seed: int) -> None:
    model = random_recurrent(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, seed=seed)
    source, lengths = rectangle(sources)
    target, _ = rectangle([[2, *text] for text in sources])
    alone, before = model(source, lengths, target), state_of(model)
    with record(model) as trace:
        assert torch.equal(model(source, lengths, target), alone)
    assert state_of(model) == before
    if config.attention.kind == "none":
        assert trace.calls == []
        return
    weights = trace.weights("cross")
    assert weights.shape == (1, len(sources), 1, target.shape[1], source.shape[1])
    check_rows(weights, trace.mask("cross"))
    memory = model.encode(source, lengths)
    state = model.start(memory, beam_size=1)
    for place in range(target.shape[1]):
        _, state = model.step(target[:, place, None], memory, state)
        torch.testing.assert_close(weights[0, :, 0, place], model.alignment(memory, state)[:, 0], atol=1e-5, rtol=1e-4)


def check_weights(trace: Any, called: Called, *, rounding: float = 0.0) -> None:
    """Check the weights of the equation to 1e-6, and the model's use of them up to rounded inputs."""
    assert len(trace.calls) == len(called.calls)
    for one, (attention, inputs, output) in zip(trace.calls, called.calls, strict=True):
        check_rows(one.weights, one.mask)
        if attention.tree is None or len(inputs) < 5 or inputs[4] is None:
            expected = dense_weights(attention, inputs, one.mask)
        else:
            query = attention.project_queries(inputs[0], *inputs[3:4])
            logits = attention.score.compare(query, inputs[1].keys) + attention.tree.bias(
                query, inputs[4], past_length=0
            )
            expected = logits.masked_fill(~one.mask, -torch.inf).softmax(dim=-1)
        torch.testing.assert_close(one.weights, expected, **CLOSE)
        attended = one.weights @ repeat_kv_heads(inputs[1].values, one.weights.shape[1])
        joined = attention.output(attended.transpose(1, 2).flatten(2))
        torch.testing.assert_close(joined, output, atol=2e-5 + rounding, rtol=1e-5)


@examples(25)
@given(st.lists(parsed(vocabulary=VOCABULARY), min_size=1, max_size=3), st.booleans(), st.integers(0, 5))
@torch.no_grad()
def test_tree_positions_are_recorded(sources: list[Any], absolute: bool, seed: int) -> None:
    config = EncoderDecoderConfig(
        **SIZES,
        encoder_layers=2,
        decoder_layers=1,
        positions=TreeConfig(absolute=absolute, max_distance=3),
        tie_embeddings="none",
    )
    model = random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, seed=seed)
    source, lengths = rectangle([[*one.ids, 3] for one in sources])
    target, structure = torch.tensor([[2, 5, 7, 11]]).expand(len(sources), -1), structure_of(sources)
    alone, before = model.hidden(source, lengths, target, structure), state_of(model)
    with Called(model) as called, record(model) as trace:
        assert torch.equal(model.hidden(source, lengths, target, structure), alone)
        check_weights(trace, called)
    assert state_of(model) == before


@examples(25)
@given(texts, st.sampled_from([1, 2, 3]), st.sampled_from([None, "int8", "bfloat16"]))
@torch.no_grad()
def test_grouped_keys_and_rounded_inputs_are_recorded(sources: list[list[int]], groups: int, compute: Any) -> None:
    """For a model with rounded inputs the recorder returns the weights of the rounded inputs."""
    sizes = {**SIZES, "num_heads": 6, "d_model": 36, "num_kv_heads": groups}
    config = EncoderDecoderConfig(**sizes, encoder_layers=1, decoder_layers=2, tie_embeddings="none")
    model = random_transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    source, lengths = rectangle(sources)
    target, _ = rectangle([[2, *text] for text in sources])
    plain = model(source, lengths, target)
    with nullcontext() if compute is None else round_activations(model, compute):
        alone, before = model(source, lengths, target), state_of(model)
        with Called(model) as called, record(model) as trace:
            assert torch.equal(model(source, lengths, target), alone)
            # Sums in another order may move a number from one rounded value to the next: a step, times a weight.
            check_weights(trace, called, rounding=0.0 if compute is None else 5e-3)
        assert state_of(model) == before
    assert torch.equal(model(source, lengths, target), plain)


@pytest.mark.parametrize("reads", ["both sides", "the past"])
@torch.no_grad()
def test_head_contributions_are_recorded(reads: str) -> None:
    tokens, lengths = rectangle(TEXTS)
    if reads == "both sides":
        trunk: Any = random_encoder(EncoderOnlyConfig(**SIZES, num_layers=2), vocabulary=VOCABULARY)
    else:
        trunk = DecoderOnlyBackbone(random_causal(DecoderOnlyConfig(**SIZES, num_layers=2), vocabulary=VOCABULARY))
    model = ModelWithHead(trunk, SequenceHead(d_model=18, num_labels=5, pooling="mean", dense=True, dropout=0.0)).eval()
    alone, before = model(tokens, lengths), state_of(model)
    with Called(model) as called, record(model) as trace:
        assert torch.equal(model(tokens, lengths), alone)
        check_weights(trace, called)
    assert state_of(model) == before
    assert trace.kinds == (("encoder",) if reads == "both sides" else ("masked",))
