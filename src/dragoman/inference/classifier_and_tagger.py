"""Classifier and tagger: texts in, a label for each text or for each word out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final, overload

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import Labels, wrap_in_bos_eos
from dragoman.data.datasets.tagged import EncodedWords, encode_words
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.forced_decoding import pad_batch
from dragoman.errors import one_warning_per_problem
from dragoman.html_tables import html_table
from dragoman.inference.backends.torch_backend import inference_mode
from dragoman.inference.concurrent_calls import OwnerProcess, run_in_thread
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    MAX_INPUT_LENGTH,
    check_text,
    one_or_more_texts,
    require_iterable,
    run_in_batches,
    text_list,
    warn_input,
    warn_too_long,
    warn_unknown,
)
from dragoman.inference.stream_chunks import number_chunks

_TEXTS_CHUNK = 4096
"""Texts of a stream that are sorted, batched and classified together."""
_SENTENCES_CHUNK = 1024
"""Sentences of a stream that are sorted, batched and tagged together."""


@dataclass(frozen=True, slots=True)
class Classification:
    """Most probable label of a text, its probability, and that of every label, most probable first."""

    label: str
    probability: float
    probabilities: Mapping[str, float]
    truncated: bool = False
    """Whether the text was too long, so that its end was ignored."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record of `dragoman classify --format jsonl`, without the line number."""
        return {
            "label": self.label,
            "probability": self.probability,
            "probabilities": dict(self.probabilities),
            "truncated": self.truncated,
        }

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        count = len(self.probabilities)
        return f"Classification(label={self.label!r}, probability={self.probability:.4f}, labels={count})"

    def _repr_html_(self) -> str:
        return html_table(["label", "probability"], self.probabilities.items())


@dataclass(frozen=True, slots=True)
class Tag:
    """Word with its most probable label and the label's probability."""

    word: str
    label: str
    probability: float
    truncated: bool = False
    """Whether the word was too long, so that its end was ignored."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object of this word in the records of `dragoman classify --format jsonl`."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"Tag(word={self.word!r}, label={self.label!r}, probability={self.probability:.4f})"


class LabelPredictor:
    """Base class of classifier and tagger: a model with its tokenizer and labels."""

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

        The model reads at most `max_length` tokens at once, symbols included.
        """
        self.model = model
        self.tokenizer = tokenizer
        self.labels = labels
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self._process = OwnerProcess()
        positions: int | None = getattr(model, "max_length", None)
        self.max_length = max_length if positions is None else min(max_length, positions)

    def __repr__(self) -> str:
        names = ", ".join(self.labels.names[:5]) + (", …" if len(self.labels.names) > 5 else "")
        return f"{type(self).__name__}(device={self.device}, labels=[{names}], max_length={self.max_length})"

    def _predict(self, encoded: Iterable[Sequence[int]]) -> list[Tensor]:
        """Return the probabilities of the labels for each row of ids, in double precision on the CPU.

        With labels for each token, a row has positions, symbols and padding included.
        """
        self._process.check()
        rows = [wrap_in_bos_eos(ids, max_length=self.max_length) for ids in encoded]

        def run(batch: list[list[int]]) -> Tensor:
            return self.model(*pad_batch(batch, device=self.device)).cpu().double().softmax(dim=-1)

        with inference_mode(self.model):
            return run_in_batches(rows, [len(row) for row in rows], run, batch_tokens=self.batch_tokens)


@final
class Classifier(LabelPredictor):
    """Model for sequence classification with its tokenizer and labels.

    It reads at most `max_length` tokens of a text, symbols included, `data.max_length` of its training.
    The result for a text depends on other texts by rounding only.
    """

    @overload
    def classify(self, texts: str, *, first_line: int = ...) -> Classification: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, texts: Iterable[str], *, first_line: int = ...) -> list[Classification]: ...

    @one_warning_per_problem()
    def classify(self, texts: str | Iterable[str], *, first_line: int = 1) -> Classification | list[Classification]:
        """Return the label of a text, or of each in a list; an empty text has one too.

        A text that is too long is truncated with an `InputWarning`. `first_line` is the number, from 1, of the
        first text, where texts are parts of a longer list.
        """
        given = one_or_more_texts(texts)
        encoded = self.tokenizer.encode_batch(given)
        warn_unknown(given, encoded, self.tokenizer, first=first_line)
        warn_too_long(encoded, max_length=self.max_length, first=first_line)
        results = [
            self._classification(one.tolist(), truncated=len(ids) + 2 > self.max_length)
            for ids, one in zip(encoded, self._predict(encoded), strict=True)
        ]
        return results[0] if isinstance(texts, str) else results

    @overload
    async def classify_async(self, texts: str) -> Classification: ...  # type: ignore[overload-overlap]

    @overload
    async def classify_async(self, texts: Iterable[str]) -> list[Classification]: ...

    async def classify_async(self, texts: str | Iterable[str]) -> Classification | list[Classification]:
        """Classify as `classify` does, in a thread of its own."""
        return await run_in_thread(self.classify, texts)

    def classify_stream(self, texts: Iterable[str], *, chunk: int = _TEXTS_CHUNK) -> Iterator[Classification]:
        """Yield what `classify` returns, for any number of texts in the memory of `chunk` of them."""
        chunks = number_chunks(texts, size=chunk, name="texts", check=check_text)
        return (one for first_line, some in chunks for one in self.classify(some, first_line=first_line))

    def _classification(self, probabilities: Sequence[float], *, truncated: bool) -> Classification:
        """Rank the labels; ties keep the order of the labels."""
        ranked = sorted(zip(self.labels.names, probabilities, strict=True), key=lambda pair: -pair[1])
        return Classification(*ranked[0], dict(ranked), truncated)


@final
class Tagger(LabelPredictor):
    """Model for token classification with its tokenizer and labels.

    It reads at most `max_length` tokens at once, symbols included, `data.max_length` of its training.
    The result for a sentence depends on other sentences by rounding only.
    """

    @one_warning_per_problem()
    def tag(self, sentences: Iterable[Sequence[str]], *, first_line: int = 1) -> list[list[Tag]]:
        """Return the words of each sentence with their labels, in order; a sentence is a list of words.

        A sentence that is too long is tagged in segments, with an `InputWarning`. `first_line` is the number, from 1,
        of the first sentence, where sentences are parts of a longer list.
        """
        segments: list[EncodedWords] = []
        counts: list[int] = []
        sentences = [
            text_list(words, name=f"sentences[{number}]")
            for number, words in enumerate(require_iterable(sentences, name="sentences"))
        ]
        for number, words in enumerate(sentences, start=first_line):
            aligned = encode_words(self.tokenizer, words)
            warn_unknown([" ".join(words)], [aligned.ids], self.tokenizer, unit="sentence", first=number)
            found = self._split(aligned)
            if len(found) > 1:
                warn_input(
                    "sentence",
                    number,
                    f"too long for the model; its words were tagged in {len(found)} segments",
                    problem="texts are too long for the model and were tagged in segments",
                )
            elif any(map(self._is_truncated, found)):
                warn_input(
                    "sentence",
                    number,
                    "a word is too long for the model; its end is ignored",
                    problem="texts have a word that is too long for the model and whose end was ignored",
                )
            segments += found
            counts.append(len(found))
        tagged = iter(self._tag_segments(segments))
        results = []
        for words, count in zip(sentences, counts, strict=True):
            labels = [one for _ in range(count) for one in next(tagged)]
            results.append([Tag(word, *one) for word, one in zip(words, labels, strict=True)])
        return results

    async def tag_async(self, sentences: Iterable[Sequence[str]]) -> list[list[Tag]]:
        """Tag as `tag` does, in a thread of its own."""
        return await run_in_thread(self.tag, sentences)

    def tag_stream(self, sentences: Iterable[Sequence[str]], *, chunk: int = _SENTENCES_CHUNK) -> Iterator[list[Tag]]:
        """Yield what `tag` returns, for any number of sentences in the memory of `chunk` of them."""
        chunks = number_chunks(sentences, size=chunk, name="sentences", check=_check_words)
        return (one for first_line, some in chunks for one in self.tag(some, first_line=first_line))

    def _split(self, sentence: EncodedWords) -> list[EncodedWords]:
        """Cut the sentence between words into segments as long as possible; a longer word loses its last tokens."""
        max_tokens, ids = self.max_length - 2, sentence.ids
        bounds = [*sentence.first_tokens, len(ids)]
        segments: list[EncodedWords] = []
        word = 0
        while word < len(sentence.first_tokens):
            start = 0 if word == 0 else bounds[word]
            end = word + 1
            while end < len(sentence.first_tokens) and bounds[end + 1] - start <= max_tokens:
                end += 1
            first_tokens = [first - start for first in sentence.first_tokens[word:end]]
            segments.append(EncodedWords(ids[start : bounds[end]], first_tokens))
            word = end
        return segments

    def _is_truncated(self, segment: EncodedWords) -> bool:
        """Return whether the segment is one word, whose end is ignored."""
        return len(segment.ids) > self.max_length - 2

    def _tag_segments(self, segments: Sequence[EncodedWords]) -> list[list[tuple[str, float, bool]]]:
        """Return label, probability, and whether the end is ignored, for each word of each segment."""
        results = []
        for segment, probabilities in zip(segments, self._predict(one.ids for one in segments), strict=True):
            best = probabilities[torch.tensor(segment.first_tokens) + 1].max(dim=-1)  # after the begin symbol
            names = [self.labels.names[label] for label in best.indices.tolist()]
            truncated = self._is_truncated(segment)
            results.append([(*one, truncated) for one in zip(names, best.values.tolist(), strict=True)])
        return results


def _check_words(words: Iterable[str], place: str) -> None:
    """Raise TypeError unless a sentence is a list of words; one that can be read only once is checked later."""
    if not isinstance(words, Iterator):
        text_list(words, name=place)
