"""Sentences in, a label for every word out: the way of a trained tagger's user."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import Labels, between_symbols
from dragoman.data.datasets.tagged import Aligned, encode_words
from dragoman.data.tokenizers import Side
from dragoman.inference.inference_mode import in_use
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.length_warnings import LONGEST, longest_of, warn
from dragoman.inference.padding import rectangle

BATCH_TOKENS = 4096
STREAM_CHUNK = 1024
"""Sentences of a stream that are sorted and batched together."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A word, its most probable label, and how probable it is."""

    word: str
    label: str
    probability: float


@final
class Tagger:
    """A network with a head for words, its tokenizer and its labels, for use.

    What is found for a sentence does not depend on the sentences beside it.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        side: Side,
        labels: Labels,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        longest: int = LONGEST,
    ) -> None:
        """The model, a `Headed`, is on `device` already; `batch_tokens` bounds a batch, padding included.

        Sentences with more than `longest` tokens, symbols included, are read in pieces.
        """
        self.model = model
        self.side = side
        self.labels = labels
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.longest = longest_of(model, longest)

    def tag(self, sentences: Sequence[Sequence[str]], *, first_line: int = 1) -> list[list[Tag]]:
        """The words of each sentence with their labels, in order.

        A sentence that is too long is read in pieces, with a `ReadingWarning`; lines are numbered from `first_line`.
        """
        pieces: list[Aligned] = []
        counts: list[int] = []
        for number, words in enumerate(sentences, start=first_line):
            if isinstance(words, str):
                raise TypeError("expected lists of words, got one text; split it into words")
            found = self._pieces(encode_words(self.side, words))
            if len(found) > 1:
                warn(f"line {number}: too long to be read at once; its words were labelled in {len(found)} pieces")
            elif any(len(piece.ids) > self.longest - 2 for piece in found):
                warn(f"line {number}: a word is too long to be read at once; its end has no part in its label")
            pieces += found
            counts.append(len(found))
        tagged = iter(self._tag_pieces(pieces))
        results = []
        for words, count in zip(sentences, counts, strict=True):
            labels = [pair for _ in range(count) for pair in next(tagged)]
            results.append([Tag(word, *pair) for word, pair in zip(words, labels, strict=True)])
        return results

    def stream(self, sentences: Iterable[Sequence[str]], *, chunk: int = STREAM_CHUNK) -> Iterator[list[Tag]]:
        """What `tag` returns, for any number of sentences in the memory of `chunk` of them."""
        iterator, first_line = iter(sentences), 1
        while some := list(islice(iterator, chunk)):
            yield from self.tag(some, first_line=first_line)
            first_line += len(some)

    def _pieces(self, sentence: Aligned) -> list[Aligned]:
        """The sentence cut between words, each piece as long as may be read; a longer word loses its last tokens."""
        room, ids = self.longest - 2, sentence.ids
        bounds = [*sentence.firsts, len(ids)]
        pieces: list[Aligned] = []
        word = 0
        while word < len(sentence.firsts):
            start = 0 if word == 0 else bounds[word]
            end = word + 1
            while end < len(sentence.firsts) and bounds[end + 1] - start <= room:
                end += 1
            firsts = [first - start for first in sentence.firsts[word:end]]
            pieces.append(Aligned(ids[start : bounds[end]], firsts))
            word = end
        return pieces

    def _tag_pieces(self, pieces: Sequence[Aligned]) -> list[list[tuple[str, float]]]:
        rows = [between_symbols(piece.ids, longest=self.longest) for piece in pieces]
        results: dict[int, list[tuple[str, float]]] = {}
        with in_use(self.model):
            for batch in batches_by_length([len(row) for row in rows], budget=self.batch_tokens):
                logits = self.model(*rectangle([rows[row] for row in batch], device=self.device))
                best = logits.cpu().double().softmax(dim=-1).max(dim=-1)
                for place, row in enumerate(batch):
                    at = torch.tensor(pieces[row].firsts) + 1  # after BEGIN
                    probabilities, labels = best.values[place, at].tolist(), best.indices[place, at].tolist()
                    names = [self.labels.names[label] for label in labels]
                    results[row] = list(zip(names, probabilities, strict=True))
        return [results[row] for row in range(len(rows))]
