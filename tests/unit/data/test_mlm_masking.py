"""Masked tokens: number, choice and reproducibility."""

import json

import numpy as np
import pytest

from dragoman.config import parse
from dragoman.data.mlm_masking import MaskingConfig, mask_tokens, masked_lm_in_order, masked_lm_stream, split_long_texts
from dragoman.data.tokenizers import BOS, EOS, PAD
from dragoman.errors import ConfigError, DataError
from tests.in_memory_text import one_epoch, ragged

VOCABULARY = 104
MASK = VOCABULARY
TEXTS = [[4 + (n * k) % 100 for k in range(1 + n * 7 % 23)] for n in range(211)]
PLAIN = MaskingConfig()
SETTINGS = {"vocab_size": VOCABULARY, "context_length": 25, "masking": PLAIN, "budget": 500}


def test_text_has_bos_and_eos():
    draws = np.zeros((3, 2, 5))
    draws[0] = [[0, 0.9, 0.1, 0.5, 0], [0, 0.5, 0, 0, 0]]
    draws[1] = [[0, 0, 0, 0, 0], [0, 0.85, 0, 0, 0]]
    draws[2] = 0.999
    batch = mask_tokens(ragged([[11, 12, 13], [21]]), np.array([0, 1]), draws, masking=PLAIN, vocab_size=VOCABULARY)
    assert batch.labels.tolist() == [[BOS, 11, 12, 13, EOS], [BOS, 21, EOS, PAD, PAD]]
    assert batch.tokens.tolist() == [[BOS, 11, MASK, 13, EOS], [BOS, VOCABULARY - 1, EOS, PAD, PAD]]
    assert batch.loss_mask.int().tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert batch.document_ids.tolist() == [[0] * 5, [0, 0, 0, -1, -1]]
    assert batch.lengths.tolist() == [5, 3]
    assert batch.target_count == 2


def test_share_of_each_text_is_chosen():
    for batch in masked_lm_in_order(ragged(TEXTS), **SETTINGS):
        ids = batch.lengths - 2
        expected = [max(1, round(0.15 * length)) for length in ids.tolist()]
        assert batch.loss_mask.sum(dim=1).tolist() == expected


def test_chosen_tokens_are_masked_replaced_or_kept():
    texts = ragged([[4 + n % 100 for n in range(2000)]] * 20)
    [batch] = masked_lm_in_order(texts, vocab_size=VOCABULARY, context_length=2002, masking=PLAIN, budget=10**6)
    chosen = batch.tokens[batch.loss_mask]
    count = len(chosen)
    assert count == 20 * 300
    hidden = int((chosen == MASK).sum())
    same = int((chosen == batch.labels[batch.loss_mask]).sum())
    # Five standard deviations; one random word in a hundred happens to be the right one.
    assert abs(hidden / count - 0.8) < 5 * (0.8 * 0.2 / count) ** 0.5
    assert abs(same / count - 0.101) < 5 * (0.101 * 0.899 / count) ** 0.5
    random = chosen[(chosen != MASK) & (chosen != batch.labels[batch.loss_mask])]
    assert int(random.min()) == 4
    assert int(random.max()) == VOCABULARY - 1
    places = batch.loss_mask.nonzero()[:, 1].double()
    assert abs(float(places.mean()) - 1000.5) < 5 * 2000 / (12 * count) ** 0.5
    assert batch.tokens[~batch.loss_mask].equal(batch.labels[~batch.loss_mask])


@pytest.mark.parametrize(("masked", "random", "seen"), [(1, 0, {MASK}), (0, 0, {7}), (0, 1, set(range(4, 104)))])
def test_shares_may_be_zero_or_one(masked, random, seen):
    settings = SETTINGS | {"masking": MaskingConfig(mask_share=masked, random_share=random)}
    batches = masked_lm_in_order(ragged([[7] * 20] * 999), **settings)
    assert {index for batch in batches for index in batch.tokens[batch.loss_mask].tolist()} == seen


def test_long_texts_are_split_evenly():
    texts = ragged([list(range(4, 12)), [], [50], list(range(60, 71))])
    pieces = split_long_texts(texts, max_length=5)
    assert [pieces.texts.row(n).tolist() for n in range(len(pieces.texts))] == [
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [50],
        [60, 61, 62, 63],
        [64, 65, 66, 67],
        [68, 69, 70],
    ]
    assert pieces.origins.tolist() == [0, 0, 2, 3, 3, 3]


def test_epochs_hold_every_text_with_different_masks():
    stream = masked_lm_stream(ragged(TEXTS), seed=1, **SETTINGS)
    epochs = [one_epoch(stream) for _ in range(2)]
    hidden = []
    for epoch in epochs:
        assert sorted(row for batch in epoch for row in batch.rows.tolist()) == list(range(211))
        assert all(batch.tokens.numel() <= 500 for batch in epoch)
        rows = [(row, places) for batch in epoch for row, places in zip(batch.rows, batch.loss_mask, strict=True)]
        hidden.append({int(row): places.nonzero().tolist() for row, places in rows})
    assert sum(hidden[0][row] == hidden[1][row] for row in range(211)) < 70  # those of few words may be alike


def test_rows_refer_to_the_given_texts():
    settings = SETTINGS | {"context_length": 6}
    batches = list(masked_lm_in_order(ragged(TEXTS), **settings))
    count = [0] * len(TEXTS)
    for batch in batches:
        assert batch.tokens.shape[1] <= 6
        for row, ids, length in zip(batch.rows, batch.labels.tolist(), batch.lengths.tolist(), strict=True):
            text = "".join(map(chr, TEXTS[row]))
            assert "".join(map(chr, ids[1 : length - 1])) in text
            count[row] += length - 2
    assert count == [len(text) for text in TEXTS]


def test_stream_resumes_at_a_position():
    def numbers(stream, count: int) -> list:
        return [[batch.rows.tolist(), batch.tokens.tolist()] for batch in (next(stream) for _ in range(count))]

    whole = numbers(masked_lm_stream(ragged(TEXTS), seed=1, **SETTINGS), 25)
    for taken in (1, 6, 7, 13):
        stream, other = (masked_lm_stream(ragged(TEXTS), seed=1, **SETTINGS) for _ in range(2))
        numbers(stream, taken)
        other.seek(json.loads(json.dumps(stream.position)))
        assert numbers(other, 8) == whole[taken : taken + 8]
    assert numbers(masked_lm_stream(ragged(TEXTS), seed=2, **SETTINGS), 1) != whole[:1]


def test_batches_have_independent_draws():
    stream = masked_lm_stream(ragged([[9] * 20] * 40), seed=1, **(SETTINGS | {"budget": 22, "context_length": 22}))
    assert len({tuple(next(stream).tokens[0].tolist()) for _ in range(40)}) > 35


def test_validation_does_not_depend_on_batches():
    def by_row(budget: int) -> dict[int, list[int]]:
        batches = masked_lm_in_order(ragged(TEXTS), **(SETTINGS | {"budget": budget}))
        rows = [pair for batch in batches for pair in zip(batch.rows, batch.tokens.tolist(), strict=True)]
        return {int(row): [index for index in tokens if index != PAD] for row, tokens in rows}

    assert by_row(25) == by_row(500) == by_row(100_000)


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigError, match=r"mask_share = 0\.8 and random_share = 0\.3 are more than 1 together"):
        parse(MaskingConfig, {"random_share": 0.3})
    with pytest.raises(
        ConfigError, match=r"training\.batch_tokens = 24 holds no text of data\.context_length = 25 tokens"
    ):
        masked_lm_stream(ragged(TEXTS), seed=1, **(SETTINGS | {"budget": 24}))


def test_corpus_without_words_is_refused():
    with pytest.raises(DataError, match="no example to make batches of"):
        masked_lm_stream(ragged([[], []]), seed=1, **SETTINGS)
