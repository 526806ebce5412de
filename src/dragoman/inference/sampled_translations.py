"""Sampled translations, as pseudo-data: more varied than the most probable ones of a search."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from dragoman.decoding.config import SamplingConfig
from dragoman.decoding.sampling import SamplingStart, sample
from dragoman.inference.backends.torch_backend import inference_mode, pad_batch
from dragoman.inference.batching import batch_by_length
from dragoman.inference.translator import STREAM_CHUNK, Translator
from dragoman.models.protocols import EncoderDecoder
from dragoman.models.special_symbols import BOS, EOS


def sample_translations(
    translator: Translator, texts: Iterable[str], config: SamplingConfig, *, chunk: int = STREAM_CHUNK
) -> Iterator[str]:
    """Yield one sampled translation of each text, in the memory of `chunk` of them.

    A translation depends on the seed and on the number of the text only. It is empty for an empty text, for one longer
    than the model reads at once, and where the output did not end within its limit. The model is one of PyTorch.
    """
    iterator, first = iter(texts), 0
    while some := list(islice(iterator, chunk)):
        yield from _sample_chunk(translator, some, config, first=first)
        first += len(some)


def _sample_chunk(translator: Translator, texts: Sequence[str], config: SamplingConfig, *, first: int) -> list[str]:
    ids = translator.tokenizer.source.encode_batch(list(texts))
    read = [row for row, one in enumerate(ids) if 0 < len(one) <= translator.max_segment_length]
    outputs = [""] * len(texts)
    for places in batch_by_length([len(ids[row]) for row in read], batch_tokens=translator.batch_tokens):
        rows = [read[place] for place in places]
        found = _sample_batch(translator, [ids[row] for row in rows], config, [first + row for row in rows])
        for row, tokens in zip(rows, found, strict=True):
            outputs[row] = translator.tokenizer.target.decode(tokens)
    return outputs


def _sample_batch(
    translator: Translator, sources: Sequence[Sequence[int]], config: SamplingConfig, numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    device = torch.device(translator.device)
    model: EncoderDecoder[Any, Any] = translator.model
    tokens = torch.full((len(sources),), BOS, device=device)
    decoding = translator.config.model_copy(update={"min_length": 0})
    most = (translator.backend.max_length or decoding.max_length + 1) - 1
    limits = torch.tensor([min(decoding.output_limit(len(one)), most) for one in sources], device=device)
    with inference_mode(model):
        memory = model.encode(*pad_batch([[*one, EOS] for one in sources], device=device))
        start = SamplingStart(tokens, tokens[:, None], tuple((number, 0) for number in numbers))
        found = sample(model, memory, limits=limits, config=config, start=start)
    return [one.tokens if one.finished else () for [one] in found]
