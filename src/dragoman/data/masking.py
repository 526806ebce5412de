"""Texts with words hidden, for a network that reads from both sides to guess them (Devlin et al., 2019, section 3.1).

A text is BEGIN, ids, END, one a row. Of its ids a share is chosen, one at least; of the chosen most are replaced by the
symbol MASK, some by a random word, and the rest stay: the network cannot know which of the words it sees are right.
MASK is the id after the last of the vocabulary: the tokenizer does not know it, and the embedding needs a row for it.

The paper does not say how the draws are made. Here those of training follow from (seed, epoch, number of the batch), so
that going on needs no stored state; those of validation follow from the number of each text, so that every run on
the same ids is judged by the same task, whatever its batches.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.batching.epochs import Epoch, EpochStream, Rows
from dragoman.data.batching.packing import PADDING_DOCUMENT, TextBatch
from dragoman.data.batching.token_batches import LengthArray, plan_batches, plan_batches_in_order
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS
from dragoman.errors import ConfigError

Uniform = NDArray[np.float64]
"""For choosing, replacing and naming the word, by row and place: numbers from 0 up to 1, which is not among them."""


class MaskingConfig(Config):
    """Which words are hidden from a network that learns to guess them."""

    rate: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens of each text that are to be guessed, one at least."""

    mask_share: float = Field(0.8, ge=0, le=1)
    """Share of those that are replaced by the mask."""

    random_share: float = Field(0.1, ge=0, le=1)
    """Share of those that are replaced by a random word; the rest stay as they are."""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.mask_share + self.random_share > 1:
            raise ValueError(
                f"mask_share = {self.mask_share:g} and random_share = {self.random_share:g} are more than 1 together; lower one of them"
            )
        return self


class TextChunks(NamedTuple):
    """Texts of bounded length, and the index of the text that each was cut from."""

    texts: RaggedArray
    origins: Rows


def split_long_texts(texts: RaggedArray, *, longest: int) -> TextChunks:
    """Texts of more than `longest` ids in as few pieces as will do, of like length; those without ids are left out."""
    lengths = texts.lengths.astype(np.int64)
    counts = -(-lengths // longest)
    origins = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(origins)) - np.repeat(np.cumsum(counts) - counts, counts)
    shorter, left = lengths[origins] // counts[origins], lengths[origins] % counts[origins]
    return TextChunks(RaggedArray(texts.values, shorter + (number < left)), origins)


def mask_tokens(
    texts: RaggedArray, rows: Rows, draws: Uniform, *, masking: MaskingConfig, vocab_size: int
) -> TextBatch:
    """The texts of `rows` with words hidden as `draws` say; MASK is the id `vocabulary`."""
    lengths = texts.lengths[rows].astype(np.int64)
    each, columns = np.arange(len(rows)), np.arange(int(lengths.max()) + 2)
    expected = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
    expected[:, 0] = BOS
    texts.fill(rows, expected[:, 1:-1])
    expected[each, lengths + 1] = EOS
    chosen = _chosen(draws[0], lengths, masking.rate)
    hidden = chosen & (draws[1] < masking.mask_share)
    replaced = chosen & ~hidden & (draws[1] < masking.mask_share + masking.random_share)
    words = len(SPECIAL_TOKENS) + (draws[2] * (vocab_size - len(SPECIAL_TOKENS))).astype(np.int64)
    real = columns < lengths[:, None] + 2
    return TextBatch(
        tokens=torch.from_numpy(np.where(hidden, vocab_size, np.where(replaced, words, expected))),
        labels=torch.from_numpy(expected),
        loss_mask=torch.from_numpy(chosen),
        document_ids=torch.from_numpy(np.where(real, 0, PADDING_DOCUMENT)),
        rows=rows,
    )


def masked_lm_stream(
    texts: RaggedArray, *, vocab_size: int, context_length: int, masking: MaskingConfig, budget: int, seed: int
) -> EpochStream[TextBatch]:
    """Texts of like length under a `budget` of padded tokens, for ever, shuffled and hidden anew every epoch.

    A text that is longer than `context`, BEGIN and END included, is cut. `TextBatch.rows` are indices of `texts`.
    Raises ConfigError where not even one text of that length is within the budget.
    """
    pieces = _pieces(texts, context_length, budget)
    lengths = _lengths(pieces.texts)

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        def draws(index: int, rows: Rows) -> Uniform:
            # A seed that only lacked the last number would be the same seed as one with a zero there.
            return np.random.default_rng([seed, epoch, index + 1]).random(_shape(pieces.texts, rows))

        plan_of_epoch = plan_batches(lengths, lengths, budget=budget, seed=seed, epoch=epoch)
        return _epoch(pieces, plan_of_epoch, draws, masking=masking, vocabulary=vocab_size)

    return EpochStream(epoch_of)


def masked_lm_in_order(
    texts: RaggedArray, *, vocab_size: int, context_length: int, masking: MaskingConfig, budget: int
) -> Iterator[TextBatch]:
    """All texts once, by length, with the same words hidden every time: for validation."""
    pieces = _pieces(texts, context_length, budget)
    lengths = _lengths(pieces.texts)

    def draws(_: int, rows: Rows) -> Uniform:
        drawn = np.zeros(_shape(pieces.texts, rows))
        for place, row in enumerate(rows.tolist()):
            own = (len(drawn), int(pieces.texts.lengths[row]) + 2)
            drawn[:, place, : own[1]] = np.random.default_rng(row).random(own)
        return drawn

    batches = plan_batches_in_order(lengths, lengths, budget=budget)
    return iter(_epoch(pieces, batches, draws, masking=masking, vocabulary=vocab_size))


def _epoch(
    pieces: TextChunks,
    batches: list[Rows],
    draws: Callable[[int, Rows], Uniform],
    *,
    masking: MaskingConfig,
    vocabulary: int,
) -> Epoch[TextBatch]:
    def make(index: int, rows: Rows) -> TextBatch:
        batch = mask_tokens(pieces.texts, rows, draws(index, rows), masking=masking, vocab_size=vocabulary)
        return replace(batch, rows=pieces.origins[rows])

    return Epoch(batches, make)


def _pieces(texts: RaggedArray, context: int, budget: int) -> TextChunks:
    if budget < context:
        raise ConfigError(
            f"training.batch_tokens = {budget:,} holds no text of data.context_length = {context:,} tokens; raise the one or "
            "lower the other"
        )
    return split_long_texts(texts, longest=context - 2)


def _lengths(texts: RaggedArray) -> LengthArray:
    """Ids of each text with BEGIN; a plan adds a place for one more symbol, which here is END."""
    return (texts.lengths + 1).astype(np.int32)


def _shape(texts: RaggedArray, rows: Rows) -> tuple[int, int, int]:
    return (3, len(rows), int(texts.lengths[rows].max()) + 2)


def _chosen(draws: Uniform, lengths: Rows, share: float) -> NDArray[np.bool_]:
    """Of the ids of each row, which stand after BEGIN, those with the lowest draws: a share, one at least."""
    columns = np.arange(draws.shape[1])
    ids = (columns >= 1) & (columns <= lengths[:, None])
    order = np.argsort(np.where(ids, draws, 2.0), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(columns, order.shape), axis=1)
    count = np.maximum(np.rint(share * lengths), np.minimum(lengths, 1))
    chosen: NDArray[np.bool_] = ranks < count[:, None]
    return chosen
