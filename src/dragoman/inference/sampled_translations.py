"""Sampled translations, as pseudo-data: more varied than the most probable ones of a search."""

from collections.abc import Iterable, Iterator, Sequence

from dragoman.decoding.config import SamplingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.inference.length_batches import number_chunks
from dragoman.inference.scheduler import Request, run_requests
from dragoman.inference.translator import STREAM_CHUNK, Translator


def sample_translations(
    translator: Translator, texts: Iterable[str], config: SamplingConfig, *, chunk: int = STREAM_CHUNK
) -> Iterator[str]:
    """Yield one sampled translation of each text, in the memory of `chunk` of them.

    A translation depends on the seed and on the number of the text only. It is empty for an empty text, for one longer
    than the model reads at once, and where the output did not end within its limit.
    """
    for first, some in number_chunks(texts, size=chunk, first=0):
        yield from _sample_chunk(translator, some, config, first=first)


def _sample_chunk(translator: Translator, texts: Sequence[str], config: SamplingConfig, *, first: int) -> list[str]:
    decoding = translator.config.model_copy(update={"min_length": 0})
    most = (translator.backend.max_length or decoding.max_length + 1) - 1
    requests = {
        row: Request(
            ids, config, min(decoding.output_limit(len(ids)), most), start=OutputStart(key=(row, 0)), size=len(ids)
        )
        for row, ids in enumerate(translator.tokenizer.source.encode_batch(list(texts)), start=first)
        if 0 < len(ids) <= translator.max_segment_length
    }
    with translator.backend.inference_mode():
        found = run_requests(translator.backend, list(requests.values()), batch_tokens=translator.batch_tokens)
    tokens = {row: one.tokens for row, [one] in zip(requests, found, strict=True) if one.finished}
    return [translator.tokenizer.target.decode(tokens.get(first + row, ())) for row in range(len(texts))]
