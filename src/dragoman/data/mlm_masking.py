"""Masked language modeling: tokens hidden from a bidirectional model (Devlin et al., 2019, section 3.1).

A row is BOS, ids, EOS. A share of the ids is chosen, at least one; most chosen tokens are replaced by MASK, some by a
random token, and the rest stay, so that the model cannot know which tokens are correct. MASK is the id after the last
of the vocabulary: the tokenizer does not know it, and the embedding needs a row for it.

The paper leaves the draws open. Training draws from (seed, epoch, batch number), so that resuming needs no stored
state. Validation draws from the number of each text, so that every run on the same ids has the same task in batches of
any size.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dragoman.array_types import Rows
from dragoman.config import Config
from dragoman.data.batching.batch_streams import Epoch, EpochStream
from dragoman.data.batching.packing import PADDING_DOCUMENT, TextBatch, check_budget
from dragoman.data.batching.token_budget_batches import LengthArray, plan_batches, plan_batches_in_order
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS

Uniform = NDArray[np.float64]
"""Uniform draws in [0, 1) for choosing, replacing and naming the token, by row and position."""


class MaskingConfig(Config):
    """Tokens that a model learns to predict."""

    rate: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens of each text to predict, at least one token."""
    mask_share: float = Field(default=0.8, ge=0, le=1)
    """Share of these tokens that are replaced by the mask."""
    random_share: float = Field(default=0.1, ge=0, le=1)
    """Share of these tokens that are replaced by a random token; the rest stay."""

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.mask_share + self.random_share > 1:
            raise ValueError(
                f"mask_share = {self.mask_share:g} and random_share = {self.random_share:g} are more than 1 together; "
                "lower one of them"
            )
        return self


class TextChunks(NamedTuple):
    """Texts of bounded length, and the index of the original text of each."""

    texts: RaggedArray
    origins: Rows

    @property
    def lengths(self) -> LengthArray:
        """Number of ids of each text with BOS; the plan adds one for a special token, here EOS."""
        return (self.texts.lengths + 1).astype(np.int32)

    def draw_shape(self, rows: Rows) -> tuple[int, int, int]:
        """Return the shape of the draws for `rows`."""
        return (3, len(rows), int(self.texts.lengths[rows].max()) + 2)


def split_long_texts(texts: RaggedArray, *, max_length: int) -> TextChunks:
    """Split texts of more than `max_length` ids into few chunks of similar length; empty texts are left out."""
    lengths = texts.lengths.astype(np.int64)
    counts = -(-lengths // max_length)
    origins = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(origins)) - np.repeat(np.cumsum(counts) - counts, counts)
    shorter, left = lengths[origins] // counts[origins], lengths[origins] % counts[origins]
    return TextChunks(RaggedArray(texts.values, shorter + (number < left)), origins)


def mask_tokens(
    texts: RaggedArray, rows: Rows, draws: Uniform, *, masking: MaskingConfig, vocab_size: int
) -> TextBatch:
    """Return the texts of `rows` with tokens masked according to `draws`; MASK is the id `vocab_size`."""
    lengths = texts.lengths[rows].astype(np.int64)
    each, columns = np.arange(len(rows)), np.arange(int(lengths.max()) + 2)
    labels = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
    labels[:, 0] = BOS
    texts.fill(rows, labels[:, 1:-1])
    labels[each, lengths + 1] = EOS
    chosen = _choose(draws[0], lengths, masking.rate)
    hidden = chosen & (draws[1] < masking.mask_share)
    replaced = chosen & ~hidden & (draws[1] < masking.mask_share + masking.random_share)
    tokens = len(SPECIAL_TOKENS) + (draws[2] * (vocab_size - len(SPECIAL_TOKENS))).astype(np.int64)
    real = columns < lengths[:, None] + 2
    return TextBatch(
        tokens=torch.from_numpy(np.where(hidden, vocab_size, np.where(replaced, tokens, labels))),
        labels=torch.from_numpy(labels),
        loss_mask=torch.from_numpy(chosen),
        document_ids=torch.from_numpy(np.where(real, 0, PADDING_DOCUMENT)),
        rows=rows,
    )


def masked_lm_stream(
    texts: RaggedArray, *, vocab_size: int, context_length: int, masking: MaskingConfig, budget: int, seed: int
) -> EpochStream[TextBatch]:
    """Return an endless stream of texts of similar length under a `budget` of padded tokens; each epoch masks anew.

    Texts of more than `context_length` tokens, BOS and EOS included, are split. `TextBatch.rows` holds indices of
    `texts`. Raises ConfigError if a text of that length exceeds the budget.
    """
    chunks = _split(texts, context_length, budget)

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        def draw(index: int, rows: Rows) -> Uniform:
            # A seed sequence that ends in 0 equals the sequence without its last number.
            return np.random.default_rng([seed, epoch, index + 1]).random(chunks.draw_shape(rows))

        batches = plan_batches(chunks.lengths, chunks.lengths, budget=budget, seed=seed, epoch=epoch)
        return [partial(_mask, chunks, draw, masking, vocab_size, *each) for each in enumerate(batches)]

    return EpochStream(epoch_of)


def masked_lm_in_order(
    texts: RaggedArray, *, vocab_size: int, context_length: int, masking: MaskingConfig, budget: int
) -> Iterator[TextBatch]:
    """Yield all texts once, by length, always with the same masks, for validation."""
    chunks = _split(texts, context_length, budget)

    def draw(_: int, rows: Rows) -> Uniform:
        draws = np.zeros(chunks.draw_shape(rows))
        for place, row in enumerate(rows.tolist()):
            own = (len(draws), int(chunks.texts.lengths[row]) + 2)
            draws[:, place, : own[1]] = np.random.default_rng(row).random(own)
        return draws

    batches = plan_batches_in_order(chunks.lengths, chunks.lengths, budget=budget)
    return (_mask(chunks, draw, masking, vocab_size, *each) for each in enumerate(batches))


def _mask(
    chunks: TextChunks,
    draw: Callable[[int, Rows], Uniform],
    masking: MaskingConfig,
    vocab_size: int,
    index: int,
    rows: Rows,
) -> TextBatch:
    """Return a batch, given its number and its rows."""
    batch = mask_tokens(chunks.texts, rows, draw(index, rows), masking=masking, vocab_size=vocab_size)
    return replace(batch, rows=chunks.origins[rows])


def _split(texts: RaggedArray, context_length: int, budget: int) -> TextChunks:
    check_budget(budget, context_length, unit="text")
    return split_long_texts(texts, max_length=context_length - 2)


def _choose(draws: Uniform, lengths: Rows, share: float) -> NDArray[np.bool_]:
    """Choose the ids with the lowest draws of each row: a share of them, at least one."""
    columns = np.arange(draws.shape[1])
    ids = (columns >= 1) & (columns <= lengths[:, None])
    order = np.argsort(np.where(ids, draws, 2.0), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(columns, order.shape), axis=1)
    count = np.maximum(np.rint(share * lengths), np.minimum(lengths, 1))
    chosen: NDArray[np.bool_] = ranks < count[:, None]
    return chosen
