"""Token embeddings and the output projection."""

import math

import torch
from torch import nn

from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.sinusoidal import SinusoidalPositions, sinusoidal_positions

TOKENS = torch.tensor([[2, 7, 10], [1, 1, 0]])
PLACES = torch.tensor([[0, 1, 2]])


def test_only_tokens_are_scaled():
    embedding = TokenEmbedding(tokens=nn.Embedding(11, 5), positions=SinusoidalPositions(size=5), dropout=0.0)
    expected = math.sqrt(5) * embedding.tokens.weight[TOKENS] + sinusoidal_positions(PLACES, 5)
    torch.testing.assert_close(embedding(TOKENS, PLACES), expected)


def test_learned_positions_are_added():
    table = LearnedPositions(max_length=3, size=5)
    embedding = TokenEmbedding(tokens=nn.Embedding(11, 5), positions=table, dropout=0.0)
    expected = math.sqrt(5) * embedding.tokens.weight[TOKENS] + table.table.weight[PLACES]
    torch.testing.assert_close(embedding(TOKENS, PLACES), expected)


def test_rows_may_have_different_positions():
    embedding = TokenEmbedding(tokens=nn.Embedding(11, 5), positions=SinusoidalPositions(size=5), dropout=0.0)
    places = torch.tensor([[3], [0]])
    expected = math.sqrt(5) * embedding.tokens.weight[TOKENS[:, :1]] + sinusoidal_positions(places, 5)
    torch.testing.assert_close(embedding(TOKENS[:, :1], places), expected)


def test_dropout_applies_to_sum_in_training_only():
    embedding = TokenEmbedding(tokens=nn.Embedding(11, 701), positions=SinusoidalPositions(size=701), dropout=0.5)
    assert (embedding(TOKENS, PLACES) == 0).any()
    assert not (embedding.eval()(TOKENS, PLACES) == 0).all(dim=-1).any()
    assert torch.equal(embedding(TOKENS, PLACES), embedding(TOKENS, PLACES))


def test_unembedding_gives_one_logit_per_token():
    unembedding = Unembedding(weight=nn.Parameter(torch.randn(11, 5)), bias=True)
    with torch.no_grad():
        unembedding.bias.copy_(torch.arange(11.0))
    hidden = torch.randn(2, 3, 5)
    logits = unembedding(hidden)
    assert logits.shape == (2, 3, 11)
    for word in range(11):
        expected = (hidden * unembedding.weight[word]).sum(dim=-1) + word
        torch.testing.assert_close(logits[..., word], expected)


def test_tied_weight_gets_both_gradients():
    tokens = nn.Embedding(11, 5)
    unembedding = Unembedding(weight=tokens.weight, bias=False)
    assert unembedding.weight is tokens.weight
    assert unembedding.bias is None
    assert len(list(nn.ModuleList([tokens, unembedding]).parameters())) == 1
    used = torch.tensor([3])
    (10 * unembedding(tokens(used))[0, 7]).backward()
    # the logit of word 7 after word 3 is 10 E_7 E_3
    expected = torch.zeros(11, 5)
    expected[3], expected[7] = 10 * tokens.weight[7].detach(), 10 * tokens.weight[3].detach()
    torch.testing.assert_close(tokens.weight.grad, expected)
