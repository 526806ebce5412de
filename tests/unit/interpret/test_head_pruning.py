"""Pruning: a network without heads computes what the whole one does with them left out, on every road."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.decoding import score_stepwise, score_targets
from dragoman.errors import ConfigError
from dragoman.interpret import record
from dragoman.interpret.attention_heads import gated, open_gates
from dragoman.interpret.head_pruning import best_heads, pruned_config, pruned_weights
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, SelfAttentionConfig
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.models.weights import set_weights
from dragoman.nn.sparse import BigBirdConfig
from tests.attention_variants import POSITIONS, SCORES, attentions, is_valid_combination
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_causal, random_encoder, random_transformer

SIZES = {"num_heads": 3, "d_model": 18, "d_ff": 7, "dropout": NO_DROPOUT}
SOURCE, LENGTHS = rectangle([[5, 6, 7, 8, 9], [7, 7, 5]])
TARGET, _ = rectangle([[2, 4, 8], [2, 12, 5]])
EXPECTED = torch.tensor([[4, 8, 3], [12, 5, 3]])
LEFT = {"encoder": ((0, 2),), "masked": ((1,), (0, 1, 2)), "cross": ((0, 1), (2,))}


def closed(model, left):
    """Gates that are 0 where a head is not left."""
    gates = open_gates(model)
    for kind, layers in left.items():
        for layer, heads in enumerate(layers):
            gates[kind][layer, [head for head in range(3) if head not in heads]] = 0.0
    return gates


@settings(max_examples=25)
@given(attentions(), st.integers(0, 5))
@torch.no_grad()
def test_without_heads_is_with_heads_left_out(chosen, seed):
    positions, roles = chosen
    config = EncoderDecoderConfig(
        **SIZES, encoder_layers=1, decoder_layers=2, positions=positions, attention=roles, tie_embeddings="none"
    )
    model = random_transformer(config, source_vocabulary=13, target_vocabulary=13, seed=seed)
    smaller_config = pruned_config(config, LEFT)
    smaller = build_encoder_decoder(smaller_config, source_vocabulary=13, target_vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, LEFT))
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())
    with gated(model, closed(model, LEFT)):
        expected = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(smaller(SOURCE, LENGTHS, TARGET), expected, atol=1e-4, rtol=1e-4)
    forced = {"target": TARGET, "expected": EXPECTED, "symbols": SYMBOLS}
    by_steps = score_stepwise(smaller, smaller.encode(SOURCE, LENGTHS), **forced)
    torch.testing.assert_close(score_targets(smaller, SOURCE, LENGTHS, **forced), by_steps, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("score", "positions"),
    [pair for pair in product(SCORES, POSITIONS) if is_valid_combination(*pair, "full", masked=True)],
)
@torch.no_grad()
def test_groups_that_share_their_keys_leave_together(score, positions):
    sizes = {**SIZES, "num_heads": 6, "d_model": 36, "num_kv_heads": 3}
    attention = SelfAttentionConfig(score=SCORES[score])
    config = DecoderOnlyConfig(**sizes, num_layers=2, positions=POSITIONS[positions][0], attention=attention)
    model, left = random_causal(config, vocabulary=13), {"masked": ((0, 1, 4, 5), (2, 3))}
    smaller = build_decoder_only(pruned_config(config, left), vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, left))
    gates = {"masked": torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]])}
    with gated(model, gates):
        torch.testing.assert_close(smaller(SOURCE), model(SOURCE), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_heads_of_big_bird_keep_the_blocks_that_they_drew():
    attention = SelfAttentionConfig(pattern=BigBirdConfig(block_size=2, num_random_blocks=1))
    config = EncoderOnlyConfig(**SIZES, num_layers=2, attention=attention)
    model, left = random_encoder(config, vocabulary=17), {"encoder": ((2,), (0, 1))}
    smaller = build_encoder_only(pruned_config(config, left), vocabulary=17).eval()
    set_weights(smaller, pruned_weights(model, left))
    text, lengths = rectangle([[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4, 5, 9, 7, 6], [7, 7, 5]])
    with gated(model, {"encoder": torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])}):
        torch.testing.assert_close(smaller(text, lengths)[0], model(text, lengths)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", list(POSITIONS))
@torch.no_grad()
def test_a_decoder_alone_with_every_kind_of_position(positions):
    attention = SelfAttentionConfig(score=SCORES["dot"])
    config = DecoderOnlyConfig(**SIZES, num_layers=2, positions=POSITIONS[positions][0], attention=attention)
    model, left = random_causal(config, vocabulary=13), {"masked": ((0, 2), (1,))}
    smaller = build_decoder_only(pruned_config(config, left), vocabulary=13).eval()
    set_weights(smaller, pruned_weights(model, left))
    with gated(model, closed(model, left)):
        torch.testing.assert_close(smaller(SOURCE), model(SOURCE), atol=1e-4, rtol=1e-4)
    with record(smaller) as trace:
        smaller(SOURCE)
    assert [one.weights.shape[1] for one in trace.seen] == [2, 1]


def test_groups_are_ranked_by_what_their_heads_are_worth_together():
    worth = {"masked": torch.tensor([[0.4, 0.4, 0.5, 0.1, 0.3, 0.6], [0.1, 0.2, 0.0, 0.0, 0.9, 0.9]])}
    left = best_heads(worth, share=0.5, group=2)
    assert left == {"masked": ((0, 1, 4, 5), (4, 5))}
    with pytest.raises(ConfigError, match="takes none of 6 groups of 2 heads away"):
        best_heads(worth, share=0.01, group=2)


def test_the_least_are_taken_and_every_attention_keeps_its_best():
    worth = {"encoder": torch.tensor([[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]]), "cross": torch.tensor([[0.01, 0.02, 0.5]])}
    assert best_heads(worth, share=0.34) == {"encoder": ((1, 2), (0, 1, 2)), "cross": ((2,),)}
    assert best_heads(worth, share=0.99) == {"encoder": ((2,), (0,)), "cross": ((2,),)}


@pytest.mark.parametrize(("share", "message"), [(0.0, "no share"), (1.0, "no share"), (0.01, "takes none of 3 heads")])
def test_shares_that_make_no_sense_are_refused(share, message):
    with pytest.raises(ConfigError, match=message):
        best_heads({"encoder": torch.tensor([[1.0, 2.0, 3.0]])}, share=share)


@pytest.mark.parametrize(("group", "one"), [(1, "one head"), (2, "one group of 2 heads that share keys and values")])
def test_where_every_attention_keeps_all_it_has_no_share_is_asked_for(group, one):
    with pytest.raises(ConfigError, match=f"every attention has {one}, which it keeps"):
        best_heads({"encoder": torch.ones(3, group)}, share=0.99, group=group)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attention": {"kept_heads": [[0]]}}, "names the heads of 1 layers, and there are 2"),
        ({"attention": {"kept_heads": [[0], [3]]}}, "are no heads of 3"),
        ({"attention": {"kept_heads": [[0], []]}}, "are no heads of 3"),
        ({"attention": {"kept_heads": [[0], [1, 1]]}}, "are no heads of 3"),
        ({"attention": {"kept_heads": [[0, 1, 2], [0, 2]]}, "num_kv_heads": 1}, r"\[0, 2\] takes groups apart"),
    ],
)
def test_heads_that_are_not_there_are_refused(changed, message):
    with pytest.raises(ConfigError, match=message):
        parse(DecoderOnlyConfig, {"d_model": 18, "num_heads": 3, "num_layers": 2} | changed)
