"""Translations drawn by chance, as training text: what a search finds is always the likeliest, and so always alike."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from dragoman.decoding.sampling import Beginnings, SamplingSettings, sample
from dragoman.inference.inference_mode import in_use
from dragoman.inference.length_batches import batches_by_length
from dragoman.inference.padding import rectangle
from dragoman.inference.translator import STREAM_CHUNK, Translator
from dragoman.models.protocols import Seq2Seq
from dragoman.models.special_symbols import Symbols


def drawn_translations(
    translator: Translator, texts: Iterable[str], settings: SamplingSettings, *, chunk: int = STREAM_CHUNK
) -> Iterator[str]:
    """One translation of each text, drawn by the seed and the number of the text alone; in the memory of a chunk.

    That of an empty text is empty, and so is that of one too long to be read at once, and one that never came to its
    end. The translator's network is one of PyTorch.
    """
    iterator, first = iter(texts), 0
    while some := list(islice(iterator, chunk)):
        yield from _drawn(translator, some, settings, first=first)
        first += len(some)


def _drawn(translator: Translator, texts: Sequence[str], settings: SamplingSettings, *, first: int) -> list[str]:
    ids = translator.tokenizer.source.encode_batch(list(texts))
    read = [row for row, one in enumerate(ids) if 0 < len(one) <= translator.longest_piece]
    outputs = [""] * len(texts)
    for places in batches_by_length([len(ids[row]) for row in read], budget=translator.batch_tokens):
        rows = [read[place] for place in places]
        found = _of_batch(translator, [ids[row] for row in rows], settings, [first + row for row in rows])
        for row, tokens in zip(rows, found, strict=True):
            outputs[row] = translator.tokenizer.target.decode(tokens)
    return outputs


def _of_batch(
    translator: Translator, sources: Sequence[Sequence[int]], settings: SamplingSettings, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    symbols, device = Symbols(), torch.device(translator.device)
    model: Seq2Seq[Any, Any] = translator.model
    first = torch.full((len(sources),), symbols.begin, device=device)
    limit = translator.settings.maximum_length
    most = (translator.network.maximum_length or limit.absolute + 1) - 1
    limits = torch.tensor([min(limit.of(len(one)), most) for one in sources], device=device)
    with in_use(model):
        memory = model.encode(*rectangle([[*one, symbols.end] for one in sources], device=device))
        found = sample(
            model,
            memory,
            limits=limits,
            settings=settings,
            symbols=symbols,
            beginnings=Beginnings(first, first[:, None], tuple((number, 0) for number in numbers)),
        )
    return [one.tokens if one.finished else () for [one] in found]
