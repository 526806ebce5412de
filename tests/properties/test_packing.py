"""Properties of packed batches for any documents and sizes: no token is lost, and documents do not mix."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.data.batching.batch_streams import EpochStream
from dragoman.data.batching.example_batches import prompt_stream, prompts_in_order
from dragoman.data.batching.packing import PackedText, TextBatch, window_stream, windows_in_order
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.mlm_masking import MaskingConfig, masked_lm_in_order, masked_lm_stream
from dragoman.data.tokenizers import BOS, EOS, PAD
from dragoman.training.losses import causal_lm_loss
from tests.in_memory_text import one_epoch, packed, predictions, ragged
from tests.property_settings import examples

VOCABULARY = 101
words = st.integers(4, VOCABULARY - 1)
documents = st.lists(st.lists(words, max_size=29), min_size=1, max_size=13).filter(any)
contexts, seeds = st.integers(2, 17), st.integers(0, 2**31)


def expected_predictions(texts: list[list[int]]) -> list[tuple[int, int, int]]:
    """Return all neighboring pairs of the packed text except EOS followed by BOS, by definition."""
    text = packed(texts)
    return [(n, a, b) for n, (a, b) in enumerate(pairwise(text)) if a != EOS]


def check_padding(batch: TextBatch) -> None:
    """Check that rows have one length, and that padding comes last and does not count in the loss."""
    shape = batch.tokens.shape
    assert batch.labels.shape == batch.loss_mask.shape == batch.document_ids.shape == shape
    assert len(batch) == len(batch.rows) == shape[0]
    real = torch.arange(shape[1]) < batch.lengths[:, None]
    assert real.equal(batch.document_ids >= 0)
    assert (batch.tokens[~real] == PAD).all()
    assert not batch.loss_mask[~real].any()
    assert batch.target_count == int(batch.loss_mask.sum())


# Windows


@given(texts=documents, context=contexts, rows=st.integers(1, 5))
def test_validation_predicts_every_token_once_in_order(texts, context: int, rows: int) -> None:
    batches = list(windows_in_order(ragged(texts), context_length=context, budget=rows * context))
    assert [one for batch in batches for one in predictions(batch)] == expected_predictions(texts)
    for batch in batches:
        check_padding(batch)
        assert batch.tokens.shape[1] == context
        assert len(batch) <= rows


@given(texts=documents, context=contexts, rows=st.integers(1, 5), seed=seeds)
def test_an_epoch_predicts_every_token_once(texts, context: int, rows: int, seed: int) -> None:
    stream = window_stream(ragged(texts), context_length=context, budget=rows * context, seed=seed)
    for number in range(3):
        assert stream.position == {"epoch": number, "batch": 0}
        batches = one_epoch(stream)
        assert sorted(one for batch in batches for one in predictions(batch)) == expected_predictions(texts)
        for batch in batches:
            check_padding(batch)
            assert batch.target_count > 0


@given(texts=documents, context=contexts, seed=seeds)
def test_documents_never_mix(texts, context: int, seed: int) -> None:
    """Equal document numbers in a row form one span of one document, and targets come from the same document."""
    text, batch = (
        PackedText(ragged(texts)),
        next(window_stream(ragged(texts), context_length=context, budget=3 * context, seed=seed)),
    )
    for row, start in enumerate(batch.rows.tolist()):
        length = int(batch.lengths[row])
        own = torch.from_numpy(text.documents_at(torch.arange(start, start + length + 1).numpy()))
        assert batch.document_ids[row, :length].equal(own[:-1] - own[0])
        assert batch.loss_mask[row, :length].equal(own[:-1] == own[1:])
        begins = [column for column in range(length) if int(batch.tokens[row, column]) == BOS]
        assert all(
            column == 0 or batch.document_ids[row, column] != batch.document_ids[row, column - 1] for column in begins
        )


@examples(30)
@given(texts=documents, context=contexts, taken=st.integers(0, 23), seed=seeds)
def test_resumed_windows_equal_uninterrupted_ones(texts, context: int, taken: int, seed: int) -> None:
    check_resumption(lambda: window_stream(ragged(texts), context_length=context, budget=2 * context, seed=seed), taken)


def check_resumption(build: Callable[[], EpochStream[TextBatch]], taken: int) -> None:
    whole = build()
    for _ in range(taken):
        next(whole)
    resumed = build()
    resumed.seek(json.loads(json.dumps(whole.position)))
    for _ in range(5):
        expected, found = next(whole), next(resumed)
        assert found.rows.tolist() == expected.rows.tolist()
        for name in ("tokens", "labels", "loss_mask", "document_ids"):
            assert getattr(found, name).equal(getattr(expected, name))


class DocumentProbe(torch.nn.Module):
    """Model without attention that stores the document numbers it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 3)
        self.unembedding = torch.nn.Linear(3, VOCABULARY)
        self.told: list[Tensor | None] = []

    def hidden(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        self.told.append(documents)
        return self.embedding(tokens)


@examples(20)
@given(texts=documents, context=contexts)
def test_window_losses_sum_to_the_text_loss(texts, context: int) -> None:
    """A model that reads one token alone does not depend on where the text is cut."""
    model = DocumentProbe()
    batches = list(windows_in_order(ragged(texts), context_length=context, budget=3 * context))
    loss = sum(float(causal_lm_loss()(model, batch).negative_log_likelihood) for batch in batches)
    _, tokens, expected = (torch.tensor(column) for column in zip(*expected_predictions(texts), strict=True))
    log_probs = model.unembedding(model.embedding(tokens)).log_softmax(dim=-1)
    torch.testing.assert_close(
        loss, -float(log_probs.detach().gather(1, expected[:, None]).sum()), atol=1e-4, rtol=1e-4
    )
    assert [told is not None for told in model.told] == [batch.has_multiple_documents for batch in batches]


# Prompts

pairs = st.lists(st.tuples(st.lists(words, max_size=11), st.lists(words, max_size=13)), min_size=1, max_size=29)


def store_of(some, folder: str) -> TokenStore:
    return TokenStore.build(Path(folder) / "tokens", some, vocab_size=VOCABULARY)


def check_pairs(batches: Iterator[TextBatch], some: list[tuple[list[int], list[int]]]) -> None:
    """Check that every pair occurs once, and that only its continuation and EOS are predicted, after the whole
    prompt."""
    seen = []
    for batch in batches:
        check_padding(batch)
        for place, row in enumerate(batch.rows.tolist()):
            source, target = some[row]
            counted = batch.loss_mask[place]
            assert batch.labels[place][counted].tolist() == [*target, EOS]
            assert batch.tokens[place, : int(batch.lengths[place])].tolist() == [*source, BOS, *target]
            assert int(counted.nonzero()[0]) == len(source)
            seen.append(row)
    assert sorted(seen) == list(range(len(some)))


@examples(50)
@given(some=pairs, budget=st.integers(25, 101), seed=seeds)
def test_only_continuations_count_in_the_loss(some, budget: int, seed: int) -> None:
    with TemporaryDirectory() as folder:
        store = store_of(some, folder)
        stream = prompt_stream(store, budget=budget, seed=seed)
        check_pairs(iter(one_epoch(stream)), some)
        check_pairs(prompts_in_order(store, budget=budget), some)
        assert sum(batch.target_count for batch in one_epoch(stream)) == sum(len(target) + 1 for _, target in some)


@examples(20)
@given(some=pairs, taken=st.integers(0, 23), seed=seeds)
def test_resumed_pairs_equal_uninterrupted_ones(some, taken: int, seed: int) -> None:
    with TemporaryDirectory() as folder:
        store = store_of(some, folder)
        check_resumption(lambda: prompt_stream(store, budget=53, seed=seed), taken)


# Hidden words

maskings = st.builds(
    MaskingConfig,
    rate=st.sampled_from([0.01, 0.15, 0.5, 0.99]),
    mask_share=st.sampled_from([0.0, 0.5, 0.8]),
    random_share=st.sampled_from([0.0, 0.1, 0.2]),
)


def check_masking(batches: Iterator[TextBatch], texts: list[list[int]], context: int) -> None:
    """Check that every id occurs once, unmasked ids stay, and special symbols and padding are never masked."""
    found: dict[int, list[int]] = {row: [] for row in range(len(texts))}
    for batch in batches:
        check_padding(batch)
        assert batch.tokens.shape[1] <= context
        assert batch.tokens[~batch.loss_mask].equal(batch.labels[~batch.loss_mask])
        assert (batch.labels[batch.loss_mask] >= 4).all()
        assert (batch.tokens[batch.loss_mask] <= VOCABULARY).all()
        assert batch.loss_mask.any(dim=1).all()
        for place, row in enumerate(batch.rows.tolist()):
            begin, *ids, end = batch.labels[place, : int(batch.lengths[place])].tolist()
            assert (begin, end) == (BOS, EOS)
            found[row] += ids
    assert {row: sorted(ids) for row, ids in found.items()} == {row: sorted(text) for row, text in enumerate(texts)}


@examples(50)
@given(texts=documents, context=st.integers(3, 31), masking=maskings, seed=seeds)
def test_an_epoch_of_masked_tokens_loses_none(texts, context: int, masking: MaskingConfig, seed: int) -> None:
    choices = {"vocab_size": VOCABULARY, "context_length": context, "masking": masking, "budget": 97}
    stream = masked_lm_stream(ragged(texts), seed=seed, **choices)
    for _ in range(2):
        check_masking(iter(one_epoch(stream)), texts, context)
    check_masking(masked_lm_in_order(ragged(texts), **choices), texts, context)


@examples(30)
@given(texts=documents, taken=st.integers(0, 23), masking=maskings, seed=seeds)
def test_resumed_masking_is_identical(texts, taken: int, masking: MaskingConfig, seed: int) -> None:
    choices = {"vocab_size": VOCABULARY, "context_length": 11, "masking": masking, "budget": 31}
    check_resumption(lambda: masked_lm_stream(ragged(texts), seed=seed, **choices), taken)
