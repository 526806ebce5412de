"""Word alignments: links by hand, ranked heads, merged tokens, and a stored model that translates word by word."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.errors import DataError
from dragoman.evaluation.alignment_error_rate import GoldAlignment, alignment_scores
from dragoman.interpret.attention_recorder import ForwardPass, record_pairs
from dragoman.interpret.word_alignment import (
    Words,
    agreement_with,
    alignment_heads,
    grow_diagonal,
    leave_one_out,
    link_both,
    link_by_share,
    link_sources,
    link_targets,
    merge_tokens,
    rank_alignment_heads,
    word_attention,
    words_of_ids,
    words_of_text,
)
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.runs.load import load_torch_model
from tests.random_recurrent_models import NO_DROPOUT, random_recurrent

RUN = Path(__file__).parents[2] / "golden" / "run-1"
links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


def test_links_by_hand():
    weights = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])
    assert link_targets(weights) == {(0, 0), (2, 1), (2, 2)}
    assert link_sources(weights) == {(0, 0), (1, 2), (2, 1)}
    assert link_by_share(weights, min_share=0.3) == {(0, 0), (2, 1), (0, 2), (1, 2), (2, 2)}
    assert link_both(weights) == {(0, 0), (2, 1), (1, 2), (2, 2)}


def test_words_without_weight_have_no_link():
    weights = torch.tensor([[0.0, 0.0], [0.0, 0.4]])
    assert link_targets(weights) == link_sources(weights) == link_both(weights) == {(1, 1)}
    assert link_targets(torch.zeros(0, 3)) == link_sources(torch.zeros(3, 0)) == frozenset()


def test_grow_diagonal_by_hand():
    """Link (1, 2) is a neighbor of (1, 1) with a new target word; (3, 3) is no neighbor, and (2, 2) has no new word."""
    one, other = frozenset({(1, 1), (1, 2), (3, 3)}), frozenset({(1, 1), (2, 1), (2, 2)})
    assert grow_diagonal(one, other) == {(1, 1), (1, 2), (2, 1)}


@given(links, links)
def test_grown_links_lie_between_intersection_and_union(one, other):
    found = grow_diagonal(one, other)
    assert one & other <= found <= one | other
    assert grow_diagonal(one, one) == one
    assert grow_diagonal(other, one) == found


def forward_pass(cross):
    """Return a forward pass with only this cross-attention; steps and keys include end symbols."""
    steps, keys = cross.shape[2:]
    return ForwardPass(
        source=(5,) * (keys - 1) + (3,),
        target=(5,) * (steps - 1) + (3,),
        weights={"cross": cross},
        masks={"cross": cross > 0},
        projected=frozenset(),
        log_probs=torch.zeros(steps, 7),
    )


def test_shifted_head_reads_the_next_step():
    one = forward_pass(torch.rand(1, 2, 4, 3))
    source, target = Words(("a", "b"), ((0,), (1,))), Words(("x", "y", "z"), ((0,), (1,), (2,)))
    plain = word_attention(one, AlignmentHead(0, 1, shifted=False), source=source, target=target)
    shifted = word_attention(one, AlignmentHead(0, 1, shifted=True), source=source, target=target)
    assert torch.equal(plain, one.weights["cross"][0, 1, :3, :2])
    assert torch.equal(shifted, one.weights["cross"][0, 1, 1:, :2])
    assert len(list(alignment_heads(one))) == 2 * (1 + 2)


def test_head_that_agrees_with_the_links_ranks_first():
    """One head attends word by word, the other to the first word; shifted, the first head is off by one."""
    diagonal, stuck = torch.eye(4, 4), torch.eye(4)[:1].expand(4, -1)
    cross = 0.9 * torch.stack([stuck, diagonal])[None] + 0.025
    words = Words(("a", "b", "c"), ((0,), (1,), (2,)))
    pairs = [(forward_pass(cross), words, words)]
    expected = frozenset((place, place) for place in range(3))
    ranked = rank_alignment_heads(pairs, agreement_with([expected]))
    assert ranked[0] == (AlignmentHead(0, 1, shifted=False), 1.0)
    off_by_one = frozenset((place + 1, place) for place in range(2))
    assert rank_alignment_heads(pairs, agreement_with([off_by_one]))[0][0] == AlignmentHead(0, 1, shifted=True)


@pytest.fixture(scope="module")
def translator():
    return load_torch_model(RUN, device="cpu")


@pytest.fixture(scope="module")
def pair(translator):
    """Return a sentence pair that the stored model has memorized, word by word."""
    source = words_of_text(translator.tokenizer.source, "the small cat sleeps in the house")
    target = words_of_text(translator.tokenizer.target, "die kleine Katze schläft in dem Haus")
    return source, target


GOLD = [GoldAlignment(frozenset((place, place) for place in range(7)), frozenset((p, p) for p in range(7)))]


def test_leave_one_out_aligns_the_stored_model(translator, pair):
    (source, source_words), (target, target_words) = pair
    worth = leave_one_out(
        translator.model, source, target, source_words=source_words, target_words=target_words, batch_size=3
    )
    assert worth.shape == (7, 7)
    assert (worth >= 0).all()
    assert alignment_scores([link_targets(worth)], GOLD).precision > 0.6


def test_leave_one_out_is_independent_of_the_batch_size(translator, pair):
    (source, source_words), (target, target_words) = pair
    few, many = (
        leave_one_out(
            translator.model, source, target, source_words=source_words, target_words=target_words, batch_size=rows
        )
        for rows in (2, 64)
    )
    torch.testing.assert_close(few, many, atol=1e-4, rtol=1e-4)


def test_attention_aligns_the_stored_model(translator, pair):
    (source, source_words), (target, target_words) = pair
    (one,) = record_pairs(translator.model, [source], [target])
    ranked = rank_alignment_heads([(one, source_words, target_words)], agreement_with([GOLD[0].sure]))
    weights = word_attention(one, ranked[0][0], source=source_words, target=target_words)
    assert alignment_scores([link_both(weights)], GOLD).error_rate < 0.5


def test_model_without_attention_only_has_leave_one_out():
    config = RecurrentConfig(d_model=6, attention=NoAttentionConfig(), dropout=NO_DROPOUT)
    model = random_recurrent(config, source_vocabulary=11, target_vocabulary=11)
    (one,) = record_pairs(model, [[5, 6, 7]], [[8, 9]])
    source, target = Words(("a", "b"), ((0, 1), (2,))), Words(("x", "y"), ((0,), (1,)))
    assert one.weights == {}
    assert list(alignment_heads(one)) == []
    with pytest.raises(DataError, match="leave_one_out"):
        word_attention(one, AlignmentHead(0, None, shifted=False), source=source, target=target)
    with pytest.raises(DataError, match="leave_one_out"):
        rank_alignment_heads([(one, source, target)], agreement_with([frozenset()]))
    worth = leave_one_out(model, [5, 6, 7], [8, 9], source_words=source, target_words=target)
    assert worth.shape == (2, 2)


TEXTS = ["the small dogs play .", "die kleinen Hunde spielen .", "(Ein Haus)", "Mann, oh Mann!", "a-b c'd 77"]


def train(settings=None) -> LanguageTokenizer:
    pairs = [(text, text) for text in TEXTS]
    return Tokenizer.train(lambda: pairs, settings or BpeConfig(vocab_size=120, byte_fallback=False)).source


TOKENIZERS = [train(), train(CharacterConfig())]
texts = st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=9).map(" ".join)


@given(st.sampled_from(TOKENIZERS), texts)
def test_words_of_text_are_split_at_white_space(one, text):
    ids, words = words_of_text(one, text)
    assert ids == one.encode(text)
    assert words.texts == tuple(text.split())
    positions_in_words = [place for places in words.tokens for place in places]
    assert positions_in_words == sorted(set(positions_in_words))
    assert all(one.ids_to_tokens([ids[place]]) == ["▁"] for place in set(range(len(ids))) - set(positions_in_words))
    for spelt, places in zip(words.texts, words.tokens, strict=True):
        assert one.decode([ids[place] for place in places]).replace(" ", "") == spelt


@given(st.sampled_from(TOKENIZERS), texts)
def test_words_of_ids_spell_the_text(one, text):
    ids = one.encode(text)
    words = words_of_ids(one, ids)
    assert [place for places in words.tokens for place in places] == list(range(len(ids)))
    assert "".join(words.texts) == text.replace(" ", "")


def test_punctuation_is_a_word_of_its_own():
    one = TOKENIZERS[0]
    assert words_of_ids(one, one.encode("Mann, oh Mann!")).texts == ("Mann", ",", "oh", "Mann", "!")
    assert words_of_ids(one, one.encode("(Ein Haus)")).texts == ("(", "Ein", "Haus", ")")
    assert words_of_ids(one, []).texts == ()


def test_merge_tokens_by_hand():
    """Source words of 2 and 1 tokens are summed, target words of 1 and 2 tokens averaged; the last column is the end
    symbol."""
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.0, 0.3, 0.6, 0.1]])
    source, target = Words(("ab", "c"), ((0, 1), (2,))), Words(("x", "yz"), ((0,), (1, 2)))
    torch.testing.assert_close(
        merge_tokens(weights, target=target, source=source),
        torch.tensor([[0.3, 0.3], [(0.6 + 0.3) / 2, (0.2 + 0.6) / 2]]),
    )


@pytest.mark.parametrize(("source", "target"), [((), ((0,),)), (((0, 1),), ()), ((), ())])
def test_merge_tokens_without_words(source, target):
    found = merge_tokens(
        torch.rand(1, 2), source=Words(("a",) * len(source), source), target=Words(("b",) * len(target), target)
    )
    assert found.shape == (len(target), len(source))


def test_word_without_tokens_has_no_weight():
    found = merge_tokens(torch.ones(1, 1), source=Words(("a", ""), ((0,), ())), target=Words(("", "b"), ((), (0,))))
    assert found.tolist() == [[0.0, 0.0], [1.0, 0.0]]
