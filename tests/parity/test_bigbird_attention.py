"""Block-sparse attention equals that of a random Hugging Face BigBird with the same projections."""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BigBirdConfig, BigBirdModel
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdSelfAttention

from dragoman.nn.attention import AttentionPattern, FullAttention, Heads, MultiHeadAttention
from dragoman.nn.attention_score_functions import ScaledDotConfig, build_score
from dragoman.nn.masks import padding_mask
from dragoman.nn.sparse.bigbird import BigBird, RandomBlocks, bigbird_mask, sample_random_blocks

SIZE, HEADS, BLOCK, RANDOM = 35, 5, 3, 2
BLOCKS = 11
PLACES = BLOCK * BLOCKS
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
CONFIG = BigBirdConfig(
    hidden_size=SIZE,
    num_attention_heads=HEADS,
    block_size=BLOCK,
    num_random_blocks=RANDOM,
    max_position_embeddings=PLACES,
    attention_probs_dropout_prob=0.0,
)


@pytest.fixture
def bigbird_layer() -> BigBirdBlockSparseAttention:
    """Return block-sparse attention with large random weights, so that a wrong key changes the result."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        attention = BigBirdBlockSparseAttention(CONFIG, seed=3)
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.4)
    return attention.eval()


@pytest.fixture
def _their_generator_is_left_as_it_was() -> Iterator[None]:
    state = np.random.get_state()  # noqa: NPY002  # they draw from the global generator
    yield
    np.random.set_state(state)  # noqa: NPY002


def hidden_states(rows: int = 2) -> Tensor:
    return torch.randn(rows, PLACES, SIZE, generator=torch.Generator().manual_seed(1)).requires_grad_()


def bigbird_attention(
    bigbird_layer: BigBirdBlockSparseAttention, x: Tensor, lengths: list[int]
) -> tuple[Tensor, Tensor]:
    """Return the attended values with concatenated heads, and the weights."""
    mask = padding_mask(torch.tensor(lengths), PLACES)[:, 0, 0].float()
    blocked, band_mask, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(mask, BLOCK)
    return bigbird_layer(x, band_mask, from_mask, to_mask, blocked, blocked)


def our_attention(bigbird_layer: BigBirdBlockSparseAttention, pattern: AttentionPattern) -> MultiHeadAttention:
    """Return our layer with the same projections and an identity output projection, which BigBird's layer lacks."""
    score = build_score(
        ScaledDotConfig(), query_size=SIZE // HEADS, key_size=SIZE // HEADS, heads=HEADS, key_heads=HEADS
    )
    layer = MultiHeadAttention(
        d_model=SIZE, heads=Heads(HEADS), bias=True, dropout=0.0, score=score, pattern=pattern
    ).eval()
    for name in ("query", "key", "value"):
        getattr(layer, name).load_state_dict(getattr(bigbird_layer, name).state_dict())
    with torch.no_grad():
        layer.output.weight.copy_(torch.eye(SIZE))
        layer.output.bias.zero_()
    return layer


def with_plan(bigbird_layer: BigBirdBlockSparseAttention, plan: RandomBlocks) -> MultiHeadAttention:
    return our_attention(
        bigbird_layer, BigBird(block_size=BLOCK, num_random_blocks=RANDOM, sampler=lambda blocks, heads: plan)
    )


def assert_same(bigbird_layer: BigBirdBlockSparseAttention, layer: MultiHeadAttention, lengths: list[int]) -> None:
    """Compare the values at every real position and the gradient of the input."""
    x = hidden_states()
    real = padding_mask(torch.tensor(lengths), PLACES)
    mine, other = layer(x, layer.project_keys_values(x), real), bigbird_attention(bigbird_layer, x, lengths)[0]
    torch.testing.assert_close(mine[real[:, 0, 0]], other[real[:, 0, 0]], **CLOSE)
    towards = torch.randn(mine.shape, generator=torch.Generator().manual_seed(2)) * real[:, 0, 0, :, None]
    gradients = [torch.autograd.grad(output, x, towards)[0] for output in (mine, other)]
    torch.testing.assert_close(*gradients, **CLOSE)


LENGTHS = pytest.mark.parametrize("lengths", [[PLACES, PLACES], [PLACES, PLACES - 1], [PLACES - 2, PLACES - 1]])
"""Padding within the last block: their last block is that of the batch, ours that of the row."""


@LENGTHS
def test_our_random_blocks_equal_bigbird(bigbird_layer: BigBirdBlockSparseAttention, lengths: list[int]) -> None:
    plan = sample_random_blocks(BLOCKS, HEADS, num_random_blocks=RANDOM, seed=5)
    with patch.object(bigbird_layer, "_bigbird_block_rand_mask_with_head", lambda **_: list(plan.numpy())):
        assert_same(bigbird_layer, with_plan(bigbird_layer, plan), lengths)


@LENGTHS
@pytest.mark.usefixtures("_their_generator_is_left_as_it_was")
def test_sampled_blocks_equal_bigbird(bigbird_layer: BigBirdBlockSparseAttention, lengths: list[int]) -> None:
    """BigBird samples blocks per layer and head in training mode; dropout is 0."""
    bigbird_layer.train()
    drawn = []
    draw = bigbird_layer._bigbird_block_rand_mask_with_head
    with patch.object(
        bigbird_layer, "_bigbird_block_rand_mask_with_head", lambda **how: drawn.append(draw(**how)) or drawn[-1]
    ):
        bigbird_attention(bigbird_layer, hidden_states(), lengths)
    plan = torch.from_numpy(np.stack(drawn[0])).long()
    assert plan.shape == (HEADS, BLOCKS - 2, RANDOM)
    assert not torch.equal(plan[0], plan[1])
    assert_same(bigbird_layer, with_plan(bigbird_layer, plan), lengths)


@LENGTHS
def test_bigbird_evaluation_counts_the_first_block_twice(
    bigbird_layer: BigBirdBlockSparseAttention, lengths: list[int]
) -> None:
    zeros = torch.zeros(HEADS, BLOCKS - 2, RANDOM, dtype=torch.long)
    assert_same(bigbird_layer, with_plan(bigbird_layer, zeros), lengths)


def test_bigbird_attends_by_our_dense_mask(bigbird_layer: BigBirdBlockSparseAttention) -> None:
    plan = sample_random_blocks(BLOCKS, HEADS, num_random_blocks=RANDOM, seed=5)
    with patch.object(bigbird_layer, "_bigbird_block_rand_mask_with_head", lambda **_: list(plan.numpy())):
        values, weights = bigbird_attention(bigbird_layer, hidden_states(), [PLACES, PLACES])
    mask = bigbird_mask(PLACES, block_size=BLOCK, random_blocks=plan)
    assert torch.equal(weights > 0, mask.expand_as(weights))
    dense = full_bigbird(bigbird_layer)
    additive = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)[None]
    torch.testing.assert_close(dense(hidden_states(), attention_mask=additive)[0], values, **CLOSE)


def full_bigbird(bigbird_layer: BigBirdBlockSparseAttention) -> BigBirdSelfAttention:
    dense = BigBirdSelfAttention(CONFIG).eval()
    dense.load_state_dict(bigbird_layer.state_dict())
    return dense


def test_few_blocks_equal_full_attention(bigbird_layer: BigBirdBlockSparseAttention) -> None:
    places = BLOCK * (4 + RANDOM)
    x = hidden_states()[:, :places]
    layer = our_attention(
        bigbird_layer,
        BigBird(block_size=BLOCK, num_random_blocks=RANDOM, sampler=lambda *_: pytest.fail("nothing is left to draw")),
    )
    expected = full_bigbird(bigbird_layer)(x)[0]
    torch.testing.assert_close(layer(x, layer.project_keys_values(x), None), expected, **CLOSE)
    full = our_attention(bigbird_layer, FullAttention(causal=False))
    torch.testing.assert_close(full(x, full.project_keys_values(x), None), expected, **CLOSE)
