"""Translators of the server in a worker: texts are processed in the worker, and the server decodes.

The worker has the tokenizer and all settings of a translator, but no weights. `RemoteBackend` calls the server for
searches, alignments and scores.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self, final

import numpy as np

from dragoman.array_types import Float
from dragoman.data.readers.conllu import Heads
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import DecodingConfig, LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference import Translator
from dragoman.inference.backends.protocol import Sources
from dragoman.inference.concurrent_calls import run_in_thread
from dragoman.inference.model_facts import ModelFacts
from dragoman.inference.scheduler import Request
from dragoman.models.alignment_head import AlignmentHead
from dragoman.serving.workers.calls import call_server, dump, load

SENT_AT_ONCE = 128
"""Requests that are pickled together, so that the server reads them in a millisecond."""


@final
@dataclass(frozen=True)
class TranslatorDescription:
    """All of a translator but its weights."""

    name: str
    tokenizer: Tokenizer
    config: DecodingConfig
    batch_tokens: int
    max_segment_length: int
    facts: ModelFacts
    max_length: int | None
    needs_source_features: bool

    @classmethod
    def of(cls, name: str, translator: Translator) -> Self:
        """Describe a translator."""
        return cls(
            name,
            translator.tokenizer,
            translator.config,
            translator.batch_tokens,
            translator.max_segment_length,
            translator.facts,
            translator.backend.max_length,
            translator.backend.needs_source_features,
        )

    def build(self) -> Translator:
        """Return a translator that decodes in the server."""
        backend = RemoteBackend(self.name, self.max_length, self.needs_source_features)
        translator = Translator(
            backend,
            self.tokenizer,
            batch_tokens=self.batch_tokens,
            max_segment_length=self.max_segment_length,
            config=self.config,
        )
        translator.facts = self.facts
        return translator


@final
class RemoteBackend:
    """Backend of a translator in a worker, which calls the functions that `decoding_calls` returns in the server."""

    device = "server"
    continuous_batching = False
    shortlist = None
    """The server applies its own."""

    def __init__(self, name: str, max_length: int | None, needs_source_features: bool) -> None:
        self.max_length = max_length
        self.needs_source_features = needs_source_features
        self._name = name

    def inference_mode(self) -> AbstractContextManager[None]:
        """Return a context without effect."""
        return nullcontext()

    def run_requests(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each request."""
        sent = [replace(request, guard=None, terms=None, check=None) for request in requests]  # which stay here
        return _unpack_parts(call_server("decode", self._name, _pack_parts(sent)))

    def score(
        self, sources: Sources, targets: Sources, *, penalty: LengthPenalty, source_features: Sequence[Heads] = ()
    ) -> list[Hypothesis]:
        """Score targets, as every backend does."""
        options = {"penalty": penalty, "source_features": source_features}
        found: list[Hypothesis] = call_server("score", self._name, sources, targets, options)
        return found

    def align(
        self,
        sources: Sources,
        targets: Sources,
        *,
        head: AlignmentHead | None = None,
        source_features: Sequence[Heads] = (),
    ) -> list[Float[np.ndarray, "target source"]]:
        """Align targets, as every backend does."""
        options = {"head": head, "source_features": source_features}
        found: list[Float[np.ndarray, "target source"]] = call_server("align", self._name, sources, targets, options)
        return found

    def encode(self, sources: Sources, source_features: Sequence[Heads] = (), *, needed: Sources = ()) -> NoReturn:
        """Refuse: the server encodes."""
        raise NotImplementedError("a worker has no weights")

    def start(self, *_: Any, **_options: Any) -> NoReturn:
        """Refuse: the server searches."""
        raise NotImplementedError("a worker has no weights")

    top_k = sample = start


def _pack_parts(items: Sequence[object]) -> list[bytes]:
    """Return items as pickles of a few of them, none of which keeps the other side busy for long."""
    starts = range(0, len(items), SENT_AT_ONCE)
    return [dump(items[start : start + SENT_AT_ONCE]) for start in starts]


def _unpack_parts(parts: Sequence[bytes]) -> list[Any]:
    return [item for part in parts for item in load(part)]


def decoding_calls(translators: Mapping[str, Translator]) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return the functions of the server that `RemoteBackend` calls, by their names."""

    async def decode(name: str, parts: Sequence[bytes]) -> list[bytes]:
        requests: list[Request] = []
        for part in parts:
            requests += load(part)
            await asyncio.sleep(0)
        found = await translators[name].runner.run_async(requests)
        return await asyncio.to_thread(_pack_parts, found)

    async def score(name: str, sources: Sources, targets: Sources, options: Any) -> list[Hypothesis]:
        return await run_in_thread(_run_alone, translators[name], "score", sources, targets, options)

    async def align(name: str, sources: Sources, targets: Sources, options: Any) -> list[Any]:
        return await run_in_thread(_run_alone, translators[name], "align", sources, targets, options)

    return {"decode": decode, "score": score, "align": align}


def _run_alone(translator: Translator, method: str, sources: Sources, targets: Sources, options: Any) -> list[Any]:
    """Return the result of a method of the backend, while no other thread uses it."""
    with translator.runner.turn():
        found: list[Any] = getattr(translator.backend, method)(sources, targets, **options)
        return found
