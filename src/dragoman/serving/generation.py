"""Generation of text for the prompts of a request: whole completions, or their pieces."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import final

from dragoman.inference.concurrent_calls import run_beside
from dragoman.inference.generation.completion_result import Completion, CompletionPiece
from dragoman.inference.generation.generation_options import GenerationOptions
from dragoman.inference.generation.generator import Generator
from dragoman.inference.generation.prompts import Prompt
from dragoman.serving.access.admission import Client
from dragoman.serving.http.errors import invalid
from dragoman.serving.metrics import AnswerObserver
from dragoman.serving.server import Server


async def read_prompts(
    server: Server, generator: Generator, given: Sequence[str | Sequence[int]], *, name: str = "prompt"
) -> list[Prompt]:
    """Return prompts, texts or token ids, as the model reads them; `name` is that of their parameter.

    Raises RequestError if there are too many, or one is longer than the context of the model.
    """
    server.check_texts([one if isinstance(one, str) else "" for one in given])
    _check_lengths((len(one) for one in given if not isinstance(one, str)), generator.context, name)
    prompts = await run_beside(given, lambda: [generator.read_prompt(one) for one in given])
    _check_lengths((len(one.ids) for one in prompts), generator.context, name)
    return prompts


def _check_lengths(lengths: Iterable[int], context: int, name: str) -> None:
    longest = max(lengths, default=0)
    if longest > context:
        raise invalid(
            f"Invalid request: a prompt has {longest:,} tokens, and the model reads {context:,} at most. Shorten it.",
            name,
        )


@final
@dataclass(frozen=True)
class GenerationTask:
    """Samples of some prompts, for a client; admission lasts until the last token."""

    server: Server
    client: Client
    model_name: str
    generator: Generator
    prompts: Sequence[Prompt]
    num_samples: int
    options: GenerationOptions
    limit_name: str = "max_tokens"
    """Name that the interface has for the length limit."""
    prepare: Callable[[], Awaitable[None]] | None = None
    """Work before the first token."""

    async def run(self) -> list[Completion]:
        """Return the completions, those of a prompt one after the other. Raises RequestError above a limit."""
        async with self._work() as answer_with:
            found = await self.generator.generate_n_best_async(
                self.prompts, num_samples=self.num_samples, **self.options
            )
            completions = [one for row in found for one in row]
            answer_with(self.model_name, (one.text for one in completions))
            return completions

    async def stream(self) -> AsyncGenerator[CompletionPiece, None]:
        """Yield the completions in pieces. Raises RequestError above a limit, before the first piece."""
        async with self._work() as answer_with:
            texts: list[str] = []
            stream = self.generator.stream_pieces_async(self.prompts, num_samples=self.num_samples, **self.options)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    texts.append(piece.text)
                    yield piece
            answer_with(self.model_name, texts)

    @asynccontextmanager
    async def _work(self) -> AsyncIterator[AnswerObserver]:
        most, wanted = self.server.config.limits.max_new_tokens, self.options.get("max_new_tokens") or 0
        if wanted > most:
            raise invalid(f"Invalid request: {wanted:,} tokens exceed the limit ({most:,})", self.limit_name)
        with self.server.work(self.client, [one.text for one in self.prompts], self.num_samples) as answer_with:
            if self.prepare is not None:
                await self.prepare()
            yield answer_with
