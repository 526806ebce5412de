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
from dragoman.data.batching.packing import ABSENT, TextBatch
from dragoman.data.batching.token_batches import LengthsOfAll, plan, plan_in_order
from dragoman.data.datasets.parallel import Ragged
from dragoman.data.tokenizers.vocabulary import BEGIN, END, PAD, SPECIALS
from dragoman.errors import ConfigError

Uniform = NDArray[np.float64]
"""For choosing, replacing and naming the word, by row and place: numbers from 0 up to 1, which is not among them."""


class Masking(Config):
    """Which words are hidden from a network that learns to guess them."""

    share: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens of each text that are to be guessed, one at least."""

    masked: float = Field(0.8, ge=0, le=1)
    """Share of those that are replaced by the mask."""

    random: float = Field(0.1, ge=0, le=1)
    """Share of those that are replaced by a random word; the rest stay as they are."""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.masked + self.random > 1:
            raise ValueError(
                f"masked = {self.masked:g} and random = {self.random:g} are more than 1 together; lower one of them"
            )
        return self


class Pieces(NamedTuple):
    """Texts of bounded length, and the index of the text that each was cut from."""

    texts: Ragged
    origins: Rows


def cut(texts: Ragged, *, longest: int) -> Pieces:
    """Texts of more than `longest` ids in as few pieces as will do, of like length; those without ids are left out."""
    lengths = texts.lengths.astype(np.int64)
    counts = -(-lengths // longest)
    origins = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(origins)) - np.repeat(np.cumsum(counts) - counts, counts)
    shorter, left = lengths[origins] // counts[origins], lengths[origins] % counts[origins]
    return Pieces(Ragged(texts.values, shorter + (number < left)), origins)


def hide(texts: Ragged, rows: Rows, draws: Uniform, *, masking: Masking, vocabulary: int) -> TextBatch:
    """The texts of `rows` with words hidden as `draws` say; MASK is the id `vocabulary`."""
    lengths = texts.lengths[rows].astype(np.int64)
    each, columns = np.arange(len(rows)), np.arange(int(lengths.max()) + 2)
    expected = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
    expected[:, 0] = BEGIN
    texts.fill(rows, expected[:, 1:-1])
    expected[each, lengths + 1] = END
    chosen = _chosen(draws[0], lengths, masking.share)
    hidden = chosen & (draws[1] < masking.masked)
    replaced = chosen & ~hidden & (draws[1] < masking.masked + masking.random)
    words = len(SPECIALS) + (draws[2] * (vocabulary - len(SPECIALS))).astype(np.int64)
    real = columns < lengths[:, None] + 2
    return TextBatch(
        tokens=torch.from_numpy(np.where(hidden, vocabulary, np.where(replaced, words, expected))),
        expected=torch.from_numpy(expected),
        counted=torch.from_numpy(chosen),
        documents=torch.from_numpy(np.where(real, 0, ABSENT)),
        rows=rows,
    )


def masked_stream(
    texts: Ragged, *, vocabulary: int, context: int, masking: Masking, budget: int, seed: int
) -> EpochStream[TextBatch]:
    """Texts of like length under a `budget` of padded tokens, for ever, shuffled and hidden anew every epoch.

    A text that is longer than `context`, BEGIN and END included, is cut. `TextBatch.rows` are indices of `texts`.
    Raises ConfigError where not even one text of that length is within the budget.
    """
    pieces = _pieces(texts, context, budget)
    lengths = _lengths(pieces.texts)

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        def draws(index: int, rows: Rows) -> Uniform:
            # A seed that only lacked the last number would be the same seed as one with a zero there.
            return np.random.default_rng([seed, epoch, index + 1]).random(_shape(pieces.texts, rows))

        plan_of_epoch = plan(lengths, lengths, budget=budget, seed=seed, epoch=epoch)
        return _epoch(pieces, plan_of_epoch, draws, masking=masking, vocabulary=vocabulary)

    return EpochStream(epoch_of)


def masked_in_order(
    texts: Ragged, *, vocabulary: int, context: int, masking: Masking, budget: int
) -> Iterator[TextBatch]:
    """All texts once, by length, with the same words hidden every time: for validation."""
    pieces = _pieces(texts, context, budget)
    lengths = _lengths(pieces.texts)

    def draws(_: int, rows: Rows) -> Uniform:
        drawn = np.zeros(_shape(pieces.texts, rows))
        for place, row in enumerate(rows.tolist()):
            own = (len(drawn), int(pieces.texts.lengths[row]) + 2)
            drawn[:, place, : own[1]] = np.random.default_rng(row).random(own)
        return drawn

    batches = plan_in_order(lengths, lengths, budget=budget)
    return iter(_epoch(pieces, batches, draws, masking=masking, vocabulary=vocabulary))


def _epoch(
    pieces: Pieces, batches: list[Rows], draws: Callable[[int, Rows], Uniform], *, masking: Masking, vocabulary: int
) -> Epoch[TextBatch]:
    def make(index: int, rows: Rows) -> TextBatch:
        batch = hide(pieces.texts, rows, draws(index, rows), masking=masking, vocabulary=vocabulary)
        return replace(batch, rows=pieces.origins[rows])

    return Epoch(batches, make)


def _pieces(texts: Ragged, context: int, budget: int) -> Pieces:
    if budget < context:
        raise ConfigError(
            f"training.batch_tokens = {budget:,} holds no text of data.context = {context:,} tokens; raise the one or "
            "lower the other"
        )
    return cut(texts, longest=context - 2)


def _lengths(texts: Ragged) -> LengthsOfAll:
    """Ids of each text with BEGIN; a plan adds a place for one more symbol, which here is END."""
    return (texts.lengths + 1).astype(np.int32)


def _shape(texts: Ragged, rows: Rows) -> tuple[int, int, int]:
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
