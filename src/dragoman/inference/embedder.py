"""Embedder: texts in, one vector for each text out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

import numpy as np
import torch

from dragoman.array_types import Float32
from dragoman.data.datasets.labeled import wrap_in_bos_eos
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.forced_decoding import pad_batch
from dragoman.errors import one_warning_per_problem
from dragoman.inference.backends.torch_backend import inference_mode
from dragoman.inference.concurrent_calls import OwnerProcess, run_in_thread
from dragoman.inference.length_batches import (
    BATCH_TOKENS,
    MAX_INPUT_LENGTH,
    check_text,
    one_or_more_texts,
    run_in_batches,
    warn_too_long,
    warn_unknown,
)
from dragoman.inference.stream_chunks import number_chunks
from dragoman.models.task_heads import Backbone, SentenceEmbeddingConfig, pool_hidden

_TEXTS_CHUNK = 4096
"""Texts of a stream that are sorted, batched and embedded together."""


@final
class Embedder:
    """Encoder with its tokenizer, and the pooling of its states.

    It reads at most `max_length` tokens of a text, symbols included, `data.context_length` of its run.
    The vector of a text depends on other texts by rounding only.
    """

    def __init__(
        self,
        model: Backbone,
        tokenizer: LanguageTokenizer,
        config: SentenceEmbeddingConfig | None = None,
        *,
        size: int,
        device: torch.device | str = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        max_length: int = MAX_INPUT_LENGTH,
    ) -> None:
        """The model is on `device`; `batch_tokens` bounds a batch, padding included; `size` is that of its states."""
        self.model = model
        self.tokenizer = tokenizer
        self.config = config or SentenceEmbeddingConfig()
        self.size = size
        self.device = torch.device(device)
        self.batch_tokens = batch_tokens
        self.max_length = max_length if model.max_length is None else min(max_length, model.max_length)
        self._process = OwnerProcess()

    def __repr__(self) -> str:
        return (
            f"Embedder(device={self.device}, size={self.size}, pooling={self.config.pooling}, "
            f"normalize={self.config.normalize}, max_length={self.max_length})"
        )

    @one_warning_per_problem()
    def embed(self, texts: str | Iterable[str], *, first_line: int = 1) -> np.ndarray:
        """Return the vector of a text, or a matrix with a row for each text of a list, in float32.

        An empty text has a vector too. A text that is too long is truncated with an `InputWarning`. `first_line` is
        the number, from 1, of the first text, where texts are parts of a longer list.
        """
        given = one_or_more_texts(texts)
        encoded = self.tokenizer.encode_batch(given)
        warn_unknown(given, encoded, self.tokenizer, first=first_line)
        warn_too_long(encoded, max_length=self.max_length, first=first_line)
        vectors = self._vectors(encoded)
        return vectors[0] if isinstance(texts, str) else vectors

    async def embed_async(self, texts: str | Iterable[str]) -> np.ndarray:
        """Embed as `embed` does, in a thread of its own."""
        return await run_in_thread(self.embed, texts)

    def embed_stream(self, texts: Iterable[str], *, chunk: int = _TEXTS_CHUNK) -> Iterator[np.ndarray]:
        """Yield the rows that `embed` returns, for any number of texts in the memory of `chunk` of them."""
        chunks = number_chunks(texts, size=chunk, name="texts", check=check_text)
        return (one for first_line, some in chunks for one in self.embed(some, first_line=first_line))

    def _vectors(self, encoded: Sequence[Sequence[int]]) -> Float32[np.ndarray, "texts size"]:
        self._process.check()
        rows = [wrap_in_bos_eos(ids, max_length=self.max_length) for ids in encoded]

        def run(batch: list[list[int]]) -> np.ndarray:
            tokens, lengths = pad_batch(batch, device=self.device)
            pooled = pool_hidden(self.model.hidden(tokens, lengths), lengths, self.config.pooling)
            vectors = torch.nn.functional.normalize(pooled, dim=-1) if self.config.normalize else pooled
            found: np.ndarray = vectors.float().cpu().numpy()
            return found

        with inference_mode(self.model):
            found = run_in_batches(rows, [len(row) for row in rows], run, batch_tokens=self.batch_tokens)
        return np.stack(found) if found else np.zeros((0, self.size), dtype=np.float32)
