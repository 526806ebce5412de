"""Sampled translations, more varied than those of a search: pseudo-data for training."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from dragoman.data.tokenizers import Direction
from dragoman.decoding.config import SamplingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.inference.scheduler import Request, run_requests
from dragoman.inference.stream_chunks import number_chunks
from dragoman.inference.translation_options import LanguageOptions
from dragoman.inference.translator import STREAM_CHUNK, Translator


def sample_translations(
    translator: Translator,
    texts: Iterable[str],
    config: SamplingConfig,
    *,
    chunk: int = STREAM_CHUNK,
    **languages: Unpack[LanguageOptions],
) -> Iterator[str]:
    """Yield one sampled translation of each text, in the memory of `chunk` of them: more varied than those of a search.

    A translation depends on the seed and on the number of the text only. It is empty for an empty text, for one longer
    than the model reads at once, and where the output did not end within its limit. Languages are those of `translate`.
    """
    direction = translator.tokenizer.prefixes.resolve(**languages)
    chunks = number_chunks(texts, size=chunk, first=0)
    return (one for first, some in chunks for one in _sample_chunk(translator, some, config, direction, first=first))


def _sample_chunk(
    translator: Translator, texts: Sequence[str], config: SamplingConfig, direction: Direction, *, first: int
) -> list[str]:
    decoding = translator.config.model_copy(update={"min_length": 0})
    most = (translator.backend.max_length or decoding.max_length + 1) - 1
    forced = direction.target
    requests = {
        row: Request(
            ids,
            config,
            min(len(forced) + decoding.output_limit(len(ids)), most),
            start=OutputStart(forced=forced, key=(row, 0)),
            size=len(ids),
        )
        for row, ids in enumerate(direction.encode_sources(translator.tokenizer.source, texts), start=first)
        if 0 < len(ids) <= translator.max_segment_length
    }
    with translator.backend.inference_mode():
        found = run_requests(translator.backend, list(requests.values()), batch_tokens=translator.batch_tokens)
    tokens = {row: one.tokens for row, [one] in zip(requests, found, strict=True) if one.finished}
    return [translator.tokenizer.target.decode(tokens.get(first + row, ())) for row in range(len(texts))]
