"""Tagger: sentences in, a label for every word out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import Labels, wrap_in_bos_eos
from dragoman.data.datasets.tagged import EncodedWords, encode_words
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.inference.backends.torch_backend import predict_probabilities
from dragoman.inference.length_batches import BATCH_TOKENS, MAX_INPUT_LENGTH, limit_length, number_chunks, warn_input

_STREAM_CHUNK = 1024
"""Sentences of a stream that are sorted and batched together."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Word with its most probable label and the label's probability."""

    word: str
    label: str
    probability: float


@final
class Tagger:
    """Model for token classification with its tokenizer and labels.

    The result for a sentence does not depend on other sentences.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        tokenizer: LanguageTokenizer,
        labels: Labels,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        max_length: int = MAX_INPUT_LENGTH,
    ) -> None:
        """The model, a `ModelWithHead`, is on `device`; `batch_tokens` bounds a batch, padding included.

        Sentences of more than `max_length` tokens, symbols included, are tagged in segments.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.max_length = limit_length(model, max_length)

    def tag(self, sentences: Sequence[Sequence[str]], *, first_line: int = 1) -> list[list[Tag]]:
        """Return the words of each sentence with their labels, in order.

        A sentence that is too long is tagged in segments, with an `InputWarning`; lines are numbered from `first_line`.
        """
        segments: list[EncodedWords] = []
        counts: list[int] = []
        for number, words in enumerate(sentences, start=first_line):
            if isinstance(words, str):
                raise TypeError("expected lists of words, got one text; split it into words")
            found = self._split(encode_words(self.tokenizer, words))
            if len(found) > 1:
                warn_input(f"line {number}: too long for the model; its words were tagged in {len(found)} segments")
            elif any(len(segment.ids) > self.max_length - 2 for segment in found):
                warn_input(f"line {number}: a word is too long for the model; its end is ignored")
            segments += found
            counts.append(len(found))
        tagged = iter(self._tag_segments(segments))
        results = []
        for words, count in zip(sentences, counts, strict=True):
            labels = [pair for _ in range(count) for pair in next(tagged)]
            results.append([Tag(word, *pair) for word, pair in zip(words, labels, strict=True)])
        return results

    def tag_stream(self, sentences: Iterable[Sequence[str]], *, chunk: int = _STREAM_CHUNK) -> Iterator[list[Tag]]:
        """Yield what `tag` returns, for any number of sentences in the memory of `chunk` of them."""
        for first_line, some in number_chunks(sentences, size=chunk):
            yield from self.tag(some, first_line=first_line)

    def _split(self, sentence: EncodedWords) -> list[EncodedWords]:
        """Cut the sentence between words into segments as long as possible; a longer word loses its last tokens."""
        room, ids = self.max_length - 2, sentence.ids
        bounds = [*sentence.first_tokens, len(ids)]
        segments: list[EncodedWords] = []
        word = 0
        while word < len(sentence.first_tokens):
            start = 0 if word == 0 else bounds[word]
            end = word + 1
            while end < len(sentence.first_tokens) and bounds[end + 1] - start <= room:
                end += 1
            first_tokens = [first - start for first in sentence.first_tokens[word:end]]
            segments.append(EncodedWords(ids[start : bounds[end]], first_tokens))
            word = end
        return segments

    def _tag_segments(self, segments: Sequence[EncodedWords]) -> list[list[tuple[str, float]]]:
        rows = [wrap_in_bos_eos(segment.ids, max_length=self.max_length) for segment in segments]
        results = []
        found = predict_probabilities(self.model, rows, device=self.device, batch_tokens=self.batch_tokens)
        for segment, probabilities in zip(segments, found, strict=True):
            best = probabilities[torch.tensor(segment.first_tokens) + 1].max(dim=-1)  # after the begin symbol
            names = [self.labels.names[label] for label in best.indices.tolist()]
            results.append(list(zip(names, best.values.tolist(), strict=True)))
        return results
