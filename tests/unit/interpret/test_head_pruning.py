"""Pruning: the pruned model equals the model with closed gates, for every configuration."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.decoding.forced_decoding import score_targets
from dragoman.errors import ConfigError
from dragoman.interpret import record
from dragoman.interpret.attention_heads import apply_gates, open_gates, pruned_config, pruned_weights, select_heads
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, SelfAttentionConfig
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.models.weight_storage import set_weights
from dragoman.nn.sparse.bigbird import BigBirdConfig
from tests.attention_variants import POSITIONS, SCORES, attentions, is_valid_combination
from tests.fake_models import rectangle
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_causal, random_encoder, random_transformer
from tests.stepwise_scoring import score_stepwise

SIZES = {"num_heads": 3, "d_model": 18, "d_ff": 7, "dropout": NO_DROPOUT}
SOURCE, LENGTHS = rectangle([[5, 6, 7, 8, 9], [7, 7, 5]])
TARGET, _ = rectangle([[2, 4, 8], [2, 12, 5]])
EXPECTED = torch.tensor([[4, 8, 3], [12, 5, 3]])
REMAINING = {"encoder": ((0, 2),), "masked": ((1,), (0, 1, 2)), "cross": ((0, 1), (2,))}


def close_gates(model, remaining):
    """Return gates that are 0 for pruned heads."""
    gates = open_gates(model)
    for kind, layers in remaining.items():
        for layer, heads in enumerate(layers):
            gates[kind][layer, [head for head in range(3) if head not in heads]] = 0.0
    return gates


@examples(25)
@given(attentions(), st.integers(0, 5), st.sampled_from([None, 4]), st.booleans())
@torch.no_grad()
def test_pruned_model_equals_closed_gates(chosen, seed, head_size, has_ssru):
    positions, roles = chosen
    sizes = {**SIZES, "encoder_layers": 1, "decoder_layers": 2, "head_size": head_size, "tie_embeddings": "none"}
    remaining = {kind: layers for kind, layers in REMAINING.items() if not (has_ssru and kind == "masked")}
    if has_ssru:
        roles = roles.model_copy(update={"decoder": SelfAttentionConfig()})
        sizes["decoder_layer"] = "ssru"
    config = EncoderDecoderConfig(**sizes, positions=positions, attention=roles)
    model = random_transformer(config, source_vocabulary=13, target_vocabulary=13, seed=seed)
    smaller_config = pruned_config(config, remaining)
    smaller = build_encoder_decoder(smaller_config, source_vocabulary=13, target_vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, remaining))
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())
    with apply_gates(model, close_gates(model, remaining)):
        expected = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(smaller(SOURCE, LENGTHS, TARGET), expected, atol=1e-4, rtol=1e-4)
    forced = {"target": TARGET, "expected": EXPECTED}
    by_steps = score_stepwise(smaller, smaller.encode(SOURCE, LENGTHS), **forced)
    torch.testing.assert_close(score_targets(smaller, SOURCE, LENGTHS, **forced), by_steps, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("score", "positions"),
    [pair for pair in product(SCORES, POSITIONS) if is_valid_combination(*pair, "full", masked=True)],
)
@torch.no_grad()
def test_groups_of_heads_are_pruned_together(score, positions):
    sizes = {**SIZES, "num_heads": 6, "d_model": 36, "num_kv_heads": 3}
    attention = SelfAttentionConfig(score=SCORES[score])
    config = DecoderOnlyConfig(**sizes, num_layers=2, positions=POSITIONS[positions][0], attention=attention)
    model, remaining = random_causal(config, vocabulary=13), {"masked": ((0, 1, 4, 5), (2, 3))}
    smaller = build_decoder_only(pruned_config(config, remaining), vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, remaining))
    gates = {"masked": torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]])}
    with apply_gates(model, gates):
        torch.testing.assert_close(smaller(SOURCE), model(SOURCE), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_bigbird_heads_keep_their_random_blocks():
    attention = SelfAttentionConfig(pattern=BigBirdConfig(block_size=2, num_random_blocks=1))
    config = EncoderOnlyConfig(**SIZES, num_layers=2, attention=attention)
    model, remaining = random_encoder(config, vocabulary=17), {"encoder": ((2,), (0, 1))}
    smaller = build_encoder_only(pruned_config(config, remaining), vocabulary=17).eval()
    set_weights(smaller, pruned_weights(model, remaining))
    text, lengths = rectangle([[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4, 5, 9, 7, 6], [7, 7, 5]])
    with apply_gates(model, {"encoder": torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])}):
        torch.testing.assert_close(smaller(text, lengths)[0], model(text, lengths)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", list(POSITIONS))
@torch.no_grad()
def test_pruned_decoder_only_for_every_position_kind(positions):
    attention = SelfAttentionConfig(score=SCORES["dot"])
    config = DecoderOnlyConfig(**SIZES, num_layers=2, positions=POSITIONS[positions][0], attention=attention)
    model, remaining = random_causal(config, vocabulary=13), {"masked": ((0, 2), (1,))}
    smaller = build_decoder_only(pruned_config(config, remaining), vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, remaining))
    with apply_gates(model, close_gates(model, remaining)):
        torch.testing.assert_close(smaller(SOURCE), model(SOURCE), atol=1e-4, rtol=1e-4)
    with record(smaller) as trace:
        smaller(SOURCE)
    assert [one.weights.shape[1] for one in trace.calls] == [2, 1]


def test_groups_are_ranked_by_total_importance():
    importance = {"masked": torch.tensor([[0.4, 0.4, 0.5, 0.1, 0.3, 0.6], [0.1, 0.2, 0.0, 0.0, 0.9, 0.9]])}
    remaining = select_heads(importance, share=0.5, group=2)
    assert remaining == {"masked": ((0, 1, 4, 5), (4, 5))}
    with pytest.raises(ConfigError, match="removes none of 6 groups of 2 heads"):
        select_heads(importance, share=0.01, group=2)


def test_every_attention_keeps_its_best_head():
    importance = {
        "encoder": torch.tensor([[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]]),
        "cross": torch.tensor([[0.01, 0.02, 0.5]]),
    }
    assert select_heads(importance, share=0.34) == {"encoder": ((1, 2), (0, 1, 2)), "cross": ((2,),)}
    assert select_heads(importance, share=0.99) == {"encoder": ((2,), (0,)), "cross": ((2,),)}


@pytest.mark.parametrize(
    ("share", "message"), [(0.0, "not a valid share"), (1.0, "not a valid share"), (0.01, "removes none of 3 heads")]
)
def test_invalid_share_is_refused(share, message):
    with pytest.raises(ConfigError, match=message):
        select_heads({"encoder": torch.tensor([[1.0, 2.0, 3.0]])}, share=share)


@pytest.mark.parametrize(("group", "one"), [(1, "one head"), (2, "one group of 2 heads that share keys and values")])
def test_nothing_to_prune_is_refused(group, one):
    with pytest.raises(ConfigError, match=f"Every attention has {one}, which it keeps"):
        select_heads({"encoder": torch.ones(3, group)}, share=0.99, group=group)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attention": {"kept_heads": [[0]]}}, "lists the heads of 1 layers, but there are 2"),
        ({"attention": {"kept_heads": [[0], [3]]}}, "are not heads of 3"),
        ({"attention": {"kept_heads": [[0], []]}}, "are not heads of 3"),
        ({"attention": {"kept_heads": [[0], [1, 1]]}}, "are not heads of 3"),
        ({"attention": {"kept_heads": [[0, 1, 2], [0, 2]]}, "num_kv_heads": 1}, r"\[0, 2\] splits groups"),
    ],
)
def test_invalid_kept_heads_are_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        parse(DecoderOnlyConfig, {"d_model": 18, "num_heads": 3, "num_layers": 2} | changed)
